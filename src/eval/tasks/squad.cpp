// SQuAD 2.0 (Rajpurkar et al. 2018), the questions that have an answer: one paragraph that holds it
// among paragraphs of other articles. Long passages, one of which matters.
#include "eval/registry.h"

namespace tessera {

Task make_squad() {
  return {"squad", "one paragraph holds the answer, among others of other articles", "qa",
          "squad.SPLIT.jsonl", read_qa_file};
}

}  // namespace tessera
