// What a chunk's key must tell apart, and blobs that are not what they claim. Every "must miss" has
// its "must hit", and a miss gives the answer of an engine that never stored anything
// (RELIABILITY.md P1, C 30-36).
#include <gguf.h>
#include <gtest/gtest.h>

#include <fstream>
#include <optional>

#include "catalog/file_digest.h"
#include "engine/chunk_lookup.h"
#include "support/engine_rig.h"

namespace tessera {
namespace {

using std::filesystem::path;

std::string digest_of(const TinyModel& model) { return digest_file(model.file.path()).sha256; }

EngineOptions options_of(const TinyModel& model) {
  EngineOptions options = tiny_options();
  options.model_digest = digest_of(model);
  return options;
}

Request plain_request() { return request_for("reuse", passages("AB")); }

class KeysTest : public testing::Test {
 protected:
  // Another set-up over the same folder finds nothing, answers as if nothing were stored, and what
  // it stores in turn does not hide the first one's chunks.
  void expect_apart(const TinyModel& other, const EngineOptions& options) {
    rig_.engine().answer(plain_request());

    rig_.reopen(other, options);
    const Prefilled missed = rig_.prefill(plain_request());
    EXPECT_EQ(matches_of(missed), "--");
    EXPECT_LE(max_abs_difference(missed.logits, rig_.full_logits(plain_request())), kF16Bound)
        << "the preamble may be there";
    EXPECT_EQ(rig_.disk().corrupt, 0U) << "another key, not a bad blob";
    rig_.engine().answer(plain_request());
    EXPECT_EQ(matches_of(rig_.prefill(plain_request())), "ii");

    rig_.restart();
    const Prefilled hit = rig_.prefill(plain_request());
    EXPECT_EQ(matches_of(hit), "ii");
    EXPECT_EQ(tiers_of(hit)[0], "disk");
  }

