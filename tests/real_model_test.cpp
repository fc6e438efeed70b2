// Oracles whose numbers only mean something on real models (DESIGN.md section 8): libllama's logits
// (O9), the dial from reuse to full prefill (O3), and needles (O5). Skipped unless
// TESSERA_TEST_MODELS names a folder with the models.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "bench/llama_peer.h"
#include "engine/compare.h"
#include "support/compare.h"
#include "support/engine_rig.h"

namespace tessera {
namespace {

using std::filesystem::path;

constexpr const char* kSmall = "qwen2.5-coder-0.5b";
constexpr const char* kScorer = "smollm2-135m";  // of another family, with other tokens

path model_path(const std::string& name) {
  const char* folder = std::getenv("TESSERA_TEST_MODELS");
  return folder == nullptr ? path() : path(folder) / (name + ".gguf");
}

// Paragraphs of a demo document, its heading left out.
std::vector<std::string> paragraphs_of(const std::string& file) {
  std::ifstream in(path(TESSERA_DEMO_DIR) / file);
  std::vector<std::string> out;
  std::string line;
  while (std::getline(in, line)) {
    if (line.size() > 100) out.push_back(line);
  }
  return out;
}

LoadOptions plain(bool keep_file_types, WeightLayout layout = WeightLayout::kPlain) {
  return {.keep_file_types = keep_file_types, .layout = layout, .n_threads = 0, .profile_dir = {}};
}

class RealModelTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    file_ = model_path(GetParam());
    if (file_.empty() || !std::filesystem::exists(file_))
      GTEST_SKIP() << "set TESSERA_TEST_MODELS to the folder of the real models";
  }

  // 256 tokens of real text.
  std::vector<int32_t> text_ids() const {
    std::string text;
    for (const std::string& paragraph : paragraphs_of("rhine.txt")) text += paragraph + "\n";
    const Tokenizer tokenizer(file_);
    std::vector<int32_t> ids = tokenizer.encode(text, ControlTokens::kAsText);
    if (tokenizer.adds_bos()) ids.insert(ids.begin(), tokenizer.bos());
    EXPECT_GE(ids.size(), 256U);
    ids.resize(256);
    return ids;
  }

  void expect_libllamas_logits(WeightLayout layout, const char* label) {
    const std::vector<int32_t> ids = text_ids();
    const std::vector<float> ours = all_logits(*Model::load(file_, plain(true, layout)), ids);
    LlamaPeer reference(file_, layout == WeightLayout::kRepacked, available_threads());
    const std::vector<float> theirs = reference.all_logits(ids);

    const double top1 = top1_agreement(ours, theirs, static_cast<size_t>(reference.n_vocab()));
    const float worst = max_abs_difference(ours, theirs);

    std::printf("O9 %s (%s): top-1 agreement %.4f, max |delta logit| %g\n", GetParam().c_str(),
                label, top1, static_cast<double>(worst));
    EXPECT_EQ(top1, 1.0);
    EXPECT_EQ(worst, 0.0F);
  }

  static std::vector<float> all_logits(const Model& model, const std::vector<int32_t>& ids) {
    // The decoder shares a model; this one is borrowed for the time of one pass.
    Decoder decoder(std::shared_ptr<const Model>(std::shared_ptr<const Model>(), &model));
    WorkingKv kv(model.config(), static_cast<int32_t>(ids.size()));
    StepOptions options;
    options.logit_rows = positions_from(0, ids.size());
    const std::vector<int32_t> at = positions_from(0, ids.size());
    return decoder.prefill({&kv, ids, at}, options).logits;
  }

  path file_;
};

TEST_P(RealModelTest, LogitsEqualLibllamasOnTheFilesOwnTypes) {
  expect_libllamas_logits(WeightLayout::kPlain, "plain");
}

TEST_P(RealModelTest, LogitsEqualLibllamasWithRepackedWeights) {
  expect_libllamas_logits(WeightLayout::kRepacked, "repacked");
}

