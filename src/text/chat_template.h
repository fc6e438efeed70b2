#pragma once
// A chat template rendered to parts that say where each came from. Pure; thread-safe.
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

struct ChatMessage {
  std::string role;
  std::string content;
};

// A run of output that is the template's own text, or text of a message. Roles count as template
// text.
struct TemplatePart {
  std::string text;
  bool is_input = false;
};

// What a template may name besides the messages.
struct TemplateTokens {
  std::string bos;
  std::string eos;
};

struct RenderedTemplate {
  std::vector<TemplatePart> parts;
  std::string fault;  // why the template cannot be used; empty when it can
};

// Renders with add_generation_prompt on. A template is at fault when it cannot be parsed, raises,
// or exceeds the limits: 256 KiB of source, 100 nested blocks, 2000 tokens in one tag, 10,000
// numbers of range(), 1 MiB of output. Nothing bounds one that recurses through macros or doubles a
// text in a loop: templates come from the model file or the operator only.
RenderedTemplate render_chat_template(std::string_view source,
                                      std::span<const ChatMessage> messages,
                                      const TemplateTokens& tokens);

}  // namespace tessera
