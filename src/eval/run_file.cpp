#include "eval/run_file.h"

#include <fmt/format.h>

#include <optional>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/file.h"

namespace tessera {
namespace {

using nlohmann::json;

// How every file begins, so that a cut-off first line is known as ours.
constexpr std::string_view kOpening = R"({"kind":"run",)";
constexpr const char* kNoRunFile = "is no file of an eval run";

[[noreturn]] void refuse_file(const std::filesystem::path& path, const std::string& why) {
  throw Error(
      ErrorCode::kInvalidRequest,
      fmt::format("{} {} - give a file that 'tessera eval --out' wrote", path.string(), why));
}

// An empty object where the record has no such object.
json object_of(const json& record, const char* name) {
  const auto found = record.find(name);
  return found != record.end() && found->is_object() ? *found : json::object();
}

}  // namespace

RunRecords parse_run(std::string_view text,
                     const std::function<void(const std::string& why)>& refuse) {
  RunRecords out;
  out.n_bytes = text.rfind('\n') + 1;  // npos + 1 is 0: no line is whole
  const std::string_view cut_off = text.substr(out.n_bytes);
  if (out.n_bytes == 0 && !cut_off.starts_with(kOpening) && !kOpening.starts_with(cut_off))
    refuse(kNoRunFile);
  size_t number = 0;
  for (std::string_view rest = text.substr(0, out.n_bytes); !rest.empty();) {
    const size_t length = rest.find('\n');
    json record =
        json::parse(rest.begin(), rest.begin() + static_cast<ptrdiff_t>(length), nullptr, false);
    rest.remove_prefix(length + 1);
    const auto kind = record.find("kind");
    const bool is_header = kind != record.end() && *kind == "run";
    if (++number == 1 && !is_header) refuse(kNoRunFile);
    if (is_header) {
      out.headers.push_back(std::move(record));
      continue;
    }
    const std::optional<Measurement> row =
        kind != record.end() && *kind == "row" ? measurement_of(record) : std::nullopt;
    if (!row) {
      refuse(fmt::format("line {} - is no row of an eval run", number));
    } else {
      out.rows.insert_or_assign(row->key, *row);
    }
  }
  return out;
}

RunFile read_run_file(const std::filesystem::path& path) {
  const std::optional<std::vector<std::byte>> bytes = read_file(path);
  if (!bytes) {
    throw Error(ErrorCode::kNotFound,
                fmt::format("cannot read {} - there is no such file, or it may not be read - name "
                            "one that 'tessera eval --out' wrote",
                            path.string()));
  }
  RunRecords records = parse_run({reinterpret_cast<const char*>(bytes->data()), bytes->size()},
                                 [&path](const std::string& why) { refuse_file(path, why); });
  if (records.rows.empty()) refuse_file(path, "has no rows");
  RunFile out = {path.string(), object_of(records.headers.front(), "config"), {}, {}};
  for (const json& header : records.headers) {
    if (object_of(header, "config") != out.config)
      refuse_file(path, "has rows of several configs, which are no one run");
    out.sessions.push_back(object_of(header, "session"));
  }
  out.rows = std::move(records.rows);
  return out;
}

uint64_t seed_of(const RunFile& file, uint64_t otherwise) {
  const auto seed = file.config.find("seed");
  return seed != file.config.end() && seed->is_number_unsigned() ? seed->get<uint64_t>()
                                                                 : otherwise;
}

std::vector<ConfigDifference> config_differences(const json& first, const json& second) {
  std::set<std::string> names;
  for (const json* object : {&first, &second}) {
    for (const auto& [name, value] : object->items()) names.insert(name);
  }
  const auto value_of = [](const json& object, const std::string& name) {
    const auto found = object.find(name);
    return found == object.end() ? std::string("none") : found->dump();
  };
  std::vector<ConfigDifference> out;
  for (const std::string& name : names) {
    ConfigDifference d = {name, value_of(first, name), value_of(second, name)};
    if (d.first != d.second) out.push_back(std::move(d));
  }
  return out;
}

}  // namespace tessera
