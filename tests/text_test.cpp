#include <ggml.h>
#include <gguf.h>
#include <gtest/gtest.h>
#include <llama.h>

#include <algorithm>
#include <fstream>
#include <random>
#include <set>

#include "base/error.h"
#include "base/text_util.h"
#include "base/utf8.h"
#include "support/tiny_gguf.h"
#include "support/vocabs.h"
#include "text/tokenizer.h"

namespace tessera {
namespace {

constexpr auto kAsText = ControlTokens::kAsText;
constexpr auto kParse = ControlTokens::kParse;

const std::vector<std::string> kTexts = {
    "The river and the city.",
    " leading space",
    "  two leading spaces",
    "\nleading newline",
    "trailing space ",
    "a  b   c    d",
    "one\r\ntwo\r\n\r\nthree\rfour",
    "tab\tand\t\ttabs",
    " ",
    "\n",
    "\n\n\n\n\n\n",
    "emoji 😀😃🎉 and a family 👩‍👩‍👧‍👦, a flag 🇪🇺, a thumb 👍🏽",
    "日本語の文章と中文 한국어",
    "combining e\xcc\x81 a\xcc\x8a\xcc\x81 \xe0\xa4\xa8\xe0\xa4\xbf",
    "Ünïcödé naïve façade",
    "\xef\xbb\xbf byte order mark",
    "the sentencepiece space \xe2\x96\x81 and \xe2\x96\x81\xe2\x96\x81the",
    "byte tokens by name: <0x41> <0x0A><0xE6>",
    "x = {'a': [1, 2.5]}; // 100% & <b>bold</b>",
    std::string("nul\0byte", 8),
    "zero\xe2\x80\x8bwidth and \xc2\xa0 no-break",
};

std::string slice(const std::string& text, TokenRange range) {
  return text.substr(static_cast<size_t>(range.begin), static_cast<size_t>(range.size()));
}

// The whole contract of plain text: it comes back, no token of it is a control token, and the byte
// ranges lie end to end, each holding its token's bytes.
void expect_plain(const Tokenizer& tokenizer, const std::string& text) {
  const TokenizedText out = tokenizer.encode_with_offsets(text, kAsText);
  ASSERT_EQ(tokenizer.decode(out.ids), text);
  ASSERT_EQ(out.ids.size(), out.bytes.size());
  int32_t at = 0;
  for (size_t i = 0; i < out.ids.size(); ++i) {
    ASSERT_FALSE(tokenizer.is_control(out.ids[i]))
        << tokenizer.piece(out.ids[i], true) << " in " << text;
    ASSERT_EQ(out.bytes[i].begin, at);
    ASSERT_EQ(slice(text, out.bytes[i]), tokenizer.piece(out.ids[i]));
    at = out.bytes[i].end;
  }
  ASSERT_EQ(at, static_cast<int32_t>(text.size()));
}

std::vector<int32_t> control_ids(const Tokenizer& tokenizer) {
  std::vector<int32_t> ids;
  for (int32_t id = 0; id < tokenizer.n_vocab(); ++id) {
    if (tokenizer.is_control(id) && !tokenizer.piece(id, true).empty()) ids.push_back(id);
  }
  return ids;
}

class EveryVocab : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    tokenizer_ = tokenizer_named(GetParam());
    if (tokenizer_ == nullptr)
      GTEST_SKIP() << "set TESSERA_TEST_MODELS to the folder of the real models";
  }
  const Tokenizer* tokenizer_ = nullptr;
};

TEST_P(EveryVocab, PlainTextComesBackByteForByte) {
  for (const std::string& text : kTexts) expect_plain(*tokenizer_, text);
  EXPECT_TRUE(tokenizer_->encode("", kAsText).empty());
  EXPECT_TRUE(tokenizer_->encode("", kParse).empty());
}