TEST_P(RealModelTest, SelectiveRowsEqualTheFullPass) {
  const std::vector<int32_t> ids = text_ids();
  const std::shared_ptr<const Model> model = Model::load(file_, plain(true));
  Decoder decoder(model);
  WorkingKv kv(model->config(), 256);
  const std::vector<int32_t> all = positions_from(0, ids.size());
  StepOptions options;
  options.logit_rows = all;
  const std::vector<float> full = decoder.prefill({&kv, ids, all}, options).logits;
  const auto width = static_cast<size_t>(model->config().n_vocab);

  float worst = 0;
  for (const int32_t stride : {2, 7, 50}) {
    std::vector<int32_t> rows, tokens;
    for (int32_t p = 255 % stride; p < 256; p += stride) {
      rows.push_back(p);
      tokens.push_back(ids[static_cast<size_t>(p)]);
    }
    StepOptions selected;
    selected.logit_rows = positions_from(0, rows.size());
    const std::vector<float> got = decoder.prefill({&kv, tokens, rows}, selected).logits;
    for (size_t i = 0; i < rows.size(); ++i) {
      const std::span<const float> expected =
          std::span(full).subspan(static_cast<size_t>(rows[i]) * width, width);
      worst =
          std::max(worst, max_abs_difference(std::span(got).subspan(i * width, width), expected));
    }
  }

  std::printf("O2 %s: largest error of selective rows against the full pass %g\n",
              GetParam().c_str(), static_cast<double>(worst));
  EXPECT_EQ(worst, 0.0F);
}

TEST_P(RealModelTest, TypesChosenAtLoadStayCloseToTheFilesOwn) {
  const std::vector<int32_t> ids = text_ids();
  const std::shared_ptr<const Model> changed = Model::load(file_, LoadOptions{});
  const std::vector<float> ours = all_logits(*changed, ids);
  const std::vector<float> files = all_logits(*Model::load(file_, plain(true)), ids);

  const double top1 = top1_agreement(ours, files, static_cast<size_t>(changed->config().n_vocab));

  std::printf("default load %s (%s): top-1 agreement with the file's own types %.4f\n",
              GetParam().c_str(), changed->weight_types().c_str(), top1);
  EXPECT_GE(top1, 0.9);
}

// A chunk with a fact of its own kind. Six sentences that differ in one name only are another task,
// and one that reuse without recompute fails on this model: it then takes the number of another
// chunk.
struct Needle {
  const char* prose;  // {} is where the fact stands
  const char* fact;   // {} is where the number stands
  const char* question;
};

constexpr Needle kNeedles[] = {
    {"The office near the harbour opened in spring and was rebuilt twice. On most days about forty "
     "people work on its two floors, and the meeting rooms are named after birds. {} The canteen "
     "closes early on Fridays, and bicycles may be left in the yard behind the building.",
     "The roof garden was laid out with {} stones.",
     "How many stones was the roof garden laid out with?"},
    {"From the upper windows one can see the ocean when the morning fog lifts. The team there "
     "looks after the older customers and answers letters by hand. {} Visitors are asked to sign a "
     "book at the door, and coffee is served in the courtyard.",
     "The library in Lima owns {} maps.", "How many maps does the library in Lima own?"},
    {"This branch began in a rented house with a tin roof and moved to the tower only later. It "
     "trains most of the new engineers, who stay for about half a year. {} A football team meets "
     "after work on the field across the road.",
     "The generator has run for {} hours.", "How many hours has the generator run?"},
    {"The building stands so high that new colleagues are told to rest on their first day. Records "
     "of every delivery are kept, sorted by colour. {} Rain comes in the afternoon with great "
     "regularity, so the loading ramp has a roof of glass.",
     "The archive in Quito fills {} boxes.", "How many boxes does the archive in Quito fill?"},
    {"An old cellar keeps the servers cool without any machine. The stairs are steep, so most "
     "people wait for the slow lift. {} In winter the choir practises in the hall, and whoever "
     "works late can hear it through the floor.",
     "The brewery once sold {} barrels a year.",
     "How many barrels a year did the brewery once sell?"},
    {"The youngest of all branches shares a street with paper makers and tea shops. Its people "
     "travel a great deal and write about bridges. {} The lamps in the front room were a gift from "
     "the first customer.",
     "The longest report had {} pages.", "How many pages did the longest report have?"},
};

