#include "tessera/tune_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "tessera/format.h"

namespace tessera {
namespace {

using nlohmann::json;

constexpr std::string_view kAdaCache = "adacache";

json to_json(const std::vector<GridLine>& lines) {
  json out = json::array();
  for (const GridLine& l : lines) {
    out.push_back(
        {{"setting", l.setting}, {"loss", l.loss}, {"rows_share", l.rows_share}, {"n", l.n}});
  }
  return out;
}

json to_json(const AdaptiveLine& l) {
  return {{"lambda", l.lambda}, {"threshold", l.threshold},   {"passages", l.passages},
          {"f1", l.f1},         {"rows_share", l.rows_share}, {"f1_loss", l.f1_loss}};
}

// What a table's choice loses on questions that it was not made on.
std::string held_out_text(const ModelProfile& profile, const std::string& part) {
  const auto tuned = profile.tuned.find(part);
  const std::optional<double> loss =
      tuned == profile.tuned.end() ? std::nullopt : tuned->second.loss;
  if (!loss) return {};
  const bool is_gain = loss_text(*loss).starts_with("gain");
  return fmt::format("the choice {} {} on questions that it was not made on\n",
                     is_gain ? "gains" : "loses", loss_text(std::abs(*loss)));
}

// `chosen`: its line is marked.
std::string grid_text(const std::vector<GridLine>& lines, const char* setting, LossMetric metric,
                      std::optional<double> chosen) {
  Table table(
      {{setting, Table::Align::kRight},
       {metric == LossMetric::kKl ? "KL in sample" : "F1 loss in sample", Table::Align::kRight},
       {"rows / N", Table::Align::kRight},
       {"n", Table::Align::kRight},
       {""}});
  for (const GridLine& l : lines) {
    table.add_row({fmt::format("{:.4g}", l.setting), loss_text(l.loss),
                   fmt::format("{:.3f}", l.rows_share), fmt::format("{}", l.n),
                   chosen == l.setting ? "chosen" : ""});
  }
  return table.text();
}

std::string front_text(const Tuned& tuned) {
  Table table({{"lambda", Table::Align::kRight},
               {"tau", Table::Align::kRight},
               {"passages seen", Table::Align::kRight},
               {"rows / all at once", Table::Align::kRight},
               {"F1", Table::Align::kRight},
               {"F1 loss in sample", Table::Align::kRight},
               {""}});
  for (const AdaptiveLine& l : tuned.front) {
    const bool is_chosen = tuned.adaptive && tuned.adaptive->lambda == l.lambda &&
                           tuned.adaptive->threshold == l.threshold;
    table.add_row({fmt::format("{:.2f}", l.lambda), fmt::format("{:.4f}", l.threshold),
                   fmt::format("{:.2f}", l.passages), fmt::format("{:.3f}", l.rows_share),
                   fmt::format("{:.3f}", l.f1), loss_text(l.f1_loss), is_chosen ? "chosen" : ""});
  }
  return table.text();
}

std::optional<double> chosen_ratio(const ModelProfile& profile, const std::string& policy) {
  if (!profile.tuned.contains(ratio_part(policy))) return std::nullopt;
  PolicyOptions options;
  apply(profile, policy, {}, options);
  return options.recompute_ratio;
}

// At most so many prefills of one kind in one stage of a run from the start, and how they come
// about: how many of them are there already is known only with the model.
struct Cost {
  const char* stage;
  bool is_full;
  size_t n;
  std::string made_of;
};

std::vector<Cost> costs_of(const TuneOptions& o, const std::vector<EvalSet>& sets) {
  size_t n_growing = 0, n_passages = 0;  // questions of two passages or more, and those passages
  for (const EvalSet& set : sets) {
    for (const Sample& sample : set.samples) {
      if (sample.passages.size() < 2) continue;
      ++n_growing;
      n_passages += sample.passages.size();
    }
  }
  const size_t n = count_questions(sets), n_policies = o.policies.size();
  const std::string all = counted(n, "question"), growing = counted(n_growing, "question");
  const std::string policies =
      n_policies == 1 ? std::string("1 policy") : fmt::format("{} policies", n_policies);
  // The passages' own KV costs about a full prefill of them, in every stage, and is read once.
  std::vector<Cost> out;
  if (n_policies > 0) {
    out.push_back(
        {"ratios", true, 2 * n, fmt::format("{} x 2: the reference, the passages' own KV", all)});
    out.push_back({"ratios", false, n * (1 + n_policies * kTuneRatios.size()),
                   fmt::format("{} x (1 + {} x {} ratios): the 1 reads the passages", all, policies,
                               kTuneRatios.size())});
  }
  if (std::find(o.policies.begin(), o.policies.end(), kAdaCache) != o.policies.end()) {
    out.push_back({"alpha", true, (5 * n_growing + 1) / 2,
                   fmt::format("{} x 2.5: the reference, the KV of the passages and of half as "
                               "many others",
                               growing)});
    out.push_back({"alpha", false, n_growing * (3 + kTuneAlphas.size()),
                   fmt::format("{} x (2 + {} alphas): the 2 read the passages and answer over them "
                               "in company",
                               growing, kTuneAlphas.size() + 1)});  // beta is one of them
  }
  if (o.tunes_adaptive()) {
    out.push_back({"adaptive context", true, n_growing,
                   fmt::format("{} x 1: the passages' own KV", growing)});
    out.push_back({"adaptive context", false, 2 * n_growing + n_passages,
                   fmt::format("{} x 2 + {}: the passages are read, then added one by one, then "
                               "answered over at each number",
                               growing, counted(n_passages, "passage"))});
  }
  return out;
}

}  // namespace

size_t count_questions(const std::vector<EvalSet>& sets) {
  size_t n = 0;
  for (const EvalSet& set : sets) n += set.samples.size();
  return n;
}

json to_json(const TuneOptions& o, const Tuned& tuned) {
  json ratios = json::object(), front = json::array();
  for (const auto& [policy, lines] : tuned.ratios) ratios[policy] = to_json(lines);
  for (const AdaptiveLine& line : tuned.front) front.push_back(to_json(line));
  json out = {{"metric", loss_metric_name(o.metric())},
              {"bound", o.bound()},
              {"ratios", ratios},
              {"alpha", to_json(tuned.alphas)},
              {"soft_chunks", tuned.n_soft},
              {"chunks", tuned.n_chunks},
              {"kl_scale", tuned.kl_scale},
              {"pareto", front},
              {"chosen", to_json(tuned.profile)}};
  if (tuned.adaptive) out["adaptive"] = to_json(*tuned.adaptive);
  return out;
}

void print_tables(const Session& session, const TuneOptions& o, const Tuned& tuned) {
  const ModelProfile& profile = tuned.profile;
  for (const auto& [policy, lines] : tuned.ratios) {
    session.print(fmt::format("{}, ratio{}\n{}{}\n", policy, policy == kAdaCache ? " (beta)" : "",
                              grid_text(lines, "ratio", o.metric(), chosen_ratio(profile, policy)),
                              held_out_text(profile, ratio_part(policy))));
  }
  const std::optional<ModelProfile::AdaCache>& adacache = profile.adacache;
  if (adacache && !tuned.alphas.empty()) {
    std::optional<double> alpha;
    if (profile.tuned.contains(kAlphaPart)) alpha = adacache->alpha;
    session.print(fmt::format("{}, alpha at beta {:.4g}; {} of {} chunks were soft matches\n{}{}\n",
                              kAdaCache, adacache->beta, tuned.n_soft, tuned.n_chunks,
                              grid_text(tuned.alphas, "alpha", o.metric(), alpha),
                              held_out_text(profile, kAlphaPart)));
  }
  if (!tuned.front.empty()) {
    session.print(fmt::format(
        "adaptive context on {}, KL scale {:.4g} nats; what no other setting beats\n{}{}",
        o.adaptive_policy, tuned.kl_scale, front_text(tuned),
        held_out_text(profile, kAdaptivePart)));
  }
}

void print_cost(const Session& session, const TuneOptions& o, const std::vector<EvalSet>& sets) {
  Table table({{"part"}, {"prefills", Table::Align::kRight}, {"kind"}, {"made of"}});
  size_t n_full = 0, n_reuse = 0;
  for (const Cost& c : costs_of(o, sets)) {
    (c.is_full ? n_full : n_reuse) += c.n;
    table.add_row({c.stage, fmt::format("{}", c.n), c.is_full ? "full" : "with reuse", c.made_of});
  }
  const size_t n_questions = count_questions(sets);
  if (session.json()) {
    return session.print_json(
        {{"questions", n_questions}, {"full_prefills", n_full}, {"reuse_prefills", n_reuse}});
  }
  session.print(
      fmt::format("{}: at most {} full prefills and {} with reuse; fewer where --out has some\n{}",
                  counted(n_questions, "question"), n_full, n_reuse, table.text()));
}

}  // namespace tessera
