// The main job on bundled documents: index once, ask five questions both ways, and one question
// about a document that was never indexed, where there is nothing to gain.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "catalog/catalog.h"
#include "engine/answer_json.h"
#include "engine/compare.h"
#include "eval/metrics.h"
#include "tessera/command.h"
#include "tessera/demo_data.h"
#include "tessera/format.h"
#include "tessera/gate_policy.h"
#include "tessera/indexer.h"
#include "tessera/workspace.h"

namespace tessera {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr const char* kDemoModel = "qwen2.5-coder-0.5b";
constexpr const char* kDemoStore = "tessera-demo";
constexpr int32_t kTopK = 6;

// Those that a user would choose from: the reference and the controls are none.
std::vector<std::string> demo_policies() {
  std::vector<std::string> names = {std::string(kDefaultPolicy)};
  for (const PolicyInfo& p : policies()) {
    if (!p.is_control && !p.is_exact && p.name != kDefaultPolicy) names.emplace_back(p.name);
  }
  return names;
}

struct DemoOptions {
  ModelOptions model;
  std::vector<std::string> policies = demo_policies();
  double ratio = 0.15;
  size_t n_questions = 5;
};

// One question under every policy.
struct Asked {
  DemoQuestion question;
  Reference full;
  std::vector<Comparison> results;  // one per policy, in the order of the options
};

Request request_for(const DemoOptions& o, const DemoQuestion& question,
                    std::vector<PassageText> passages) {
  Request r;
  r.passages = std::move(passages);
  r.question = question.text;
  r.policy_options.recompute_ratio = o.ratio;
  r.max_tokens = 32;
  return r;
}

std::vector<PassageText> passages_for(const DocumentStore& documents, const std::string& question) {
  std::vector<PassageText> out;
  for (const SearchHit& hit : documents.search(question, kTopK))
    out.push_back({hit.passage.passage.title, hit.passage.passage.text});
  return out;
}

// The first policy's answer beside full prefill's.
void show(const Session& session, const Asked& a) {
  if (session.json()) return;
  const Comparison& c = a.results.front();
  session.print(fmt::format(
      "\n{}\n  {:12} {:>8}  {}\n  {:12} {:>8}  {}\n  {}, {} of {} prompt tokens reused, mean KL "
      "{:.3f}, {}\n",
      a.question.text, "full", human_duration(c.full.timings.ttft_ms() / 1000), c.full.text,
      c.policy.policy, human_duration(c.policy.timings.ttft_ms() / 1000), c.policy.text,
      sooner_text(c.ttft_ratio()), c.policy.account.cached(), c.policy.account.total(),
      c.distance.mean_kl, c.same_answer ? "same answer" : "answers differ"));
}

Asked ask_every_way(const Session& session, Engine& engine, const DemoOptions& o,
                    const DemoQuestion& question, std::vector<PassageText> passages) {
  Request request = request_for(o, question, std::move(passages));
  Asked a = {question, full_reference(engine, request, session.stop_token()), {}};
  request.policy = "reuse";
  engine.prefill(request, session.stop_token());  // or the first policy would pay for the disk
  for (const std::string& policy : o.policies) {
    request.policy = policy;
    a.results.push_back(compare_with(engine, a.full, request, {}, session.stop_token()));
    a.results.back().prefilled = {};  // its pins and logits
  }
  show(session, a);
  return a;
}

// Over all questions: of one policy, or of full prefill.
struct Summary {
  double ttft_ms = 0, ratio = 1, f1 = 0, mean_kl = 0, top1 = 1;
  size_t n_same = 0;
};

Summary summarize_full(const std::vector<Asked>& asked) {
  std::vector<double> ttft;
  Summary s;
  for (const Asked& a : asked) {
    ttft.push_back(a.full.answer.timings.ttft_ms());
    s.f1 += token_f1(a.full.answer.text, a.question.answers) / static_cast<double>(asked.size());
  }
  s.ttft_ms = median(ttft);
  s.n_same = asked.size();
  return s;
}

Summary summarize(const std::vector<Asked>& asked, size_t policy) {
  std::vector<double> ttft, ratio;
  Summary s;
  s.top1 = 0;
  const auto n = static_cast<double>(asked.size());
  for (const Asked& a : asked) {
    const Comparison& c = a.results[policy];
    ttft.push_back(c.policy.timings.ttft_ms());
    ratio.push_back(c.ttft_ratio());
    s.f1 += token_f1(c.policy.text, a.question.answers) / n;
    s.mean_kl += c.distance.mean_kl / n;
    s.top1 += c.distance.top1 / n;
    s.n_same += c.same_answer ? 1 : 0;
  }
  s.ttft_ms = median(ttft);
  s.ratio = median(ratio);
  return s;
}

void print_table(const Session& session, const DemoOptions& o, const std::vector<Asked>& asked,
                 const Asked& unseen) {
  Table table({{"policy"},
               {"first token, median", Table::Align::kRight},
               {"sooner", Table::Align::kRight},
               {"token F1, mean", Table::Align::kRight},
               {"same answer", Table::Align::kRight},
               {"mean KL to full", Table::Align::kRight},
               {"top-1", Table::Align::kRight}});
  const auto add = [&](const std::string& name, const Summary& s) {
    table.add_row({name, human_duration(s.ttft_ms / 1000), fmt::format("{:.2f} x", s.ratio),
                   fmt::format("{:.2f}", s.f1), fmt::format("{} of {}", s.n_same, asked.size()),
                   fmt::format("{:.3f}", s.mean_kl), fmt::format("{:.0f}%", 100 * s.top1)});
  };
  add("full", summarize_full(asked));
  for (size_t i = 0; i < o.policies.size(); ++i) add(o.policies[i], summarize(asked, i));
  session.print("\n" + table.text());
  const Comparison& c = unseen.results.front();
  session.print(fmt::format("a document never seen: full {}, {} {}: {:.2f} x\n",
                            human_duration(c.full.timings.ttft_ms() / 1000), c.policy.policy,
                            human_duration(c.policy.timings.ttft_ms() / 1000), c.ttft_ratio()));
}

json to_json(const Asked& a) {
  json policies = json::array();
  for (const Comparison& c : a.results) {
    policies.push_back(to_json(c));
    policies.back()["f1"] = token_f1(c.policy.text, a.question.answers);
  }
  return {{"question", a.question.text},
          {"gold", a.question.answers},
          {"full", to_json(a.full.answer)},
          {"f1_full", token_f1(a.full.answer.text, a.question.answers)},
          {"policies", policies}};
}

json to_json(const std::string& policy, const Summary& s) {
  return {{"policy", policy},     {"ttft_ms", s.ttft_ms}, {"ttft_ratio", s.ratio},  {"f1", s.f1},
          {"mean_kl", s.mean_kl}, {"top1", s.top1},       {"same_answer", s.n_same}};
}

// A text that no store has seen, and that is not stored afterwards either: its KV is a miss, so
// everything is computed and nothing is gained.
Asked ask_about_unseen(const Session& session, Engine& engine, const DemoOptions& o,
                       const fs::path& data) {
  const std::optional<std::vector<std::byte>> bytes = read_file(data / "unseen.md");
  if (!bytes)
    throw Error(ErrorCode::kNotFound, fmt::format("no file {} - the source tree is not complete",
                                                  (data / "unseen.md").string()));
  const DemoQuestion question = {
      "unseen", "What did the harbour board give to Maud Halloran?", {"a silver whistle"}, {}};
  DemoOptions first = o;
  first.policies.resize(1);  // the others have as little to gain
  return ask_every_way(
      session, engine, first, question,
      {{"Port Averill", std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size())}});
}

