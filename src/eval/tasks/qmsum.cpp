// QMSum (Zhong et al. 2021): what a meeting said on a question, over the turns that the answer is
// drawn from. Stands in for the summarising sets that cannot be had freely.
#include "eval/registry.h"

namespace tessera {

Task make_qmsum() {
  return {"qmsum", "summarises what a meeting said on a question", "summ", "qmsum.SPLIT.jsonl",
          read_summary_file};
}

}  // namespace tessera
