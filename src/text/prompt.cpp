#include "text/prompt.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/text_util.h"
#include "base/utf8.h"
#include "text/chat_template.h"
#include "text/leadin.h"

namespace tessera {
namespace {

constexpr std::string_view kQuestion = "{question}";

// Template text around the user's message, in order.
struct Frame {
  std::vector<TemplatePart> head;
  std::vector<TemplatePart> tail;
};

// Plain letters, so that no filter of a template has anything to escape or trim, in a run that no
// text holds.
std::string marker_outside(std::string_view source, std::string_view system) {
  std::string marker = "TesseraUserMessageStandsHere";
  while (source.find(marker) != std::string_view::npos ||
         system.find(marker) != std::string_view::npos)
    marker += 'Q';
  return marker;
}

size_t occurrences(const std::vector<TemplatePart>& parts, std::string_view text) {
  size_t n = 0;
  for (const TemplatePart& part : parts) {
    for (size_t at = part.text.find(text); at != std::string::npos;
         at = part.text.find(text, at + text.size()))
      ++n;
  }
  return n;
}

Frame split_at(const std::vector<TemplatePart>& parts, std::string_view marker) {
  Frame frame;
  bool is_behind = false;
  for (const TemplatePart& part : parts) {
    const size_t at = is_behind ? std::string::npos : part.text.find(marker);
    if (at == std::string::npos) {
      (is_behind ? frame.tail : frame.head).push_back(part);
      continue;
    }
    if (at > 0) frame.head.push_back({part.text.substr(0, at), part.is_input});
    const std::string rest = part.text.substr(at + marker.size());
    if (!rest.empty()) frame.tail.push_back({rest, part.is_input});
    is_behind = true;
  }
  return frame;
}

// The message's text without the white space that templates trim.
std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
}

// A template may raise on a system message, or leave it out: it then opens the user's message
// instead.
Frame render_frame(std::string_view source, const std::string& system,
                   const TemplateTokens& tokens) {
  const std::string marker = marker_outside(source, system);
  if (!is_blank(system)) {
    const std::vector<ChatMessage> messages{{"system", system}, {"user", marker}};
    const RenderedTemplate rendered = render_chat_template(source, messages, tokens);
    const bool has_both = occurrences(rendered.parts, marker) == 1 &&
                          occurrences(rendered.parts, trimmed(system)) > 0;
    if (rendered.fault.empty() && has_both) return split_at(rendered.parts, marker);
  }
  const std::string content = is_blank(system) ? marker : system + "\n\n" + marker;
  RenderedTemplate rendered =
      render_chat_template(source, std::vector<ChatMessage>{{"user", content}}, tokens);
  const size_t n = occurrences(rendered.parts, marker);
  if (rendered.fault.empty() && n != 1)
    rendered.fault = fmt::format("it writes the user's message {} times, not once", n);
  if (!rendered.fault.empty()) {
    throw Error(
        ErrorCode::kModel,
        fmt::format("cannot use the chat template: {} - give another template", rendered.fault));
  }
  return split_at(rendered.parts, marker);
}

void append(std::vector<int32_t>& ids, const std::vector<int32_t>& more) {
  ids.insert(ids.end(), more.begin(), more.end());
}

std::vector<int32_t> encode_parts(const Tokenizer& tokenizer,
                                  const std::vector<TemplatePart>& parts) {
  std::vector<int32_t> ids;
  for (const TemplatePart& part : parts) {
    append(ids, tokenizer.encode(part.text,
                                 part.is_input ? ControlTokens::kAsText : ControlTokens::kParse));
  }
  return ids;
}

std::string replace_all(std::string_view pattern, std::string_view name, std::string_view value) {
  std::string out;
  for (size_t at = pattern.find(name); at != std::string_view::npos; at = pattern.find(name)) {
    out += pattern.substr(0, at);
    out += value;
    pattern.remove_prefix(at + name.size());
  }
  return out += pattern;
}

// BOS in front exactly once where the model wants one, whether or not the template has written it.
void normalize_bos(const Tokenizer& tokenizer, std::vector<int32_t>& ids) {
  if (!tokenizer.adds_bos()) return;
  const auto first =
      std::find_if(ids.begin(), ids.end(), [&](int32_t id) { return id != tokenizer.bos(); });
  ids.erase(ids.begin(), first);
  ids.insert(ids.begin(), tokenizer.bos());
}

}  // namespace

