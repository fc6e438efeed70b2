#include "store/record_file.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "base/error.h"
#include "base/file.h"
#include "base/sqlite.h"

namespace tessera {
namespace {

// A record that is not kept is made again, so a write is worth no longer wait.
constexpr int kBusyMs = 500;

// A file that is there, is not empty and is none of ours is left as it is.
void refuse_foreign(const std::filesystem::path& file, const RecordKind& kind) {
  std::error_code none;
  const uintmax_t size = std::filesystem::file_size(file, none);
  if (none ? !std::filesystem::exists(file, none) : size == 0) return;
  if (peek_application_id(file) == kind.application_id) return;
  throw Error(ErrorCode::kIo, fmt::format("{} is no file of {} - it is damaged, or another "
                                          "program's - remove it, or run 'tessera cache clear'",
                                          file.string(), kind.plural));
}

std::unique_ptr<Database> open(const std::filesystem::path& file, const RecordKind& kind) {
  const bool is_in_memory = file == kInMemory;
  if (!is_in_memory) {
    make_private_dir(file.parent_path());
    refuse_foreign(file, kind);
  }
  auto database = std::make_unique<Database>(file);
  if (database->pragma_number("application_id") != kind.application_id)
    database->execute(fmt::format("PRAGMA application_id = {}", kind.application_id));
  if (!is_in_memory)
    std::filesystem::permissions(
        file, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  if (!is_in_memory && !database->use_wal()) database->fail("cannot log writes to");
  database->execute("PRAGMA synchronous = NORMAL");
  database->execute(std::string(kind.schema));
  database->set_busy_timeout(kBusyMs);  // opening waits longer: it is not tried again
  return database;
}

}  // namespace

RecordFile::RecordFile(const std::filesystem::path& file, const RecordKind& kind,
                       std::chrono::milliseconds rest)
    : plural_(kind.plural), rest_(rest) {
  try {
    database_ = open(file, kind);
  } catch (const std::exception& error) {  // of the file system too
    ++errors_;
    spdlog::warn("{} are neither read nor kept: {}", plural_, error.what());
  }
}

RecordFile::~RecordFile() = default;

void RecordFile::count(const Error& error) {
  if (errors_++ > 0) return;
  spdlog::warn("stored {}: {} - {}", plural_, error.what(),
               database_->was_busy() ? "another program holds it; what comes meanwhile is not kept"
                                     : "if it is damaged, remove it, or run 'tessera cache clear'");
}

bool RecordFile::read(const Work& work) {
  if (database_ == nullptr) return false;
  try {
    work(*database_);
    return true;
  } catch (const Error& error) {
    count(error);
    return false;
  }
}

bool RecordFile::write(const Work& work) {
  if (std::chrono::steady_clock::now() < rests_until_) return false;
  if (read(work)) return true;
  if (database_ != nullptr && database_->was_busy())
    rests_until_ = std::chrono::steady_clock::now() + rest_;
  return false;
}

}  // namespace tessera
