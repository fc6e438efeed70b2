// The MuSiQue questions of CacheBlend (Yao et al. 2024) with its chunks: ten long ones in lower
// case, without titles, cut inside words. The regime of that paper's tables.
#include "eval/registry.h"

namespace tessera {

Task make_musique_blend() {
  return {"musique_blend", "MuSiQue over CacheBlend's ten long chunks", "qa",
          "musique_blend.SPLIT.jsonl", read_qa_file};
}

}  // namespace tessera
