#pragma once
// Lines that third-party libraries log. Thread-safe.
#include <string_view>

namespace tessera {

// An error is an error of ours too; everything else is only of use to someone who looks for the
// cause of one.
void log_library_line(std::string_view library, bool is_error, std::string_view line);

}  // namespace tessera
