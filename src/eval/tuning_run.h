#pragma once
// Measures what tuning needs beyond an evaluation: soft matches over a grid of alpha, and adaptive
// context round by round. Every point is kept in a JSONL file, so that a run that was stopped goes
// on where it was. docs/TUNING.md describes it.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "engine/engine.h"
#include "eval/runner.h"
#include "eval/tuning.h"

namespace tessera {

// Points by what they were measured on. Not thread-safe; one program at a time.
class PointLog {
 public:
  // Reads the points of `file`, or starts it; a last line that was cut off is dropped. Throws
  // Error(kInvalidRequest) naming the line that is no point, and leaves the file as it was;
  // Error(kIo) when it cannot be opened.
  explicit PointLog(std::filesystem::path file);

  // Null: there is none.
  const nlohmann::json* find(const nlohmann::json& key) const;

  // Appends a line; of one key the last counts. Throws Error(kIo) when the system refuses; the
  // points that were there stay.
  void add(const nlohmann::json& key, nlohmann::json value);

 private:
  void read(std::string_view text);

  std::filesystem::path path_;
  FileDescriptor file_;
  std::map<std::string, nlohmann::json> points_;  // by the text of their key
};

// What all points of a run share.
struct TuningInputs {
  std::vector<EvalSet> sets;
  std::string policy;
  PolicyOptions policy_options;
  AnchorKind anchor = AnchorKind::kLeadin;
  int32_t max_tokens = 32;
  std::string config;  // digest of all else that the numbers depend on; part of every key
};

struct QuestionAt {
  size_t set = 0, sample = 0;
};

// The passages of a question as they stand in a prompt that leaves variants of them behind:
// [x1, c1, c2, x2, c3, c4, ...], c its own and x those of the questions behind it, the first again
// behind the last. Every second chunk meets its predecessor again when the question is asked, and
// nothing else that stood before it but its own passages. Where others run out there are no more x.
std::vector<PassageText> familiar_company(const std::vector<EvalSet>& sets, QuestionAt at);

struct TuningHooks {
  // After each question: how many are done, and its name.
  std::function<void(size_t n_done, std::string_view id)> progress;
  std::stop_token stop;
};

// One alpha on one question whose chunks had met most of their company before.
struct SoftPoint {
  size_t question = 0;  // counted from 0 over all sets
  double alpha = 0;
  double kl = 0;       // mean KL(full || policy) along full's answer, nats
  double f1_loss = 0;  // full's F1 less the policy's
  double rows_share = 0;
  int32_t n_soft = 0;    // chunks that were soft matches
  int32_t n_chunks = 0;  // of the question
};

// Questions in the order of the sets. Those of one passage are left out: it has no company, and
// there is nothing to add.
class TuningRun {
 public:
  // All must outlive the object. `store` is the engine's and is EMPTIED again and again, its
  // variants too: give one that is kept in memory and holds nothing else.
  TuningRun(Engine& engine, ChunkStore& store, const TuningInputs& inputs, PointLog& log,
            const TuningHooks& hooks);

  // Throws Error(kInvalidRequest) naming the question whose passages do not fit the context in
  // familiar company.
  void check_lengths() const;

  // Each question is answered in familiar company first, which leaves in-context variants behind,
  // then measured as it is at each alpha, where nothing is left behind. Throws what the engine
  // throws; Error(kIo) for a passage that the store does not keep; Error(kCancelled) when a stop is
  // asked for: finished points are in the log then.
  std::vector<SoftPoint> soft(std::span<const double> alphas);

  // Each question with its passages one by one, to the last of them. Throws as soft().
  std::vector<AdaptiveQuestion> adaptive();

 private:
  void empty_store();
  void build_passages(const Request& request, const Sample& sample);
  Request request_of(const Sample& sample) const;
  Request familiar_request(QuestionAt at) const;
  nlohmann::json key_of(const std::string& stage, const std::string& task,
                        const Sample& sample) const;
  nlohmann::json soft_key(QuestionAt at) const;
  void measure_soft(QuestionAt at, std::span<const double> alphas);
  const Sample& sample_at(QuestionAt at) const { return inputs_.sets[at.set].samples[at.sample]; }
  AdaptiveQuestion measure_adaptive(const Sample& sample);
  template <typename Work>
  void for_each_question(const Work& work);

  Engine& engine_;
  ChunkStore& store_;
  const TuningInputs& inputs_;
  PointLog& log_;
  const TuningHooks& hooks_;
};

}  // namespace tessera