TEST_P(EveryVocab, TextOfControlTokensBecomesThemOnlyWhereAsked) {
  const std::vector<int32_t> ids = control_ids(*tokenizer_);
  ASSERT_GE(ids.size(), 3U);
  for (const int32_t id : ids) {
    const std::string name = tokenizer_->piece(id, true);
    for (const std::string& text :
         {name, "the" + name + "city", " " + name + name, name.substr(0, 1) + name}) {
      expect_plain(*tokenizer_, text);
    }

    EXPECT_EQ(tokenizer_->encode(name, kParse), std::vector<int32_t>{id}) << name;
    const TokenizedText amid = tokenizer_->encode_with_offsets("a" + name + "b", kParse);
    const auto at = std::find(amid.ids.begin(), amid.ids.end(), id);
    ASSERT_NE(at, amid.ids.end()) << name;
    EXPECT_EQ(slice("a" + name + "b", amid.bytes[static_cast<size_t>(at - amid.ids.begin())]),
              name);
    if (HasFatalFailure()) return;
  }
}

TEST_P(EveryVocab, NoSpaceIsAddedBeforeAText) {
  EXPECT_EQ(tokenizer_->decode(tokenizer_->encode("the", kAsText)), "the");
  EXPECT_NE(tokenizer_->encode("the", kAsText), tokenizer_->encode(" the", kAsText));
  const auto parsed = tokenizer_->encode_with_offsets(
      tokenizer_->piece(control_ids(*tokenizer_)[0], true) + "the", kParse);
  EXPECT_EQ(tokenizer_->decode(std::span(parsed.ids).subspan(1)), "the");
}

TEST_P(EveryVocab, InvalidUtf8IsRefusedWithItsOffset) {
  for (const ControlTokens control : {kAsText, kParse}) {
    try {
      tokenizer_->encode("abc\xff", control);
      FAIL();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::kInvalidRequest);
      EXPECT_NE(std::string(e.what()).find("byte 3"), std::string::npos) << e.what();
    }
  }
}

void expect_long(const Tokenizer& tokenizer, const std::string& unit, size_t size) {
  std::string text;
  while (text.size() < size) text += unit;

  const std::vector<int32_t> ids = tokenizer.encode(text, kAsText);

  EXPECT_TRUE(tokenizer.decode(ids) == text) << unit;
  EXPECT_TRUE(std::none_of(ids.begin(), ids.end(), [&](int32_t id) {
    return tokenizer.is_control(id);
  })) << unit;
}

TEST_P(EveryVocab, MebibyteOfOneCharacterComesBack) {
  for (const char* unit : {"A", " ", "\n", "日", "\xcc\x81"})
    expect_long(*tokenizer_, unit, size_t{1} << 20);
}

// What costs most: cuts everywhere.
TEST_P(EveryVocab, LongHostileTextComesBack) {
  for (const char* unit : {"a\n", "a  ", "\xe2\x96\x81", "<s>", "<0x41>", "<", "[TOOL]",
                           "[multimodal]", "<tool_call>"}) {
    expect_long(*tokenizer_, unit, size_t{64} << 10);
  }
}

// Every 97th code point, in texts of 64.
TEST_P(EveryVocab, AnyCharacterHasATokenOrAReplacement) {
  for (char32_t start = 0; start < 0x110000; start += 97 * 64) {
    std::string text;
    for (char32_t c = start; c < start + 97 * 64 && c < 0x110000; c += 97) {
      if (c >= 0xD800 && c <= 0xDFFF) continue;
      const auto tail = [c](int shift) { return static_cast<char>(0x80 | (c >> shift & 0x3F)); };
      if (c < 0x80) text += static_cast<char>(c);
      if (c >= 0x80 && c < 0x800) text += {static_cast<char>(0xC0 | c >> 6), tail(0)};
      if (c >= 0x800 && c < 0x10000) text += {static_cast<char>(0xE0 | c >> 12), tail(6), tail(0)};
      if (c >= 0x10000) text += {static_cast<char>(0xF0 | c >> 18), tail(12), tail(6), tail(0)};
    }
    const TokenizedText out = tokenizer_->encode_with_offsets(text, kAsText);
    const std::string back = tokenizer_->decode(out.ids);
    ASSERT_FALSE(invalid_utf8_offset(back).has_value());
    ASSERT_EQ(out.bytes.empty() ? 0 : out.bytes.back().end, static_cast<int32_t>(text.size()));
    if (GetParam() != "real_smollm2") {
      ASSERT_EQ(back, text);
    }
  }
}

