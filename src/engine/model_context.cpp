#include "engine/model_context.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/error.h"
#include "base/text_util.h"
#include "base/utf8.h"

namespace tessera {
namespace {

int32_t context_of(const EngineOptions& options, const ModelConfig& config) {
  if (options.n_ctx < 0)
    throw Error(ErrorCode::kInvalidRequest,
                fmt::format("context is {} - it must be positive", options.n_ctx));
  if (options.n_ctx == 0) return std::min(config.n_ctx_train, ModelContext::kDefaultContext);
  if (options.n_ctx > config.n_ctx_train) {
    throw Error(ErrorCode::kInvalidRequest,
                fmt::format("context is {}, the model was trained for {} - use at most that",
                            options.n_ctx, config.n_ctx_train));
  }
  return options.n_ctx;
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

bool contains(const std::vector<Match>& list, Match match) {
  return std::find(list.begin(), list.end(), match) != list.end();
}

}  // namespace

ModelContext::ModelContext(const std::shared_ptr<const Model>& model, const Tokenizer& tokenizer,
                           ChunkStore* store, const EngineOptions& options)
    : tokenizer_(tokenizer),
      store_(store),
      texts_(options.texts),
      prompts_(tokenizer, options.texts),
      anchors_(make_anchors(prompts_, tokenizer, options.leadin_tokens)),
      decoder_(model, options.n_threads, options.micro_batch),
      kv_(model->config(), context_of(options, model->config())),
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

ChunkBuilder ModelContext::builder() {
  CHECK(store_ != nullptr);
  return {decoder_, kv_, *store_, domain_};
}

ModelContext::Assembled ModelContext::assemble(const Request& request, ChunkLookup* lookup) const {
  check_texts(request);
  std::optional<PromptBuilder> own;
  if (request.system) {
    PromptTexts texts = texts_;
    texts.system = *request.system;
    own.emplace(tokenizer_, texts);
  }
  const PromptBuilder& prompts = own ? *own : prompts_;
  Assembled out;
  PromptAssembler assembler;
  size_t n_tokens = 0;
  const auto add = [&](SegmentKind kind, const std::vector<int32_t>& ids) {
    assembler.add(kind, ids);
    n_tokens += ids.size();
    // A prompt that is too long will be refused: nothing more is loaded for it.
    if (lookup != nullptr && n_tokens <= static_cast<size_t>(n_ctx())) lookup->push(kind, ids);
  };
  add(SegmentKind::kPreamble, prompts.preamble_ids());
  for (const PassageText& passage : request.passages) {
    TokenizedText chunk = prompts.chunk_tokens(passage.title, passage.text);
    add(SegmentKind::kChunk, chunk.ids);
    out.chunk_bytes.push_back(std::move(chunk.bytes));
  }
  add(SegmentKind::kQuery, prompts.query_ids(request.question));
  if (n_tokens > static_cast<size_t>(n_ctx())) {
    throw Error(ErrorCode::kInvalidRequest,
                fmt::format("the prompt has {} tokens, the context holds {} - ask for fewer "
                            "passages or raise the context",
                            n_tokens, n_ctx()));
  }
  out.prompt = assembler.take();
  return out;
}

void ModelContext::start_lookup(const Wanted& wanted, std::optional<ChunkLookup>& lookup) const {
  if (store_ == nullptr || wanted.matches.empty()) return;
  LookupRules rules;
  rules.exact = contains(wanted.matches, Match::kExact);
  rules.soft = contains(wanted.matches, Match::kSoft);
  rules.independent = contains(wanted.matches, Match::kIndependent);
  rules.trusts_approximate = wanted.trusts_approximate;
  rules.anchor = wanted.anchor;
  rules.anchor_ids = anchor(wanted.anchor).ids;
  lookup.emplace(*store_, domain_, std::move(rules));
}

void ModelContext::place(Prompt& prompt, std::span<const FoundSegment> found, size_t first) {
  CHECK(found.size() == prompt.segments.size());
  if (first == 0) {
    kv_.clear();
  } else {
    kv_.truncate(prompt.segments[first].range.begin);
  }
  std::vector<Decoder::Placement> placements;
  for (size_t i = 0; i < found.size(); ++i) {
    prompt.segments[i].match = found[i].match;
    if (i >= first && found[i].chunk != nullptr)
      placements.push_back({found[i].chunk.get(), prompt.segments[i].range.begin});
  }
  decoder_.load(kv_, placements);
}

}  // namespace tessera
