#include "eval/tuning_run.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <functional>
#include <iterator>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/text_util.h"
#include "engine/compare.h"
#include "eval/metrics.h"
#include "store/chunk_store.h"

namespace tessera {
namespace {

using nlohmann::json;

// Higher than any confidence.
constexpr double kNeverStops = 2.0;
// How every line of points begins, so that a cut-off first one is known as ours.
constexpr std::string_view kOpening = R"({"key":)";

json with_alpha(json key, double alpha) {
  key["alpha"] = alpha;
  return key;
}

// The name of a task may hold any bytes.
std::string text_of(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
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

[[noreturn]] void refuse_file(const std::filesystem::path& file, size_t line) {
  throw Error(ErrorCode::kInvalidRequest,
              fmt::format("{} line {} - is no point of a tuning run - give another folder to --out",
                          file.string(), line));
}

[[noreturn]] void fail(const std::filesystem::path& file) {
  throw Error(ErrorCode::kIo, fmt::format("cannot write {} - {} - finished points are kept: put it "
                                          "right and run again",
                                          file.string(), std::strerror(errno)));
}

// What was read must be in the store when it is measured: a miss would be computed, exactly.
void check_kept(const std::vector<Segment>& segments, const Sample& sample) {
  const auto is_missed = [](const Segment& s) {
    const bool is_stored = s.kind == SegmentKind::kPreamble || s.kind == SegmentKind::kChunk;
    return is_stored && s.match == Match::kMiss;
  };
  if (std::none_of(segments.begin(), segments.end(), is_missed)) return;
  throw Error(ErrorCode::kIo, fmt::format("the KV of a passage of question {} is not in the store "
                                          "- there is no room, or it is not finite - raise "
                                          "--ram-tier",
                                          quote(sample.id)));
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
    // A number that is cut to fit is another one.
    if (to_json(p) != *value) return std::nullopt;
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

PointLog::PointLog(std::filesystem::path file)
    : path_(std::move(file)),
      file_(::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644)) {
  if (!file_.is_open()) fail(path_);
  const std::optional<std::vector<std::byte>> bytes = read_file(path_);
  if (!bytes) fail(path_);
  read({reinterpret_cast<const char*>(bytes->data()), bytes->size()});
}

void PointLog::read(std::string_view text) {
  const size_t whole = text.rfind('\n') + 1;  // npos + 1 is 0: no line is whole
  const std::string_view cut_off = text.substr(whole);
  if (whole == 0 && !cut_off.starts_with(kOpening) && !kOpening.starts_with(cut_off))
    refuse_file(path_, 1);
  size_t number = 0;
  for (std::string_view rest = text.substr(0, whole); !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(line.size() + 1);
    json record = json::parse(line.begin(), line.end(), nullptr, false);
    ++number;
    if (!record.is_object() || !record.contains("key") || !record.contains("value"))
      refuse_file(path_, number);
    points_[text_of(record["key"])] = std::move(record["value"]);
  }
  if (!cut_off.empty() && ::ftruncate(file_.get(), static_cast<off_t>(whole)) != 0) fail(path_);
}

const json* PointLog::find(const json& key) const {
  const auto found = points_.find(text_of(key));
  return found == points_.end() ? nullptr : &found->second;
}

void PointLog::add(const json& key, json value) {
  const std::string name = text_of(key);
  const std::string line = fmt::format("{{\"key\":{},\"value\":{}}}\n", name, value.dump());
  const off_t before = ::lseek(file_.get(), 0, SEEK_END);
  for (std::string_view rest = line; !rest.empty();) {
    const ssize_t n = ::write(file_.get(), rest.data(), rest.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      const int why = errno;
      // If that fails too, the next start drops the half line.
      [[maybe_unused]] const int ignored = ::ftruncate(file_.get(), before);
      errno = why;
      fail(path_);
    }
    rest.remove_prefix(static_cast<size_t>(n));
  }
  points_[name] = std::move(value);
}

std::vector<PassageText> familiar_company(const std::vector<EvalSet>& sets, QuestionAt at) {
  const Sample& own = sets[at.set].samples[at.sample];
  std::vector<const Sample*> all;
  size_t place = 0;
  for (const EvalSet& set : sets) {
    for (const Sample& sample : set.samples) {
      if (&sample == &own) place = all.size();
      all.push_back(&sample);
    }
  }
  const auto is_own = [&own](const PassageText& p) {
    return std::any_of(own.passages.begin(), own.passages.end(), [&p](const PassageText& q) {
      return q.title == p.title && q.text == p.text;
    });
  };
  const size_t n_wanted = (own.passages.size() + 1) / 2;
  std::vector<PassageText> strangers;
  for (size_t step = 1; step < all.size() && strangers.size() < n_wanted; ++step) {
    const std::vector<PassageText>& others = all[(place + step) % all.size()]->passages;
    std::copy_if(others.begin(), others.end(), std::back_inserter(strangers), std::not_fn(is_own));
  }
  strangers.resize(std::min(strangers.size(), n_wanted));
  std::vector<PassageText> out;
  for (size_t i = 0; i < own.passages.size(); ++i) {
    if (i % 2 == 0 && i / 2 < strangers.size()) out.push_back(strangers[i / 2]);
    out.push_back(own.passages[i]);
  }
  return out;
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

void TuningRun::build_passages(const Request& request, const Sample& sample) {
  ChunkBuilder builder = engine_.builder();
  builder.build_preamble(engine_.prompts().preamble_ids(), hooks_.stop);
  for (const PassageText& p : request.passages)
    builder.build(engine_.anchor(inputs_.anchor), engine_.prompts().chunk_ids(p.title, p.text),
                  hooks_.stop);
  Request reading = request;
  reading.policy = "reuse";
  reading.adaptive.reset();
  check_kept(engine_.prefill(reading, hooks_.stop).plan.segments, sample);
}

Request TuningRun::request_of(const Sample& sample) const {
  Request out = tessera::request_of(sample);
  out.policy = inputs_.policy;
  out.policy_options = inputs_.policy_options;
  out.anchor = inputs_.anchor;
  out.max_tokens = inputs_.max_tokens;
  return out;
}

Request TuningRun::familiar_request(QuestionAt at) const {
  Request out = request_of(sample_at(at));
  out.passages = familiar_company(inputs_.sets, at);
  out.max_tokens = 1;  // only what the prompt leaves behind counts
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
  for (size_t set = 0; set < inputs_.sets.size(); ++set) {
    for (size_t i = 0; i < inputs_.sets[set].samples.size(); ++i) {
      const Sample& sample = inputs_.sets[set].samples[i];
      check_not_stopped(hooks_.stop, n_done);
      if (sample.passages.size() > 1) work(QuestionAt{set, i}, n_done);
      ++n_done;
      if (hooks_.progress) hooks_.progress(n_done, sample.id);
    }
  }
}

void TuningRun::check_lengths() const {
  const auto check = [this](QuestionAt at) {
    if (sample_at(at).passages.size() < 2) return;
    try {
      engine_.prompt_of(familiar_request(at));
    } catch (const Error& error) {
      throw Error(
          error.code(),
          fmt::format("question {} of {}, with half as many passages of others - {} "
                      "(--passages, --ctx), or leave the question out",
                      quote(sample_at(at).id), quote(inputs_.sets[at.set].task), error.what()));
    }
  };
  for (size_t set = 0; set < inputs_.sets.size(); ++set) {
    for (size_t i = 0; i < inputs_.sets[set].samples.size(); ++i) check({set, i});
  }
}

json TuningRun::soft_key(QuestionAt at) const {
  Sample company = sample_at(at);
  company.passages = familiar_company(inputs_.sets, at);
  json out = key_of("soft", inputs_.sets[at.set].task, sample_at(at));
  out["company"] = sample_digest(company);
  return out;
}

std::vector<SoftPoint> TuningRun::soft(std::span<const double> alphas) {
  std::vector<SoftPoint> out;
  for_each_question([&](QuestionAt at, size_t question) {
    const json key = soft_key(at);
    std::vector<double> lacking;
    for (const double alpha : alphas) {
      if (!soft_point(log_.find(with_alpha(key, alpha)))) lacking.push_back(alpha);
    }
    if (!lacking.empty()) measure_soft(at, lacking);
    for (const double alpha : alphas) {
      const std::optional<SoftPoint> point = soft_point(log_.find(with_alpha(key, alpha)));
      if (!point) continue;
      out.push_back(*point);
      out.back().question = question;
    }
  });
  empty_store();
  return out;
}

void TuningRun::measure_soft(QuestionAt at, std::span<const double> alphas) {
  const Sample& sample = sample_at(at);
  const json key = soft_key(at);
  empty_store();  // what another question left would match too
  const Request familiar = familiar_request(at);
  build_passages(familiar, sample);
  engine_.answer(familiar, {}, hooks_.stop);

  Request request = request_of(sample);
  const Reference full = full_reference(engine_, request, hooks_.stop);
  const double full_f1 = token_f1(full.answer.text, sample.answers);
  for (const double alpha : alphas) {
    request.policy_options.soft_ratio = alpha;
    const Comparison c = compare_with(engine_, full, request, {}, hooks_.stop);
    check_kept(c.prefilled.plan.segments, sample);
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
  for_each_question([&](QuestionAt at, size_t) {
    const Sample& sample = sample_at(at);
    const json key = key_of("adaptive", inputs_.sets[at.set].task, sample);
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
  empty_store();
  AdaptiveQuestion out;
  Request growing = request_of(sample);
  build_passages(growing, sample);
  growing.adaptive = AdaptiveContext{.step = 1, .confidence = {}, .threshold = kNeverStops};
  const Prefilled prefilled = engine_.prefill(growing, hooks_.stop);
  CHECK(prefilled.adaptive);
  for (const Round& round : prefilled.adaptive->rounds) {
    check_finite(round.certainty.kl.value_or(0) + round.certainty.entropy, sample);
    out.certainty.push_back(round.certainty);
    out.rows.push_back(round.rows + round.probe_rows);
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
