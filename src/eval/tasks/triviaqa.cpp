// TriviaQA (Joshi et al. 2017) over three passages that a search engine found, of about 100 words.
// Many names of one answer.
#include "eval/registry.h"

namespace tessera {

Task make_triviaqa() {
  return {"triviaqa", "trivia over three retrieved passages", "qa", "triviaqa.SPLIT.jsonl",
          read_qa_file};
}

}  // namespace tessera
