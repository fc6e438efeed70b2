// Needle in a haystack over Mary Shelley's Frankenstein (public domain): a number of our own at
// five depths of parts of three lengths. Whether reuse still finds what only one sentence says.
#include "eval/registry.h"
#include "eval/sample_lines.h"
#include "eval/sample_needle.h"

namespace tessera {
namespace {

std::vector<Sample> read_needles(const std::filesystem::path& file, const ReadLimits& limits) {
  return make_needles(read_text(file), file.string(), limits);
}

}  // namespace

Task make_needle() {
  return {"needle",     "a number somewhere in parts of a novel",
          "text",       "frankenstein.txt",
          read_needles, Passages::kOfQuestion};
}

}  // namespace tessera
