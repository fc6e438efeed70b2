#include "eval/run_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "base/text_util.h"
#include "eval/run_file.h"

namespace tessera {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr int kFormat = 1;
[[noreturn]] void fail(const std::filesystem::path& file, const std::string& why) {
  throw Error(ErrorCode::kIo, fmt::format("cannot write {} - {} - finished rows are kept: put it "
                                          "right and run again",
                                          file.string(), why));
}

std::string dump(const ordered_json& record) {
  // The answer of a model may hold any bytes; a bad one must not cost the row.
  return record.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

std::string header_line(const RunHeader& header) {
  return dump({{"kind", "run"},
               {"format", kFormat},
               {"config_digest", config_digest(header.config)},
               {"config", header.config},
               {"session", header.session}});
}

FileDescriptor open_locked(const std::filesystem::path& path) {
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!file.is_open()) fail(path, std::strerror(errno));
  // Where the file system has no locks, two writers are the user's own care.
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    fail(path, "another run writes to it");
  return file;
}

}  // namespace

std::string config_digest(const json& config) {
  Sha256 hash;
  hash.update(config.dump());
  return to_hex(hash.digest());
}

RunLog::RunLog(std::filesystem::path file, RunHeader header, std::string advice)
    : path_(std::move(file)),
      file_(open_locked(path_)),
      header_(std::move(header)),
      advice_(std::move(advice)) {
  // A device or a pipe has no end to read to.
  if (!std::filesystem::is_regular_file(path_)) refuse("is no regular file");
  const std::optional<std::vector<std::byte>> bytes = read_file(path_);
  if (!bytes) fail(path_, "it cannot be read");
  read({reinterpret_cast<const char*>(bytes->data()), bytes->size()});
}

void RunLog::refuse(const std::string& why) const {
  throw Error(ErrorCode::kInvalidRequest, fmt::format("{} {} - {}", path_.string(), why, advice_));
}

void RunLog::read(std::string_view text) {
  RunRecords records = parse_run(text, [this](const std::string& why) { refuse(why); });
  for (const json& header : records.headers) check_config(header);
  rows_ = std::move(records.rows);
  if (records.n_bytes < text.size() &&
      ::ftruncate(file_.get(), static_cast<off_t>(records.n_bytes)) != 0)
    fail(path_, std::strerror(errno));
}

void RunLog::check_config(const json& record) const {
  const auto digest = record.find("config_digest");
  if (digest != record.end() && *digest == config_digest(header_.config)) return;
  const auto there = record.find("config");
  std::vector<std::string> names;
  for (const ConfigDifference& d :
       config_differences(there == record.end() ? json() : *there, header_.config))
    names.push_back(fmt::format("{} ({} there, {} now)", d.name, d.first, d.second));
  refuse(fmt::format("was made with other settings - {}", fmt::join(names, ", ")));
}

bool RunLog::has(const RowKey& key, const RowInputs& inputs) const {
  const auto found = rows_.find(key);
  if (found == rows_.end()) return false;
  const RowInputs& there = found->second.inputs;
  if (there.sample != inputs.sample) {
    refuse(
        fmt::format("has rows of question {} of {} - its text, answers or passages have "
                    "changed since then",
                    quote(key.id), quote(key.task)));
  }
  if (there.scorer != inputs.scorer) {
    refuse(fmt::format("has rows of policy {} with another scorer ({} there, {} now)", key.policy,
                       quote(there.scorer), quote(inputs.scorer)));
  }
  return true;
}

void RunLog::add(const Measurement& measurement) {
  if (!is_sound(measurement)) {  // JSON would write null for it, and the next start refuse the file
    const RowKey& key = measurement.key;
    throw Error(ErrorCode::kModel,
                fmt::format("question {} of {} under policy {} gives numbers that are not finite - "
                            "the model file may be damaged - use another model or leave it out",
                            quote(key.id), quote(key.task), key.policy));
  }
  if (file_.is_open()) {
    append((has_header_ ? std::string() : header_line(header_)) + dump(record_of(measurement)));
    has_header_ = true;
  }
  rows_.insert_or_assign(measurement.key, measurement);
}

void RunLog::append(std::string_view lines) {
  const off_t before = ::lseek(file_.get(), 0, SEEK_END);
  while (!lines.empty()) {
    const ssize_t n = ::write(file_.get(), lines.data(), lines.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      const std::string why = std::strerror(errno);
      // If that fails too, the next start drops the half line.
      [[maybe_unused]] const int ignored = ::ftruncate(file_.get(), before);
      fail(path_, why);
    }
    lines.remove_prefix(static_cast<size_t>(n));
  }
}

}  // namespace tessera
