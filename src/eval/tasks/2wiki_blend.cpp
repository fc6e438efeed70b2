// 2WikiMultihopQA questions of CacheBlend (Yao et al. 2024) with its chunks, as musique_blend.
#include "eval/registry.h"

namespace tessera {

Task make_2wiki_blend() {
  return {"2wiki_blend", "2WikiMultihopQA over CacheBlend's ten long chunks", "qa",
          "2wiki_blend.SPLIT.jsonl", read_qa_file};
}

}  // namespace tessera
