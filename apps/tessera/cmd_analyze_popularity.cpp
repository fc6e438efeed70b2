// How far few passages serve many questions: docs/ANALYSIS.md.
#include <fmt/format.h>

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "eval/popularity.h"
#include "eval/runner.h"
#include "tessera/analyze.h"
#include "tessera/build_info.h"
#include "tessera/format.h"

namespace tessera {
namespace {

using nlohmann::json;

constexpr const char* kCommand = "analyze popularity";
constexpr std::array kShares = {0.01, 0.05, 0.1, 0.2, 0.5};

void analyze_popularity(Session& session, const QuestionOptions& o) {
  check_questions(kCommand, o);
  const Questions questions = read_questions(kCommand, o);
  constexpr auto kRight = Table::Align::kRight;
  std::vector<Table::Column> columns = {{"task"}, {"n", kRight}, {"passages found", kRight}};
  for (const double share : kShares) columns.push_back({fmt::format("{:g}%", 100 * share), kRight});
  Table table(columns);
  json tasks = json::array();
  for (const EvalSet& set : questions.sets) {
    const std::vector<size_t> counts = request_counts(set);
    std::vector<std::string> cells = {set.task, fmt::format("{}", set.samples.size()),
                                      fmt::format("{}", counts.size())};
    json served = json::array();
    for (const double share : kShares) {
      const double value = served_share(counts, share);
      served.push_back({{"passages_share", share}, {"requests_share", value}});
      cells.push_back(fmt::format("{:.3f}", value));
    }
    table.add_row(std::move(cells));
    tasks.push_back({{"task", set.task},
                     {"questions", set.samples.size()},
                     {"counts", counts},
                     {"served", std::move(served)}});
  }
  if (!session.json()) return session.print(table.text());
  const BuildInfo build = build_info();
  session.print_json({{"version", build.version},
                      {"commit", build.commit},
                      {"split", o.split},
                      {"limit", o.limits.n_samples},
                      {"retrieve", o.n_retrieved},
                      {"corpus_digest", questions.corpus_digest},
                      {"tasks", std::move(tasks)}});
}

}  // namespace

void add_analyze_popularity(CLI::App& analyze, Session& session) {
  auto options = std::make_shared<QuestionOptions>();
  options->n_retrieved = 1;
  CLI::App* sub = analyze.add_subcommand(
      "popularity", "Which share of the questions the most popular passages serve; needs no model");
  options->add_to(*sub);
  options->add_retrieval_to(*sub);
  sub->callback([options, &session] { analyze_popularity(session, *options); });
}

}  // namespace tessera
