// PopQA (Mallen et al. 2023): one fact about things that are known well or hardly at all, so that
// models cannot answer from memory.
#include "eval/registry.h"

namespace tessera {

Task make_popqa() {
  return {"popqa", "one fact each, of things known well or hardly at all", "qa",
          "popqa.SPLIT.jsonl", read_qa_file};
}

}  // namespace tessera
