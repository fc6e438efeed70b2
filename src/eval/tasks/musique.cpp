// MuSiQue (Trivedi et al. 2022), the questions that have an answer: two to four of ten passages,
// made so that none of them can be left out.
#include "eval/registry.h"

namespace tessera {

Task make_musique() {
  return {"musique", "two to four of ten passages answer together, none can be left out", "qa",
          "musique.SPLIT.jsonl", read_qa_file};
}

}  // namespace tessera
