// Natural Questions (Kwiatkowski et al. 2019), open form: what people asked a search engine, over
// retrieved passages.
#include "eval/registry.h"

namespace tessera {

Task make_nq() {
  return {"nq", "what people asked a search engine, over three to six passages", "qa",
          "nq.SPLIT.jsonl", read_qa_file};
}

}  // namespace tessera
