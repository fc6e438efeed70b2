#include "engine/engine.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/error.h"
#include "engine/probe.h"
#include "text/align.h"
#include "text/stop_filter.h"

namespace tessera {
namespace {

bool contains(const std::vector<Match>& list, Match match) {
  return std::find(list.begin(), list.end(), match) != list.end();
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

// `chunk` with the rows `at` (numbers of its tokens) replaced by those of `computed`, which is a
// capture of as many rows.
std::vector<std::byte> with_rows(const KvChunk& chunk, std::span<const int32_t> at,
                                 std::span<const std::byte> computed) {
  std::vector<std::byte> out(chunk.payload().begin(), chunk.payload().end());
  const size_t row = chunk.geometry().layer_bytes(1);
  const auto n_tokens = static_cast<size_t>(chunk.n_tokens());
  for (size_t matrix = 0; matrix < 2 * static_cast<size_t>(chunk.geometry().n_layers); ++matrix) {
    for (size_t i = 0; i < at.size(); ++i) {
      std::copy_n(computed.begin() + static_cast<ptrdiff_t>((matrix * at.size() + i) * row), row,
                  out.begin() + static_cast<ptrdiff_t>(
                                    (matrix * n_tokens + static_cast<size_t>(at[i])) * row));
    }
  }
  return out;
}

// What can be said to be wrong before any work is done.
void check_options(const Request& request) {
  const Sampler sampler(request.sampler);  // refuses values out of range
  if (request.adaptive) check_adaptive(*request.adaptive);
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
Scores aligned(const Scorer::Result& rated, std::span<const Segment> segments,
               std::span<const std::vector<TokenRange>> chunk_bytes) {
  Scores out;
  size_t passage = 0;
  for (const Segment& s : segments) {
    if (s.kind != SegmentKind::kChunk) continue;
    const ChunkScores& chunk = rated.chunks[passage];
    const std::vector<TokenRange> covers = overlapping_tokens(chunk.bytes, chunk_bytes[passage++]);
    out.value.insert(out.value.end(), chunk.value.begin(), chunk.value.end());
    for (const TokenRange& c : covers)
      out.covers.push_back({s.range.begin + c.begin, s.range.begin + c.end});
  }
  return out;
}

// Which passages were loaded and may be recomputed: only of those the scores are read.
std::vector<bool> approximate_passages(std::span<const Segment> segments, size_t n_passages) {
  std::vector<bool> out;
  for (const Segment& s : segments) {
    if (s.kind == SegmentKind::kChunk) out.push_back(is_approximate(s));
  }
  out.resize(n_passages, false);
  return out;
}

// The last key that each of `n_rows` rows sees when they are taken for the prompt's last ones.
std::vector<int32_t> bottom_right(std::span<const Segment> segments, int32_t n_rows) {
  const auto n_tokens = segments.back().range.end;
  for (const Segment& s : segments) {
    if (s.kind == SegmentKind::kQuery || s.match != Match::kMiss) continue;
    throw Error(
        ErrorCode::kInvalidRequest,
        "the bottom-right mask lets rows see keys behind them, and some before the question "
        "are not stored yet - index the passages first, or use the mask by position");
  }
  std::vector<int32_t> last(static_cast<size_t>(n_rows));
  std::iota(last.begin(), last.end(), n_tokens - n_rows);
  return last;
}

}  // namespace

Engine::Engine(const std::shared_ptr<const Model>& model, const Tokenizer& tokenizer,
               ChunkStore* store, const EngineOptions& options, Scorer* scorer)
    : context_(model, tokenizer, store, options),
      scorer_(scorer),
      sink_layer_(options.sink_layer) {}

namespace {

// `wanted`, or the middle layer where the model has no such; else the next that sees all keys.
int32_t sink_layer_of(const ModelConfig& config, int32_t wanted) {
  int32_t layer = wanted >= 0 && wanted < config.n_layers ? wanted : config.n_layers / 2;
  while (layer + 1 < config.n_layers &&
         config.layers[static_cast<size_t>(layer)].sliding_window != 0)
    ++layer;
  return layer;
}

// The earlier chunk of most `attention`, [rows, segments], of the rows [begin, end); -1: there is
// none.
int32_t strongest_chunk(std::span<const Segment> segments, size_t segment,
                        std::span<const float> attention, TokenRange rows) {
  int32_t strongest = -1;
  if (rows.size() == 0) return strongest;
  double most = 0;
  for (size_t i = 0; i < segment; ++i) {
    if (segments[i].kind != SegmentKind::kChunk) continue;
    double sum = 0;
    for (auto row = static_cast<size_t>(rows.begin); row < static_cast<size_t>(rows.end); ++row)
      sum += attention[row * segments.size() + i];
    if (strongest >= 0 && sum <= most) continue;
    strongest = static_cast<int32_t>(i);
    most = sum;
  }
  return strongest;
}

}  // namespace

// What a request is worked on with, from its policy to the step that computes its rows.
struct Engine::Work {
  const Request& request;
  const std::stop_token& stop;
  std::unique_ptr<ReusePolicy> policy = {};
  Evidence evidence = Evidence::kNone;
  ModelContext::Assembled target = {};  // of all passages
  std::optional<ChunkLookup> lookup = {};
  std::vector<FoundSegment> found = {};  // per segment of all passages
  std::optional<Scorer::Result> rated = {};
  ProbeResult probe = {};
  size_t n_standing = 0;  // segments whose KV stands in the working KV for good
  Stopwatch watch = {};

  void lap(double& ms) {
    ms += watch.ms();
    watch.restart();
  }
};

bool Engine::needs_scorer(std::string_view policy, const PolicyOptions& options) {
  return is_of_scorer(evidence_of(*make_policy(policy, options), options));
}

// A scorer that reads the prompt does so while the KV is read.
void Engine::rate_beside_loading(Work& work) {
  if (!work.lookup || !is_of_scorer(work.evidence) || work.evidence == Evidence::kStoredScorerNorms)
    return;
  work.rated = scorer_->read(work.request, work.evidence, work.policy->layers(), work.stop);
}

void Engine::rate_from_store(Work& work, std::span<const Segment> segments) {
  if (work.evidence != Evidence::kStoredScorerNorms) return;
  const std::vector<PassageText>& passages = work.request.passages;
  work.rated = scorer_->stored(passages, approximate_passages(segments, passages.size()),
                               work.policy->layers(), work.stop);
}

// Chooses among what was loaded in this round. `open` is the prompt in which all that stands
// already counts as exact. Gives the positions to compute now.
std::vector<int32_t> Engine::plan(Work& work, const Prompt& open, Prefilled& out) {
  work.probe = run_probe(work.evidence, work.policy->layers(),
                         {context_.decoder(), context_.kv(), open, out.found}, work.stop);
  if (work.evidence == Evidence::kKvDeviation)  // put back what the probe wrote over
    context_.place(out.prompt, out.found);
  if (work.rated) out.scorer_rows += std::exchange(work.rated->rows, 0);
  const Scores scores = work.rated ? aligned(*work.rated, open.segments, work.target.chunk_bytes)
                                   : Scores{std::move(work.probe.score), {}};
  if (!std::all_of(scores.value.begin(), scores.value.end(),
                   [](float v) { return std::isfinite(v); })) {
    throw Error(ErrorCode::kModel,
                "the scores of tokens are not finite - the model file may be damaged - use another "
                "model or policy");
  }
  std::vector<int32_t> now =
      make_plan(open.segments, work.policy->select(open.segments, scores)).rows;
  // A row that the probe has begun for good counts once.
  work.probe.rows -=
      static_cast<double>(now.size()) * work.probe.resume_at / context_.decoder().config().n_layers;
  out.probe_rows += work.probe.rows;
  std::vector<int32_t>& rows = out.plan.rows;  // those of the question were of another place
  rows.resize(
      static_cast<size_t>(rows_within(rows, {0, open.segments[work.n_standing].range.begin}).end));
  rows.insert(rows.end(), now.begin(), now.end());
  out.plan.segments = out.prompt.segments;
  return work.evidence == Evidence::kKvDeviation ? rows : now;
}

Prompt Engine::prompt_of(const Request& request) const {
  return context_.assemble(request, nullptr).prompt;
}

// Only where there is something to publish: copying rows costs time that is measured.
bool Engine::publishes(const Work& work, const Prefilled& out) const {
  const std::optional<PublishRules> rules = publish_rules(*work.policy);
  if (!rules || !work.lookup) return false;
  const Publisher publisher(*context_.store(), context_.domain(), *rules);
  const Computed computed = {out.prompt, out.plan, out.found, out.sinks};
  for (size_t i = work.n_standing; i < out.prompt.segments.size(); ++i) {
    if (publisher.wants(computed, i)) return true;
  }
  return false;
}

// What later requests may want to know of the rows of this round.
void Engine::keep(const Work& work, std::span<const int32_t> rows, const StepOptions& options,
                  const StepResult& result, Prefilled& out) const {
  const std::vector<Segment>& segments = out.prompt.segments;
  for (size_t i = work.n_standing; i < segments.size(); ++i) {
    const TokenRange mine = rows_within(rows, segments[i].range);
    if (!result.captured.empty()) {
      out.captured[i] =
          slice_capture(result.captured, context_.domain().geometry, rows.size(), mine);
    }
    if (!result.range_attention.empty() && segments[i].kind == SegmentKind::kChunk) {
      out.sinks[i] = strongest_chunk(segments, i, result.range_attention,
                                     rows_within(options.attention_rows, mine));
    }
  }
}

void Engine::compute(Work& work, std::span<const int32_t> rows, Prefilled& out) {
  const ModelConfig& config = context_.decoder().config();
  std::vector<int32_t> tokens;
  tokens.reserve(rows.size());
  for (const int32_t position : rows)
    tokens.push_back(out.prompt.ids[static_cast<size_t>(position)]);
  StepOptions options;
  const std::vector<float> hidden = hidden_of(work.probe, rows, config.embed_dim);
  options.hidden = hidden;
  options.layers.begin = work.probe.resume_at;
  options.logit_rows = {static_cast<int32_t>(tokens.size()) - 1};
  if (work.request.adaptive) {
    int32_t layer = config.n_layers - certainty_layers(work.request.adaptive->confidence);
    for (layer = std::max(layer, options.layers.begin); layer < config.n_layers; ++layer)
      options.logit_layers.push_back(layer);
  }
  options.capture_kv = publishes(work, out);
  if (options.capture_kv && contains(work.policy->lookups(), Match::kSoft)) {
    options.attention_layers = {sink_layer_of(config, sink_layer_)};
    const int32_t query = out.prompt.segments.back().range.begin;
    for (int32_t i = 0; i < rows_within(rows, {0, query}).end; ++i)
      options.attention_rows.push_back(i);
    for (const Segment& s : out.prompt.segments) options.attention_ranges.push_back(s.range);
  }
  std::vector<int32_t> last_keys;
  if (work.policy->mask() == AttentionMask::kBottomRight)
    last_keys = bottom_right(out.prompt.segments, static_cast<int32_t>(rows.size()));
  StepResult result =
      context_.decoder().prefill({&context_.kv(), tokens, rows, last_keys}, options, work.stop);
  keep(work, rows, options, result, out);
  out.logits = std::move(result.logits);
}

// Puts the first `n_passages` into the prompt, behind which the question comes.
void Engine::run_round(Work& work, size_t n_passages, Prefilled& out) {
  const Stopwatch begun;
  out.prompt = with_passages(work.target.prompt, n_passages);
  const size_t n_segments = out.prompt.segments.size();
  for (size_t i = 0; i + 1 < n_segments; ++i)  // or what was found would belong to others
    CHECK(out.prompt.segments[i].range.begin == work.target.prompt.segments[i].range.begin);
  out.found.assign(work.found.begin(), work.found.begin() + static_cast<ptrdiff_t>(n_segments) - 1);
  out.found.emplace_back();  // the question
  out.captured.resize(work.n_standing);
  out.captured.resize(n_segments);
  out.sinks.resize(work.n_standing, -1);
  out.sinks.resize(n_segments, -1);
  context_.place(out.prompt, out.found, work.n_standing);
  work.lap(out.timings.load_ms);

  Prompt open = out.prompt;
  for (size_t i = 0; i < work.n_standing; ++i) open.segments[i].match = Match::kExact;
  rate_from_store(work, open.segments);
  work.lap(out.timings.score_ms);
  const std::vector<int32_t> rows = plan(work, open, out);
  work.lap(out.timings.select_ms);
  compute(work, rows, out);
  out.kv_epoch = context_.kv().epoch();
  work.n_standing = n_segments - 1;
  if (work.request.adaptive && out.adaptive) {
    const auto n_vocab = context_.decoder().config().n_vocab;
    Round round;
    round.n_passages = static_cast<int32_t>(n_passages);
    round.rows = static_cast<int32_t>(rows.size());
    round.probe_rows = work.probe.rows;
    add_round(*work.request.adaptive, out.logits, n_vocab, round, *out.adaptive);
    out.logits.erase(out.logits.begin(), out.logits.end() - n_vocab);
    out.adaptive->rounds.back().ms = begun.ms();
  }
  work.lap(out.timings.prefill_ms);
}

Prefilled Engine::prefill(const Request& request, const std::stop_token& stop) {
  Work work = {request, stop};
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
  work.watch.restart();
  context_.start_lookup({work.policy->lookups(), request.anchor, work.policy->trusts_approximate()},
                        work.lookup);
  work.target = context_.assemble(request, work.lookup ? &*work.lookup : nullptr);
  work.lap(out.timings.tokenize_ms);
  rate_beside_loading(work);
  work.lap(out.timings.score_ms);
  if (work.lookup) {
    work.found = work.lookup->finish();
    out.timings.load_hidden_ms = std::max(0.0, work.lookup->work_ms() - work.lookup->waited_ms());
  }
  work.found.resize(work.target.prompt.segments.size());
  work.lap(out.timings.load_ms);

  const size_t n_passages = request.passages.size();
  const size_t step = request.adaptive ? static_cast<size_t>(request.adaptive->step)
                                       : std::max<size_t>(1, n_passages);
  if (request.adaptive) {
    out.adaptive.emplace();
    out.adaptive->n_given = static_cast<int32_t>(n_passages);
  }
  for (size_t n = std::min(step, n_passages);; n = std::min(n + step, n_passages)) {
    run_round(work, n, out);
    if (n == n_passages || (out.adaptive && out.adaptive->is_confident)) break;
  }
  if (request.adaptive && out.adaptive) {
    finish_report(*request.adaptive, out.plan, work.evidence == Evidence::kQueryAttention,
                  *out.adaptive);
  }
  return out;
}

namespace {

// What was said and counted of the prompt while it was prefilled.
void account_for(const Prefilled& prefilled, Answer& answer) {
  answer.account = account_of(prefilled.plan);
  answer.probe_rows = prefilled.probe_rows;
  answer.scorer_rows = prefilled.scorer_rows;
  answer.timings = prefilled.timings;
  answer.adaptive = prefilled.adaptive;
  for (size_t i = 0; i < prefilled.plan.segments.size(); ++i) {
    const Segment& s = prefilled.plan.segments[i];
    const FoundSegment& found = prefilled.found[i];
    SegmentReport& report = answer.segments.emplace_back();
    report.kind = s.kind;
    report.n_tokens = s.range.size();
    report.match = s.match;
    report.tier = found.tier;
    report.recomputed = account_of({{s}, prefilled.plan.rows}).recomputed;
    if (found.chunk != nullptr)
      report.approximation_depth = found.chunk->lineage().approximation_depth;
    if (found.matched.predecessor != ChunkKey{})
      report.matched_predecessor = found.matched.predecessor.hex();
    if (found.matched.sink != ChunkKey{}) report.matched_sink = found.matched.sink.hex();
  }
}

}  // namespace

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

  account_for(prefilled, answer);
  return answer;
}

bool Engine::publish(const Request& request, const PublishRules& rules,
                     const Prefilled& prefilled) {
  const auto payload = [&](size_t i) -> std::vector<std::byte> {
    const Segment& s = prefilled.plan.segments[i];
    const KvChunk* loaded = prefilled.found[i].chunk.get();
    if (loaded == nullptr || prefilled.captured[i].empty()) return prefilled.captured[i];
    const TokenRange rows = rows_within(prefilled.plan.rows, s.range);
    std::vector<int32_t> at;
    for (int32_t row = rows.begin; row < rows.end; ++row)
      at.push_back(prefilled.plan.rows[static_cast<size_t>(row)] - s.range.begin);
    return with_rows(*loaded, at, prefilled.captured[i]);
  };
  const Anchor& behind = anchor(request.anchor);
  return Publisher(*context_.store(), context_.domain(), rules)
      .publish({prefilled.prompt, prefilled.plan, prefilled.found, prefilled.sinks, behind.kind,
                behind.ids, payload});
}

// Which variants are worth keeping shows in what requests used of them.
void Engine::count_uses(const Prefilled& prefilled) {
  for (size_t i = 0; i < prefilled.plan.segments.size(); ++i) {
    const Segment& s = prefilled.plan.segments[i];
    if (s.match != Match::kSoft) continue;
    const std::span<const int32_t> ids =
        std::span(prefilled.prompt.ids)
            .subspan(static_cast<size_t>(s.range.begin), static_cast<size_t>(s.range.size()));
    context_.store()->variants()->count_use(identity_of(context_.domain(), ids),
                                            prefilled.found[i].key);
  }
}

bool Engine::build_missed(const Request& request, const Prefilled& prefilled,
                          const std::stop_token& stop) {
  bool all_stored = true;
  const std::unique_ptr<ReusePolicy> policy = make_policy(request.policy, request.policy_options);
  size_t passage = 0;
  ChunkBuilder made = builder();
  const Anchor& behind = anchor(request.anchor);
  for (const Segment& s : prefilled.plan.segments) {
    if (s.kind == SegmentKind::kPreamble && s.match == Match::kMiss && !request.system)
      made.build_preamble(context_.prompts().preamble_ids(), stop);
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
  const std::unique_ptr<ReusePolicy> policy = make_policy(request.policy, request.policy_options);
  if (context_.store() == nullptr || policy->lookups().empty()) return true;
  try {
    const std::optional<PublishRules> rules = publish_rules(*policy);
    count_uses(prefilled);
    const bool is_published = !rules || publish(request, *rules, prefilled);
    if (!contains(policy->lookups(), Match::kIndependent)) return is_published;
    return build_missed(request, prefilled, stop) && is_published;
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
