// Whether a model may be answered with under approximate reuse, and under which policy and ratio:
// docs/GATE.md.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/text_util.h"
#include "eval/gate.h"
#include "eval/sample_lines.h"
#include "tessera/build_info.h"
#include "tessera/command.h"
#include "tessera/demo_data.h"
#include "tessera/format.h"
#include "tessera/gate_policy.h"
#include "tessera/model_profile.h"
#include "tessera/question_sets.h"
#include "tessera/workspace.h"

namespace tessera {
namespace {

using nlohmann::json;

constexpr const char* kGateTask = "gate";
constexpr size_t kQuestions = 12;

const std::map<std::string, LoadFault> kFaults = {{"pairing", LoadFault::kWrongPairing},
                                                  {"base", LoadFault::kWrongBase},
                                                  {"position", LoadFault::kOffByOne}};

struct GateOptions {
  ModelOptions model;
  std::string policy = std::string(kDefaultPolicy);
  std::vector<double> ratios = {0.15, 0.3, 0.5};
  std::string anchor = "leadin";
  double max_kl = 0.1;
  double min_top1 = 0.9;
  std::string fault;
  bool no_write = false;
};

// All of it is bundled.
GateData read_data() {
  GateData out;
  for (const std::string& file : demo_documents()) {
    const std::string name = std::filesystem::path(file).filename().string();
    out.documents.push_back(document_from(name, read_text(file)));
  }
  std::vector<GateQuestion> questions;
  for (const DemoQuestion& q : demo_questions(kQuestions))
    questions.push_back({q.id, q.text, q.answers, q.file});
  out.samples = gate_samples(out.documents, questions);
  out.needles = gate_needles(demo_text());
  return out;
}

class Gate {
 public:
  Gate(Session& session, const GateOptions& o, Workspace& workspace, GateData data)
      : session_(session),
        o_(o),
        workspace_(workspace),
        data_(std::move(data)),
        sets_{{kGateTask, data_.samples}},
        bar_(session, "gate", n_steps(), ProgressBar::Unit::kItems) {}

  // Cheap checks first: one that fails spares the dearer ones.
  GateRecord run() {
    const GateHooks hooks = {[this](std::string_view what) { step(what); }, session_.stop_token()};
    checks_ = check_moves(workspace_.engine(), data_, hooks);
    if (all_passed(checks_)) {
      std::ranges::move(check_reading(workspace_.engine(), data_, hooks),
                        std::back_inserter(checks_));
    }
    if (all_passed(checks_)) check_fidelity();
    return record();
  }

 private:
  uint64_t n_steps() const {
    return n_move_steps() + n_reading_steps(data_) + 2 * data_.samples.size();
  }
  void step(std::string_view what) {
    session_.throw_if_stopped();
    bar_.update(n_done_++, what);
  }

  // The smallest ratio that keeps to the bounds; full prefill's answers are kept from one to the
  // next.
  void check_fidelity() {
    make_private_dir(cache_dir());
    const ScratchFolder references(cache_dir());
    EvalPlan plan;
    plan.sets = sets_;
    plan.policies = {o_.policy};
    plan.anchors = {anchor_from_name(o_.anchor).value_or(AnchorKind::kLeadin)};
    plan.reference_dir = references.path();
    RunLog log;
    Fidelity fidelity;
    for (const double ratio : o_.ratios) {
      plan.ratios = {ratio};
      EvalHooks hooks;
      hooks.stop = session_.stop_token();
      hooks.progress = [&](size_t n_done, const RowKey& key) {
        bar_.update(n_done_ + n_done, fmt::format("{} at ratio {} {}", key.policy, ratio, key.id));
      };
      run_eval(workspace_.engine(), workspace_.scorer(), plan, log, hooks);
      session_.throw_if_stopped();
      fidelity = fidelity_of(log, ratio);
      if (is_close(fidelity)) break;
    }
    checks_.push_back({"kl", fidelity.kl.value, o_.max_kl, Better::kLower});
    checks_.push_back({"top1", fidelity.top1.value, o_.min_top1, Better::kHigher});
    fidelity_ = fidelity;
  }

  bool is_close(const Fidelity& f) const {
    return f.kl.value <= o_.max_kl && f.top1.value >= o_.min_top1;
  }