std::optional<GateRecord> gate_of(Workspace& workspace) {
  return gate_of(workspace.engine().domain().model_digest, workspace.profile());
}

void index_demo(const Session& session, DocumentStore& documents, Workspace& workspace) {
  const StoreSettings settings;
  const SplitOptions split = split_options(workspace.engine().prompts(), settings.chunk_tokens);
  const DocumentReport d = index_documents(session, documents, demo_documents(), split);
  const KvReport k = build_kv(session, documents, workspace, settings.anchor);
  if (session.json()) return;
  const uint64_t bytes =
      static_cast<uint64_t>(k.n_tokens) * kv_bytes_per_token(workspace.model().config());
  session.print(fmt::format(
      "{}: {}, {} threads\n{} documents: {} chunks, {} tokens, KV {}, {} chunks computed in {}\n",
      workspace.model().config().name, workspace.model().layout_text(),
      workspace.engine().decoder().n_threads(), d.n_files, k.n_chunks, k.n_tokens,
      human_bytes(bytes), k.n_built, human_duration(k.seconds)));
  session.print(verdict_text(gate_of(workspace)) + "\n");
}

void print_json(const Session& session, const DemoOptions& o, const std::vector<Asked>& asked,
                const Asked& unseen, const std::optional<GateRecord>& gate) {
  json questions = json::array();
  for (const Asked& a : asked) questions.push_back(to_json(a));
  json summary = {to_json("full", summarize_full(asked))};
  for (size_t i = 0; i < o.policies.size(); ++i)
    summary.push_back(to_json(o.policies[i], summarize(asked, i)));
  session.print_json({{"model", o.model.model},
                      {"ratio", o.ratio},
                      {"gate", gate ? to_json(*gate) : json()},
                      {"questions", questions},
                      {"unseen", to_json(unseen)},
                      {"summary", summary}});
}