class NeedleTest : public RealModelTest {
 protected:
  void SetUp() override {
    RealModelTest::SetUp();
    if (IsSkipped()) return;
    std::mt19937 random(20261129);
    for (const Needle& needle : kNeedles) {
      codes_.push_back(std::to_string(1000 + random() % 9000));
      std::string fact = needle.fact;
      fact.replace(fact.find("{}"), 2, codes_.back());
      std::string text = needle.prose;
      text.replace(text.find("{}"), 2, fact);
      texts_.push_back({"", text});
    }
    tokenizer_ = std::make_unique<Tokenizer>(file_);
    std::vector<std::unique_ptr<Tier>> tiers;
    tiers.push_back(make_tier("ram", {}));
    store_ = std::make_unique<ChunkStore>(std::move(tiers));
    EngineOptions options;
    options.model_digest = GetParam();
    options.n_ctx = 2048;
    engine_ = std::make_unique<Engine>(Model::load(file_, plain(false)), *tokenizer_, store_.get(),
                                       options);
    ChunkBuilder builder = engine_->builder();
    for (const PassageText& p : texts_)
      builder.build(engine_->anchor(AnchorKind::kLeadin),
                    engine_->prompts().chunk_ids(p.title, p.text));
  }

  bool finds(const char* policy, const std::vector<size_t>& order, size_t asked) {
    Request request;
    for (const size_t i : order) request.passages.push_back(texts_[i]);
    request.question = kNeedles[asked].question;
    request.policy = policy;
    request.max_tokens = 12;
    const Answer answer = engine_->answer(request);
    if (std::string_view(policy) != "full") {
      const SegmentReport& preamble = answer.segments.front();  // new to the first request only
      EXPECT_EQ(answer.account.fresh, answer.segments.back().n_tokens +
                                          (preamble.match == Match::kMiss ? preamble.n_tokens : 0));
    }
    return answer.text.find(codes_[asked]) != std::string::npos;
  }

  std::vector<std::string> codes_;
  std::vector<PassageText> texts_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<ChunkStore> store_;
  std::unique_ptr<Engine> engine_;
};

// O5, over the needles that full prefill finds: each of six in its own order, and two in a prompt
// that holds one twice. The smaller models get three passages at a time: of six they often take a
// wrong number in full prefill too.
TEST_P(NeedleTest, ReusedChunksKeepWhatTheySay) {
  std::mt19937 random(7);
  int n_full = 0, n_epic = 0, n_reuse = 0, n_asked = 0;
  const auto ask = [&](const std::vector<size_t>& order, size_t asked) {
    ++n_asked;
    if (!finds("full", order, asked)) return;
    ++n_full;
    n_epic += finds("epic", order, asked) ? 1 : 0;
    n_reuse += finds("reuse", order, asked) ? 1 : 0;
  };
  const bool is_largest = GetParam() == kSmall;
  for (size_t asked = 0; asked < 6; ++asked) {
    std::vector<size_t> order = {0, 1, 2, 3, 4, 5};
    if (!is_largest) order = {asked, (asked + 1) % 6, (asked + 2) % 6};
    std::shuffle(order.begin(), order.end(), random);
    ask(order, asked);
  }
  ask({0, 1, 0}, 0);
  ask({0, 1, 0}, 1);

  std::printf("O5 %s: of %d needles full finds %d; of these epic at 0.15 finds %d, reuse %d\n",
              GetParam().c_str(), n_asked, n_full, n_epic, n_reuse);
  // Of the few that a smaller model finds in full, a change in rounding may move one or two.
  EXPECT_GE(n_full, is_largest ? 6 : 1);
  EXPECT_GE(n_epic, is_largest ? 0.8 * n_full : 1);
  EXPECT_GE(n_reuse, is_largest ? 0.8 * n_full : 1);
}

struct Question {
  std::string text;
  std::vector<PassageText> passages;
};

// Whole sentences, together at most 80 words a piece: short, so that the test takes a minute.
std::vector<std::string> pieces_of(const std::string& file) {
  std::vector<std::string> out;
  for (const std::string& paragraph : paragraphs_of(file)) {
    std::string piece;
    for (size_t begin = 0; begin < paragraph.size();) {
      const size_t end = std::min(paragraph.find(". ", begin), paragraph.size() - 2) + 2;
      const std::string sentence = paragraph.substr(begin, end - begin);
      const std::string both = piece + sentence;
      if (!piece.empty() && std::count(both.begin(), both.end(), ' ') > 80) {
        out.push_back(std::exchange(piece, sentence));
      } else {
        piece = both;
      }
      begin = end;
    }
    out.push_back(piece);
  }
  return out;
}

