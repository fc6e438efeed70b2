#include "base/hash.h"

#include <openssl/evp.h>

#include <cstring>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/check.h"
#include "base/error.h"

namespace tessera {
namespace {

constexpr std::string_view kHexDigits = "0123456789abcdef";

template <typename Int>
std::array<std::byte, sizeof(Int)> little_endian(Int value) {
  std::array<std::byte, sizeof(Int)> bytes{};
  for (size_t i = 0; i < sizeof(Int); ++i) bytes[i] = static_cast<std::byte>(value >> (8 * i));
  return bytes;
}

// -1 for anything that is no hex digit.
int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

struct Sha256::State {
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context{EVP_MD_CTX_new(),
                                                                  &EVP_MD_CTX_free};
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  CHECK(state_->context != nullptr);
  CHECK(EVP_DigestInit_ex(state_->context.get(), EVP_sha256(), nullptr) == 1);
}

Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::update(std::span<const std::byte> bytes) {
  CHECK(state_ != nullptr);
  CHECK(EVP_DigestUpdate(state_->context.get(), bytes.data(), bytes.size()) == 1);
}

void Sha256::field(std::string_view tag, std::span<const std::byte> value) {
  update(little_endian(static_cast<uint32_t>(tag.size())));
  update(tag);
  update(little_endian(static_cast<uint64_t>(value.size())));
  update(value);
}

void Sha256::field(std::string_view tag, uint64_t value) {
  const auto bytes = little_endian(value);
  field(tag, std::span<const std::byte>(bytes));
}

Sha256Digest Sha256::digest() {
  CHECK(state_ != nullptr);
  Sha256Digest digest{};
  unsigned int n_bytes = 0;
  const int done = EVP_DigestFinal_ex(state_->context.get(),
                                      reinterpret_cast<unsigned char*>(digest.data()), &n_bytes);
  CHECK(done == 1 && n_bytes == digest.size());
  state_.reset();
  return digest;
}

std::string to_hex(std::span<const std::byte> bytes) {
  std::string hex;
  hex.reserve(2 * bytes.size());
  for (const std::byte byte : bytes) {
    const auto value = std::to_integer<unsigned>(byte);
    hex.push_back(kHexDigits[value >> 4]);
    hex.push_back(kHexDigits[value & 15]);
  }
  return hex;
}

Sha256Digest digest_from_hex(std::string_view hex) {
  Sha256Digest digest{};
  bool is_valid = hex.size() == 2 * digest.size();
  for (size_t i = 0; is_valid && i < digest.size(); ++i) {
    const int high = hex_value(hex[2 * i]);
    const int low = hex_value(hex[2 * i + 1]);
    is_valid = high >= 0 && low >= 0;
    if (is_valid) digest[i] = static_cast<std::byte>(high * 16 + low);
  }
  if (!is_valid) {
    throw Error(ErrorCode::kInvalidRequest,
                "not a SHA-256 digest - it has " + std::to_string(hex.size()) +
                    " characters or a character that is no hex digit - give 64 hex digits");
  }
  return digest;
}

uint64_t xxh3_64(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

}  // namespace tessera
