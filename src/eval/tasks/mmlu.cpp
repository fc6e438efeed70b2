// MMLU (Hendrycks et al. 2021): school and university knowledge, four options. It has no passages,
// and few are of use: what reuse does to it is mostly a negative control.
#include "eval/registry.h"

namespace tessera {

Task make_mmlu() {
  return {"mmlu",
          "multiple choice of 57 subjects; needs --retrieve",
          "mcq",
          "mmlu.SPLIT.jsonl",
          read_choice_file,
          Passages::kRetrieved};
}

}  // namespace tessera