TEST_P(EveryVocab, RandomTextsComeBack) {
  std::mt19937_64 random(20240711);
  std::vector<std::string> atoms = {"a",
                                    "the",
                                    " ",
                                    "  ",
                                    "\n",
                                    "\r\n",
                                    "\t",
                                    "日",
                                    "本",
                                    "😀",
                                    "\xe2\x80\x8d",
                                    "é",
                                    "e\xcc\x81",
                                    "<",
                                    ">",
                                    "s",
                                    "/",
                                    "|",
                                    "0x41",
                                    "im_end",
                                    "[",
                                    "]",
                                    "1",
                                    "23",
                                    "\xe2\x96\x81",
                                    "."};
  const std::vector<int32_t> controls = control_ids(*tokenizer_);
  for (size_t i = 0; i < std::min<size_t>(controls.size(), 24); ++i) {
    const std::string name = tokenizer_->piece(controls[i], true);
    atoms.push_back(name);
    atoms.push_back(name.substr(0, name.size() - 1));
  }
  for (int round = 0; round < 400; ++round) {
    std::string text;
    const size_t n = random() % 40;
    for (size_t i = 0; i < n; ++i) text += atoms[random() % atoms.size()];
    expect_plain(*tokenizer_, text);
    if (HasFatalFailure()) return;
  }
}

TEST_P(EveryVocab, StreamGivesWholeCharactersOnly) {
  const std::string text = "a 😀👩‍👩‍👧 日本語 e\xcc\x81 end";
  StreamingDetokenizer stream(*tokenizer_);
  std::string out;
  for (const int32_t id : tokenizer_->encode(text, kAsText)) {
    const std::string part = stream.push(id);
    ASSERT_FALSE(invalid_utf8_offset(part).has_value());
    out += part;
  }

  EXPECT_EQ(out, text);
  EXPECT_EQ(stream.finish(), "");
}

TEST_P(EveryVocab, StreamThatEndsInsideACharacterGivesOneReplacement) {
  std::vector<int32_t> ids =
      tokenizer_->encode("\xf3\xb5\x85\xb0", kAsText);  // of a private plane, split everywhere
  ASSERT_GT(ids.size(), 1U);
  ids.pop_back();
  StreamingDetokenizer stream(*tokenizer_);
  std::string out;
  for (const int32_t id : ids) out += stream.push(id);

  EXPECT_EQ(out, "");
  EXPECT_EQ(stream.finish(), "\xef\xbf\xbd");
  EXPECT_EQ(stream.finish(), "");
}

TEST_P(EveryVocab, ControlTokensPrintOnlyWhereAsked) {
  const int32_t end = tokenizer_->eos();
  ASSERT_GE(end, 0);
  EXPECT_TRUE(tokenizer_->is_end(end));
  EXPECT_TRUE(tokenizer_->is_control(end));
  EXPECT_EQ(tokenizer_->piece(end), "");
  EXPECT_NE(tokenizer_->piece(end, true), "");
  EXPECT_EQ(StreamingDetokenizer(*tokenizer_).push(end), "");
  EXPECT_FALSE(tokenizer_->is_end(tokenizer_->encode("a", kAsText)[0]));
  EXPECT_THROW(tokenizer_->piece(tokenizer_->n_vocab()), Error);
  EXPECT_THROW(tokenizer_->piece(-1), Error);
}