  const TinyModel& tiny_ = tiny_model("llama");
  EngineRig rig_{tiny_, options_of(tiny_model("llama"))};
};

TEST_F(KeysTest, OtherWeightsAreApart) {
  const TinyModel other({.arch = "llama", .seed = 2});
  expect_apart(other, options_of(other));
}

TEST_F(KeysTest, OtherWeightTypeIsApartEvenUnderTheSameDigest) {
  const TinyModel other({.arch = "llama", .weight_type = "q8_0"});
  expect_apart(other, options_of(tiny_));
}

TEST_F(KeysTest, EditedRopeBaseIsApartEvenUnderTheSameDigest) {
  const auto edit = [](gguf_context* gguf) {
    gguf_set_val_f32(gguf, "llama.rope.freq_base", 20000.0F);
  };
  expect_apart(TinyModel({.arch = "llama", .edit_metadata = edit}), options_of(tiny_));
}

TEST_F(KeysTest, OtherRopeScalingIsApartEvenUnderTheSameDigest) {
  expect_apart(TinyModel({.arch = "llama", .rope_scaling = "linear"}), options_of(tiny_));
  expect_apart(TinyModel({.arch = "llama", .rope_freqs = true}), options_of(tiny_));
}

// Two tokens that no test text holds change places: ids stay the same and the meaning of the file
// does not.
TEST_F(KeysTest, EditedTokenizerIsApartEvenUnderTheSameDigest) {
  const auto edit = [](gguf_context* gguf) {
    const int64_t key = gguf_find_key(gguf, "tokenizer.ggml.tokens");
    std::vector<std::string> tokens;
    for (size_t i = 0; i < gguf_get_arr_n(gguf, key); ++i)
      tokens.emplace_back(gguf_get_arr_str(gguf, key, i));
    std::iter_swap(std::find(tokens.begin(), tokens.end(), "語"),
                   std::find(tokens.begin(), tokens.end(), "ß"));
    std::vector<const char*> pointers;
    for (const std::string& token : tokens) pointers.push_back(token.c_str());
    gguf_set_arr_str(gguf, "tokenizer.ggml.tokens", pointers.data(), pointers.size());
  };
  expect_apart(TinyModel({.arch = "llama", .edit_metadata = edit}), options_of(tiny_));
}

TEST_F(KeysTest, OtherNamespaceIsApart) {
  EngineOptions options = options_of(tiny_);
  options.name_space = "default2";
  expect_apart(tiny_, options);
}

TEST_F(KeysTest, OtherLeadInIsApart) {
  EngineOptions options = options_of(tiny_);
  options.leadin_tokens = 25;
  expect_apart(tiny_, options);
}

// The anchor is part of the key even where two anchors hold the same ids.
TEST_F(KeysTest, OtherAnchorIsApartEvenWithTheSameIds) {
  EngineOptions options = options_of(tiny_);
  options.leadin_tokens = 0;
  rig_.reopen(tiny_, options);
  Request request = request_for("reuse", passages("AB"));
  request.system = "one two";  // so that no chunk stands behind its own anchor
  rig_.engine().answer(request);

  EXPECT_EQ(matches_of(rig_.prefill(request)), "ii");
  request.anchor = AnchorKind::kPreamble;
  EXPECT_EQ(matches_of(rig_.prefill(request)), "--");
}

// What does not change the KV is no part of the key (row C 33).
TEST_F(KeysTest, OtherThreadsMicroBatchAndContextHitTheSameBlobs) {
  rig_.engine().answer(plain_request());
  EngineOptions options = options_of(tiny_);
  options.n_threads = 1;
  options.micro_batch = 64;
  options.n_ctx = 1024;

  rig_.reopen(tiny_, options);

  EXPECT_EQ(matches_of(rig_.prefill(plain_request())), "ii");
}

std::vector<char> bytes_of(const path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_bytes(const path& file, const std::vector<char>& bytes) {
  std::ofstream(file, std::ios::binary | std::ios::trunc)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

class DamagedBlobTest : public KeysTest {
 protected:
  void SetUp() override {
    rig_.index({}, AnchorKind::kLeadin);  // the preamble, which is not damaged
    const std::vector<path> preamble = rig_.blobs();
    full_ = rig_.logits(plain_request());
    rig_.engine().answer(plain_request());
    hit_ = rig_.logits(plain_request());
    blobs_ = rig_.blobs();
    std::erase_if(blobs_, [&](const path& blob) { return blob == preamble.at(0); });
    ASSERT_EQ(blobs_.size(), 2U);
    for (const path& blob : blobs_) originals_.push_back(bytes_of(blob));
  }

  void restore() {
    for (size_t i = 0; i < blobs_.size(); ++i) write_bytes(blobs_[i], originals_[i]);
  }

  // Both blobs were damaged: the answer is that of a miss, the fault is counted, and the next
  // request is served.
  void expect_missed_and_healed(uint64_t n_corrupt) {
    rig_.restart();
    const Prefilled missed = rig_.prefill(plain_request());
    EXPECT_EQ(matches_of(missed), "--");
    EXPECT_EQ(missed.logits, full_);
    EXPECT_EQ(rig_.disk().corrupt, n_corrupt);

    rig_.engine().commit(plain_request(), missed);
    rig_.restart();
    EXPECT_EQ(rig_.logits(plain_request()), hit_);
    EXPECT_EQ(rig_.disk().corrupt, 0U);
  }

  std::vector<float> full_, hit_;
  std::vector<path> blobs_;
  std::vector<std::vector<char>> originals_;
};

TEST_F(DamagedBlobTest, OneFlippedBitAnywhereIsAMiss) {
  const size_t size = originals_[0].size();
  for (const size_t at :
       {size_t{0}, size_t{9}, size_t{40}, size_t{130}, size_t{200}, size / 2, size - 1}) {
    restore();
    for (size_t i = 0; i < blobs_.size(); ++i) {
      std::vector<char> bytes = originals_[i];
      bytes[std::min(at, bytes.size() - 1)] ^= 0x10;
      write_bytes(blobs_[i], bytes);
    }
    SCOPED_TRACE(at);
    expect_missed_and_healed(2);
  }
}

TEST_F(DamagedBlobTest, OtherLengthIsAMiss) {
  for (const int64_t change : {-int64_t{1} << 40, -int64_t{1000}, -int64_t{1}, int64_t{1}}) {
    restore();
    for (size_t i = 0; i < blobs_.size(); ++i) {
      std::vector<char> bytes = originals_[i];
      bytes.resize(
          static_cast<size_t>(std::max<int64_t>(0, static_cast<int64_t>(bytes.size()) + change)));
      write_bytes(blobs_[i], bytes);
    }
    SCOPED_TRACE(change);
    expect_missed_and_healed(2);
  }
}

TEST_F(DamagedBlobTest, BlobUnderTheNameOfAnotherIsAMiss) {
  write_bytes(blobs_[0], originals_[1]);
  write_bytes(blobs_[1], originals_[0]);
  expect_missed_and_healed(2);
}

TEST_F(DamagedBlobTest, DeletedBlobIsAMissAndNoFault) {
  for (const path& blob : blobs_) std::filesystem::remove(blob);
  expect_missed_and_healed(0);
}

TEST_F(DamagedBlobTest, OneDamagedBlobCostsOnlyItsOwnChunk) {
  std::vector<char> bytes = originals_[0];
  bytes.back() ^= 1;
  write_bytes(blobs_[0], bytes);
  rig_.restart();

  const std::string matches = matches_of(rig_.prefill(plain_request()));

  EXPECT_TRUE(matches == "-i" || matches == "i-") << matches;
}

// Between two requests of one engine, with nothing in RAM to hide it; what a request holds stays
// whole.
TEST_F(DamagedBlobTest, BlobsRemovedWhileTheEngineRunsAreMisses) {
  rig_.restart_without_ram();
  Prefilled held = rig_.prefill(plain_request());
  EXPECT_EQ(matches_of(held), "ii");
  for (const path& blob : blobs_) std::filesystem::remove(blob);

  EXPECT_EQ(rig_.logits(plain_request()), full_);
  EXPECT_EQ(held.logits, hit_);
  EXPECT_GT(held.found[1].chunk->n_tokens(), 0);
}

// KV that was made over approximate KV is never exact, whatever key it lies under.
TEST_F(KeysTest, ApproximateKvUnderAnExactKeyIsNotUsed) {
  const Request request = request_for("prefix", passages("A"));
  rig_.engine().answer(request);
  const Prefilled exact = rig_.prefill(request);
  ASSERT_EQ(matches_of(exact), "x");
  const KvChunk& chunk = *exact.found[1].chunk;
  const ChunkKey key =
      key_of(rig_.engine().domain(),
             {Match::kExact, AnchorKind::kBare,
              std::span(exact.prompt.ids)
                  .first(static_cast<size_t>(exact.prompt.segments[1].range.begin))},
             chunk.ids());
  const auto with_depth = [&](uint32_t depth) {
    return std::make_shared<const KvChunk>(
        chunk.geometry(), std::vector<int32_t>(chunk.ids().begin(), chunk.ids().end()),
        Lineage{depth, 0.15F},
        std::vector<std::byte>(chunk.payload().begin(), chunk.payload().end()));
  };
  rig_.store().put(key, with_depth(1));
  EXPECT_EQ(matches_of(rig_.prefill(request)), "-");
  rig_.restart();
  EXPECT_EQ(matches_of(rig_.prefill(request)), "-") << "from disk too";

  rig_.store().put(key, with_depth(0));
  EXPECT_EQ(matches_of(rig_.prefill(request)), "x") << "the twin";
}

// The same for a chunk behind its own anchor, which is looked up under its independent key.
TEST_F(KeysTest, ApproximateKvBehindItsOwnAnchorIsOnlyIndependent) {
  Request request = request_for("reuse", passages("A"));
  request.anchor = AnchorKind::kPreamble;
  rig_.index(request.passages, AnchorKind::kPreamble);
  const Prefilled exact = rig_.prefill(request);
  ASSERT_EQ(matches_of(exact), "x");
  const KvChunk& chunk = *exact.found[1].chunk;
  const Anchor anchor = rig_.engine().anchor(AnchorKind::kPreamble);

  rig_.store().put(
      key_of(rig_.engine().domain(), {Match::kIndependent, anchor.kind, anchor.ids}, chunk.ids()),
      std::make_shared<const KvChunk>(
          chunk.geometry(), std::vector<int32_t>(chunk.ids().begin(), chunk.ids().end()),
          Lineage{1, 0.15F},
          std::vector<std::byte>(chunk.payload().begin(), chunk.payload().end())));

  EXPECT_EQ(matches_of(rig_.prefill(request)), "i");
}

// Random stores and prompts against the rules written down once more, plainly.
class LookupModelTest : public testing::Test {
 protected:
  static constexpr KvGeometry kGeometry = {2, 4};

  ChunkPtr chunk_of(const std::vector<int32_t>& ids) const {
    return std::make_shared<const KvChunk>(kGeometry, ids, Lineage{},
                                           std::vector<std::byte>(KvChunk::payload_bytes(
                                               kGeometry, static_cast<int32_t>(ids.size()))));
  }
  static std::vector<int32_t> ids_of(uint32_t number) {
    return {static_cast<int32_t>(number), static_cast<int32_t>(number) + 100};
  }

  KvDomain domain_ = [] {
    KvDomain domain;
    domain.geometry = kGeometry;
    return domain;
  }();
};

TEST_F(LookupModelTest, RandomPromptsAreMatchedByTheRules) {
  std::mt19937 random(5);
  const std::vector<int32_t> preamble = ids_of(0);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::unique_ptr<Tier>> tiers;
    tiers.push_back(make_tier("ram", {}));
    ChunkStore store(std::move(tiers));
    const LookupRules rules = {.exact = random() % 4 != 0,
                               .independent = random() % 4 != 0,
                               .anchor = AnchorKind::kPreamble,
                               .anchor_ids = random() % 2 ? preamble : ids_of(9)};
    std::vector<std::vector<int32_t>> prompt = {preamble};
    for (size_t n = random() % 5; n > 0; --n) prompt.push_back(ids_of(1 + random() % 3));

    std::vector<int32_t> before;
    bool chain = true;
    std::vector<Match> expected;
    std::map<std::vector<int32_t>, bool> anchored;  // decided once for each chunk
    for (size_t i = 0; i < prompt.size(); ++i) {
      const bool has_exact = random() % 2 == 0;
      if (has_exact)
        store.put(key_of(domain_, {Match::kExact, AnchorKind::kBare, before}, prompt[i]),
                  chunk_of(prompt[i]));
      const bool has_anchored =
          i > 0 && anchored.try_emplace(prompt[i], random() % 2 == 0).first->second;
      if (has_anchored)
        store.put(key_of(domain_, {Match::kIndependent, rules.anchor, rules.anchor_ids}, prompt[i]),
                  chunk_of(prompt[i]));
      const bool behind_anchor = has_anchored && i == 1 && rules.anchor_ids == preamble;
      const bool is_exact = rules.exact && ((chain && has_exact) || behind_anchor);
      expected.push_back(is_exact                            ? Match::kExact
                         : has_anchored && rules.independent ? Match::kIndependent
                                                             : Match::kMiss);
      chain = chain && is_exact;
      before.insert(before.end(), prompt[i].begin(), prompt[i].end());
    }

    ChunkLookup lookup(store, domain_, rules);
    for (size_t i = 0; i < prompt.size(); ++i)
      lookup.push(i == 0 ? SegmentKind::kPreamble : SegmentKind::kChunk, prompt[i]);
    const std::vector<FoundSegment> found = lookup.finish();

    ASSERT_EQ(found.size(), prompt.size());
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].match, expected[i]) << "round " << round << " segment " << i;
      EXPECT_EQ(found[i].chunk != nullptr, expected[i] != Match::kMiss);
    }
  }
}

TEST_F(LookupModelTest, LookupGivenUpInTheMiddleEnds) {
  std::vector<std::unique_ptr<Tier>> tiers;
  tiers.push_back(make_tier("ram", {}));
  ChunkStore store(std::move(tiers));
  for (int round = 0; round < 50; ++round) {
    ChunkLookup lookup(store, domain_, {.exact = true, .independent = true});
    lookup.push(SegmentKind::kChunk, ids_of(1));
  }
}

}  // namespace
}  // namespace tessera