std::string chunk_text(std::string_view title, std::string_view text) {
  return title.empty() ? fmt::format("{}\n", text) : fmt::format("{}: {}\n", title, text);
}

PromptBuilder::PromptBuilder(const Tokenizer& tokenizer, const PromptTexts& texts,
                             std::string_view template_source)
    : tokenizer_(tokenizer), texts_(texts) {
  if (texts.query.find(kQuestion) == std::string::npos) {
    throw Error(ErrorCode::kInvalidRequest,
                "the query text has no {question} - write it where the question belongs");
  }
  const std::string of_file = template_source.empty() ? tokenizer.chat_template() : std::string();
  const std::string_view source =
      template_source.empty() ? std::string_view(of_file) : template_source;
  template_name_ = !template_source.empty() ? "given" : !of_file.empty() ? "file" : "plain";

  Frame frame;
  if (source.empty()) {
    if (!texts.system.empty()) frame.head.push_back({texts.system + "\n\n", true});
    frame.tail.push_back({"\n", false});
  } else {
    const std::string bos = tokenizer.bos() >= 0 ? tokenizer.piece(tokenizer.bos(), true) : "";
    const std::string eos = tokenizer.eos() >= 0 ? tokenizer.piece(tokenizer.eos(), true) : "";
    frame = render_frame(source, texts.system, {bos, eos});
  }
  preamble_ = encode_parts(tokenizer, frame.head);
  normalize_bos(tokenizer, preamble_);
  append(preamble_, text_ids(texts.before_chunks));
  tail_ = encode_parts(tokenizer, frame.tail);
  append(tail_, text_ids(texts.answer_cue));
}

std::vector<int32_t> PromptBuilder::chunk_ids(std::string_view title, std::string_view text) const {
  return chunk_tokens(title, text).ids;
}

TokenizedText PromptBuilder::chunk_tokens(std::string_view title, std::string_view text) const {
  return tokenizer_.encode_with_offsets(chunk_text(title, text), ControlTokens::kAsText);
}

std::vector<int32_t> PromptBuilder::text_ids(std::string_view text) const {
  return tokenizer_.encode(text, ControlTokens::kAsText);
}

std::vector<int32_t> PromptBuilder::query_ids(std::string_view question) const {
  if (!invalid_utf8_offset(question) && is_blank(question)) {
    throw Error(ErrorCode::kInvalidRequest, "the question is empty - write one");
  }
  std::vector<int32_t> ids = text_ids(replace_all(texts_.query, kQuestion, question));
  append(ids, tail_);
  return ids;
}

void PromptAssembler::add(SegmentKind kind, const std::vector<int32_t>& ids) {
  const auto begin = static_cast<int32_t>(prompt_.ids.size());
  prompt_.ids.insert(prompt_.ids.end(), ids.begin(), ids.end());
  prompt_.segments.push_back(
      {.kind = kind, .range = {begin, static_cast<int32_t>(prompt_.ids.size())}});
}

Prompt PromptAssembler::take() { return std::exchange(prompt_, {}); }

std::vector<int32_t> leadin_ids(const Tokenizer& tokenizer, int32_t n_tokens) {
  std::vector<int32_t> ids = tokenizer.encode(kLeadinText, ControlTokens::kAsText);
  ids.resize(std::min(ids.size(), static_cast<size_t>(std::max(n_tokens, 0))));
  return ids;
}

}  // namespace tessera
