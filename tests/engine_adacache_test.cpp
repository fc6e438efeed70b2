// AdaCache's three tiers: what is found how, what is recomputed for it, and what a request leaves
// behind. Every "must miss" stands beside its "must hit".
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/hash.h"
#include "base/sqlite.h"
#include "engine/probe.h"
#include "engine/publisher.h"
#include "kv/chunk_format.h"
#include "support/engine_rig.h"

namespace tessera {
namespace {

using testing::Each;
using testing::ElementsAre;

Request ada(std::string_view order, double beta = 0.3, double alpha = 0.1) {
  Request r = request_for("adacache", passages(order), beta);
  r.policy_options.soft_ratio = alpha;
  return r;
}

class AdaCacheTest : public testing::TestWithParam<std::string> {
 protected:
  void index(std::string_view order) { rig_.index(passages(order), AnchorKind::kLeadin); }
  void answer(const Request& r) { rig_.engine().answer(r); }
  std::string found(const Request& r) { return matches_of(rig_.prefill(r)); }

  // How often the KV of each chunk was made over approximate KV.
  std::vector<uint32_t> depths(const Request& r) {
    const Prefilled got = rig_.prefill(r);
    std::vector<uint32_t> out;
    for (size_t i = 0; i < got.plan.segments.size(); ++i) {
      if (got.plan.segments[i].kind == SegmentKind::kChunk && got.found[i].chunk != nullptr)
        out.push_back(got.found[i].chunk->lineage().approximation_depth);
    }
    return out;
  }

  // Against attention that a plain pass over the prompt pays in `layer`, or in the next that sees
  // all.
  void expect_sinks_of_layer(int32_t layer) {
    const Prefilled got = rig_.prefill(ada("ABCD", 1, 1));  // every row is computed
    const std::vector<Segment>& segments = got.prompt.segments;
    Engine& engine = rig_.engine();
    StepOptions options;
    while (engine.decoder().config().layers[static_cast<size_t>(layer)].sliding_window != 0 &&
           layer + 1 < engine.decoder().config().n_layers)
      ++layer;
    options.attention_layers = {layer};
    options.attention_rows = positions_from(0, got.prompt.ids.size());
    for (const Segment& s : segments) options.attention_ranges.push_back(s.range);
    const std::vector<int32_t> at = options.attention_rows;
    engine.kv().clear();
    const std::vector<float> mass =
        engine.decoder().prefill({&engine.kv(), got.prompt.ids, at}, options, {}).range_attention;
    ASSERT_EQ(got.sinks[0], -1) << "the preamble";
    ASSERT_EQ(got.sinks[1], -1) << "the first chunk has none before it";
    for (size_t i = 2; i + 1 < segments.size(); ++i) {
      std::vector<double> to(i, 0.0);
      for (int32_t row = segments[i].range.begin; row < segments[i].range.end; ++row) {
        for (size_t j = 1; j < i; ++j)
          to[j] += mass[static_cast<size_t>(row) * segments.size() + j];
      }
      const auto most = std::max_element(to.begin() + 1, to.end());
      // Of two that are nearly equal either will do.
      EXPECT_NEAR(to[static_cast<size_t>(got.sinks[i])], *most, 0.02 * *most + 1e-4) << i;
    }
  }

