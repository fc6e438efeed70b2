#pragma once
// The stored KV of one passage and the key it is found under. docs/CHUNK_FORMAT.md describes the
// bytes at rest.
#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kv/segment.h"

namespace tessera {

// SHA-256 over everything that the KV of a chunk depends on (key_of below).
struct ChunkKey {
  std::array<std::byte, 32> digest{};
  auto operator<=>(const ChunkKey&) const = default;
  std::string hex() const;
};
// Reads what ChunkKey::hex writes: 64 lower-case digits. Nothing for any other text.
std::optional<ChunkKey> key_from_hex(std::string_view hex);

// Shape of the KV of one token: the same for every layer.
struct KvGeometry {
  int32_t n_layers = 0;
  int32_t kv_dim = 0;  // n_kv_heads * head_dim, the length of one K (or V) vector of a layer

  // Bytes of K (or of V) of one layer for `n_tokens` tokens: rows [n_tokens, kv_dim] of IEEE f16.
  size_t layer_bytes(int32_t n_tokens) const {
    return size_t(2) * size_t(kv_dim) * size_t(n_tokens);
  }
  bool operator==(const KvGeometry&) const = default;
};

// How the KV was made. Only exact KV may serve an exact match.
struct Lineage {
  uint32_t approximation_depth = 0;  // 0: what full prefill gives; n: made over KV of depth n - 1
  float recompute_ratio = 1.0F;      // share of its own tokens that were computed; 1: all
  // How the segments up to it were found, by the request that made it: bit 1 << Match of each. 0 of
  // what an index run makes, or a request just so: the preamble, and chunks behind their anchor.
  uint32_t sources = 0;
  bool operator==(const Lineage&) const = default;
};

// Whether a request left it, behind what stood in its own prompt: it serves where that comes again,
// at least in part, while an anchored chunk serves anywhere.
inline bool is_in_context(const Lineage& lineage) { return lineage.sources != 0; }

// What a chunk's KV was computed behind (DESIGN.md section 5).
enum class AnchorKind { kBare, kPreamble, kLeadin };
std::string_view anchor_name(AnchorKind kind);
std::optional<AnchorKind> anchor_from_name(std::string_view name);

// The segments that a chunk's KV owes most to (AdaCache, "effective prefix"; DESIGN.md
// section 6.2), by identity_of.
struct Company {
  ChunkKey predecessor;  // stands right before it
  ChunkKey sink;         // the earlier chunk that its rows attend to most; all zero: there is none
  bool operator==(const Company&) const = default;
};

// The most that in-context KV may have been made over approximate KV to be kept and taken, where
// policies do not trust it (ReusePolicy::trusts_approximate).
inline constexpr uint32_t kMaxApproximationDepth = 1;

// What the KV depends on besides the chunk's own tokens and what stood before it. One per model and
// settings.
struct KvDomain {
  std::string name_space = "default";
  std::string model_digest;      // content digest of the model file, hex
  std::string weight_types;      // types in use after load, e.g. "Q4_K:42,Q8_0:128"
  std::string tokenizer_digest;  // hex
  std::string rope;              // canonical text of the rotary geometry
  std::string kv_type = "f16";   // dtype and layout at rest
  KvGeometry geometry;
};

// What a chunk's KV is found by, besides its tokens.
// kIndependent: `before` is the anchor's ids, `anchor` its kind.
// kExact: `before` is every id in front of it in the prompt; the rest is ignored.
// kSoft: the company that it was made in, as keys only; the rest is ignored.
struct KeyContext {
  Match match = Match::kIndependent;
  AnchorKind anchor = AnchorKind::kBare;
  std::span<const int32_t> before = {};
  Company company = {};
};
ChunkKey key_of(const KvDomain& domain, const KeyContext& context, std::span<const int32_t> ids);
// Stands for a segment whatever is before it: the key that its KV would have behind nothing.
ChunkKey identity_of(const KvDomain& domain, std::span<const int32_t> ids);

// Whether all of these f16 are finite: others are values that overflowed, or of a broken model.
bool is_finite_f16(std::span<const std::byte> halves);

// K before RoPE and V of one passage, immutable once made, so any thread may read it. Readers keep
// it alive by its shared_ptr, also while a tier evicts it: holding the pointer is the pin.
class KvChunk {
 public:
  // `payload` must have payload_bytes(geometry, ids.size()) bytes; anything else is a CHECK.
  KvChunk(KvGeometry geometry, std::vector<int32_t> ids, Lineage lineage,
          std::vector<std::byte> payload);

  const KvGeometry& geometry() const { return geometry_; }
  std::span<const int32_t> ids() const { return ids_; }
  int32_t n_tokens() const { return static_cast<int32_t>(ids_.size()); }
  const Lineage& lineage() const { return lineage_; }

  // [n_tokens, kv_dim] f16.
  std::span<const std::byte> k(int32_t layer) const;
  std::span<const std::byte> v(int32_t layer) const;
  // Per layer K then V: the layout of `payload`.
  std::span<const std::byte> payload() const { return payload_; }
  static size_t payload_bytes(const KvGeometry& geometry, int32_t n_tokens);

 private:
  KvGeometry geometry_;
  std::vector<int32_t> ids_;
  Lineage lineage_;
  std::vector<std::byte> payload_;
};
using ChunkPtr = std::shared_ptr<const KvChunk>;

}  // namespace tessera
