#include "text/chat_template.h"

#include <fmt/format.h>
#include <jinja/lexer.h>
#include <jinja/parser.h>
#include <jinja/runtime.h>
#include <jinja/value.h>

#include <cstdint>
#include <exception>
#include <memory>
#include <stdexcept>

namespace tessera {
namespace {

constexpr size_t kMaxSourceBytes = size_t{256} << 10;
constexpr size_t kMaxOutputBytes = size_t{1} << 20;
constexpr int kMaxNesting = 100;
constexpr int kMaxElseIfs = 500;
constexpr int kMaxTagTokens = 2000;
constexpr int64_t kMaxRange = 10'000;  // numbers in all

// A template that prints the date gets this one (2024-07-26, the date that Llama 3's own template
// falls back to): with today's, every morning would bring another preamble, and all KV stored
// behind the old one would be missed.
constexpr std::time_t kTemplateTime = 1'721'995'200;

bool opens_block(std::string_view word) {
  return word == "if" || word == "for" || word == "macro" || word == "call" || word == "filter" ||
         word == "generation";
}

// The parser and the evaluator recurse with the depth of the source, so depth is bounded before
// either runs.
void check_depth(const jinja::lexer_result& lexed) {
  int nesting = 0;
  int else_ifs = 0;
  int tag_tokens = 0;
  bool is_tag_start = false;
  for (const jinja::token& token : lexed.tokens) {
    const bool is_keyword = is_tag_start && token.t == jinja::token::identifier;
    is_tag_start = token.t == jinja::token::open_statement;
    ++tag_tokens;
    if (token.t == jinja::token::text) tag_tokens = 0;
    if (is_tag_start || token.t == jinja::token::open_expression) tag_tokens = 0;
    if (is_keyword && opens_block(token.value)) ++nesting;
    if (is_keyword && token.value.starts_with("end")) --nesting;
    if (is_keyword && token.value == "elif") ++else_ifs;
    if (nesting > kMaxNesting || else_ifs > kMaxElseIfs)
      throw std::runtime_error("its blocks are nested too deeply");
    if (tag_tokens > kMaxTagTokens)
      throw std::runtime_error(fmt::format("a tag has more than {} parts", kMaxTagTokens));
  }
}

// range() of the engine, within a budget of numbers for the whole rendering.
jinja::func_handler bounded_range() {
  return [left = std::make_shared<int64_t>(kMaxRange)](const jinja::func_args& args) {
    for (const jinja::value& arg : args.get_args()) {  // refused before it fills the memory
      if (!jinja::is_val<jinja::value_int>(arg)) continue;
      if (arg->as_int() > kMaxRange || arg->as_int() < -kMaxRange)
        throw std::runtime_error(fmt::format("range() over more than {} numbers", kMaxRange));
    }
    jinja::value numbers = jinja::global_builtins().at("range")(args);
    *left -= static_cast<int64_t>(numbers->as_array().size());
    if (*left < 0)
      throw std::runtime_error(fmt::format("range() over more than {} numbers", kMaxRange));
    return numbers;
  };
}

jinja::value text_value(const std::string& text, bool is_input) {
  auto value = jinja::mk_val<jinja::value_string>(text);
  if (is_input) value->mark_input();
  return value;
}

void set_variables(jinja::context& context, std::span<const ChatMessage> messages,
                   const TemplateTokens& tokens) {
  auto list = jinja::mk_val<jinja::value_array>();
  for (const ChatMessage& message : messages) {
    auto entry = jinja::mk_val<jinja::value_object>();
    entry->insert("role", text_value(message.role, false));
    entry->insert("content", text_value(message.content, true));
    list->push_back(entry);
  }
  context.set_val("messages", list);
  context.set_val("bos_token", text_value(tokens.bos, false));
  context.set_val("eos_token", text_value(tokens.eos, false));
  context.set_val("add_generation_prompt", jinja::mk_val<jinja::value_bool>(true));
  context.set_val("range", jinja::mk_val<jinja::value_func>("range", bounded_range()));
  context.current_time = kTemplateTime;
}

std::vector<TemplatePart> render(std::string_view source, std::span<const ChatMessage> messages,
                                 const TemplateTokens& tokens) {
  jinja::lexer lexer;
  const jinja::lexer_result lexed = lexer.tokenize(std::string(source));
  check_depth(lexed);
  const jinja::program program = jinja::parse_from_tokens(lexed);
  jinja::context context(lexed.source);
  set_variables(context, messages, tokens);
  jinja::runtime runtime(context);
  const auto rendered = jinja::runtime::gather_string_parts(runtime.execute(program));

  std::vector<TemplatePart> parts;
  size_t total = 0;
  for (const jinja::string_part& part : rendered->val_str.parts) {
    total += part.val.size();
    if (!part.val.empty()) parts.push_back({part.val, part.is_input});
  }
  if (total > kMaxOutputBytes)
    throw std::runtime_error(fmt::format("its output has {} bytes", total));
  return parts;
}

}  // namespace

RenderedTemplate render_chat_template(std::string_view source,
                                      std::span<const ChatMessage> messages,
                                      const TemplateTokens& tokens) {
  if (source.size() > kMaxSourceBytes) {
    return {
        {},
        fmt::format("its source has {} bytes, the limit is {}", source.size(), kMaxSourceBytes)};
  }
  try {
    return {render(source, messages, tokens), {}};
  } catch (const std::exception& e) {  // whatever the engine throws for a fault in the template
    return {{}, e.what()};
  }
}

}  // namespace tessera
