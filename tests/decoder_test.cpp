// The decoder against its oracles (DESIGN.md section 8): libllama on the same file (O9), its own
// full pass (O2), and moved K against computed K (O4), for every family on tiny random models.
#include "model/decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <thread>

#include "base/error.h"
#include "bench/llama_peer.h"
#include "support/compare.h"
#include "support/threads.h"
#include "support/tiny_gguf.h"

namespace tessera {
namespace {

std::shared_ptr<const Model> load_plain(const std::filesystem::path& path) {
  return Model::load(path, {.keep_file_types = true,
                            .layout = WeightLayout::kPlain,
                            .n_threads = kTestThreads,
                            .profile_dir = {}});
}

StepOptions all_logits(size_t n) {
  StepOptions options;
  options.logit_rows = positions_from(0, n);
  return options;
}

StepOptions last_logits(size_t n) {
  StepOptions options;
  options.logit_rows = {static_cast<int32_t>(n) - 1};
  return options;
}

// A prompt through a decoder with nothing reused.
std::vector<float> full_pass(Decoder& decoder, WorkingKv& kv, const std::vector<int32_t>& ids,
                             const StepOptions& options) {
  kv.clear();
  const std::vector<int32_t> positions = positions_from(0, ids.size());
  return decoder.prefill({&kv, ids, positions}, options).logits;
}

class FamilyTest : public testing::TestWithParam<TinySpec> {
 protected:
  TinyModelFile file_{GetParam()};
  std::shared_ptr<const Model> model_ = load_plain(file_.path());
  Decoder decoder_{model_, kTestThreads};
  WorkingKv kv_{model_->config(), 1024};
  int32_t n_vocab_ = model_->config().n_vocab;

