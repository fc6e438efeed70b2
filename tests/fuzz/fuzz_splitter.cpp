// Any bytes as a document: an Error for bytes that are not text, else passages that keep to the
// limit.
#include <cstdint>

#include "base/check.h"
#include "base/error.h"
#include "retrieval/splitter.h"

using namespace tessera;  // NOLINT: one function

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const SplitOptions options = {16 + data[0] % 64,
                                [](std::string_view title, std::string_view text) {
                                  return static_cast<int32_t>((title.size() + text.size()) / 4 + 1);
                                }};
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const DocumentFormat format =
      data[0] >= 128 ? DocumentFormat::kMarkdown : DocumentFormat::kPlainText;
  try {
    size_t last_end = 0;
    for (const Passage& p : split_document(text, format, "title", options)) {
      CHECK(p.begin >= last_end && p.begin < p.end && p.end <= text.size() && !p.text.empty());
      last_end = p.end;
    }
  } catch (const Error&) {  // not text
  }
  return 0;
}
