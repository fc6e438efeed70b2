// XQuAD (Artetxe et al. 2020), its English part: SQuAD 1.1 questions over paragraphs of several
// articles. Shares articles with squad, so the two do not add up.
#include "eval/registry.h"

namespace tessera {

Task make_xquad() {
  return {"xquad", "as squad, over other articles and some of the same", "qa", "xquad.SPLIT.jsonl",
          read_qa_file};
}

}  // namespace tessera
