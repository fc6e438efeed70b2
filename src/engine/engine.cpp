#include "engine/engine.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/text_util.h"
#include "base/utf8.h"
#include "engine/probe.h"
#include "text/stop_filter.h"

namespace tessera {
namespace {

EngineOptions with_defaults(EngineOptions options, const ModelConfig& config) {
  if (options.n_ctx < 0)
    throw Error(ErrorCode::kInvalidRequest,
                fmt::format("context is {} - it must be positive", options.n_ctx));
  if (options.n_ctx == 0) options.n_ctx = std::min(config.n_ctx_train, Engine::kDefaultContext);
  if (options.n_ctx > config.n_ctx_train) {
    throw Error(ErrorCode::kInvalidRequest,
                fmt::format("context is {}, the model was trained for {} - use at most that",
                            options.n_ctx, config.n_ctx_train));
  }
  return options;
}

KvDomain domain_of(const Model& model, const Tokenizer& tokenizer, const EngineOptions& options) {
  KvDomain domain;
  domain.name_space = options.name_space;
  domain.model_digest = options.model_digest;
  domain.weight_types = model.weight_types();
  domain.tokenizer_digest = tokenizer.digest();
  domain.rope = model.config().rope_text();
  domain.geometry = model.config().kv_geometry();
  return domain;
}

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

// Said of what the caller gave: the tokenizer would count from the start of the text around it.
void require_utf8(const std::string& what, std::string_view text) {
  const std::optional<size_t> at = invalid_utf8_offset(text);
  if (!at) return;
  throw Error(ErrorCode::kInvalidRequest,
              fmt::format("{} is not valid UTF-8 at byte {} - convert it to UTF-8", what, *at));
}

void check_texts(const Request& request) {
  require_utf8("the system message", request.system.value_or(""));
  for (size_t i = 0; i < request.passages.size(); ++i) {
    const PassageText& passage = request.passages[i];
    require_utf8(fmt::format("the title of passage {}", i + 1), passage.title);
    require_utf8(fmt::format("passage {}", i + 1), passage.text);
    if (is_blank(passage.text)) {
      throw Error(ErrorCode::kInvalidRequest,
                  fmt::format("passage {} is empty or white space - leave it out", i + 1));
    }
  }
  require_utf8("the question", request.question);
}

std::array<Anchor, 3> make_anchors(const PromptBuilder& prompts, const Tokenizer& tokenizer,
                                   int32_t leadin_tokens) {
  Anchor preamble = {AnchorKind::kPreamble, prompts.preamble_ids()};
  Anchor leadin = {AnchorKind::kLeadin, preamble.ids};
  const std::vector<int32_t> neutral = leadin_ids(tokenizer, leadin_tokens);
  leadin.ids.insert(leadin.ids.end(), neutral.begin(), neutral.end());
  return {Anchor{AnchorKind::kBare, {}}, std::move(preamble), std::move(leadin)};
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

bool contains(const std::vector<Match>& list, Match match) {
  return std::find(list.begin(), list.end(), match) != list.end();
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

Engine::Engine(const std::shared_ptr<const Model>& model, const Tokenizer& tokenizer,
               ChunkStore* store, const EngineOptions& options)
    : tokenizer_(tokenizer),
      store_(store),
      options_(with_defaults(options, model->config())),
      prompts_(tokenizer, options.texts),
      anchors_(make_anchors(prompts_, tokenizer, options.leadin_tokens)),
      decoder_(model, options.n_threads, options.micro_batch),
      kv_(model->config(), options_.n_ctx),
      domain_(domain_of(*model, tokenizer, options)) {
  if (store != nullptr && options.model_digest.empty()) {
    throw Error(ErrorCode::kInvalidRequest,
                "a store needs the digest of the model - without it models of one shape would find "
                "each other's chunks - set model_digest");
  }
  if (tokenizer.n_vocab() != model->config().n_vocab) {
    throw Error(ErrorCode::kModel,
                fmt::format("the tokenizer has {} tokens, the model {} - use the model's own file",
                            tokenizer.n_vocab(), model->config().n_vocab));
  }
}

ChunkBuilder Engine::builder() {
  CHECK(store_ != nullptr);
  return {decoder_, kv_, *store_, domain_};
}

// Segments in order; each is handed to `lookup` as soon as its ids are known, so that loading
// overlaps tokenising.
Prompt Engine::assemble(const Request& request, ChunkLookup* lookup) const {
  check_texts(request);
  std::optional<PromptBuilder> own;
  if (request.system) {
    PromptTexts texts = options_.texts;
    texts.system = *request.system;
    own.emplace(tokenizer_, texts);
  }
  const PromptBuilder& prompts = own ? *own : prompts_;
  PromptAssembler assembler;
  size_t n_tokens = 0;
  const auto add = [&](SegmentKind kind, const std::vector<int32_t>& ids) {
    assembler.add(kind, ids);
    n_tokens += ids.size();
    // A prompt that is too long will be refused: nothing more is loaded for it.
    if (lookup != nullptr && n_tokens <= static_cast<size_t>(n_ctx())) lookup->push(kind, ids);
  };
  add(SegmentKind::kPreamble, prompts.preamble_ids());
  for (const PassageText& passage : request.passages)
    add(SegmentKind::kChunk, prompts.chunk_ids(passage.title, passage.text));
  add(SegmentKind::kQuery, prompts.query_ids(request.question));
  return assembler.take();
}

void Engine::check_length(const Prompt& prompt) const {
  if (prompt.ids.size() > static_cast<size_t>(n_ctx())) {
    throw Error(ErrorCode::kInvalidRequest,
                fmt::format("the prompt has {} tokens, the context holds {} - ask for fewer "
                            "passages or raise the context",
                            prompt.ids.size(), n_ctx()));
  }
}

// Copies what was found into the working KV and notes on each segment how it was found.
std::vector<FoundSegment> Engine::place(Prompt& prompt, std::vector<FoundSegment> found) {
  found.resize(prompt.segments.size());
  std::vector<Decoder::Placement> placements;
  placements.reserve(found.size());
  for (size_t i = 0; i < found.size(); ++i) {
    prompt.segments[i].match = found[i].match;
    if (found[i].chunk != nullptr)
      placements.push_back({found[i].chunk.get(), prompt.segments[i].range.begin});
  }
  decoder_.load(kv_, placements);
  return found;
}

Prefilled Engine::prefill(const Request& request, const std::stop_token& stop) {
  const std::unique_ptr<ReusePolicy> policy = make_policy(request.policy, request.policy_options);
  const std::vector<Match> lookups = policy->lookups();
  check_options(request);
  Prefilled out;
  Stopwatch watch;
  const auto lap = [&watch](double& ms) {
    ms += watch.ms();
    watch.restart();
  };
  std::optional<ChunkLookup> lookup;
  if (store_ != nullptr && !lookups.empty()) {
    const LookupRules rules = {contains(lookups, Match::kExact),
                               contains(lookups, Match::kIndependent), request.anchor,
                               anchor(request.anchor).ids};
    lookup.emplace(*store_, domain_, rules);
  }
  out.prompt = assemble(request, lookup ? &*lookup : nullptr);
  check_length(out.prompt);
  lap(out.timings.tokenize_ms);

  kv_.clear();
  out.kv_epoch = kv_.epoch();
  out.found = place(out.prompt, lookup ? lookup->finish() : std::vector<FoundSegment>());
  lap(out.timings.load_ms);

  ProbeResult probe = run_probe(policy->evidence(), {decoder_, kv_, out.prompt, out.found}, stop);
  if (policy->evidence() == Evidence::kKvDeviation) {  // put back what the probe wrote over
    kv_.clear();
    out.kv_epoch = kv_.epoch();
    out.found = place(out.prompt, std::move(out.found));
  }
  out.probe_rows = probe.rows;
  probe.score.resize(out.prompt.ids.size(), 0.0F);  // no probe: not read, or nothing to choose
  out.plan = make_plan(out.prompt.segments, policy->select(out.prompt.segments, probe.score));
  lap(out.timings.select_ms);

  std::vector<int32_t> tokens;
  tokens.reserve(out.plan.rows.size());
  for (const int32_t position : out.plan.rows)
    tokens.push_back(out.prompt.ids[static_cast<size_t>(position)]);
  StepOptions options;
  const std::vector<float> hidden = hidden_of(probe, out.plan.rows, decoder_.config().embed_dim);
  options.hidden = hidden;
  options.layers.begin = probe.resume_at;
  options.logit_rows = {static_cast<int32_t>(tokens.size()) - 1};
  // Only where there is something to publish: copying the rows costs time that is measured.
  options.capture_kv =
      is_exact_only(lookups) && lookup &&
      std::any_of(out.plan.segments.begin(), out.plan.segments.end(), is_missed_storable);
  StepResult result = decoder_.prefill({&kv_, tokens, out.plan.rows}, options, stop);
  out.logits = std::move(result.logits);
  out.captured = std::move(result.captured);
  lap(out.timings.prefill_ms);
  return out;
}

Answer Engine::generate(const Request& request, Prefilled& prefilled, const TextSink& sink,
                        const std::stop_token& stop) {
  CHECK(prefilled.kv_epoch == kv_.epoch());
  Answer answer;
  answer.policy = request.policy;
  answer.finish_reason = "length";
  Sampler sampler(request.sampler);
  StreamingDetokenizer detokenizer(tokenizer_);
  std::vector<std::string> stops = request.stop;
  if (prompts_.template_name() == "plain")
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
    if (tokenizer_.is_end(token)) answer.finish_reason = "stop";
    if (answer.finish_reason == "stop") break;
    answer.tokens.push_back(token);
    give(filter.push(detokenizer.push(token)));
    if (n == 0) prefilled.timings.first_token_ms = watch.ms();  // its text is part of it
    if (filter.stopped()) answer.finish_reason = "stop";
    if (filter.stopped() || n + 1 == request.max_tokens || position >= n_ctx()) break;
    StepOptions options;
    options.kernels = KernelClass::kDecode;
    options.logit_rows = {0};
    const SequenceRows row = {&kv_, {&token, 1}, {&position, 1}};
    logits = decoder_.step({&row, 1}, options).logits;
    ++position;
  }
  if (!filter.stopped()) {
    give(filter.push(detokenizer.finish()));
    give(filter.finish());
  }
  prefilled.timings.decode_ms = watch.ms() - prefilled.timings.first_token_ms;

  answer.account = account_of(prefilled.plan);
  answer.probe_rows = prefilled.probe_rows;
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
    const bool is_stored =
        store_->put(key_of(domain_, behind, own),
                    std::make_shared<const KvChunk>(
                        domain_.geometry, std::vector<int32_t>(own.begin(), own.end()), Lineage{},
                        slice_capture(prefilled.captured, domain_.geometry, rows.size(),
                                      {first, first + s.range.size()})));
    all_stored = all_stored && is_stored;
  }
  return all_stored;
}

bool Engine::build_missed(const Request& request, const Prefilled& prefilled,
                          const std::stop_token& stop) {
  bool all_stored = true;
  ChunkBuilder made = builder();
  const Anchor& behind = anchor(request.anchor);
  for (const Segment& s : prefilled.plan.segments) {
    if (s.kind != SegmentKind::kChunk || s.match != Match::kMiss) continue;
    // It did fit behind this prompt, but may not behind its anchor.
    const size_t n_rows = behind.ids.size() + static_cast<size_t>(s.range.size());
    if (n_rows > static_cast<size_t>(kv_.n_slots())) continue;
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
  if (store_ == nullptr || lookups.empty()) return true;
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
  CHECK(prefilled.kv_epoch == kv_.epoch());
  kv_.truncate(n_prompt);
  if (tokens.size() < 2) return out;
  const std::span<const int32_t> fed =
      tokens.first(std::min(tokens.size() - 1, static_cast<size_t>(kv_.n_slots() - n_prompt)));
  std::vector<int32_t> positions(fed.size());
  std::iota(positions.begin(), positions.end(), n_prompt);
  StepOptions options;
  options.logit_rows.resize(fed.size());
  std::iota(options.logit_rows.begin(), options.logit_rows.end(), 0);
  const std::vector<float> rest = decoder_.prefill({&kv_, fed, positions}, options).logits;
  out.insert(out.end(), rest.begin(), rest.end());
  kv_.truncate(n_prompt);
  return out;
}

}  // namespace tessera
