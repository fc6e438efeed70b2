#pragma once
// One SQLite file of records that can be made again, so that losing it never ends anything: a fault
// is counted, the first one is said, and what was asked for is not there.
//
// Not thread-safe: one user at a time. Other processes may use the file at the same time.
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace tessera {

class Database;

// What tells the files of one use from all others.
struct RecordKind {
  uint32_t application_id = 0;  // in the header of the file
  std::string_view plural;      // the records, in messages: "scores"
  std::string_view schema;      // SQL that changes nothing where it was run before
  // What is not tried again for so long behind a lock that another process did not let go: one wait
  // a request, not one a chunk.
  std::chrono::milliseconds rest = std::chrono::seconds(5);
};

class RecordFile {
 public:
  // Makes the file where there is none, in a private folder, for this user alone; ":memory:" keeps
  // it in memory. One that is not of `kind` is left as it is. One that cannot be used is reported
  // once and then serves nothing.
  RecordFile(const std::filesystem::path& file, const RecordKind& kind);
  ~RecordFile();

  // Runs `work` on the open file. False: there is none, it rests, or an Error came out of `work`.
  bool guarded(const std::function<void(Database&)>& work);

  bool is_usable() const { return database_ != nullptr; }
  uint64_t errors() const { return errors_; }  // the medium refused

 private:
  std::string plural_;
  std::chrono::milliseconds rest_;
  std::chrono::steady_clock::time_point rests_until_;
  std::unique_ptr<Database> database_;  // null: the file cannot be used
  uint64_t errors_ = 0;
};

}  // namespace tessera
