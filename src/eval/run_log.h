#pragma once
// The rows of a run, kept in a JSONL file as they come, so that a run that was killed goes on where
// it stopped. docs/EVAL.md describes the file.
//
// Not thread-safe. One program at a time: the file is locked while the object lives.
#include <cstddef>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/file.h"
#include "eval/measurement.h"

namespace tessera {

struct RunHeader {
  nlohmann::json config;   // what every row of a file shares; another one is refused
  nlohmann::json session;  // of this start of the program only: machine, commit, what was asked for
};

// SHA-256 of the config, hex.
std::string config_digest(const nlohmann::json& config);

class RunLog {
 public:
  RunLog() = default;  // rows are kept in memory only

  // Reads the rows of `file`, or starts it; a last line that was cut off is dropped. Throws
  // Error(kInvalidRequest) when it is another kind of file, which then stays as it was, or was made
  // with another config, naming what differs; Error(kIo) when it cannot be opened or another
  // program writes to it. `advice`: what the user can do about a file that is refused.
  RunLog(std::filesystem::path file, RunHeader header,
         std::string advice = "give another file to --out");

  // Whether there is such a row. Throws Error(kInvalidRequest) when it was measured on other
  // inputs, naming which.
  bool has(const RowKey& key, const RowInputs& inputs) const;

  // Writes the row as a whole line. Throws Error(kModel) for one that is not sound, and Error(kIo)
  // when the system refuses; the rows that were there stay.
  void add(const Measurement& measurement);

  const std::map<RowKey, Measurement>& rows() const { return rows_; }

 private:
  void read(std::string_view text);
  void check_config(const nlohmann::json& record) const;
  void append(std::string_view lines);
  [[noreturn]] void refuse(const std::string& why) const;

  std::filesystem::path path_;
  FileDescriptor file_;
  RunHeader header_;
  std::string advice_;
  bool has_header_ = false;  // of this session, in the file
  std::map<RowKey, Measurement> rows_;
};

}  // namespace tessera
