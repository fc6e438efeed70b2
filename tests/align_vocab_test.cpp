// The scorer's tokens on the target's, over every pair of vocabularies, the real ones included
// where they are pulled: SmolLM2, Qwen and Gemma cut the same text in different places.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/vocabs.h"
#include "text/align.h"

namespace tessera {
namespace {

const std::vector<std::string> kTexts = {
    "Port Averill: The silver whistle was found in 1911, near the mole.\n",
    "emoji 😀😃🎉, a family 👩‍👩‍👧‍👦, a flag 🇪🇺, a thumb 👍🏽",
    "日本語の文章と中文 한국어 и по-русски",
    "combining e\xcc\x81 a\xcc\x8a\xcc\x81 \xe0\xa4\xa8\xe0\xa4\xbf z\xcc\xb5\xcc\xa1\xcd\x98",
    "<|im_start|>system <|im_end|> <bos> <start_of_turn> </s> [INST] <|endoftext|>",
    "a  b   c    d\n\n\n\te\r\nf",
    "1234567890 3.14159 0xDEADBEEF",
    " ",
    "x",
};

class VocabPairs : public testing::TestWithParam<std::string> {};

TEST_P(VocabPairs, TokensAlignByBytesInBothDirections) {
  const Tokenizer* from = tokenizer_named(GetParam());
  if (from == nullptr) GTEST_SKIP() << "set TESSERA_TEST_MODELS to the folder of the real models";
  for (const std::string& name : vocab_names()) {
    const Tokenizer* to = tokenizer_named(name);
    if (to == nullptr) continue;
    for (const std::string& text : kTexts) {
      const TokenizedText a = from->encode_with_offsets(text, ControlTokens::kAsText);
      const TokenizedText b = to->encode_with_offsets(text, ControlTokens::kAsText);
      const std::vector<TokenRange> there = overlapping_tokens(a.bytes, b.bytes);
      const std::vector<TokenRange> back = overlapping_tokens(b.bytes, a.bytes);
      std::vector<bool> is_covered(b.ids.size(), false);
      for (size_t i = 0; i < there.size(); ++i) {
        for (int32_t at = there[i].begin; at < there[i].end; ++at) {
          const auto j = static_cast<size_t>(at);
          is_covered[j] = true;
          if (b.bytes[j].size() == 0) continue;
          const auto self = static_cast<int32_t>(i);
          EXPECT_TRUE(back[j].begin <= self && self < back[j].end) << name << ": " << text;
        }
      }
      for (size_t j = 0; j < b.ids.size(); ++j)
        EXPECT_TRUE(is_covered[j] || b.bytes[j].size() == 0) << name << ": " << text << ", " << j;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, VocabPairs, testing::ValuesIn(vocab_names()),
                         [](const auto& i) { return i.param; });

}  // namespace
}  // namespace tessera
