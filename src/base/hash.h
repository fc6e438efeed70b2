#pragma once
// Hashes. SHA-256 identifies (keys, model digests); XXH3 only guards against accidents.
// All functions are pure and may be called from any thread.
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace tessera {

using Sha256Digest = std::array<std::byte, 32>;

// Incremental SHA-256. Not thread-safe.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void update(std::span<const std::byte> bytes);
  void update(std::string_view text) { update(std::as_bytes(std::span(text))); }

  // A field of a tagged, length-prefixed record: u32 tag length, tag, u64 value length, value
  // (little-endian), so that no two different lists of fields give the same bytes.
  void field(std::string_view tag, std::span<const std::byte> value);
  void field(std::string_view tag, std::string_view value) {
    field(tag, std::as_bytes(std::span(value)));
  }
  void field(std::string_view tag, uint64_t value);

  // Ends the computation; the object cannot be used after it.
  Sha256Digest digest();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string to_hex(std::span<const std::byte> bytes);

// The digest written as 64 hex digits. Throws Error(kInvalidRequest) for anything else.
Sha256Digest digest_from_hex(std::string_view hex);

uint64_t xxh3_64(std::span<const std::byte> bytes);

}  // namespace tessera