INSTANTIATE_TEST_SUITE_P(All, EveryVocab, testing::ValuesIn(vocab_names()),
                         [](const auto& test) { return test.param; });

// libllama on its own, as the oracle for texts that need no special care.
std::vector<int32_t> libllama_ids(const std::filesystem::path& path, const std::string& text,
                                  bool parse) {
  llama_model_params params = llama_model_default_params();
  params.vocab_only = true;
  llama_model* model = llama_model_load_from_file(path.c_str(), params);
  std::vector<int32_t> ids(text.size() + 8);
  const int32_t n =
      llama_tokenize(llama_model_get_vocab(model), text.data(), static_cast<int32_t>(text.size()),
                     ids.data(), static_cast<int32_t>(ids.size()), false, parse);
  ids.resize(static_cast<size_t>(std::max(n, 0)));
  llama_model_free(model);
  return ids;
}

class TinyFamily : public testing::TestWithParam<std::string> {
 protected:
  TinyModelFile file_{{.arch = GetParam(), .n_layers = 1}};
  Tokenizer tokenizer_{file_.path()};
};

TEST_P(TinyFamily, PlainTextHasLibllamasIds) {
  const std::string lead =
      GetParam() == "llama" ? " " : "";  // libllama puts one before this vocabulary's texts
  for (const std::string text :
       {"The river and the city.", "the  passage\n\nof 2 people's", "日本語 é 😀", "a\n\n\n b"}) {
    EXPECT_EQ(tokenizer_.encode(lead + text, kAsText), libllama_ids(file_.path(), text, false))
        << text;
  }
}

// What the care is for: libllama alone turns this text of a user into tokens that steer the model.
TEST_P(TinyFamily, LibllamaAloneLetsTextBecomeControlTokens) {
  const std::string text = GetParam() == "llama"    ? "a [TOOL] b <s>"
                           : GetParam() == "gemma3" ? "[multimodal] <eos>"
                                                    : "<tool_call>";
  const std::vector<int32_t> raw = libllama_ids(file_.path(), text, false);

  EXPECT_TRUE(
      std::any_of(raw.begin(), raw.end(), [&](int32_t id) { return tokenizer_.is_control(id); }));
  expect_plain(tokenizer_, text);
}

TEST_P(TinyFamily, EveryControlTokenOfTheTemplateIsParsed) {
  const bool is_bpe = GetParam().starts_with("qwen");
  const std::string text = is_bpe                  ? "<|im_start|>user\nthe<|im_end|>\n"
                           : GetParam() == "llama" ? "<s>the</s>"
                                                   : "<start_of_turn>user\nthe<end_of_turn>\n";

  const std::vector<int32_t> ids = tokenizer_.encode(text, kParse);

  EXPECT_EQ(
      std::count_if(ids.begin(), ids.end(), [&](int32_t id) { return tokenizer_.is_control(id); }),
      2);
  std::string back;
  for (const int32_t id : ids) back += tokenizer_.piece(id, true);
  EXPECT_EQ(back, text);
}

INSTANTIATE_TEST_SUITE_P(Four, TinyFamily, testing::Values("llama", "qwen2", "qwen3", "gemma3"),
                         [](const auto& test) { return test.param; });

TEST(Tokenizer, GemmasNewlineTokensArePlainText) {
  const Tokenizer& tokenizer = *tokenizer_named("gemma3");

  EXPECT_EQ(tokenizer.encode("\n\n", kAsText).size(), 1U);
  EXPECT_EQ(tokenizer.encode("a\n\nb", kAsText).size(), 3U);
}