  GateRecord record() const {
    GateRecord out;
    out.version = kGateVersion;
    out.passed = all_passed(checks_);
    out.date = fmt::format("{:%F}", fmt::gmtime(std::chrono::system_clock::now()));
    out.policy = out.passed ? o_.policy : kPrefixPolicy;
    out.anchor = o_.anchor;
    out.tried = o_.policy;
    if (fidelity_) {
      const Estimate& kl = fidelity_->kl;
      out.ratio = fidelity_->ratio;
      out.loss = {kl.value, kl.low, kl.high, fidelity_->top1.value, static_cast<int32_t>(kl.n)};
    }
    out.max_kl = o_.max_kl;
    out.min_top1 = o_.min_top1;
    out.data_digest = data_digest(sets_);
    const BuildInfo build = build_info();
    out.program = fmt::format("{} {}", build.version, build.commit);
    for (const GateCheck& c : checks_)
      out.checks.push_back({c.name, std::isfinite(c.value) ? c.value : 0, c.bound, c.passed()});
    return out;
  }

  Session& session_;
  const GateOptions& o_;
  Workspace& workspace_;
  GateData data_;
  std::vector<EvalSet> sets_;
  ProgressBar bar_;
  uint64_t n_done_ = 0;
  std::vector<GateCheck> checks_;
  std::optional<Fidelity> fidelity_;
};

void print_record(const Session& session, const GateRecord& r) {
  Table table({{"check"},
               {"measured", Table::Align::kRight},
               {"bound", Table::Align::kRight},
               {"verdict"}});
  for (const GateRecord::Check& c : r.checks) {
    const auto color = c.passed ? Session::Color::kGreen : Session::Color::kRed;
    table.add_row({c.name, fmt::format("{:.4g}", c.value), fmt::format("{:.4g}", c.bound),
                   session.paint(color, c.passed ? "pass" : "FAIL")});
  }
  session.print(table.text() + verdict_text(r) + "\n");
}

// Slips are said before the model loads.
void check(const GateOptions& o) {
  if (o.policy == kFullPolicy || o.policy == kPrefixPolicy) {
    throw Error(
        ErrorCode::kInvalidRequest,
        fmt::format("gate - {} gives what full prefill gives: there is nothing to measure - "
                    "name a policy that approximates",
                    o.policy));
  }
  for (const double ratio : o.ratios) make_policy(o.policy, {.recompute_ratio = ratio});
}

void gate(Session& session, GateOptions o) {
  check(o);
  std::ranges::sort(o.ratios);
  // One ratio is as good as another where none is read.
  if (!reads_ratio(o.policy, {})) o.ratios.resize(1);
  GateData data = read_data();
  o.model.in_memory = true;
  o.model.ram_tier_bytes = 0;  // without a limit: a passage that is dropped could not be measured
  StoreSettings settings;
  settings.name_space = "tessera-gate";
  const std::string model = o.model.model.empty() ? settings.model : o.model.model;
  Workspace workspace(o.model, settings, Engine::needs_scorer(o.policy, {}));
  if (!o.fault.empty()) workspace.engine().decoder().plant_fault(kFaults.at(o.fault));

  const GateRecord record = Gate(session, o, workspace, std::move(data)).run();

  const std::string& digest = workspace.engine().domain().model_digest;
  const bool is_written = !o.no_write && o.fault.empty();
  if (is_written) {
    ModelProfile profile = read_profile(digest);
    profile.gate = record;
    write_profile(digest, profile);
  }
  if (session.json()) {
    session.print_json({{"model", model},
                        {"model_digest", digest},
                        {"written", is_written},
                        {"gate", to_json(record)}});
  } else {
    print_record(session, record);
  }
  if (!record.passed) session.set_exit_status(kExitFailed);
}

}  // namespace

void add_gate(CLI::App& app, Session& session) {
  auto options = std::make_shared<GateOptions>();
  CLI::App* sub = app.add_subcommand(
      "gate", "Check a model, and find the ratio at which reuse keeps to full prefill with it");
  sub->add_option("--policy", options->policy, "The policy to measure")->capture_default_str();
  sub->add_option("--ratio", options->ratios,
                  "Ratios to try; the smallest that keeps to the bounds is written")
      ->delimiter(',')
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  sub->add_option("--anchor", options->anchor, "What stands before the chunks when they are made")
      ->check(CLI::IsMember({"bare", "preamble", "leadin"}))
      ->capture_default_str();
  sub->add_option("--max-kl", options->max_kl, "Largest mean KL to full prefill, nats")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  sub->add_option("--min-top1", options->min_top1,
                  "Least share of tokens of which full prefill's likeliest is the policy's too")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  std::vector<std::string> faults;
  faults.reserve(kFaults.size());
  for (const auto& [name, fault] : kFaults) faults.push_back(name);
  sub->add_option("--plant", options->fault,
                  "Self-test: K is rotated wrongly when it is loaded, which the gate must fail; "
                  "writes nothing")
      ->check(CLI::IsMember(faults));
  sub->add_flag("--no-write", options->no_write, "Leave the model's profile as it is");
  options->model.add_to(*sub);
  sub->callback([options, &session] { gate(session, std::move(*options)); });
}

}  // namespace tessera
