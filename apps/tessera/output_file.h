#pragma once
// Files that a command was asked to write. Thread-safe.
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace tessera {

// Throws Error(kIo) that says why `path` cannot be written.
[[noreturn]] void refuse_output(const std::filesystem::path& path, const std::string& why);

// Whole or not at all. Throws as refuse_output().
void write_output(const std::filesystem::path& path, std::span<const std::byte> bytes);
void write_output(const std::filesystem::path& path, std::string_view text);

}  // namespace tessera
