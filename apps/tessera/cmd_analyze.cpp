// What a model's own behaviour says about how to reuse its KV: docs/ANALYSIS.md.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text_util.h"
#include "eval/attention_map.h"
#include "eval/heatmap.h"
#include "eval/runner.h"
#include "tessera/analyze.h"
#include "tessera/command.h"
#include "tessera/format.h"
#include "tessera/model_profile.h"
#include "tessera/question_sets.h"
#include "tessera/workspace.h"

namespace tessera {
namespace {

using nlohmann::json;

constexpr const char* kCommand = "analyze attention";
constexpr const char* kAllTasks = "all tasks";

struct AttentionOptions {
  ModelOptions model;
  QuestionOptions questions = {.limits = {.n_samples = 10}};
  std::string out;
  bool write_profile = false;
};

// Slips are said before a model loads.
void check(const AttentionOptions& o) {
  check_questions(kCommand, o.questions);
  const size_t n_passages = o.questions.limits.n_passages;
  if (n_passages == 0 || n_passages >= kLeastAttentionChunks) return;
  throw Error(ErrorCode::kInvalidRequest,
              fmt::format("{} - {} passages are too few to tell a predecessor from a sink - give "
                          "--passages of at least {}, or 0 for all",
                          kCommand, n_passages, kLeastAttentionChunks));
}

struct PlannedPrompt {
  size_t set = 0;
  std::string id;
  Prompt prompt;
  std::optional<Prompt> rotated;  // its last passage first
};

PlannedPrompt plan_prompt(const Engine& engine, const Sample& sample) {
  Request request = request_of(sample);
  PlannedPrompt out;
  out.id = sample.id;
  out.prompt = engine.prompt_of(request);
  check_chunks_to_map(out.prompt);
  if (sample.passages.size() < kLeastDriftChunks) return out;
  std::rotate(request.passages.begin(), request.passages.end() - 1, request.passages.end());
  out.rotated = engine.prompt_of(request);
  return out;
}

// One question that cannot be analysed must not end a run that has gone on for long.
std::vector<PlannedPrompt> plan_prompts(const Engine& engine, const std::vector<EvalSet>& sets) {
  std::vector<PlannedPrompt> out;
  const auto add = [&](size_t set, const Sample& sample) {
    try {
      out.push_back(plan_prompt(engine, sample));
      out.back().set = set;
    } catch (const Error& error) {
      throw Error(error.code(), fmt::format("question {} of {} - {} (--passages, --ctx), or leave "
                                            "the question out",
                                            quote(sample.id), quote(sets[set].task), error.what()));
    }
  };
  for (size_t set = 0; set < sets.size(); ++set) {
    for (const Sample& sample : sets[set].samples) add(set, sample);
  }
  return out;
}

struct Measured {
  std::vector<AttentionSummary> sets;
  AttentionSummary all;
  bool is_complete = true;
};

Measured measure(const Session& session, Engine& engine, const std::vector<EvalSet>& sets,
                 const std::vector<PlannedPrompt>& prompts) {
  const auto n_layers = static_cast<size_t>(engine.decoder().config().n_layers);
  Measured out = {std::vector<AttentionSummary>(sets.size(), AttentionSummary(n_layers)),
                  AttentionSummary(n_layers)};
  ProgressBar bar(session, "prompts", prompts.size(), ProgressBar::Unit::kItems);
  const std::stop_token stop = session.stop_token();
  try {
    for (const PlannedPrompt& planned : prompts) {
      bar.update(out.all.n_prompts(), fmt::format("{} {}", sets[planned.set].task, planned.id));
      const AttentionMap map = attention_map(engine, planned.prompt, stop);
      std::optional<AttentionMap> rotated;
      if (planned.rotated) rotated = attention_map(engine, *planned.rotated, stop);
      for (AttentionSummary* summary : {&out.sets[planned.set], &out.all})
        summary->add(map, rotated ? &*rotated : nullptr);
    }
    bar.update(out.all.n_prompts());
  } catch (const Error& error) {  // what is finished is reported
    if (error.code() != ErrorCode::kCancelled || out.all.n_prompts() == 0) throw;
    out.is_complete = false;
  }
  return out;
}

struct TaskReport {
  std::string task;
  AttentionReport report;
  AttentionReading reading;
};

std::vector<TaskReport> reports_of(const std::vector<EvalSet>& sets, const Measured& measured,
                                   const ModelConfig& config) {
  std::vector<TaskReport> out;
  const auto add = [&](const std::string& task, const AttentionSummary& summary) {
    AttentionReport report = summary.report();
    const AttentionReading reading = read_attention(report, config);
    out.push_back({task, std::move(report), reading});
  };
  for (size_t set = 0; set < sets.size(); ++set) {
    if (measured.sets[set].n_prompts() > 0) add(sets[set].task, measured.sets[set]);
  }
  if (out.size() > 1) add(kAllTasks, measured.all);
  return out;
}

json or_null(const std::optional<double>& value) { return value ? json(*value) : json(); }

json to_json(const AttentionShares& shares) {
  json out = json::object();
  for (const ShareField& field : share_fields()) out[std::string(field.name)] = shares.*field.value;
  return out;
}

json to_json(const MeanMap& mean) {
  const size_t n = mean.map.n_segments;
  json layers = json::array();
  for (size_t layer = 0; layer < mean.map.n_layers; ++layer) {
    json rows = json::array();
    for (size_t from = 0; from < n; ++from) {
      const auto begin = mean.map.mass.begin() + static_cast<ptrdiff_t>((layer * n + from) * n);
      rows.push_back(std::vector<double>(begin, begin + static_cast<ptrdiff_t>(n)));
    }
    layers.push_back(std::move(rows));
  }
  return {{"segments", n}, {"prompts", mean.n_prompts}, {"mass", std::move(layers)}};
}

json layers_json(const AttentionReport& report, const ModelConfig& config) {
  json out = json::array();
  for (size_t i = 0; i < report.layers.size(); ++i) {
    const LayerAttention& layer = report.layers[i];
    out.push_back({{"layer", i},
                   {"sliding_window", config.layers[i].sliding_window},
                   {"chunks", to_json(layer.chunks)},
                   {"query", to_json(layer.query)},
                   {"predecessor_is_sink", layer.predecessor_is_sink},
                   {"sink_agreement", layer.sink_agreement},
                   {"sink_stays", or_null(layer.sink_stays)}});
  }
  return out;
}

json to_json(const TaskReport& t, const ModelConfig& config) {
  json maps = json::array();
  for (const MeanMap& map : t.report.maps) maps.push_back(to_json(map));
  const AttentionReading& r = t.reading;
  return {{"task", t.task},
          {"prompts", t.report.n_prompts},
          {"chunks", t.report.n_chunks},
          {"chunks_compared", t.report.n_compared},
          {"stays_by_chance", or_null(t.report.stays_by_chance)},
          {"turn_layer", r.turn_layer},
          {"sink_layer", r.sink_layer},
          {"early",
           {{"layers", {r.early.begin, r.early.end}},
            {"predecessor_among", r.early_predecessor},
            {"equal_among", r.early_equal},
            {"is_local", r.early_is_local()}}},
          {"late",
           {{"layers", {r.late.begin, r.late.end}},
            {"other_is_sink", r.late_other},
            {"sink_among", r.late_sink},
            {"equal_among", r.late_equal},
            {"sink_agreement", r.late_agreement},
            {"sink_stays", or_null(r.late_stays)},
            {"has_sink", r.late_has_sink()}}},
          {"verdict", verdict_text(r)},
          {"layers", layers_json(t.report, config)},
          {"maps", std::move(maps)}};
}

json report_json(const AttentionOptions& o, Workspace& workspace,
                 const std::vector<TaskReport>& reports, bool is_complete) {
  const ModelConfig& config = workspace.model().config();
  json tasks_json = json::array();
  for (const TaskReport& task : reports) tasks_json.push_back(to_json(task, config));
  json out = analysis_json(o.model, o.questions, workspace, is_complete);
  out["n_layers"] = config.n_layers;
  out["sink_layer"] = reports.back().reading.sink_layer;
  out["tasks"] = std::move(tasks_json);
  return out;
}

HeatPanel shares_panel(const std::string& title, const AttentionReport& report,
                       const ModelConfig& config, AttentionShares LayerAttention::*whose) {
  HeatPanel out = {title, {}, {"preamble", "self", "predecessor", "strongest other", "rest"}, {}};
  for (size_t i = 0; i < report.layers.size(); ++i) {
    const bool has_window = config.layers[i].sliding_window > 0;
    out.rows.push_back(fmt::format("{}{}", i, has_window ? " window" : ""));
    const AttentionShares& s = report.layers[i].*whose;
    for (const double value : {s.preamble, s.self, s.predecessor, s.strongest_other, s.rest})
      out.values.push_back(value);
  }
  return out;
}

HeatPanel map_panel(const AttentionMap& map, size_t layer) {
  HeatPanel out = {fmt::format("layer {}", layer), {"preamble"}, {}, {}};
  for (size_t chunk = 1; chunk + 1 < map.n_segments; ++chunk)
    out.rows.push_back(fmt::format("chunk {}", chunk));
  out.rows.emplace_back("query");
  out.columns = out.rows;
  for (size_t from = 0; from < map.n_segments; ++from) {
    for (size_t to = 0; to < map.n_segments; ++to) out.values.push_back(map.at(layer, from, to));
  }
  return out;
}

// The shares by layer, then the map of the commonest length at layers spread over the depth.
HeatStrip strip_of(const TaskReport& task, const ModelConfig& config) {
  constexpr size_t kMaps = 4;
  const AttentionReport& report = task.report;
  HeatStrip out = {heat_title(task.task), {}};
  out.panels.push_back(shares_panel("chunks", report, config, &LayerAttention::chunks));
  out.panels.push_back(shares_panel("query", report, config, &LayerAttention::query));
  const auto commonest = std::max_element(
      report.maps.begin(), report.maps.end(),
      [](const MeanMap& a, const MeanMap& b) { return a.n_prompts < b.n_prompts; });
  std::set<size_t> layers;
  for (size_t i = 0; i < kMaps; ++i) layers.insert(i * (report.layers.size() - 1) / (kMaps - 1));
  for (const size_t layer : layers) out.panels.push_back(map_panel(commonest->map, layer));
  return out;
}

std::vector<HeatStrip> strips_of(const std::vector<TaskReport>& reports,
                                 const ModelConfig& config) {
  std::vector<HeatStrip> out;
  out.reserve(reports.size());
  for (const TaskReport& task : reports) out.push_back(strip_of(task, config));
  return out;
}

void print_table(const Session& session, const std::vector<TaskReport>& reports) {
  constexpr auto kRight = Table::Align::kRight;
  Table table({{"task"},
               {"n", kRight},
               {"turn layer", kRight},
               {"sink layer", kRight},
               {"early: predecessor", kRight},
               {"equal", kRight},
               {"late: sink", kRight},
               {"equal", kRight},
               {"other than predecessor", kRight},
               {"agreement", kRight},
               {"stays", kRight},
               {"by chance", kRight}});
  const auto cell = [](const std::optional<double>& value) {
    return value ? fmt::format("{:.3f}", *value) : "-";
  };
  for (const TaskReport& t : reports) {
    const AttentionReading& r = t.reading;
    table.add_row({t.task, fmt::format("{}", t.report.n_prompts),
                   r.turn_layer < 0 ? "-" : fmt::format("{}", r.turn_layer),
                   fmt::format("{}", r.sink_layer), cell(r.early_predecessor), cell(r.early_equal),
                   cell(r.late_sink), cell(r.late_equal), cell(r.late_other),
                   cell(r.late_agreement), cell(r.late_stays), cell(r.stays_by_chance)});
  }
  session.print(table.text());
  session.print("\n" + verdict_text(reports.back().reading) + "\n");
}

// What stands in for a layer that was found is named as such.
std::string sink_layer_text(const AttentionReading& r) {
  const bool turns = r.turn_layer >= 0, has_sink = r.late_has_sink();
  std::string_view origin;
  if (turns && !has_sink) origin = ", where attention leaves the predecessor, for no clear sink";
  if (!turns && has_sink) origin = ", the middle one, for want of a layer where attention turns";
  if (!turns && !has_sink) origin = ", the middle one, for want of a clear sink";
  return fmt::format("sink layer {}{}", r.sink_layer, origin);
}

void store_sink_layer(const std::string& model_digest, int32_t layer) {
  ModelProfile profile = read_profile(model_digest);
  profile.sink_layer = layer;
  write_profile(model_digest, profile);
}

void analyze_attention(Session& session, const AttentionOptions& o) {
  check(o);
  const std::vector<EvalSet> sets = read_sets(kCommand, o.questions);
  const AnalysisFolder folder(o.out, "attention");
  Workspace workspace(o.model, StoreSettings());
  const ModelConfig& config = workspace.model().config();
  check_layers_to_map(config);
  Engine& engine = workspace.engine();
  const std::vector<PlannedPrompt> prompts = plan_prompts(engine, sets);
  const Measured measured = measure(session, engine, sets, prompts);
  const std::vector<TaskReport> reports = reports_of(sets, measured, config);

  const json report = report_json(o, workspace, reports, measured.is_complete);
  if (folder.is_wanted()) folder.write(report, strips_of(reports, config));
  const AttentionReading& reading = reports.back().reading;
  const bool writes_profile = o.write_profile && measured.is_complete;
  if (writes_profile) store_sink_layer(engine.domain().model_digest, reading.sink_layer);
  if (session.json()) {
    session.print_json(report);
  } else {
    print_table(session, reports);
  }
  if (folder.is_wanted()) session.note(folder.text());
  if (writes_profile) {
    session.note(fmt::format("the profile of {} has {}", report.at("model").get<std::string>(),
                             sink_layer_text(reading)));
  }
  if (!measured.is_complete) {
    session.note(fmt::format("interrupted: the numbers are over the {} prompts that were ready{}",
                             measured.all.n_prompts(),
                             o.write_profile ? "; the profile stays as it was" : ""));
  }
}

void add_attention(CLI::App& analyze, Session& session) {
  auto options = std::make_shared<AttentionOptions>();
  CLI::App* sub = analyze.add_subcommand(
      "attention",
      "Attention between the passages of a prompt, layer by layer, and the layer to "
      "read sink passages off");
  options->questions.add_to(*sub);
  sub->add_option("--out", options->out,
                  "Folder for attention.json, attention.svg and attention.png");
  sub->add_flag("--write-profile", options->write_profile,
                "Keep the sink layer in the model's profile, where 'adacache' finds it");
  options->model.add_to(*sub);
  sub->callback([options, &session] { analyze_attention(session, *options); });
}

}  // namespace

void add_analyze(CLI::App& app, Session& session) {
  CLI::App* sub = app.add_subcommand(
      "analyze", "Look into how a model reads its prompts, and what policies choose in them");
  sub->require_subcommand(1);
  add_attention(*sub, session);
  add_analyze_deviation(*sub, session);
  add_analyze_overlap(*sub, session);
  add_analyze_popularity(*sub, session);
}

}  // namespace tessera
