// The main job on bundled documents: index once, ask five questions both ways, and one question
// about a document that was never indexed, where there is nothing to gain.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "catalog/catalog.h"
#include "engine/compare.h"
#include "eval/metrics.h"
#include "tessera/command.h"
#include "tessera/demo_data.h"
#include "tessera/format.h"
#include "tessera/indexer.h"
#include "tessera/workspace.h"

namespace tessera {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr const char* kDemoModel = "qwen2.5-coder-0.5b";
constexpr const char* kDemoStore = "tessera-demo";
constexpr int32_t kTopK = 6;

struct DemoOptions {
  ModelOptions model;
  std::string policy = "epic";
  double ratio = 0.15;
  int32_t n_questions = 5;
};

struct Question {
  std::string text;
  std::vector<std::string> answers;
};

struct Asked {
  Question question;
  Comparison result;
  double f1_full = 0;
  double f1_policy = 0;
  double ttft_ratio() const {
    return result.full.timings.ttft_ms() / result.policy.timings.ttft_ms();
  }
};

// One answerable question of each document in turn, in the order of the file.
std::vector<Question> demo_questions(const fs::path& file, int32_t n) {
  std::ifstream in(file);
  std::vector<Question> out;
  std::vector<std::string> seen;
  for (std::string line; std::getline(in, line) && static_cast<int32_t>(out.size()) < n;) {
    const json row = json::parse(line);
    if (!row["answerable"].get<bool>()) continue;
    const auto document = row["file"].get<std::string>();
    if (std::find(seen.begin(), seen.end(), document) != seen.end()) continue;
    seen.push_back(document);
    out.push_back(
        {row["question"].get<std::string>(), row["answers"].get<std::vector<std::string>>()});
  }
  if (out.empty())
    throw Error(ErrorCode::kNotFound,
                fmt::format("{} - holds no question that can be answered - set TESSERA_DATA to the "
                            "data folder of the source tree, or unset it",
                            file.string()));
  return out;
}

Request request_for(const DemoOptions& o, const Question& question,
                    std::vector<PassageText> passages) {
  Request r;
  r.passages = std::move(passages);
  r.question = question.text;
  r.policy = o.policy;
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

void show(const Session& session, const Asked& a) {
  if (session.json()) return;
  const Comparison& c = a.result;
  session.print(
      fmt::format("\n{}\n  full {:>8}  {}\n  {:4} {:>8}  {}\n  {:.2f} times sooner, {} of {} "
                  "prompt tokens reused, mean KL {:.3f}, {}\n",
                  a.question.text, human_duration(c.full.timings.ttft_ms() / 1000), c.full.text,
                  c.policy.policy, human_duration(c.policy.timings.ttft_ms() / 1000), c.policy.text,
                  a.ttft_ratio(), c.policy.account.cached(), c.policy.account.total(),
                  c.distance.mean_kl, c.same_answer ? "same answer" : "answers differ"));
}

Asked ask_both_ways(const Session& session, Engine& engine, const Request& request,
                    Question question) {
  Asked a;
  a.result = compare_with_full(engine, request, {}, session.stop_token());
  a.f1_full = token_f1(a.result.full.text, question.answers);
  a.f1_policy = token_f1(a.result.policy.text, question.answers);
  a.question = std::move(question);
  show(session, a);
  return a;
}

struct Summary {
  double ttft_full_ms, ttft_policy_ms, ratio, f1_full, f1_policy, mean_kl, top1;
  int32_t n_same;
};

Summary summarize(const std::vector<Asked>& asked) {
  std::vector<double> full, policy, ratio;
  Summary s = {};
  for (const Asked& a : asked) {
    full.push_back(a.result.full.timings.ttft_ms());
    policy.push_back(a.result.policy.timings.ttft_ms());
    ratio.push_back(a.ttft_ratio());
    s.f1_full += a.f1_full / static_cast<double>(asked.size());
    s.f1_policy += a.f1_policy / static_cast<double>(asked.size());
    s.mean_kl += a.result.distance.mean_kl / static_cast<double>(asked.size());
    s.top1 += a.result.distance.top1 / static_cast<double>(asked.size());
    s.n_same += a.result.same_answer ? 1 : 0;
  }
  s.ttft_full_ms = median(full);
  s.ttft_policy_ms = median(policy);
  s.ratio = median(ratio);
  return s;
}

void print_table(const Session& session, const DemoOptions& o, const std::vector<Asked>& asked,
                 const Asked& unseen) {
  const Summary s = summarize(asked);
  Table table({{""},
               {"full", Table::Align::kRight},
               {o.policy, Table::Align::kRight},
               {"", Table::Align::kRight}});
  table.add_row({"first token, median", human_duration(s.ttft_full_ms / 1000),
                 human_duration(s.ttft_policy_ms / 1000), fmt::format("{:.2f} x", s.ratio)});
  table.add_row(
      {"token F1, mean", fmt::format("{:.2f}", s.f1_full), fmt::format("{:.2f}", s.f1_policy), ""});
  table.add_row({"same answer", "", fmt::format("{} of {}", s.n_same, asked.size()), ""});
  table.add_row({"mean KL to full", "", fmt::format("{:.3f}", s.mean_kl), ""});
  table.add_row({"top-1 agreement", "", fmt::format("{:.0f}%", 100 * s.top1), ""});
  table.add_row({"document never seen", human_duration(unseen.result.full.timings.ttft_ms() / 1000),
                 human_duration(unseen.result.policy.timings.ttft_ms() / 1000),
                 fmt::format("{:.2f} x", unseen.ttft_ratio())});
  session.print("\n" + table.text());
}

json to_json(const Asked& a) {
  return {{"question", a.question.text},    {"gold", a.question.answers},
          {"full", to_json(a.result.full)}, {"policy", to_json(a.result.policy)},
          {"ttft_ratio", a.ttft_ratio()},   {"f1_full", a.f1_full},
          {"f1_policy", a.f1_policy},       {"mean_kl", a.result.distance.mean_kl},
          {"top1", a.result.distance.top1}, {"same_answer", a.result.same_answer}};
}

// A text that no store has seen, and that is not stored afterwards either: its KV is a miss, so
// everything is computed and nothing is gained.
Asked ask_about_unseen(const Session& session, Engine& engine, const DemoOptions& o,
                       const fs::path& data) {
  const std::optional<std::vector<std::byte>> bytes = read_file(data / "unseen.md");
  if (!bytes)
    throw Error(ErrorCode::kNotFound, fmt::format("no file {} - the source tree is not complete",
                                                  (data / "unseen.md").string()));
  const Question question = {"What did the harbour board give to Maud Halloran?",
                             {"a silver whistle"}};
  const Request request = request_for(
      o, question,
      {{"Port Averill", std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size())}});
  return ask_both_ways(session, engine, request, question);
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
}

void print_result(const Session& session, const DemoOptions& o, const std::vector<Asked>& asked,
                  const Asked& unseen) {
  if (!session.json()) return print_table(session, o, asked, unseen);
  json questions = json::array();
  for (const Asked& a : asked) questions.push_back(to_json(a));
  const Summary s = summarize(asked);
  session.print_json({{"model", o.model.model},
                      {"policy", o.policy},
                      {"ratio", o.ratio},
                      {"questions", questions},
                      {"unseen", to_json(unseen)},
                      {"summary",
                       {{"ttft_full_ms", s.ttft_full_ms},
                        {"ttft_policy_ms", s.ttft_policy_ms},
                        {"ttft_ratio", s.ratio},
                        {"f1_full", s.f1_full},
                        {"f1_policy", s.f1_policy},
                        {"mean_kl", s.mean_kl},
                        {"top1", s.top1},
                        {"same_answer", s.n_same}}}});
}

void demo(Session& session, DemoOptions o) {
  // Slips are said before anything is fetched or indexed.
  make_policy(o.policy, {.recompute_ratio = o.ratio});
  const fs::path data = data_folder();
  std::vector<Question> questions =
      demo_questions(data / "demo" / "questions.jsonl", o.n_questions);
  if (o.model.model.empty()) {
    o.model.model = kDemoModel;
    ProgressBar bar(session, kDemoModel, find_model(kDemoModel).bytes, ProgressBar::Unit::kBytes);
    pull_model(
        kDemoModel, [&bar](const PullProgress& p) { bar.update(p.done_bytes, p.source); },
        session.stop_token());
  }
  StoreSettings settings;
  settings.name_space = kDemoStore;
  settings.model = lasting_model(o.model.model);
  settings.keep_file_types = o.model.keep_file_types;
  Workspace workspace(o.model, settings);
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
  for (Question& q : questions) {
    const Request request = request_for(o, q, passages_for(documents, q.text));
    asked.push_back(ask_both_ways(session, workspace.engine(), request, std::move(q)));
  }
  print_result(session, o, asked, ask_about_unseen(session, workspace.engine(), o, data));
}

}  // namespace

void add_demo(CLI::App& app, Session& session) {
  auto options = std::make_shared<DemoOptions>();
  CLI::App* sub = app.add_subcommand(
      "demo",
      "Index the bundled documents and ask questions both ways: full prefill and reused KV");
  sub->add_option("--policy", options->policy, "Reuse policy to compare with full prefill")
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
