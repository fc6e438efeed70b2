#include "eval/tuning_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/file.h"
#include "base/text_util.h"
#include "engine/compare.h"
#include "eval/metrics.h"
#include "store/chunk_store.h"

namespace tessera {
namespace {

using nlohmann::json;

// Higher than any confidence.
constexpr double kNeverStops = 2.0;

json with_alpha(json key, double alpha) {
  key["alpha"] = alpha;
  return key;
}

json to_json(const SoftPoint& p) {
  return {{"alpha", p.alpha},           {"kl", p.kl},         {"f1_loss", p.f1_loss},
          {"rows_share", p.rows_share}, {"n_soft", p.n_soft}, {"n_chunks", p.n_chunks}};
}

// JSON would write null for it, and the point would be missing without a word.
void check_finite(double value, const Sample& sample) {
  if (std::isfinite(value)) return;
  throw Error(ErrorCode::kModel,
              fmt::format("question {} gives numbers that are not finite - the model file may be "
                          "damaged - use another model or leave it out",
                          quote(sample.id)));
}

void check_not_stopped(const std::stop_token& stop, size_t n_done) {
  if (!stop.stop_requested()) return;
  throw Error(ErrorCode::kCancelled,
              fmt::format("cancelled after {} questions - the same command goes on there", n_done));
}

// Nothing for a point of another form, which is then measured again.
std::optional<SoftPoint> soft_point(const json* value) {
  if (value == nullptr) return std::nullopt;
  try {
    SoftPoint p;
    value->at("alpha").get_to(p.alpha);
    value->at("kl").get_to(p.kl);
    value->at("f1_loss").get_to(p.f1_loss);
    value->at("rows_share").get_to(p.rows_share);
    value->at("n_soft").get_to(p.n_soft);
    value->at("n_chunks").get_to(p.n_chunks);
    return p;
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

json to_json(const AdaptiveQuestion& q) {
  json kl = json::array(), entropy = json::array();
  for (const Certainty& c : q.certainty) {
    kl.push_back(c.kl);
    entropy.push_back(c.entropy);
  }
  return {{"kl", kl},
          {"entropy", entropy},
          {"rows", q.rows},
          {"f1", q.f1},
          {"rows_at_once", q.rows_at_once}};
}

std::optional<AdaptiveQuestion> adaptive_question(const json* value, size_t n_passages) {
  if (value == nullptr) return std::nullopt;
  try {
    const auto kl = value->at("kl").get<std::vector<double>>();
    const auto entropy = value->at("entropy").get<std::vector<double>>();
    AdaptiveQuestion q;
    value->at("rows").get_to(q.rows);
    value->at("f1").get_to(q.f1);
    value->at("rows_at_once").get_to(q.rows_at_once);
    for (const size_t n : {kl.size(), entropy.size(), q.rows.size(), q.f1.size()}) {
      if (n != n_passages) return std::nullopt;
    }
    for (size_t i = 0; i < n_passages; ++i) q.certainty.push_back({kl[i], entropy[i]});
    return q;
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

}  // namespace

PointLog::PointLog(std::filesystem::path file) : file_(std::move(file)) {
  const std::optional<std::vector<std::byte>> bytes = read_file(file_);
  if (!bytes) return;
  std::string_view rest(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  for (size_t number = 1; !rest.empty(); ++number) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    json record = json::parse(line.begin(), line.end(), nullptr, false);
    if (!record.is_object() || !record.contains("key") || !record.contains("value")) {
      throw Error(ErrorCode::kInvalidRequest,
                  fmt::format("{} line {} - is no point of a tuning run - give another folder to "
                              "--out",
                              file_.string(), number));
    }
    points_[record["key"].dump()] = std::move(record["value"]);
  }
}

const json* PointLog::find(const json& key) const {
  const auto found = points_.find(key.dump());
  return found == points_.end() ? nullptr : &found->second;
}

void PointLog::add(const json& key, json value) {
  points_[key.dump()] = std::move(value);
  std::string text;
  for (const auto& [key_text, point] : points_)
    text += fmt::format("{{\"key\":{},\"value\":{}}}\n", key_text, point.dump());
  const std::span<const std::byte> piece = std::as_bytes(std::span(text));
  std::string error;
  if (write_file_atomic(file_, {&piece, 1}, error)) return;
  throw Error(ErrorCode::kIo, fmt::format("cannot write {} - {} - finished points are kept: put it "
                                          "right and run again",
                                          file_.string(), error));
}

TuningRun::TuningRun(Engine& engine, ChunkStore& store, const TuningInputs& inputs, PointLog& log,
                     const TuningHooks& hooks)
    : engine_(engine), store_(store), inputs_(inputs), log_(log), hooks_(hooks) {}

void TuningRun::empty_store() {
  std::vector<ChunkKey> keys;
  for (Tier* tier : store_.tiers()) {
    tier->for_each([&keys](const TierEntry& entry) {
      keys.push_back(entry.key);
      return true;
    });
  }
  for (const ChunkKey& key : keys) store_.erase(key);
  if (store_.variants() != nullptr) store_.variants()->clear();
}

void TuningRun::build_passages(const Sample& sample) {
  ChunkBuilder builder = engine_.builder();
  builder.build_preamble(engine_.prompts().preamble_ids(), hooks_.stop);
  for (const PassageText& p : sample.passages) {
    const ChunkBuilder::Outcome outcome = builder.build(
        engine_.anchor(inputs_.anchor), engine_.prompts().chunk_ids(p.title, p.text), hooks_.stop);
    if (outcome != ChunkBuilder::Outcome::kNotStored) continue;
    throw Error(ErrorCode::kIo, fmt::format("a passage of question {} cannot be kept - there is no "
                                            "room, or its KV is not finite - raise --ram-tier",
                                            quote(sample.id)));
  }
}

Request TuningRun::request_of(const Sample& sample) const {
  Request out;
  out.passages = sample.passages;
  out.question = sample.question;
  out.policy = inputs_.policy;
  out.policy_options = inputs_.policy_options;
  out.anchor = inputs_.anchor;
  out.max_tokens = inputs_.max_tokens;
  return out;
}

json TuningRun::key_of(const std::string& stage, const std::string& task,
                       const Sample& sample) const {
  return {{"stage", stage},
          {"config", inputs_.config},
          {"policy", inputs_.policy},
          {"ratio", inputs_.policy_options.recompute_ratio},
          {"task", task},
          {"id", sample.id},
          {"sample", sample_digest(sample)}};
}

template <typename Work>
void TuningRun::for_each_question(const Work& work) {
  size_t n_done = 0;
  for (const EvalSet& set : inputs_.sets) {
    for (const Sample& sample : set.samples) {
      check_not_stopped(hooks_.stop, n_done);
      if (sample.passages.size() > 1) work(set.task, sample);
      ++n_done;
      if (hooks_.progress) hooks_.progress(n_done, sample.id);
    }
  }
}

std::vector<SoftPoint> TuningRun::soft(std::span<const double> alphas) {
  std::vector<SoftPoint> out;
  for_each_question([&](const std::string& task, const Sample& sample) {
    const json key = key_of("soft", task, sample);
    std::vector<double> lacking;
    for (const double alpha : alphas) {
      if (!soft_point(log_.find(with_alpha(key, alpha)))) lacking.push_back(alpha);
    }
    if (!lacking.empty()) measure_soft(sample, key, lacking);
    for (const double alpha : alphas) {
      if (const auto point = soft_point(log_.find(with_alpha(key, alpha)))) out.push_back(*point);
    }
  });
  empty_store();
  return out;
}

void TuningRun::measure_soft(const Sample& sample, const json& key,
                             std::span<const double> alphas) {
  empty_store();  // what another question left would match too
  build_passages(sample);
  Request request = request_of(sample);
  const Reference full = full_reference(engine_, request, hooks_.stop);
  const double full_f1 = token_f1(full.answer.text, sample.answers);

  Request rotated = request;  // all but two chunks keep their predecessor
  std::rotate(rotated.passages.begin(), rotated.passages.begin() + 1, rotated.passages.end());
  engine_.answer(rotated, {}, hooks_.stop);

  for (const double alpha : alphas) {
    request.policy_options.soft_ratio = alpha;
    const Comparison c = compare_with(engine_, full, request, {}, hooks_.stop);
    SoftPoint point = {.alpha = alpha, .kl = c.distance.mean_kl};
    check_finite(point.kl, sample);
    point.f1_loss = full_f1 - token_f1(c.policy.text, sample.answers);
    point.rows_share = (c.policy.account.rows() + c.policy.probe_rows) / c.policy.account.total();
    for (const SegmentReport& s : c.policy.segments) {
      if (s.kind != SegmentKind::kChunk) continue;
      ++point.n_chunks;
      point.n_soft += s.match == Match::kSoft ? 1 : 0;
    }
    log_.add(with_alpha(key, alpha), to_json(point));
  }
}

std::vector<AdaptiveQuestion> TuningRun::adaptive() {
  std::vector<AdaptiveQuestion> out;
  empty_store();
  for_each_question([&](const std::string& task, const Sample& sample) {
    const json key = key_of("adaptive", task, sample);
    std::optional<AdaptiveQuestion> question =
        adaptive_question(log_.find(key), sample.passages.size());
    if (!question) {
      question = measure_adaptive(sample);
      log_.add(key, to_json(*question));
    }
    out.push_back(std::move(*question));
  });
  empty_store();
  return out;
}

AdaptiveQuestion TuningRun::measure_adaptive(const Sample& sample) {
  build_passages(sample);
  AdaptiveQuestion out;
  Request growing = request_of(sample);
  growing.adaptive = AdaptiveContext{.step = 1, .confidence = {}, .threshold = kNeverStops};
  const Prefilled prefilled = engine_.prefill(growing, hooks_.stop);
  CHECK(prefilled.adaptive);
  const std::vector<Round>& rounds = prefilled.adaptive->rounds;
  // What the evidence costs is known of all rounds together.
  const double probe_rows = prefilled.probe_rows / static_cast<double>(rounds.size());
  for (const Round& round : rounds) {
    check_finite(round.certainty.kl + round.certainty.entropy, sample);
    out.certainty.push_back(round.certainty);
    out.rows.push_back(round.rows + probe_rows);
  }
  const Request whole = request_of(sample);
  for (size_t n = 1; n <= sample.passages.size(); ++n) {
    Request request = whole;
    request.passages.resize(n);
    Prefilled part = engine_.prefill(request, hooks_.stop);
    const Answer answer = engine_.generate(request, part, {}, hooks_.stop);
    out.f1.push_back(token_f1(answer.text, sample.answers));
    out.rows_at_once = answer.account.rows() + answer.probe_rows;
  }
  return out;
}

}  // namespace tessera
