#include "kv/chunk.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>

namespace tessera {
namespace {

KvDomain domain_of_goldens() {
  KvDomain domain;
  domain.model_digest = std::string(64, 'm');
  domain.weight_types = "Q4_K:42,Q8_0:128";
  domain.tokenizer_digest = std::string(64, 't');
  domain.rope = "neox base=1000000 dim=64";
  domain.geometry = {24, 128};
  return domain;
}

ChunkKey independent(const KvDomain& domain, AnchorKind anchor, std::vector<int32_t> before,
                     std::vector<int32_t> ids) {
  return key_of(domain, {Match::kIndependent, anchor, before}, ids);
}

ChunkKey exact(std::vector<int32_t> before, std::vector<int32_t> ids) {
  return key_of(domain_of_goldens(), {Match::kExact, AnchorKind::kBare, before}, ids);
}

ChunkKey soft(const Company& company, std::vector<int32_t> ids) {
  return key_of(domain_of_goldens(), {Match::kSoft, AnchorKind::kBare, {}, company}, ids);
}

// Written by another implementation of docs/CHUNK_FORMAT.md. When they change, every stored chunk
// is lost: raise the key version and say so in the changelog.
TEST(ChunkKey, IsTheSameInEveryProcessBuildAndMachine) {
  const std::vector<int32_t> before = {1, 2, 3};
  const std::vector<int32_t> ids = {65, 321, 0, 151643};

  EXPECT_EQ(independent(domain_of_goldens(), AnchorKind::kLeadin, before, ids).hex(),
            "c868c113413ef1f3dbd21859cf0b1f95a8bca5065ab6c8c906fcfb869c59233d");
  EXPECT_EQ(exact(before, ids).hex(),
            "9356728421a258ce8d24b01871bf0a96badba9e09c5481de905fbd966aec74b8");
  const ChunkKey predecessor = identity_of(domain_of_goldens(), std::vector<int32_t>{7});
  EXPECT_EQ(predecessor.hex(), "565c250fc145a8161fdb2e43fd1fec5ffd32bfe9c915f9b39baf75f130d72d36");
  EXPECT_EQ(soft({predecessor, {}}, ids).hex(),
            "8eb03e7deac5a2ba7d61663bd250cfd601667929ed96ea7eceb64f5ac6396d71");
}

TEST(ChunkKey, EveryCompanyIsAKeyOfItsOwn) {
  const ChunkKey a = exact({}, {1}), b = exact({}, {2});
  const std::set<ChunkKey> keys = {soft({a, b}, {7}),  soft({b, a}, {7}), soft({a, {}}, {7}),
                                   soft({{}, a}, {7}), soft({a, b}, {8}), exact({}, {7})};
  EXPECT_EQ(keys.size(), 6U);
  EXPECT_EQ(soft({a, b}, {7}), soft({a, b}, {7}));
}

TEST(ChunkKey, EqualInputsGiveEqualKeys) {
  EXPECT_EQ(independent(domain_of_goldens(), AnchorKind::kBare, {}, {7}),
            independent(domain_of_goldens(), AnchorKind::kBare, {}, {7}));
  EXPECT_EQ(exact({1}, {7}), exact({1}, {7}));
}

TEST(ChunkKey, EveryFieldOfTheDomainChangesIt) {
  const std::map<std::string, std::function<void(KvDomain&)>> edits = {
      {"name_space", [](KvDomain& d) { d.name_space += "x"; }},
      {"model_digest", [](KvDomain& d) { d.model_digest[63] = 'n'; }},
      {"weight_types", [](KvDomain& d) { d.weight_types = "Q4_K:41,Q8_0:129"; }},
      {"tokenizer_digest", [](KvDomain& d) { d.tokenizer_digest[0] = 'u'; }},
      {"rope", [](KvDomain& d) { d.rope = "norm base=1000000 dim=64"; }},
      {"kv_type", [](KvDomain& d) { d.kv_type = "q8_0"; }},
      {"n_layers", [](KvDomain& d) { ++d.geometry.n_layers; }},
      {"kv_dim", [](KvDomain& d) { d.geometry.kv_dim *= 2; }},
  };
  std::set<ChunkKey> keys = {independent(domain_of_goldens(), AnchorKind::kBare, {1}, {7})};
  for (const auto& [name, edit] : edits) {
    KvDomain domain = domain_of_goldens();
    edit(domain);
    EXPECT_TRUE(keys.insert(independent(domain, AnchorKind::kBare, {1}, {7})).second) << name;
  }
}

TEST(ChunkKey, TextsCannotMoveFromOneFieldToTheNext) {
  KvDomain left = domain_of_goldens();
  KvDomain right = domain_of_goldens();
  left.name_space = "ab";
  left.model_digest = "c";
  right.name_space = "a";
  right.model_digest = "bc";
  EXPECT_NE(independent(left, AnchorKind::kBare, {}, {7}),
            independent(right, AnchorKind::kBare, {}, {7}));

  // A namespace that is spelt like the fields behind it, with separators and a NUL.
  right = left;
  right.name_space = std::string("ab\0model", 8);
  right.model_digest.clear();
  EXPECT_NE(independent(left, AnchorKind::kBare, {}, {7}),
            independent(right, AnchorKind::kBare, {}, {7}));
}

TEST(ChunkKey, IdsAreHashedWhole) {
  EXPECT_NE(exact({}, {65}), exact({}, {321}));             // equal in their lowest 8 bits
  EXPECT_NE(exact({}, {65}), exact({}, {65 + (1 << 16)}));  // in their lowest 16
  EXPECT_NE(exact({65}, {7}), exact({321}, {7}));
  EXPECT_NE(exact({}, {1, 2}), exact({}, {2, 1}));
}

TEST(ChunkKey, IdsCannotMoveBetweenBeforeAndChunk) {
  const std::set<ChunkKey> keys = {exact({}, {1, 2, 3}), exact({1}, {2, 3}), exact({1, 2}, {3}),
                                   exact({1, 2, 3}, {})};
  EXPECT_EQ(keys.size(), 4U);
}

TEST(ChunkKey, MatchKindAndAnchorSeparateKeys) {
  const KvDomain domain = domain_of_goldens();
  const std::set<ChunkKey> keys = {independent(domain, AnchorKind::kBare, {1}, {7}),
                                   independent(domain, AnchorKind::kPreamble, {1}, {7}),
                                   independent(domain, AnchorKind::kLeadin, {1}, {7}),
                                   exact({1}, {7})};
  EXPECT_EQ(keys.size(), 4U);
}

TEST(ChunkKey, ExactKeysDoNotDependOnTheAnchor) {
  const std::vector<int32_t> before = {1};
  const std::vector<int32_t> ids = {7};
  EXPECT_EQ(key_of(domain_of_goldens(), {Match::kExact, AnchorKind::kLeadin, before}, ids),
            exact({1}, {7}));
}

TEST(ChunkKeyDeathTest, AKeyForNoKindOfStoredKvIsABug) {
  const std::vector<int32_t> ids = {7};
  EXPECT_DEATH(key_of(domain_of_goldens(), {Match::kMiss, AnchorKind::kBare, {}}, ids),
               "check failed");
}

TEST(ChunkKey, HexRoundTripIsTheIdentity) {
  const ChunkKey key = exact({1}, {7});
  EXPECT_EQ(key_from_hex(key.hex()), key);
  EXPECT_EQ(key.hex().size(), 64U);
}

TEST(ChunkKey, OnlyWhatHexWritesIsRead) {
  const std::string hex(64, 'a');
  EXPECT_TRUE(key_from_hex(hex).has_value());
  for (const std::string& text : {std::string(), hex.substr(1), hex + "a", std::string(64, 'A'),
                                  "../" + hex.substr(3), std::string(64, '\0')}) {
    EXPECT_EQ(key_from_hex(text), std::nullopt) << text;
  }
}

TEST(Anchor, NamesAreReadBack) {
  for (const AnchorKind kind : {AnchorKind::kBare, AnchorKind::kPreamble, AnchorKind::kLeadin}) {
    EXPECT_EQ(anchor_from_name(anchor_name(kind)), kind);
  }
  EXPECT_EQ(anchor_from_name("Bare"), std::nullopt);
  EXPECT_EQ(anchor_from_name(""), std::nullopt);
}

TEST(KvChunk, LayersLieInThePayloadOneAfterTheOtherKBeforeV) {
  const KvGeometry geometry{3, 4};
  std::vector<std::byte> payload(KvChunk::payload_bytes(geometry, 2));
  ASSERT_EQ(payload.size(),
            size_t(3 * 2) * 2 * 4 * 2);  // layers, K and V, tokens, kv_dim, bytes of an f16
  for (size_t i = 0; i < payload.size(); ++i) payload[i] = static_cast<std::byte>(i / 16);

  const KvChunk chunk(geometry, {5, 6}, {}, payload);

  for (int32_t layer = 0; layer < 3; ++layer) {
    ASSERT_EQ(chunk.k(layer).size(), 16U);
    ASSERT_EQ(chunk.v(layer).size(), 16U);
    EXPECT_EQ(chunk.k(layer).front(), std::byte(2 * layer));
    EXPECT_EQ(chunk.k(layer).back(), std::byte(2 * layer));
    EXPECT_EQ(chunk.v(layer).front(), std::byte(2 * layer + 1));
    EXPECT_EQ(chunk.v(layer).back(), std::byte(2 * layer + 1));
  }
}

TEST(KvChunkDeathTest, WrongPayloadSizeOrLayerIsABug) {
  EXPECT_DEATH(KvChunk({1, 4}, {5}, {}, std::vector<std::byte>(15)), "check failed");
  const KvChunk chunk({1, 4}, {5}, {}, std::vector<std::byte>(16));
  EXPECT_DEATH(chunk.k(1), "check failed");
  EXPECT_DEATH(chunk.v(-1), "check failed");
}

}  // namespace
}  // namespace tessera