  std::vector<int32_t> ids(size_t n, uint32_t seed = 7) const {
    return random_ids(n, n_vocab_, seed);
  }
};

// O9. The same kernels in the same order give the same bits; a wrong pairing, base, window or norm
// gives far more.
TEST_P(FamilyTest, LogitsEqualLibllamas) {
  LlamaPeer reference(file_.path(), false, kTestThreads);
  for (const size_t n : {64U, 100U, 300U}) {
    const std::vector<int32_t> prompt = ids(n);

    const std::vector<float> ours = full_pass(decoder_, kv_, prompt, all_logits(n));
    const std::vector<float> theirs = reference.all_logits(prompt);

    EXPECT_EQ(max_abs_difference(ours, theirs), 0.0F) << "n = " << n;
    EXPECT_EQ(top1_agreement(ours, theirs, static_cast<size_t>(n_vocab_)), 1.0);
  }
}

TEST_P(FamilyTest, PromptOfSeveralMicroBatchesEqualsLibllamas) {
  LlamaPeer reference(file_.path(), false, kTestThreads, 128);
  Decoder small(model_, kTestThreads, 128);
  const std::vector<int32_t> prompt = ids(128 * 3 + 77);

  const std::vector<float> ours = full_pass(small, kv_, prompt, last_logits(prompt.size()));

  EXPECT_EQ(max_abs_difference(ours, reference.last_logits(prompt)), 0.0F);
}

TEST_P(FamilyTest, DecodedTokensEqualLibllamas) {
  LlamaPeer reference(file_.path(), false, kTestThreads);
  const std::vector<int32_t> prompt = ids(90);
  full_pass(decoder_, kv_, prompt, last_logits(prompt.size()));
  reference.last_logits(prompt);
  StepOptions options = last_logits(1);
  options.kernels = KernelClass::kDecode;

  int32_t at = 89;
  for (const int32_t token : ids(5, 99)) {
    ++at;
    const SequenceRows rows = {&kv_, {&token, 1}, {&at, 1}};
    EXPECT_EQ(
        max_abs_difference(decoder_.step({&rows, 1}, options).logits, reference.decode(token)),
        0.0F);
  }
}

// O2. Recomputing any rows over exact KV changes nothing, in any grouping, because steps keep one
// kernel class.
TEST_P(FamilyTest, SelectiveRowsOverExactKvEqualTheFullPass) {
  for (const size_t n : {80U, 301U}) {
    const std::vector<int32_t> prompt = ids(n);
    const std::vector<float> full = full_pass(decoder_, kv_, prompt, last_logits(n));
    for (const int32_t stride : {1, 3, 7, 50}) {
      std::vector<int32_t> rows, tokens;
      for (int32_t p = 0; p < static_cast<int32_t>(n); ++p) {
        if (p % stride != 0 && p + 1 < static_cast<int32_t>(n)) continue;
        rows.push_back(p);
        tokens.push_back(prompt[static_cast<size_t>(p)]);
      }
      const StepResult result = decoder_.prefill({&kv_, tokens, rows}, last_logits(rows.size()));
      EXPECT_EQ(max_abs_difference(result.logits, full), 0.0F) << "n " << n << " stride " << stride;
    }
  }
}

TEST_P(FamilyTest, AnySuffixAfterReusedKvEqualsTheFullPass) {
  const std::vector<int32_t> prompt = ids(200);
  const std::vector<float> full = full_pass(decoder_, kv_, prompt, last_logits(prompt.size()));

  for (const int32_t suffix : {1, 2, 7, 8, 9, 31, 32, 33, 64}) {
    const int32_t begin = 200 - suffix;
    kv_.truncate(begin);
    const std::vector<int32_t> at = positions_from(begin, static_cast<size_t>(suffix));
    const std::vector<int32_t> tokens(prompt.begin() + begin, prompt.end());
    const StepResult result = decoder_.prefill({&kv_, tokens, at}, last_logits(tokens.size()));
    EXPECT_EQ(max_abs_difference(result.logits, full), 0.0F) << suffix;
  }
}

// A chunk captured while `ids` was computed behind `before`.
KvChunk capture_behind(Decoder& decoder, WorkingKv& kv, const std::vector<int32_t>& before,
                       const std::vector<int32_t>& ids) {
  if (!before.empty()) full_pass(decoder, kv, before, {});
  kv.truncate(static_cast<int32_t>(before.size()));
  StepOptions capture;
  capture.capture_kv = true;
  const std::vector<int32_t> at = positions_from(static_cast<int32_t>(before.size()), ids.size());
  StepResult made = decoder.prefill({&kv, ids, at}, capture);
  return KvChunk(decoder.config().kv_geometry(), ids, {}, std::move(made.captured));
}

// O2 and O4 in all layers. A chunk computed behind `before`, taken out and put back where it was,
// changes nothing but the rounding of K to f16 before its rotation instead of after. Quantised
// weights multiply activations rounded to 8 bits, where a difference of one half-precision step can
// tip a whole step of 1/127: their bound is wider.
TEST_P(FamilyTest, ChunkPutBackWhereItWasComputedEqualsTheFullPass) {
  const float bound = GetParam().weight_type == "f16" ? 2e-2F : 0.3F;
  for (const size_t p : {0U, 1U, 63U, 64U, 900U}) {
    const std::vector<int32_t> before = ids(p, 3), text = ids(40, 4), question = ids(9, 5);
    std::vector<int32_t> prompt = before;
    prompt.insert(prompt.end(), text.begin(), text.end());
    prompt.insert(prompt.end(), question.begin(), question.end());
    const std::vector<float> full = full_pass(decoder_, kv_, prompt, last_logits(prompt.size()));
    const KvChunk chunk = capture_behind(decoder_, kv_, before, text);
    kv_.truncate(static_cast<int32_t>(p));
    const Decoder::Placement place = {&chunk, static_cast<int32_t>(p)};
    decoder_.load(kv_, {&place, 1});
    const std::vector<int32_t> at = positions_from(static_cast<int32_t>(p) + 40, question.size());

    const std::vector<float> reused =
        decoder_.prefill({&kv_, question, at}, last_logits(question.size())).logits;

    EXPECT_LE(max_abs_difference(reused, full), bound) << "at " << p;
  }
}

// O4 for a move. K of layer 0 depends on token and position alone, so a chunk made at position 0
// and loaded at p must draw the attention that the same tokens computed at p draw. Distances of one
// position show in these weights.
TEST_P(FamilyTest, MovedChunkDrawsTheAttentionOfAComputedOne) {
  const std::vector<int32_t> text = ids(40, 4);
  const KvChunk chunk = capture_behind(decoder_, kv_, {}, text);
  const auto attention_of_next = [&](int32_t position) {
    StepOptions options = last_logits(1);
    options.attention_rows = {0};
    options.attention_layers = {0};
    const int32_t token = 5;
    const SequenceRows rows = {&kv_, {&token, 1}, {&position, 1}};
    return decoder_.step({&rows, 1}, options).attention;
  };
  for (const int32_t p : {1, 63, 64, 900}) {
    std::vector<int32_t> prompt = ids(static_cast<size_t>(p), 3);
    prompt.insert(prompt.end(), text.begin(), text.end());
    full_pass(decoder_, kv_, prompt, last_logits(prompt.size()));
    const std::vector<float> computed = attention_of_next(p + 40);

    const Decoder::Placement there = {&chunk, p};
    decoder_.load(kv_, {&there, 1});
    EXPECT_LE(max_abs_difference(attention_of_next(p + 40), computed), 1e-3F) << "at " << p;

    if (p < 900) {  // the twin: one position off is seen
      const Decoder::Placement off = {&chunk, p - 1};
      decoder_.load(kv_, {&off, 1});
      EXPECT_GT(max_abs_difference(attention_of_next(p + 40), computed), 1e-3F) << "at " << p;
    }
  }
}

// A chunk moved many times is always rotated from its original, so the last move is as good as the
// first.
TEST_P(FamilyTest, MovingAChunkFiftyTimesAddsNoError) {
  const std::vector<int32_t> text = ids(20, 4);
  const KvChunk chunk = capture_behind(decoder_, kv_, {}, text);
  const std::vector<int32_t> filler = ids(700, 3), question = ids(9, 5);
  const auto answer_at = [&](int32_t p) {
    full_pass(decoder_, kv_, {filler.begin(), filler.begin() + 600}, {});
    const Decoder::Placement place = {&chunk, p};
    decoder_.load(kv_, {&place, 1});
    const std::vector<int32_t> at = positions_from(600, question.size());
    return decoder_.prefill({&kv_, question, at}, last_logits(question.size())).logits;
  };
  const std::vector<float> once = answer_at(500);
  for (int32_t move = 0; move < 50; ++move) {
    const Decoder::Placement place = {&chunk, move * 11};
    decoder_.load(kv_, {&place, 1});
  }

  EXPECT_EQ(max_abs_difference(answer_at(500), once), 0.0F);
}

TEST_P(FamilyTest, ResumingAllRowsFromAMiddleLayerEqualsOnePass) {
  const std::vector<int32_t> prompt = ids(100);
  const std::vector<float> full = full_pass(decoder_, kv_, prompt, last_logits(prompt.size()));
  const std::vector<int32_t> at = positions_from(0, prompt.size());
  WorkingKv kv(model_->config(), 256);

  StepOptions first;
  first.layers = {0, 2};
  first.return_hidden = true;
  const StepResult half = decoder_.prefill({&kv, prompt, at}, first);
  EXPECT_FALSE(kv.has(0)) << "a partial pass must not claim whole KV";
  StepOptions rest = last_logits(prompt.size());
  rest.layers = {2, model_->config().n_layers};
  rest.hidden = half.hidden;
  const StepResult result = decoder_.prefill({&kv, {}, at}, rest);

  EXPECT_EQ(max_abs_difference(result.logits, full), 0.0F);
  EXPECT_TRUE(kv.complete_up_to(100));
}

TEST_P(FamilyTest, HiddenNormsEqualNormsOfTheHiddenStates) {
  const std::vector<int32_t> prompt = ids(70);
  const std::vector<int32_t> at = positions_from(0, prompt.size());
  const auto width = static_cast<size_t>(model_->config().embed_dim);
  std::vector<double> expected(prompt.size(), 0.0);
  for (const int32_t layer : {2, 3}) {
    StepOptions options;
    options.layers = {0, layer + 1};
    options.return_hidden = true;
    kv_.clear();
    const StepResult result = decoder_.prefill({&kv_, prompt, at}, options);
    for (size_t row = 0; row < prompt.size(); ++row) {
      double sum = 0;
      for (size_t i = 0; i < width; ++i) sum += std::pow(result.hidden[row * width + i], 2.0);
      expected[row] += std::sqrt(sum) / 2;
    }
  }
  StepOptions norms;
  norms.norm_layers = {2, 4};
  kv_.clear();

  const StepResult result = decoder_.prefill({&kv_, prompt, at}, norms);

  ASSERT_EQ(result.norms.size(), prompt.size());
  for (size_t row = 0; row < prompt.size(); ++row)
    EXPECT_NEAR(result.norms[row], expected[row], 1e-3 * expected[row]);
}

TEST_P(FamilyTest, LogitLensOfTheLastLayerIsTheLogits) {
  const std::vector<int32_t> prompt = ids(66);
  const int32_t last = model_->config().n_layers - 1;
  const std::vector<float> full = full_pass(decoder_, kv_, prompt, last_logits(prompt.size()));
  StepOptions lens = last_logits(prompt.size());
  lens.logit_layers = {last - 1, last};

  const std::vector<float> both = full_pass(decoder_, kv_, prompt, lens);

  ASSERT_EQ(both.size(), 2 * full.size());
  EXPECT_EQ(max_abs_difference(std::span(both).subspan(full.size()), full), 0.0F);
  EXPECT_GT(max_abs_difference(std::span(both).first(full.size()), full), 0.0F);
}

TEST_P(FamilyTest, LogitLensOverSeveralMicroBatchesEqualsOnePass) {
  const std::vector<int32_t> prompt = ids(150);
  StepOptions lens = last_logits(prompt.size());
  lens.logit_layers = {1, model_->config().n_layers - 1};
  const std::vector<float> whole = full_pass(decoder_, kv_, prompt, lens);
  Decoder small(model_, kTestThreads, 64);

  EXPECT_EQ(max_abs_difference(full_pass(small, kv_, prompt, lens), whole), 0.0F);
}

// Steps of as many nodes and of equal sizes whose results live for another time.
TEST_P(FamilyTest, StepsThatDifferOnlyInWhatIsReturnedDoNotDisturbEachOther) {
  const std::vector<int32_t> prompt = ids(70);
  const std::vector<int32_t> at = positions_from(0, prompt.size());
  const auto norms_of = [&](Decoder& decoder, LayerRange layers) {
    StepOptions options;
    options.norm_layers = layers;
    kv_.clear();
    return decoder.prefill({&kv_, prompt, at}, options).norms;
  };
  const auto hidden_of = [&](Decoder& decoder, bool with_hidden) {
    StepOptions options;
    options.layers = {0, 1};
    options.kv_layer = 1;
    options.return_hidden = with_hidden;
    kv_.clear();
    return decoder.prefill({&kv_, prompt, at}, options).hidden;
  };
  Decoder other(model_, kTestThreads);
  const std::vector<float> expected_norms = norms_of(other, {1, 3});
  const std::vector<float> expected_hidden = hidden_of(other, true);

  norms_of(decoder_, {0, 2});
  EXPECT_EQ(max_abs_difference(norms_of(decoder_, {1, 3}), expected_norms), 0.0F);
  hidden_of(decoder_, false);
  EXPECT_EQ(max_abs_difference(hidden_of(decoder_, true), expected_hidden), 0.0F);
}

// What an earlier prompt left behind the last row is masked, but multiplied all the same.
TEST_P(FamilyTest, InfinitiesOfAnEarlierPromptDoNotSpread) {
  const std::vector<int32_t> prompt = ids(35);
  const std::vector<float> expected = full_pass(decoder_, kv_, prompt, last_logits(prompt.size()));
  const KvGeometry geometry = model_->config().kv_geometry();
  std::vector<std::byte> infinities(KvChunk::payload_bytes(geometry, 64));
  for (size_t i = 0; i < infinities.size(); i += 2) infinities[i + 1] = std::byte{0x7C};
  const KvChunk bad(geometry, ids(64), {}, std::move(infinities));
  kv_.clear();
  const Decoder::Placement place = {&bad, 0};
  decoder_.load(kv_, {&place, 1});

  EXPECT_EQ(
      max_abs_difference(full_pass(decoder_, kv_, prompt, last_logits(prompt.size())), expected),
      0.0F);
}

TEST_P(FamilyTest, ProbedLayerKvEqualsWhatTheChunkKeeps) {
  const std::vector<int32_t> prompt = ids(65);
  const std::vector<int32_t> at = positions_from(0, prompt.size());
  StepOptions options = last_logits(prompt.size());
  options.capture_kv = true;
  options.kv_layer = 1;
  kv_.clear();
  const StepResult whole = decoder_.prefill({&kv_, prompt, at}, options);
  StepOptions only;  // layer 0, then the projections of layer 1
  only.layers = {0, 1};
  only.kv_layer = 1;
  kv_.clear();
  const StepResult partial = decoder_.prefill({&kv_, prompt, at}, only);

  EXPECT_EQ(max_abs_difference(partial.v, whole.v), 0.0F);
  EXPECT_EQ(max_abs_difference(partial.k, whole.k), 0.0F);
  const KvChunk chunk(model_->config().kv_geometry(), prompt, {},
                      std::vector<std::byte>(whole.captured));
  const std::span<const std::byte> v = chunk.v(1);
  for (size_t i = 0; i < whole.v.size(); ++i) {
    uint16_t half = 0;
    std::memcpy(&half, v.data() + 2 * i, 2);
    const float value = static_cast<float>(std::bit_cast<_Float16>(half));
    ASSERT_NEAR(value, whole.v[i], 1e-3F + std::abs(whole.v[i]) * 1e-3F);
  }
}

TEST_P(FamilyTest, AttentionIsCausalWindowedAndSumsToOne) {
  const std::vector<int32_t> prompt = ids(150);
  const std::vector<int32_t> at = positions_from(0, prompt.size());
  const int32_t window = model_->config().layers[0].sliding_window;
  StepOptions options;
  options.attention_rows = positions_from(0, prompt.size());
  options.attention_layers = {0};
  Decoder small(model_, kTestThreads, 64);  // several micro-batches, whose key counts differ
  kv_.clear();

  const StepResult result = small.prefill({&kv_, prompt, at}, options);

  ASSERT_EQ(result.n_keys, 150);
  ASSERT_EQ(result.attention.size(), 150U * 150U);
  for (int32_t row = 0; row < 150; ++row) {
    double sum = 0;
    for (int32_t key = 0; key < 150; ++key) {
      const float a = result.attention[static_cast<size_t>(row * 150 + key)];
      if (key > row || (window > 0 && key <= row - window)) {
        ASSERT_EQ(a, 0.0F) << row << " sees " << key;
      }
      sum += a;
    }
    ASSERT_NEAR(sum, 1.0, 2e-3);
  }
}

// What rows pay to ranges of keys is the sum of what they pay to the keys, in each layer; in blocks
// of rows inside one micro-batch as over several micro-batches.
TEST_P(FamilyTest, AttentionToRangesIsTheSumOverTheirKeys) {
  const size_t n = 1000;
  const std::vector<int32_t> prompt = ids(n);
  const std::vector<int32_t> at = positions_from(0, n);
  Decoder whole(model_, kTestThreads, 1024), small(model_, kTestThreads, 64);
  StepOptions options;
  options.attention_layers = {0, 1};
  for (int32_t row = 3; row < 1000; row += 1 + (row % 3 == 0 ? 1 : 0))
    options.attention_rows.push_back(row);
  options.attention_ranges = {{0, 5}, {5, 5}, {5, 700}, {700, 1000}};
  kv_.clear();
  const StepResult result = whole.prefill({&kv_, prompt, at}, options);
  kv_.clear();
  const StepResult in_batches = small.prefill({&kv_, prompt, at}, options);

  const size_t n_rows = options.attention_rows.size(), n_ranges = options.attention_ranges.size();
  ASSERT_EQ(result.range_attention.size(), 2 * n_rows * n_ranges);
  EXPECT_TRUE(result.attention.empty());
  EXPECT_LE(max_abs_difference(in_batches.range_attention, result.range_attention), 1e-3F);
  for (size_t layer = 0; layer < 2; ++layer) {
    StepOptions by_key = options;
    by_key.attention_layers = {static_cast<int32_t>(layer)};
    by_key.attention_ranges.clear();
    kv_.clear();
    const std::vector<float> keys = whole.prefill({&kv_, prompt, at}, by_key).attention;
    for (size_t row = 0; row < n_rows; ++row) {
      for (size_t range = 0; range < n_ranges; ++range) {
        double sum = 0;
        for (int32_t key = options.attention_ranges[range].begin;
             key < options.attention_ranges[range].end; ++key)
          sum += keys[row * n + static_cast<size_t>(key)];
        ASSERT_NEAR(result.range_attention[(layer * n_rows + row) * n_ranges + range], sum, 1e-3)
            << "layer " << layer << ", row " << row << ", range " << range;
      }
    }
  }
}

// O8. Rows of several sequences in one step give what each gives alone.
TEST_P(FamilyTest, SequencesInOneStepEqualEachAlone) {
  const std::vector<int32_t> a = ids(70, 1), b = ids(290, 2);
  const std::vector<int32_t> at_a = positions_from(0, 70), at_b = positions_from(0, 290);
  WorkingKv kv_b(model_->config(), 512);
  const std::vector<float> alone_a = full_pass(decoder_, kv_, a, last_logits(70));
  const std::vector<float> alone_b = full_pass(decoder_, kv_b, b, last_logits(290));
  kv_.clear();
  kv_b.clear();
  StepOptions options;
  options.logit_rows = {69, 359};
  const SequenceRows rows[] = {{&kv_, a, at_a}, {&kv_b, b, at_b}};

  const std::vector<float> together = decoder_.step(rows, options).logits;

  const auto half = static_cast<size_t>(n_vocab_);
  EXPECT_LE(max_abs_difference(std::span(together).first(half), alone_a), 2e-2F);
  EXPECT_LE(max_abs_difference(std::span(together).subspan(half), alone_b), 2e-2F);
}

TEST_P(FamilyTest, CancelBeforePrefillLeavesNoClaim) {
  const std::vector<int32_t> prompt = ids(40);
  const std::vector<int32_t> at = positions_from(0, prompt.size());
  Decoder small(model_, kTestThreads, 16);
  std::stop_source stop;
  stop.request_stop();
  kv_.clear();

  for (Decoder* decoder : {&decoder_, &small}) {  // one micro-batch, and several
    const auto prefill = [&] {
      decoder->prefill({&kv_, prompt, at}, last_logits(40), stop.get_token());
    };
    EXPECT_THAT(prefill,
                testing::Throws<Error>(testing::Property(&Error::code, ErrorCode::kCancelled)));
    EXPECT_FALSE(kv_.has(0));
  }
}

// A stop from another thread may fall before, between or behind the micro-batches, and each round
// lets it come later. Wherever it falls: whole micro-batches are done, rows that were not computed
// keep the KV they had or have none, and the rest of the prompt can be computed as ever.
TEST_P(FamilyTest, CancelAmidMicroBatchesLeavesAWorkingDecoder) {
  constexpr int32_t kRows = 400, kMicroBatch = 16, kKept = 200;
  const std::vector<int32_t> prompt = ids(kRows);
  const std::vector<int32_t> at = positions_from(0, prompt.size());
  Decoder small(model_, kTestThreads, kMicroBatch);
  const std::vector<float> expected = full_pass(small, kv_, prompt, last_logits(kRows));
  for (int round = 0; round < 6; ++round) {
    kv_.truncate(kKept);
    std::stop_source stop;
    std::jthread stopper([&stop, n_yields = 16 << (2 * round)] {
      for (int i = 0; i < n_yields; ++i) std::this_thread::yield();
      stop.request_stop();
    });

    bool is_cancelled = false;
    try {
      small.prefill({&kv_, prompt, at}, last_logits(kRows), stop.get_token());
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kCancelled);
      is_cancelled = true;
    }

    int32_t n_there = 0;
    while (n_there < kRows && kv_.has(n_there)) ++n_there;
    for (int32_t i = n_there; i < kRows; ++i) EXPECT_FALSE(kv_.has(i)) << i;
    EXPECT_TRUE(is_cancelled ? n_there < kRows : n_there == kRows) << n_there;
    EXPECT_TRUE(n_there == kKept || (n_there > kKept && n_there % kMicroBatch == 0)) << n_there;
    const auto first = static_cast<size_t>(std::min(n_there, kRows - 1));
    const std::span<const int32_t> tokens = std::span(prompt).subspan(first);
    const std::span<const int32_t> rest = std::span(at).subspan(first);
    const StepOptions last = last_logits(rest.size());
    EXPECT_EQ(max_abs_difference(small.prefill({&kv_, tokens, rest}, last).logits, expected), 0.0F);
  }
}

// A graph is kept for the next step of its shape, but not for another KV at the same address.
TEST_P(FamilyTest, KvAtTheAddressOfAnEarlierOneIsNotConfusedWithIt) {
  const std::vector<int32_t> prompt = ids(70);
  const std::vector<float> expected = full_pass(decoder_, kv_, prompt, last_logits(70));
  std::optional<WorkingKv> again;
  for (int i = 0; i < 3; ++i) {
    again.emplace(model_->config(), 256);

    EXPECT_EQ(max_abs_difference(full_pass(decoder_, *again, prompt, last_logits(70)), expected),
              0.0F);
  }
}

std::vector<TinySpec> families() {
  std::vector<TinySpec> out;
  for (const char* arch : {"llama", "qwen2", "qwen3", "gemma3"}) out.push_back({.arch = arch});
  out.push_back({.arch = "llama", .rope_freqs = true});
  out.push_back({.arch = "llama", .rope_scaling = "yarn"});
  out.push_back({.arch = "qwen2", .rope_scaling = "linear"});
  out.push_back({.arch = "gemma3", .weight_type = "q8_0", .tied_head = true});
  out.push_back({.arch = "qwen2", .weight_type = "q4_k"});
  return out;
}

INSTANTIATE_TEST_SUITE_P(AllFamilies, FamilyTest, testing::ValuesIn(families()),
                         [](const auto& param) {
                           const TinySpec& s = param.param;
                           return s.arch + "_" + s.weight_type + (s.rope_freqs ? "_factors" : "") +
                                  (s.rope_scaling.empty() ? "" : "_" + s.rope_scaling) +
                                  (s.tied_head ? "_tied" : "");
                         });

}  // namespace
}  // namespace tessera
