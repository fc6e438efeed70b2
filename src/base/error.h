#pragma once
// What can go wrong, and who is told. One exception type for failures that end a request or a
// start-up; expected outcomes (a cache miss, a full tier) are return values, never exceptions.
#include <stdexcept>
#include <string>

namespace tessera {

// Who has to act. apps/tessera/main.cpp maps each code to one exit status, the server to one HTTP
// status.
enum class ErrorCode {
  kInvalidRequest,  // the caller's input: say what to change
  kNotFound,        // a named model, store or file is not there
  kModel,           // a model file or configuration that cannot be used
  kIo,              // the system refused: disk full, no permission, connection lost
  kCancelled,       // the caller asked to stop
  kOverloaded,
};

class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const { return code_; }

 private:
  ErrorCode code_;
};

}  // namespace tessera