void pull(const Session& session, const std::string& name) {
  ProgressBar bar(session, name, find_model(name).bytes, ProgressBar::Unit::kBytes);
  pull_model(
      name, [&bar](const PullProgress& p) { bar.update(p.done_bytes, p.source); },
      session.stop_token());
}

void demo(Session& session, DemoOptions o) {
  // Slips are said before anything is fetched or indexed.
  for (const std::string& policy : o.policies) make_policy(policy, {.recompute_ratio = o.ratio});
  const fs::path data = data_folder();
  const std::vector<DemoQuestion> questions = demo_questions(o.n_questions);
  if (o.model.model.empty()) {
    o.model.model = kDemoModel;
    pull(session, kDemoModel);
  }
  const bool needs_scorer = std::any_of(o.policies.begin(), o.policies.end(),
                                        [](const auto& p) { return Engine::needs_scorer(p, {}); });
  if (needs_scorer && o.model.scorer.empty()) pull(session, kDefaultScorer);
  StoreSettings settings;
  settings.name_space = kDemoStore;
  settings.model = lasting_model(o.model.model);
  settings.keep_file_types = o.model.keep_file_types;
  Workspace workspace(o.model, settings, needs_scorer);
  const fs::path file = store_file(kDemoStore);
  make_private_dir(file.parent_path());
  DocumentStore documents(file);
  const std::optional<StoreSettings> kept = StoreSettings::read(documents);
  if (kept && kept->model != settings.model) {  // its chunks are cut by another tokenizer
    for (const StoredDocument& d : documents.documents()) documents.remove_document(d.path);
  }
  if (kept != settings) documents.replace_settings(settings.to_map());
  index_demo(session, documents, workspace);
  std::vector<Asked> asked;
  asked.reserve(questions.size());
  for (const DemoQuestion& q : questions)
    asked.push_back(
        ask_every_way(session, workspace.engine(), o, q, passages_for(documents, q.text)));
  const Asked unseen = ask_about_unseen(session, workspace.engine(), o, data);
  if (session.json()) return print_json(session, o, asked, unseen, gate_of(workspace));
  print_table(session, o, asked, unseen);
}

}  // namespace

void add_demo(CLI::App& app, Session& session) {
  auto options = std::make_shared<DemoOptions>();
  CLI::App* sub = app.add_subcommand(
      "demo",
      "Index the bundled documents and ask questions both ways: full prefill and reused KV");
  sub->add_option("--policy", options->policies,
                  "Reuse policies to compare with full prefill; the first is shown in full")
      ->capture_default_str();
  sub->add_option("--ratio", options->ratio, "Share of reused tokens that is recomputed")
      ->capture_default_str();
  sub->add_option("--questions", options->n_questions, "How many")
      ->check(CLI::Range(1, 12))
      ->capture_default_str();
  options->model.add_to(*sub);
  sub->callback([options, &session] { demo(session, *options); });
}

}  // namespace tessera
