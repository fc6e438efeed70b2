#include "kv/chunk.h"

#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/hash.h"
#include "kv/chunk_format.h"

namespace tessera {
namespace {

// Goes up with any change to what is hashed below or to its order: the keys of older builds are
// then never asked for.
constexpr uint64_t kKeyVersion = 1;

struct AnchorRow {
  AnchorKind kind;
  std::string_view name;
};

constexpr AnchorRow kAnchors[] = {
    {AnchorKind::kBare, "bare"},
    {AnchorKind::kPreamble, "preamble"},
    {AnchorKind::kLeadin, "leadin"},
};

}  // namespace

std::string ChunkKey::hex() const { return to_hex(digest); }

std::optional<ChunkKey> key_from_hex(std::string_view hex) {
  ChunkKey key;
  if (hex.size() != 2 * key.digest.size()) return std::nullopt;
  if (hex.find_first_not_of("0123456789abcdef") != std::string_view::npos) return std::nullopt;
  key.digest = digest_from_hex(hex);
  return key;
}

std::string_view anchor_name(AnchorKind kind) {
  for (const AnchorRow& row : kAnchors) {
    if (row.kind == kind) return row.name;
  }
  CHECK(false && "an anchor kind without a name");
  return {};
}

std::optional<AnchorKind> anchor_from_name(std::string_view name) {
  for (const AnchorRow& row : kAnchors) {
    if (row.name == name) return row.kind;
  }
  return std::nullopt;
}

ChunkKey key_of(const KvDomain& domain, const KeyContext& context, std::span<const int32_t> ids) {
  CHECK(context.match != Match::kMiss);
  Sha256 hash;
  hash.field("tessera-chunk-key", kKeyVersion);
  hash.field("namespace", domain.name_space);
  hash.field("model", domain.model_digest);
  hash.field("weight-types", domain.weight_types);
  hash.field("tokenizer", domain.tokenizer_digest);
  hash.field("rope", domain.rope);
  hash.field("kv-type", domain.kv_type);
  hash.field("n-layers", static_cast<uint64_t>(domain.geometry.n_layers));
  hash.field("kv-dim", static_cast<uint64_t>(domain.geometry.kv_dim));
  switch (context.match) {
    case Match::kExact:  // behind the very same tokens it does not matter what they are called
      hash.field("match", std::string_view("exact"));
      hash.field("before", bytes_of_ids(context.before));
      break;
    case Match::kSoft:
      hash.field("match", std::string_view("soft"));
      hash.field("predecessor", context.company.predecessor.digest);
      hash.field("sink", context.company.sink.digest);
      break;
    case Match::kIndependent:
    case Match::kMiss:
      hash.field("match", std::string_view("independent"));
      hash.field("anchor", anchor_name(context.anchor));
      hash.field("before", bytes_of_ids(context.before));
      break;
  }
  hash.field("ids", bytes_of_ids(ids));
  return ChunkKey{hash.digest()};
}

ChunkKey identity_of(const KvDomain& domain, std::span<const int32_t> ids) {
  return key_of(domain, {}, ids);
}

KvChunk::KvChunk(KvGeometry geometry, std::vector<int32_t> ids, Lineage lineage,
                 std::vector<std::byte> payload)
    : geometry_(geometry), ids_(std::move(ids)), lineage_(lineage), payload_(std::move(payload)) {
  CHECK(geometry_.n_layers > 0 && geometry_.kv_dim > 0);
  CHECK(payload_.size() == payload_bytes(geometry_, n_tokens()));
}

std::span<const std::byte> KvChunk::k(int32_t layer) const {
  CHECK(layer >= 0 && layer < geometry_.n_layers);
  const size_t bytes = geometry_.layer_bytes(n_tokens());
  return payload().subspan(2 * size_t(layer) * bytes, bytes);
}

std::span<const std::byte> KvChunk::v(int32_t layer) const {
  CHECK(layer >= 0 && layer < geometry_.n_layers);
  const size_t bytes = geometry_.layer_bytes(n_tokens());
  return payload().subspan((2 * size_t(layer) + 1) * bytes, bytes);
}

size_t KvChunk::payload_bytes(const KvGeometry& geometry, int32_t n_tokens) {
  return 2 * size_t(geometry.n_layers) * geometry.layer_bytes(n_tokens);
}

bool is_finite_f16(std::span<const std::byte> halves) {
  constexpr uint16_t kExponent = 0x7C00;  // all of its bits: infinity or NaN
  for (size_t i = 0; i + 1 < halves.size(); i += 2) {
    uint16_t half = 0;
    std::memcpy(&half, halves.data() + i, sizeof(half));
    if ((half & kExponent) == kExponent) return false;
  }
  return true;
}

}  // namespace tessera
