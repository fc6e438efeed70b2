// 2WikiMultihopQA (Ho et al. 2020): ten short passages, of which two to four form a chain or are
// compared. As HotpotQA, with more that has to cross chunks.
#include "eval/registry.h"

namespace tessera {

Task make_2wikimultihopqa() {
  return {"2wikimultihopqa", "two to four of ten short passages answer together", "qa",
          "2wikimultihopqa.SPLIT.jsonl", read_qa_file};
}

}  // namespace tessera
