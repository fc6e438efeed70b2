// MMLU-Pro (Wang et al. 2024): as MMLU, harder, with up to ten options.
#include "eval/registry.h"

namespace tessera {

Task make_mmlu_pro() {
  return {"mmlu_pro",
          "multiple choice, up to ten options; needs --retrieve",
          "mcq",
          "mmlu_pro.SPLIT.jsonl",
          read_choice_file,
          Passages::kRetrieved};
}

}  // namespace tessera
