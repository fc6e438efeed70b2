// SuperGPQA (M-A-P team 2025): graduate questions of many fields, up to ten options. As MMLU
// without passages.
#include "eval/registry.h"

namespace tessera {

Task make_supergpqa() {
  return {"supergpqa",
          "multiple choice, graduate level; needs --retrieve",
          "mcq",
          "supergpqa.SPLIT.jsonl",
          read_choice_file,
          Passages::kRetrieved};
}

}  // namespace tessera