  EngineRig rig_{GetParam()};
};

TEST_P(AdaCacheTest, WhatIsComputedInFullIsExactBehindTheSameTokens) {
  answer(ada("ABC"));
  EXPECT_EQ(found(ada("ABC")), "xxx");
  EXPECT_EQ(found(request_for("prefix", passages("ABC"))), "xxx") << "exact for everyone";
  EXPECT_EQ(rig_.prefill(ada("ABC")).plan.rows.size(),
            rig_.prefill(ada("ABC")).prompt.segments.back().range.size());
  const Request r = ada("ABC");
  EXPECT_LE(max_abs_difference(rig_.logits(r), rig_.full_logits(r)), kF16Bound);
}

// What an index run would have made just so serves every prompt, and a limit keeps it so.
TEST_P(AdaCacheTest, OnlyWhatStandsBehindOtherChunksIsLeftAsInContext) {
  Request r = ada("AB");
  r.anchor = AnchorKind::kPreamble;
  answer(r);

  const Prefilled got = rig_.prefill(r);
  ASSERT_EQ(matches_of(got), "xx");
  EXPECT_FALSE(is_in_context(got.found[0].chunk->lineage())) << "the preamble";
  EXPECT_FALSE(is_in_context(got.found[1].chunk->lineage())) << "behind the anchor";
  EXPECT_TRUE(is_in_context(got.found[2].chunk->lineage()));
}

TEST_P(AdaCacheTest, ChainEndsAtTheFirstOtherChunk) {
  answer(ada("ABC"));
  EXPECT_EQ(found(ada("AB")), "xx");
  // C stands behind another chunk, but what it looked at most may be there.
  const std::string swapped = found(ada("ACB"));
  EXPECT_EQ(swapped[0], 'x');
  EXPECT_NE(swapped[1], 'x');
  EXPECT_NE(swapped[2], 'x');
}

// The first chunk looks at no other: nothing of it is recomputed, and nothing kept.
TEST_P(AdaCacheTest, FamiliarCompanyIsASoftMatchAndStrangeOneIsNot) {
  index("ABCD");
  EXPECT_EQ(found(ada("AB")), "ii") << "nothing was made in context yet";
  answer(ada("AB"));
  EXPECT_EQ(found(ada("AB")), "is");
  EXPECT_EQ(found(ada("CAB")), "iis") << "A stands right before B";
  EXPECT_EQ(found(ada("ACB")), "iis") << "what B looked at most, A, is before it";
  EXPECT_EQ(found(ada("BA")), "ii") << "B had A before it";
  EXPECT_EQ(found(ada("CB")), "ii");
  EXPECT_EQ(found(ada("DCBA")), "iiii");
}

TEST_P(AdaCacheTest, MatchNamesWhatWasMetAgain) {
  index("ABC");
  answer(ada("AB"));
  const auto of_last = [&](std::string_view order) {
    Prefilled p = rig_.prefill(ada(order));
    return rig_.engine().generate(ada(order), p, {}).segments[order.size()];
  };
  const SegmentReport both = of_last("AB");
  EXPECT_NE(both.matched_predecessor, "");
  EXPECT_EQ(both.matched_predecessor, both.matched_sink) << "A is both";
  const SegmentReport sink = of_last("ACB");
  EXPECT_EQ(sink.matched_predecessor, "");
  EXPECT_EQ(sink.matched_sink, both.matched_sink);
  EXPECT_EQ(sink.approximation_depth, 1U);
  EXPECT_EQ(of_last("CB").matched_sink, "");
}

TEST_P(AdaCacheTest, BothAreBetterThanTheSinkAndTheSinkThanThePredecessor) {
  index("ABCD");
  VariantIndex& index = *rig_.store().variants();
  const KvDomain& domain = rig_.engine().domain();
  const auto ids = [&](char letter) {
    const PassageText p = passages(std::string(1, letter)).front();
    return rig_.engine().prompts().chunk_ids(p.title, p.text);
  };
  const auto identity = [&](char letter) { return identity_of(domain, ids(letter)); };
  // Blobs of D that tell themselves apart by their lineage.
  const auto add = [&](float mark, const Company& company) {
    const KeyContext context = {Match::kSoft, AnchorKind::kBare, {}, company};
    const ChunkKey key = key_of(domain, context, ids('D'));
    std::vector<std::byte> zeros(
        KvChunk::payload_bytes(domain.geometry, static_cast<int32_t>(ids('D').size())));
    ASSERT_TRUE(rig_.store().put(
        key, std::make_shared<const KvChunk>(domain.geometry, ids('D'), Lineage{1, mark, 0},
                                             std::move(zeros))));
    std::vector<Variant> gone;
    ASSERT_EQ(index.admit(identity('D'), {key, company, 1, true}, gone),
              VariantIndex::Admission::kKept);
  };
  const auto taken = [&](std::string_view order) {
    const Prefilled got = rig_.prefill(ada(order));
    return got.found[order.size()].chunk->lineage().recompute_ratio;
  };
  add(0.25F, {identity('C'), identity('B')});
  EXPECT_EQ(taken("ACD"), 0.25F) << "the predecessor alone is enough";
  add(0.5F, {identity('B'), identity('A')});
  EXPECT_EQ(taken("ACD"), 0.5F) << "the sink is better";
  add(0.75F, {identity('C'), identity('A')});
  EXPECT_EQ(taken("ACD"), 0.75F) << "both are best";
}

TEST_P(AdaCacheTest, RatioFollowsTheTier) {
  index("ABCD");
  answer(ada("ABC"));
  const Prefilled got = rig_.prefill(ada("ABCD", 0.4, 0.1));
  ASSERT_EQ(matches_of(got), "issi");
  int32_t n_soft = 0, n_independent = 0;
  for (const Segment& s : got.plan.segments) {
    n_soft += s.match == Match::kSoft ? s.range.size() : 0;
    n_independent += s.match == Match::kIndependent ? s.range.size() : 0;
  }
  const Account a = account_of(got.plan);
  EXPECT_EQ(a.soft, n_soft - recompute_budget(0.1, n_soft));
  EXPECT_EQ(a.independent, n_independent - recompute_budget(0.4, n_independent));
  EXPECT_EQ(a.total(), total_tokens(got.prompt));
  // alpha is at most beta.
  EXPECT_EQ(account_of(rig_.prefill(ada("ABCD", 0.05, 0.9)).plan).recomputed,
            recompute_budget(0.05, n_soft + n_independent));
}

TEST_P(AdaCacheTest, EverythingRecomputedIsFullPrefill) {
  index("ABC");
  answer(ada("ABC"));
  const Request r = ada("ABC", 1, 1);
  ASSERT_EQ(found(r), "iss");
  EXPECT_LE(max_abs_difference(rig_.logits(r), rig_.full_logits(r)), kF16Bound);
}

// O2 of what is kept: a variant all of whose rows were recomputed behind exact KV would be exact
// KV.
TEST_P(AdaCacheTest, VariantHoldsWhatStoodInThePrompt) {
  index("AB");
  answer(ada("AB", 1, 1));
  ASSERT_EQ(found(ada("AB", 0, 0)), "ss");
  const Request r = ada("AB", 0, 0);
  EXPECT_LE(max_abs_difference(rig_.logits(r), rig_.full_logits(r)), kF16Bound);
}

TEST_P(AdaCacheTest, ApproximationOverApproximationIsNotKept) {
  index("ABCDE");
  answer(ada("AB"));
  EXPECT_THAT(depths(ada("AB")), ElementsAre(0U, 1U));
  const size_t n_blobs = rig_.blobs().size();
  answer(ada("ABC"));  // C behind a soft match
  EXPECT_EQ(rig_.blobs().size(), n_blobs);
  EXPECT_EQ(found(ada("ABC")), "isi");
  answer(ada("DEC"));  // the same chunk behind independent ones
  EXPECT_EQ(rig_.blobs().size(), n_blobs + 2);
  EXPECT_EQ(found(ada("DEC")), "iss");
}

TEST_P(AdaCacheTest, AsThePaperHasItApproximateKvIsExactForThoseWhoAskForIt) {
  index("ABC");
  Request paper = ada("ABC");
  paper.policy_options.hard_as_paper = true;
  answer(paper);
  EXPECT_EQ(found(paper), "ixx") << "of the first chunk nothing was recomputed";
  EXPECT_THAT(depths(paper), ElementsAre(0U, 1U, 1U));
  EXPECT_EQ(found(ada("ABC")), "iss") << "by default it is what it is";
  const Request prefix = request_for("prefix", passages("ABC"));
  EXPECT_EQ(found(prefix), "---");
  EXPECT_EQ(found(request_for("epic", passages("ABC"))), "iii");
  answer(prefix);
  EXPECT_EQ(found(prefix), "xxx") << "what is exact takes the place of what is not";
  EXPECT_THAT(depths(paper), Each(0U));
}

TEST_P(AdaCacheTest, AsThePaperHasItDepthGrowsAndTheDefaultDoesNotTakeIt) {
  index("ABC");
  Request paper = ada("ABC");
  paper.policy_options.hard_as_paper = true;
  answer(paper);
  Request other = ada("BCA");
  other.policy_options.hard_as_paper = true;
  answer(other);  // C is a soft match there
  const std::vector<uint32_t> deep = depths(other);
  EXPECT_EQ(*std::max_element(deep.begin(), deep.end()), 2U);
  for (const uint32_t depth : depths(ada("BCA"))) EXPECT_LE(depth, 1U);
}

// A request that meets a variant again leaves one that is further from full prefill, which must not
// take its place.
TEST_P(AdaCacheTest, WhatIsExactStaysThoughItIsMetInOtherCompany) {
  answer(ada("AB"));
  ASSERT_EQ(found(ada("CAB")), "-is");
  index("C");
  answer(ada("CAB"));
  index("D");
  EXPECT_THAT(depths(ada("DAB")), ElementsAre(0U, 0U, 0U));
  EXPECT_EQ(found(ada("DAB")), "iis");
}

TEST_P(AdaCacheTest, ExactKvOfOthersGetsCompanyWhenItIsMet) {
  answer(request_for("prefix", passages("AB")));
  index("CAB");
  EXPECT_EQ(found(ada("CAB")), "iii");
  answer(ada("AB"));
  EXPECT_EQ(found(ada("CAB")), "iis");
}

TEST_P(AdaCacheTest, WithoutAnIndexExactAndIndependentMatchesRemain) {
  rig_.store().variants()->clear();
  Database(rig_.variants_file()).execute("DROP TABLE variant");
  index("AB");
  answer(ada("AB"));
  EXPECT_EQ(found(ada("AB")), "ii");
  answer(ada("XY"));
  EXPECT_EQ(found(ada("XY")), "xx");
}

TEST_P(AdaCacheTest, NoKvLiesInTheStoreTwice) {
  index("ABCD");
  answer(ada("ABC"));
  answer(ada("BCD"));
  answer(ada("DA"));
  for (const AnchorKind anchor : {AnchorKind::kLeadin, AnchorKind::kPreamble, AnchorKind::kBare}) {
    Request new_ones = ada("XYZ");
    new_ones.anchor = anchor;
    answer(new_ones);
    answer(new_ones);
  }
  std::set<uint64_t> payloads;
  size_t n = 0;
  for (const std::filesystem::path& file : rig_.blobs()) {
    const std::vector<std::byte> bytes = read_file(file).value();
    const std::optional<ChunkHeader> header = read_header(bytes);
    ASSERT_TRUE(header.has_value());
    const size_t offset = chunk_layout(header->geometry, header->n_tokens).payload_offset;
    payloads.insert(xxh3_64(std::span(bytes).subspan(offset)));
    ++n;
  }
  EXPECT_EQ(payloads.size(), n);
}

TEST_P(AdaCacheTest, VariantsOfAChunkAreBoundedAndTheirBlobsGoWithThem) {
  index("ABCDEFG");
  for (const char* order : {"BA", "CA", "DA", "EA", "FA", "FA", "GA"}) answer(ada(order));
  size_t n_soft = 0;
  for (const char* order : {"BA", "CA", "DA", "EA", "FA", "GA"})
    n_soft += found(ada(order))[1] == 's' ? 1 : 0;
  EXPECT_EQ(n_soft, static_cast<size_t>(VariantIndex::kMaxVariants));
  // 7 anchored chunks, the preamble and the variants of A.
  EXPECT_EQ(rig_.blobs().size(), 7U + 1U + static_cast<size_t>(VariantIndex::kMaxVariants));
}

TEST_P(AdaCacheTest, VariantWhoseKvIsGoneIsForgottenAndTheChunkFoundAlone) {
  index("AB");
  const std::vector<std::filesystem::path> before = rig_.blobs();
  answer(ada("AB"));
  for (const std::filesystem::path& file : rig_.blobs()) {
    if (!std::binary_search(before.begin(), before.end(), file)) std::filesystem::remove(file);
  }
  rig_.restart();
  ASSERT_EQ(rig_.store().variants()->stats().entries, 1U);
  EXPECT_EQ(found(ada("AB")), "ii");
  EXPECT_EQ(rig_.store().variants()->stats().entries, 0U);
  answer(ada("AB"));
  EXPECT_EQ(found(ada("AB")), "is");
}

TEST_P(AdaCacheTest, SurvivesARestartAndOtherNamespacesSeeNothing) {
  index("AB");
  answer(ada("AB"));
  rig_.restart();
  EXPECT_EQ(found(ada("AB")), "is");
  EngineOptions other = tiny_options();
  other.name_space = "other";
  rig_.reopen(tiny_model(GetParam()), other);
  EXPECT_EQ(found(ada("AB")), "--");
  rig_.reopen(tiny_model(GetParam()), tiny_options());
  EXPECT_EQ(found(ada("AB")), "is");
}

TEST_P(AdaCacheTest, NothingRecomputedLeavesNothingBehind) {
  index("AB");
  const size_t n_blobs = rig_.blobs().size();
  answer(ada("AB", 0, 0));
  EXPECT_EQ(rig_.blobs().size(), n_blobs);
  EXPECT_EQ(found(ada("AB")), "ii");
}

TEST_P(AdaCacheTest, RepeatedChunkIsItsOwnPredecessor) {
  index("A");
  answer(ada("AAA"));
  EXPECT_EQ(found(ada("AAA")), "iss");
  EXPECT_EQ(found(ada("AA")), "is");
}

TEST_P(AdaCacheTest, OtherPreambleIsOtherCompany) {
  index("AB");
  answer(ada("AB"));
  Request r = ada("AB");
  r.system = "two words";
  EXPECT_EQ(found(r), "is") << "B stands behind A";
  answer(ada("A", 1, 1));
  EXPECT_EQ(found(ada("A")), "s");
  r.passages = passages("A");
  EXPECT_EQ(found(r), "i") << "A stood behind the other preamble";
}

// The evidence is what a plain pass over the prompt gives.
TEST_P(AdaCacheTest, OutwardAttentionIsTheShareThatGoesToEarlierChunks) {
  index("ABC");
  Prefilled got = rig_.prefill(ada("ABC"));
  Engine& engine = rig_.engine();
  const ProbeResult probe = run_probe(Evidence::kOutwardAttention, {},
                                      {engine.decoder(), engine.kv(), got.prompt, got.found}, {});
  StepOptions options;
  options.attention_layers = {0};
  options.attention_rows = positions_from(0, got.prompt.ids.size());
  engine.kv().clear();
  const std::vector<int32_t> at = options.attention_rows;
  const StepResult full = engine.decoder().prefill({&engine.kv(), got.prompt.ids, at}, options, {});
  const size_t n = got.prompt.ids.size();
  for (size_t i = 0; i < got.prompt.segments.size(); ++i) {
    const Segment& s = got.prompt.segments[i];
    for (int32_t row = s.range.begin; row < s.range.end; ++row) {
      double outward = 0;
      for (size_t to = 1; to < i && s.kind == SegmentKind::kChunk; ++to) {
        const TokenRange range = got.prompt.segments[to].range;
        for (int32_t key = range.begin; key < range.end; ++key)
          outward += full.attention[static_cast<size_t>(row) * n + static_cast<size_t>(key)];
      }
      ASSERT_NEAR(probe.score[static_cast<size_t>(row)], outward, 2e-3) << row;
    }
  }
}

TEST_P(AdaCacheTest, SinkIsTheEarlierChunkThatItsRowsAttendToMost) {
  index("ABCD");
  for (const int32_t wanted : {-1, 0, 99}) {
    EngineOptions options = tiny_options();
    options.sink_layer = wanted;
    rig_.reopen(tiny_model(GetParam()), options);
    expect_sinks_of_layer(wanted == 0 ? 0 : rig_.engine().decoder().config().n_layers / 2);
  }
}

INSTANTIATE_TEST_SUITE_P(All, AdaCacheTest, testing::Values("llama", "qwen2", "qwen3", "gemma3"),
                         [](const auto& i) { return i.param; });

}  // namespace
}  // namespace tessera