// A pre-tokenizer that goes through std::regex, which recurses once per character of a run.
TEST(Tokenizer, LongRunsDoNotOverflowTheStackOfRegexPreTokenizers) {
  const TinyModelFile file(
      {.arch = "qwen2", .n_layers = 1, .edit_metadata = [](gguf_context* gguf) {
         gguf_set_val_str(gguf, "tokenizer.ggml.pre", "poro-chat");
       }});
  const Tokenizer tokenizer(file.path());
  for (const char* unit : {"A", " ", "\n", "日", "+"}) {
    std::string text;
    while (text.size() < 300'000) text += unit;
    EXPECT_TRUE(tokenizer.decode(tokenizer.encode(text, kAsText)) == text) << unit;
  }
}

std::vector<std::string> strings_of(const gguf_context* gguf, const char* name) {
  const int64_t key = gguf_find_key(gguf, name);
  std::vector<std::string> out;
  for (size_t i = 0; i < gguf_get_arr_n(gguf, key); ++i)
    out.emplace_back(gguf_get_arr_str(gguf, key, i));
  return out;
}

void set_string(gguf_context* gguf, const char* name, size_t i, const std::string& value) {
  std::vector<std::string> strings = strings_of(gguf, name);
  strings.at(i) = value;
  std::vector<const char*> pointers;
  for (const std::string& s : strings) pointers.push_back(s.c_str());
  gguf_set_arr_str(gguf, name, pointers.data(), pointers.size());
}

template <typename T>
void set_number(gguf_context* gguf, const char* name, gguf_type type, size_t i, T value) {
  const int64_t key = gguf_find_key(gguf, name);
  const T* data = static_cast<const T*>(gguf_get_arr_data(gguf, key));
  std::vector<T> values(data, data + gguf_get_arr_n(gguf, key));
  values.at(i) = value;
  gguf_set_arr_data(gguf, name, type, values.data(), values.size());
}

TEST(Tokenizer, CharacterThatTheVocabularyCannotWriteBecomesOneReplacement) {
  const TinyModelFile file(
      {.arch = "qwen2", .n_layers = 1, .edit_metadata = [](gguf_context* gguf) {
         set_string(gguf, "tokenizer.ggml.tokens", 4, "[no byte 4]");
       }});
  const Tokenizer tokenizer(file.path());

  const TokenizedText out = tokenizer.encode_with_offsets("a\x04z", kAsText);

  EXPECT_EQ(tokenizer.decode(out.ids), "a\xef\xbf\xbdz");
  EXPECT_EQ(out.bytes.back().begin, 2);
  EXPECT_EQ(out.bytes.back().end, 3);
}

std::string digest_with(const std::string& arch, std::function<void(gguf_context*)> edit,
                        uint64_t seed = 1) {
  const TinyModelFile file(
      {.arch = arch, .seed = seed, .n_layers = 1, .edit_metadata = std::move(edit)});
  return Tokenizer(file.path()).digest();
}

TEST(TokenizerDigest, ChangesWithAnythingThatChangesIds) {
  const std::function<void(gguf_context*)> edits[] = {
      [](gguf_context* g) { set_string(g, "tokenizer.ggml.tokens", 300, "another"); },
      [](gguf_context* g) {
        set_number<int32_t>(g, "tokenizer.ggml.token_type", GGUF_TYPE_INT32, 300, 3);
      },
      [](gguf_context* g) { gguf_set_val_bool(g, "tokenizer.ggml.add_bos_token", false); },
      [](gguf_context* g) { gguf_set_val_bool(g, "tokenizer.ggml.add_space_prefix", false); },
      [](gguf_context* g) { gguf_set_val_u32(g, "tokenizer.ggml.bos_token_id", 2); },
      [](gguf_context* g) {
        set_number<float>(g, "tokenizer.ggml.scores", GGUF_TYPE_FLOAT32, 300, 0.5F);
      },
  };
  std::set<std::string> seen = {digest_with("llama", {})};
  for (const auto& edit : edits) EXPECT_TRUE(seen.insert(digest_with("llama", edit)).second);

  seen = {digest_with("qwen2", {})};
  EXPECT_TRUE(seen.insert(digest_with("qwen2",
                                      [](gguf_context* g) {
                                        set_string(g, "tokenizer.ggml.merges", 0, "q z");
                                      }))
                  .second);
  EXPECT_TRUE(seen.insert(digest_with("qwen2",
                                      [](gguf_context* g) {
                                        gguf_set_val_str(g, "tokenizer.ggml.pre", "llama-bpe");
                                      }))
                  .second);
}

TEST(TokenizerDigest, IsTheSameForOtherWeightsAndAnotherTemplate) {
  const std::string digest = digest_with("qwen2", {});

  EXPECT_EQ(digest.size(), 64U);
  EXPECT_EQ(digest_with("qwen2", {}, 2), digest);
  EXPECT_EQ(digest_with(
                "qwen2",
                [](gguf_context* g) { gguf_set_val_str(g, "tokenizer.chat_template", "{{ x }}"); }),
            digest);
  EXPECT_EQ(digest_with("qwen3", {}), digest);
}

std::optional<ErrorCode> refusal_of(const std::filesystem::path& path) {
  try {
    const Tokenizer tokenizer(path);
  } catch (const Error& e) {
    EXPECT_FALSE(std::string(e.what()).empty());
    return e.code();
  }
  return std::nullopt;  // not refused at all
}

std::optional<ErrorCode> refusal_with(const std::string& arch,
                                      std::function<void(gguf_context*)> edit) {
  const TinyModelFile file({.arch = arch, .n_layers = 1, .edit_metadata = std::move(edit)});
  return refusal_of(file.path());
}

TEST(Tokenizer, FilesWithoutAUsableVocabularyAreRefused) {
  EXPECT_EQ(refusal_of("/nonexistent/model.gguf"), ErrorCode::kNotFound);
  EXPECT_EQ(
      refusal_with("llama", [](gguf_context* g) { gguf_remove_key(g, "tokenizer.ggml.tokens"); }),
      ErrorCode::kModel);
  EXPECT_EQ(
      refusal_with("llama",
                   [](gguf_context* g) { set_string(g, "tokenizer.ggml.tokens", 300, "<s>"); }),
      ErrorCode::kModel);
  EXPECT_EQ(refusal_with(
                "llama",
                [](gguf_context* g) { set_string(g, "tokenizer.ggml.tokens", 3 + 1, "no byte"); }),
            ErrorCode::kModel);
  // Prints the byte, but is not the name that libllama looks up.
  EXPECT_EQ(refusal_with("llama",
                         [](gguf_context* g) {
                           set_string(g, "tokenizer.ggml.tokens", 3 + 0xE6, "<1xE6>");
                         }),
            ErrorCode::kModel);
  EXPECT_EQ(
      refusal_with("llama",
                   [](gguf_context* g) { gguf_set_val_str(g, "tokenizer.ggml.model", "t5"); }),
      ErrorCode::kModel);
  for (const char* kind : {"none", "no_vocab", ""}) {
    EXPECT_EQ(refusal_with("llama",
                           [&](gguf_context* g) {
                             gguf_set_val_str(g, "tokenizer.ggml.model", kind);
                             gguf_set_val_u32(g, "llama.vocab_size", 512);
                           }),
              ErrorCode::kModel)
        << kind;
  }
  EXPECT_EQ(refusal_with("llama",
                         [](gguf_context* g) {
                           set_string(g, "tokenizer.ggml.tokens", 300, "");
                           set_string(g, "tokenizer.ggml.tokens", 301, "[EMPTY_300]");
                         }),
            ErrorCode::kModel);
  EXPECT_EQ(
      refusal_with("qwen2",
                   [](gguf_context* g) { gguf_set_val_str(g, "tokenizer.ggml.pre", "nobody's"); }),
      ErrorCode::kModel);
  EXPECT_EQ(refusal_with("qwen2", {}), std::nullopt);

  const TinyModelFile cut({.n_layers = 1});
  std::filesystem::resize_file(cut.path(), 5000);
  EXPECT_EQ(refusal_of(cut.path()), ErrorCode::kModel);
}

}  // namespace
}  // namespace tessera
