#pragma once
// Prompts as segments: [preamble][chunk 1]...[chunk k][query] (DESIGN.md section 5).
//
// The chat template is rendered once around a marker; what stands before the marker opens the
// preamble, what stands after it closes the query. Only that template text may become control
// tokens.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kv/segment.h"
#include "text/tokenizer.h"

namespace tessera {

struct PromptTexts {
  // System message, or none for templates that have no place for one: it then opens the user
  // message.
  std::string system = "You answer questions from the given passages with a short phrase.";
  std::string before_chunks = "Passages:\n";
  // "{question}" is replaced. What holds for every question stands in `system`, where it is loaded:
  // the query is computed for each question, under adaptive context in each round. The trailing cue
  // makes the first token part of the answer itself.
  std::string query = "\nQuestion: {question}";
  std::string answer_cue = "Answer:";
};

// One passage as a chunk: "title: text\n", or "text\n" without a title.
std::string chunk_text(std::string_view title, std::string_view text);

// Builds prompts of one model. Thread-safe: const after construction.
class PromptBuilder {
 public:
  // `template_source`: Jinja; empty: the file's own, and where there is none the named plain one.
  // Throws Error(kModel) when the template cannot be parsed or drops the user's message.
  PromptBuilder(const Tokenizer& tokenizer, const PromptTexts& texts,
                std::string_view template_source = {});

  // BOS (where the model wants one), the template up to the user's text, and `before_chunks`.
  const std::vector<int32_t>& preamble_ids() const { return preamble_; }
  std::vector<int32_t> chunk_ids(std::string_view title, std::string_view text) const;
  // The same with the bytes of chunk_text() that each token stands for.
  TokenizedText chunk_tokens(std::string_view title, std::string_view text) const;
  std::vector<int32_t> text_ids(std::string_view text) const;
  // Throws Error(kInvalidRequest) when the question is empty or white space only.
  std::vector<int32_t> query_ids(std::string_view question) const;
  std::string_view template_name() const { return template_name_; }  // "file", "given" or "plain"

 private:
  const Tokenizer& tokenizer_;
  PromptTexts texts_;
  std::string template_name_;
  std::vector<int32_t> preamble_;
  std::vector<int32_t> tail_;  // template text behind the user's message, and the answer cue
};

// Collects segments in order. Not thread-safe; one per prompt.
class PromptAssembler {
 public:
  void add(SegmentKind kind, const std::vector<int32_t>& ids);
  Prompt take();

 private:
  Prompt prompt_;
};

// The neutral lead-in of the `leadin` anchor, cut to at most `n_tokens` tokens of this vocabulary.
std::vector<int32_t> leadin_ids(const Tokenizer& tokenizer, int32_t n_tokens);

}  // namespace tessera
