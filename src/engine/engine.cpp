#include "engine/engine.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "base/clock.h"
#include "base/error.h"
#include "engine/probe.h"
#include "text/align.h"
#include "text/stop_filter.h"

namespace tessera {
namespace {

bool is_exact_only(const std::vector<Match>& lookups) {
  return lookups == std::vector<Match>{Match::kExact};
}

bool is_missed_storable(const Segment& s) {
  return s.match == Match::kMiss &&
         (s.kind == SegmentKind::kPreamble || s.kind == SegmentKind::kChunk);
}

// Rows [begin, end) of a capture over `n_rows` rows.
std::vector<std::byte> slice_capture(const std::vector<std::byte>& captured,
                                     const KvGeometry& geometry, size_t n_rows, TokenRange rows) {
  const size_t row = geometry.layer_bytes(1);
  std::vector<std::byte> out;
  out.reserve(KvChunk::payload_bytes(geometry, rows.size()));
  for (size_t matrix = 0; matrix < 2 * static_cast<size_t>(geometry.n_layers); ++matrix) {
    const auto first =
        captured.begin() +
        static_cast<ptrdiff_t>((matrix * n_rows + static_cast<size_t>(rows.begin)) * row);
    out.insert(out.end(), first,
               first + static_cast<ptrdiff_t>(static_cast<size_t>(rows.size()) * row));
  }
  return out;
}

// What can be said to be wrong before any work is done.
void check_options(const Request& request) {
  const Sampler sampler(request.sampler);  // refuses values out of range
  if (request.max_tokens < 0) {
    throw Error(ErrorCode::kInvalidRequest,
                fmt::format("max_tokens is {} - it must not be negative", request.max_tokens));
  }
}

// The residuals of `rows` among those that the probe left: all of them are there.
std::vector<float> hidden_of(const ProbeResult& probe, std::span<const int32_t> rows,
                             int32_t embed_dim) {
  std::vector<float> out;
  if (probe.hidden.empty()) return out;
  const auto width = static_cast<ptrdiff_t>(embed_dim);
  out.reserve(rows.size() * static_cast<size_t>(embed_dim));
  for (const int32_t row : rows) {
    const auto at = std::lower_bound(probe.positions.begin(), probe.positions.end(), row);
    CHECK(at != probe.positions.end() && *at == row);
    const auto first = probe.hidden.begin() + (at - probe.positions.begin()) * width;
    out.insert(out.end(), first, first + width);
  }
  return out;
}

}  // namespace

std::string_view match_name(Match match) {
  switch (match) {
    case Match::kMiss:
      return "fresh";
    case Match::kIndependent:
      return "independent";
    case Match::kSoft:
      return "soft";
    case Match::kExact:
      return "exact";
  }
  return "";
}

std::string_view segment_kind_name(SegmentKind kind) {
  switch (kind) {
    case SegmentKind::kPreamble:
      return "preamble";
    case SegmentKind::kChunk:
      return "chunk";
    case SegmentKind::kText:
      return "text";
    case SegmentKind::kQuery:
      return "query";
  }
  return "";
}

namespace {

// Nothing is measured where nothing can be chosen.
Evidence evidence_of(const ReusePolicy& policy, const PolicyOptions& options) {
  return options.recompute_ratio > 0 ? policy.evidence() : Evidence::kNone;
}

// What the scorer said of its own tokens, each with the target's tokens that it shares a byte with.
Scores aligned(const Scorer::Result& rated, const ModelContext::Assembled& target) {
  Scores out;
  size_t passage = 0;
  for (const Segment& s : target.prompt.segments) {
    if (s.kind != SegmentKind::kChunk) continue;
    const ChunkScores& chunk = rated.chunks[passage];
    const std::vector<TokenRange> covers =
        overlapping_tokens(chunk.bytes, target.chunk_bytes[passage++]);
    out.value.insert(out.value.end(), chunk.value.begin(), chunk.value.end());
    for (const TokenRange& c : covers)
      out.covers.push_back({s.range.begin + c.begin, s.range.begin + c.end});
  }
  return out;
}

// Which passages were loaded and may be recomputed: only of those the scores are read.
std::vector<bool> approximate_passages(std::span<const Segment> segments) {
  std::vector<bool> out;
  for (const Segment& s : segments) {
    if (s.kind == SegmentKind::kChunk) out.push_back(is_approximate(s));
  }
  return out;
}

// The last key that each row sees when the rows are taken for the prompt's last ones.
std::vector<int32_t> bottom_right(const ReusePlan& plan) {
  const auto n_tokens = plan.segments.back().range.end;
  const auto n_rows = static_cast<int32_t>(plan.rows.size());
  for (const Segment& s : plan.segments) {
    if (s.kind == SegmentKind::kQuery || s.match != Match::kMiss) continue;
    throw Error(
        ErrorCode::kInvalidRequest,
        "the bottom-right mask lets rows see keys behind them, and some before the question "
        "are not stored yet - index the passages first, or use the mask by position");
  }
  std::vector<int32_t> last(plan.rows.size());
  std::iota(last.begin(), last.end(), n_tokens - n_rows);
  return last;
}

}  // namespace

Engine::Engine(const std::shared_ptr<const Model>& model, const Tokenizer& tokenizer,
               ChunkStore* store, const EngineOptions& options, Scorer* scorer)
    : context_(model, tokenizer, store, options), scorer_(scorer) {}

// What a request is worked on with, from its policy to the step that computes its rows.
struct Engine::Work {
  std::unique_ptr<ReusePolicy> policy;
  Evidence evidence = Evidence::kNone;
  ModelContext::Assembled target;
  std::optional<ChunkLookup> lookup;
  std::optional<Scorer::Result> rated;
  ProbeResult probe;
};

bool Engine::needs_scorer(std::string_view policy, const PolicyOptions& options) {
  return is_of_scorer(evidence_of(*make_policy(policy, options), options));
}

// A scorer that reads the prompt does so while the KV is read.
void Engine::rate_beside_loading(const Request& request, Work& work, const std::stop_token& stop) {
  if (!work.lookup || !is_of_scorer(work.evidence) || work.evidence == Evidence::kStoredScorerNorms)
    return;
  work.rated = scorer_->read(request, work.evidence, work.policy->layers(), stop);
}

void Engine::rate_from_store(const Request& request, Work& work, const std::stop_token& stop) {
  if (work.evidence != Evidence::kStoredScorerNorms) return;
  work.rated = scorer_->stored(request.passages, approximate_passages(work.target.prompt.segments),
                               work.policy->layers(), stop);
}

void Engine::plan(Work& work, Prefilled& out, const std::stop_token& stop) {
  work.probe = run_probe(work.evidence, work.policy->layers(),
                         {context_.decoder(), context_.kv(), work.target.prompt, out.found}, stop);
  if (work.evidence == Evidence::kKvDeviation)  // put back what the probe wrote over
    out.found = context_.place(work.target.prompt, std::move(out.found));
  out.kv_epoch = context_.kv().epoch();
  if (work.rated) out.scorer_rows = work.rated->rows;
  const Scores scores =
      work.rated ? aligned(*work.rated, work.target) : Scores{std::move(work.probe.score), {}};
  if (!std::all_of(scores.value.begin(), scores.value.end(),
                   [](float v) { return std::isfinite(v); })) {
    throw Error(ErrorCode::kModel,
                "the scores of tokens are not finite - the model file may be damaged - use another "
                "model or policy");
  }
  const std::span<const Segment> segments = work.target.prompt.segments;
  out.plan = make_plan(work.target.prompt.segments, work.policy->select(segments, scores));
  // A row that the probe has begun for good counts once.
  out.probe_rows = work.probe.rows - static_cast<double>(out.plan.rows.size()) *
                                         work.probe.resume_at /
                                         context_.decoder().config().n_layers;
}

Prompt Engine::prompt_of(const Request& request) const {
  return context_.assemble(request, nullptr).prompt;
}

void Engine::compute(Work& work, Prefilled& out, const std::stop_token& stop) {
  const std::vector<int32_t>& rows = out.plan.rows;
  std::vector<int32_t> tokens;
  tokens.reserve(rows.size());
  for (const int32_t position : rows)
    tokens.push_back(work.target.prompt.ids[static_cast<size_t>(position)]);
  StepOptions options;
  const std::vector<float> hidden =
      hidden_of(work.probe, rows, context_.decoder().config().embed_dim);
  options.hidden = hidden;
  options.layers.begin = work.probe.resume_at;
  options.logit_rows = {static_cast<int32_t>(tokens.size()) - 1};
  // Only where there is something to publish: copying the rows costs time that is measured.
  options.capture_kv =
      is_exact_only(work.policy->lookups()) && work.lookup &&
      std::any_of(out.plan.segments.begin(), out.plan.segments.end(), is_missed_storable);
  std::vector<int32_t> last_keys;
  if (work.policy->mask() == AttentionMask::kBottomRight) last_keys = bottom_right(out.plan);
  StepResult result =
      context_.decoder().prefill({&context_.kv(), tokens, rows, last_keys}, options, stop);
  out.logits = std::move(result.logits);
  out.captured = std::move(result.captured);
}

Prefilled Engine::prefill(const Request& request, const std::stop_token& stop) {
  Work work;
  work.policy = make_policy(request.policy, request.policy_options);
  check_options(request);
  work.evidence = evidence_of(*work.policy, request.policy_options);
  if (is_of_scorer(work.evidence) && scorer_ == nullptr) {
    throw Error(ErrorCode::kInvalidRequest,
                fmt::format("policy {} reads the scores of a small model - there is none - give a "
                            "scorer or use another policy",
                            request.policy));
  }
  Prefilled out;
  Stopwatch watch;
  const auto lap = [&watch](double& ms) {
    ms += watch.ms();
    watch.restart();
  };
  context_.start_lookup(work.policy->lookups(), request.anchor, work.lookup);
  ChunkLookup* lookup = work.lookup ? &*work.lookup : nullptr;
  work.target = context_.assemble(request, lookup);
  lap(out.timings.tokenize_ms);
  rate_beside_loading(request, work, stop);
  lap(out.timings.score_ms);

  out.found =
      context_.place(work.target.prompt, lookup ? lookup->finish() : std::vector<FoundSegment>());
  if (lookup != nullptr)
    out.timings.load_hidden_ms = std::max(0.0, lookup->work_ms() - lookup->waited_ms());
  lap(out.timings.load_ms);

  rate_from_store(request, work, stop);
  lap(out.timings.score_ms);
  plan(work, out, stop);
  lap(out.timings.select_ms);
  compute(work, out, stop);
  out.prompt = std::move(work.target.prompt);
  lap(out.timings.prefill_ms);
  return out;
}

Answer Engine::generate(const Request& request, Prefilled& prefilled, const TextSink& sink,
                        const std::stop_token& stop) {
  CHECK(prefilled.kv_epoch == context_.kv().epoch());
  Answer answer;
  answer.policy = request.policy;
  answer.finish_reason = "length";
  Sampler sampler(request.sampler);
  StreamingDetokenizer detokenizer(context_.tokenizer());
  std::vector<std::string> stops = request.stop;
  if (context_.prompts().template_name() == "plain")
    stops.emplace_back("\n");  // a base model has no token that ends an answer
  StopFilter filter(std::move(stops));
  const auto give = [&](const std::string& text) {
    answer.text += text;
    if (sink && !text.empty()) sink(text);
  };

  Stopwatch watch;
  std::vector<float> logits = prefilled.logits;
  auto position = static_cast<int32_t>(prefilled.prompt.ids.size());
  for (int32_t n = 0; n < request.max_tokens; ++n) {
    if (stop.stop_requested())
      throw Error(ErrorCode::kCancelled, fmt::format("cancelled after {} tokens", n));
    const int32_t token = sampler.pick(logits);
    if (n == 0) prefilled.timings.first_token_ms = watch.ms();
    if (context_.tokenizer().is_end(token)) answer.finish_reason = "stop";
    if (answer.finish_reason == "stop") break;
    answer.tokens.push_back(token);
    give(filter.push(detokenizer.push(token)));
    if (n == 0) prefilled.timings.first_token_ms = watch.ms();  // its text is part of it
    if (filter.stopped()) answer.finish_reason = "stop";
    if (filter.stopped() || n + 1 == request.max_tokens || position >= n_ctx()) break;
    StepOptions options;
    options.kernels = KernelClass::kDecode;
    options.logit_rows = {0};
    const SequenceRows row = {&context_.kv(), {&token, 1}, {&position, 1}};
    logits = context_.decoder().step({&row, 1}, options).logits;
    ++position;
  }
  if (!filter.stopped()) {
    give(filter.push(detokenizer.finish()));
    give(filter.finish());
  }
  prefilled.timings.decode_ms = watch.ms() - prefilled.timings.first_token_ms;

  answer.account = account_of(prefilled.plan);
  answer.probe_rows = prefilled.probe_rows;
  answer.scorer_rows = prefilled.scorer_rows;
  answer.timings = prefilled.timings;
  for (size_t i = 0; i < prefilled.plan.segments.size(); ++i) {
    const Segment& s = prefilled.plan.segments[i];
    const Account part = account_of({{s}, prefilled.plan.rows});
    answer.segments.push_back(
        {s.kind, s.range.size(), s.match, std::string(prefilled.found[i].tier), part.recomputed});
  }
  return answer;
}

bool Engine::publish_exact(const Prefilled& prefilled) {
  bool all_stored = true;
  if (prefilled.captured.empty()) return all_stored;  // nothing was missed
  const std::vector<int32_t>& ids = prefilled.prompt.ids;
  const std::vector<int32_t>& rows = prefilled.plan.rows;
  for (const Segment& s : prefilled.plan.segments) {
    if (!is_missed_storable(s)) continue;
    const auto first = static_cast<int32_t>(
        std::lower_bound(rows.begin(), rows.end(), s.range.begin) - rows.begin());
    const std::span<const int32_t> own = std::span(ids).subspan(
        static_cast<size_t>(s.range.begin), static_cast<size_t>(s.range.size()));
    const KeyContext behind = {Match::kExact, AnchorKind::kBare,
                               std::span(ids).first(static_cast<size_t>(s.range.begin))};
    std::vector<std::byte> payload = slice_capture(prefilled.captured, context_.domain().geometry,
                                                   rows.size(), {first, first + s.range.size()});
    const bool is_stored = is_finite_f16(payload) &&
                           context_.store()->put(key_of(context_.domain(), behind, own),
                                                 std::make_shared<const KvChunk>(
                                                     context_.domain().geometry,
                                                     std::vector<int32_t>(own.begin(), own.end()),
                                                     Lineage{}, std::move(payload)));
    all_stored = all_stored && is_stored;
  }
  return all_stored;
}

bool Engine::build_missed(const Request& request, const Prefilled& prefilled,
                          const std::stop_token& stop) {
  bool all_stored = true;
  const std::unique_ptr<ReusePolicy> policy = make_policy(request.policy, request.policy_options);
  size_t passage = 0;
  ChunkBuilder made = builder();
  const Anchor& behind = anchor(request.anchor);
  for (const Segment& s : prefilled.plan.segments) {
    if (s.kind != SegmentKind::kChunk) continue;
    const PassageText& text = request.passages[passage++];
    // Also where the target's KV was there: the scorer's own may not be.
    if (scorer_ != nullptr) {
      all_stored = scorer_->build(text, policy->evidence(), policy->layers(), stop) !=
                       Scorer::Outcome::kNotStored &&
                   all_stored;
    }
    if (s.match != Match::kMiss) continue;
    // It did fit behind this prompt, but may not behind its anchor.
    const size_t n_rows = behind.ids.size() + static_cast<size_t>(s.range.size());
    if (n_rows > static_cast<size_t>(context_.kv().n_slots())) continue;
    const auto begin = prefilled.prompt.ids.begin() + s.range.begin;
    const ChunkBuilder::Outcome outcome =
        made.build(behind, std::vector<int32_t>(begin, begin + s.range.size()), stop);
    all_stored = all_stored && outcome != ChunkBuilder::Outcome::kNotStored;
  }
  return all_stored;
}

bool Engine::commit(const Request& request, const Prefilled& prefilled,
                    const std::stop_token& stop) {
  const std::vector<Match> lookups = make_policy(request.policy, request.policy_options)->lookups();
  if (context_.store() == nullptr || lookups.empty()) return true;
  try {
    return is_exact_only(lookups) ? publish_exact(prefilled)
                                  : build_missed(request, prefilled, stop);
  } catch (const std::exception& error) {  // no memory counts too: the answer is out
    spdlog::warn("chunks that were missed are not stored: {}", error.what());
    return false;
  }
}

Answer Engine::answer(const Request& request, const TextSink& sink, const std::stop_token& stop) {
  Prefilled prefilled = prefill(request, stop);
  Answer out = generate(request, prefilled, sink, stop);
  commit(request, prefilled, stop);
  return out;
}

std::vector<float> Engine::forced_logits(const Prefilled& prefilled,
                                         std::span<const int32_t> tokens) {
  std::vector<float> out = prefilled.logits;
  const auto n_prompt = static_cast<int32_t>(prefilled.prompt.ids.size());
  CHECK(prefilled.kv_epoch == context_.kv().epoch());
  context_.kv().truncate(n_prompt);
  if (tokens.size() < 2) return out;
  const std::span<const int32_t> fed = tokens.first(
      std::min(tokens.size() - 1, static_cast<size_t>(context_.kv().n_slots() - n_prompt)));
  std::vector<int32_t> positions(fed.size());
  std::iota(positions.begin(), positions.end(), n_prompt);
  StepOptions options;
  options.logit_rows.resize(fed.size());
  std::iota(options.logit_rows.begin(), options.logit_rows.end(), 0);
  const std::vector<float> rest =
      context_.decoder().prefill({&context_.kv(), fed, positions}, options).logits;
  out.insert(out.end(), rest.begin(), rest.end());
  context_.kv().truncate(n_prompt);
  return out;
}

}  // namespace tessera