// Six questions, each with three pieces of the document that answers it and three of others, in a
// seeded order.
std::vector<Question> demo_questions() {
  const std::vector<std::string> others = {"geology.txt", "prime-number.md", "chloroplast.md"};
  std::mt19937 random(3);
  std::vector<Question> out;
  std::ifstream in(path(TESSERA_DEMO_DIR) / "questions.jsonl");
  std::string line;
  for (int n = 0; out.size() < 6 && std::getline(in, line); ++n) {
    if (n % 2 != 0) continue;  // two follow each other on the same document
    const nlohmann::json row = nlohmann::json::parse(line);
    Question question = {row.at("question"), {}};
    std::vector<std::string> own = pieces_of(row.at("file"));
    const std::string answer = row.at("answers").at(0);
    std::stable_partition(own.begin(), own.end(), [&](const std::string& p) {
      return p.find(answer) != std::string::npos;
    });
    for (size_t i = 0; i < 3; ++i) {
      question.passages.push_back({"", own.at(i)});
      question.passages.push_back({"", pieces_of(others[i]).at(0)});
    }
    std::shuffle(question.passages.begin(), question.passages.end(), random);
    out.push_back(std::move(question));
  }
  return out;
}

bool is_monotone(const std::string& policy) { return policy == "epic" || policy == "cacheblend"; }

// O3: near 0 at ratio 1 for every policy, and lower at 0.5 than at 0 for those of which more is
// known to be better.
TEST(DialTest, PoliciesComeToFullAtRatioOne) {
  const path file = model_path(kSmall), scorer_file = model_path(kScorer);
  if (file.empty() || !std::filesystem::exists(file) || !std::filesystem::exists(scorer_file))
    GTEST_SKIP() << "set TESSERA_TEST_MODELS to the folder of the real models";
  const Tokenizer tokenizer(file), scorer_tokenizer(scorer_file);
  EngineOptions beside;
  beside.n_ctx = 2048;
  Scorer scorer(Model::load(scorer_file, plain(false)), scorer_tokenizer, nullptr, nullptr, beside);
  std::vector<std::unique_ptr<Tier>> tiers;
  tiers.push_back(make_tier("ram", {}));
  ChunkStore store(std::move(tiers));
  EngineOptions options;
  options.n_ctx = 2048;
  options.model_digest = kSmall;
  Engine engine(Model::load(file, plain(false)), tokenizer, &store, options, &scorer);
  std::map<std::string, std::map<double, double>> kl;
  const std::vector<Question> questions = demo_questions();
  ASSERT_EQ(questions.size(), 6U);
  for (const Question& question : questions) {
    ChunkBuilder builder = engine.builder();  // anew: prefill has used the working KV since
    for (const PassageText& p : question.passages)
      builder.build(engine.anchor(AnchorKind::kLeadin), engine.prompts().chunk_ids("", p.text));
    Request request;
    request.passages = question.passages;
    request.question = question.text;
    request.max_tokens = 12;
    const Reference full = full_reference(engine, request);
    ASSERT_FALSE(full.tokens.empty());
    for (const std::string& policy : recomputing_policies()) {
      request.policy = policy;
      // At ratio 1 all rows are computed as in full prefill: one question shows it, and six would
      // take minutes more.
      std::vector<double> ratios;
      if (is_monotone(policy)) ratios = {0.0, 0.5};
      if (&question == &questions.front()) ratios.push_back(1.0);
      for (const double ratio : ratios) {
        request.policy_options.recompute_ratio = ratio;
        const Prefilled ours = engine.prefill(request);
        const Account account = account_of(ours.plan);
        ASSERT_GT(account.independent + account.recomputed, 300) << "every chunk was there";
        const double share = ratio == 1.0 ? 1.0 : static_cast<double>(questions.size());
        kl[policy][ratio] += distance_between(full.logits, engine.forced_logits(ours, full.tokens),
                                              tokenizer.n_vocab())
                                 .mean_kl /
                             share;
      }
    }
  }
  for (auto& [policy, at] : kl) {
    for (const auto& [ratio, value] : at)
      std::printf("O3 %s: mean KL(full || %s) %.6f at ratio %g\n", kSmall, policy.c_str(), value,
                  ratio);
    EXPECT_LT(at[1.0], 0.01) << policy;
    if (is_monotone(policy)) {
      EXPECT_LT(at[0.5], at[0.0]) << policy;
    }
  }
}

const auto kModels = testing::Values("smollm2-135m", kSmall, "gemma3-270m");
std::string name_of(const testing::TestParamInfo<std::string>& param) {
  std::string name = param.param;
  std::erase_if(name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; });
  return name;
}
INSTANTIATE_TEST_SUITE_P(Real, RealModelTest, kModels, name_of);
INSTANTIATE_TEST_SUITE_P(Real, NeedleTest, kModels, name_of);

}  // namespace
}  // namespace tessera
