#include "base/log.h"

#include <spdlog/spdlog.h>

namespace tessera {

void log_library_line(std::string_view library, bool is_error, std::string_view line) {
  while (!line.empty() && (line.back() == '\n' || line.back() == ' ')) line.remove_suffix(1);
  if (line.empty()) return;
  spdlog::log(is_error ? spdlog::level::err : spdlog::level::debug, "{}: {}", library, line);
}

}  // namespace tessera
