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
class Error;

// What tells the files of one use from all others.
struct RecordKind {
  uint32_t application_id = 0;  // in the header of the file
  std::string_view plural;      // the records, in messages: "scores"
  std::string_view schema;      // SQL that changes nothing where it was run before
};

class RecordFile {
 public:
  // Makes the file where there is none, in a private folder, for this user alone; ":memory:" keeps
  // it in memory. One that is not of `kind` is left as it is. One that cannot be used is reported
  // once and then serves nothing. After a write that met a lock which another process did not let
  // go, further ones fail at once for as long as `rest`, so that a request waits once and not once
  // a chunk.
  RecordFile(const std::filesystem::path& file, const RecordKind& kind,
             std::chrono::milliseconds rest = std::chrono::seconds(5));
  ~RecordFile();

  using Work = std::function<void(Database&)>;
  // Run `work` on the open file. False: there is none, or an Error came out of `work`; of a write
  // also where it rests. No lock of a writer keeps readers out.
  bool read(const Work& work);
  bool write(const Work& work);

  bool is_usable() const { return database_ != nullptr; }
  uint64_t errors() const { return errors_; }  // the medium refused

 private:
  void count(const Error& error);

  std::string plural_;
  std::chrono::milliseconds rest_;
  std::chrono::steady_clock::time_point rests_until_;  // long ago: it does not
  std::unique_ptr<Database> database_;                 // null: the file cannot be used
  uint64_t errors_ = 0;
};

}  // namespace tessera
