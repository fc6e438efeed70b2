#pragma once
// CHECK(condition): a programmer error ends the process, in release builds too. User input never
// reaches one.

namespace tessera {
[[noreturn]] void check_failed(const char* what, const char* file, int line);
}  // namespace tessera

#define CHECK(condition) \
  ((condition) ? void() : ::tessera::check_failed(#condition, __FILE__, __LINE__))
