#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "catalog/catalog.h"
#include "model/model.h"
#include "tessera/command.h"
#include "tessera/format.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

fs::path pull_one(const Session& session, const CatalogEntry& entry) {
  ProgressBar bar(session, entry.name, entry.bytes, ProgressBar::Unit::kBytes);
  const auto show = [&bar](const PullProgress& progress) {
    bar.update(progress.done_bytes, progress.source);
  };
  return pull_model(entry.name, show, session.stop_token());
}

void pull(const Session& session, const std::vector<std::string>& names) {
  json pulled = json::array();
  for (const std::string& name : names) {
    const CatalogEntry entry = find_model(name);
    const std::string path = pull_one(session, entry).string();
    pulled.push_back(
        {{"name", name}, {"path", path}, {"bytes", entry.bytes}, {"sha256", entry.sha256}});
    if (!session.json())
      session.print(fmt::format("{}  {}  {}\n", name, human_bytes(entry.bytes), path));
  }
  if (session.json()) session.print_json({{"models", pulled}});
}

json to_json(const CatalogEntry& entry) {
  const fs::path path = model_path(entry.name);
  return {{"name", entry.name},           {"family", entry.family}, {"summary", entry.summary},
          {"bytes", entry.bytes},         {"sha256", entry.sha256}, {"path", path.string()},
          {"is_pulled", fs::exists(path)}};
}

void list(const Session& session) {
  Table table({{"name"}, {"family"}, {"size", Table::Align::kRight}, {"pulled"}, {"summary"}});
  json models = json::array();
  for (const CatalogEntry& entry : catalog()) {
    models.push_back(to_json(entry));
    table.add_row({entry.name, entry.family, human_bytes(entry.bytes),
                   fs::exists(model_path(entry.name)) ? "yes" : "-", entry.summary});
  }
  if (session.json()) {
    session.print_json({{"models", models}});
  } else {
    session.print(table.text());
  }
}

// What is known of a model without loading it: a name of the catalogue, also when it is not pulled,
// or a path.
void info(const Session& session, const std::string& name_or_path) {
  const std::vector<CatalogEntry> entries = catalog();
  const auto known = std::find_if(entries.begin(), entries.end(), [&](const CatalogEntry& entry) {
    return entry.name == name_or_path;
  });
  json facts;
  if (known != entries.end()) {
    facts = to_json(*known);
  } else {
    const fs::path path = resolve_model(name_or_path);
    facts = {
        {"path", path.string()}, {"bytes", fs::file_size(path)}, {"sha256", model_digest(path)}};
  }
  if (session.json()) {
    session.print_json(facts);
    return;
  }
  if (known != entries.end()) {
    session.print(fmt::format("name    {}\nfamily  {}\nabout   {}\n", known->name, known->family,
                              known->summary));
  }
  session.print(fmt::format(
      "file    {}{}\nsize    {} ({} bytes)\nsha256  {}\n", facts["path"].get<std::string>(),
      facts.value("is_pulled", true) ? "" : "  (not pulled)", human_bytes(facts["bytes"]),
      human_count(facts["bytes"]), facts["sha256"].get<std::string>()));
  if (facts.value("is_pulled", true))
    session.print(describe_gguf(facts["path"].get<std::string>()));
}

void remove(const Session& session, const std::vector<std::string>& names) {
  json removed = json::array();
  for (const std::string& name : names) {
    const CatalogEntry entry = find_model(name);
    const auto [had_file, had_partial] = remove_model(name);
    if (!had_file && !had_partial) {
      throw Error(ErrorCode::kNotFound,
                  fmt::format("model {} is not pulled - there is no {} - nothing was removed", name,
                              model_path(name).string()));
    }
    if (!session.json()) {
      if (had_file) session.print(fmt::format("removed {} ({})\n", name, human_bytes(entry.bytes)));
      if (had_partial) session.print(fmt::format("removed the unfinished download of {}\n", name));
    }
    removed.push_back({{"name", name},
                       {"bytes", had_file ? entry.bytes : 0},
                       {"file", had_file},
                       {"partial", had_partial}});
  }
  if (session.json()) session.print_json({{"removed", removed}});
}

// Adds `model NAME`, which takes one or more model names.
CLI::App* add_on_names(CLI::App* model, const std::string& name, const std::string& help,
                       std::vector<std::string>& names) {
  CLI::App* command = model->add_subcommand(name, help);
  command->add_option("names", names, "models of the catalogue, see 'tessera model ls'")
      ->required();
  return command;
}

}  // namespace

void add_model(CLI::App& app, Session& session) {
  CLI::App* model = app.add_subcommand("model", "pull, list and remove models");
  model->require_subcommand(1);

  // The callbacks outlive this function and share what the parser fills in.
  const auto names = std::make_shared<std::vector<std::string>>();
  const auto target = std::make_shared<std::string>();
  add_on_names(model, "pull", "fetch models, resuming where a pull stopped", *names)
      ->callback([&session, names] { pull(session, *names); });
  model->add_subcommand("ls", "the models of the catalogue")->callback([&session] {
    list(session);
  });
  CLI::App* info_command = model->add_subcommand("info", "facts about one model");
  info_command->add_option("model", *target, "a name of the catalogue or the path of a GGUF file")
      ->required();
  info_command->callback([&session, target] { info(session, *target); });
  add_on_names(model, "rm", "remove the files of models", *names)->callback([&session, names] {
    remove(session, *names);
  });
}

}  // namespace tessera
