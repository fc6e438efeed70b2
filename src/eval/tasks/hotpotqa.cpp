// HotpotQA (Yang et al. 2018), distractor form: ten short passages, two of which have to be read
// together. A reuse policy must bring across chunks what each was computed without.
#include "eval/registry.h"

namespace tessera {

Task make_hotpotqa() {
  return {"hotpotqa", "two of ten short passages answer together", "qa", "hotpotqa.SPLIT.jsonl",
          read_qa_file};
}

}  // namespace tessera
