// Each check is a function from nothing to a finding; the table at the end is the order in which
// they run.
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "catalog/catalog.h"
#include "model/model.h"
#include "tessera/build_info.h"
#include "tessera/command.h"
#include "tessera/format.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

enum class Level { kOk, kWarn, kFail };

struct Finding {
  Level level = Level::kOk;
  std::string what;
  std::string fix;  // empty when all is well
};
using Findings = std::vector<Finding>;

constexpr double kGigabyte = 1e9;

// What is written to see how fast the disk is.
constexpr size_t kPiece = size_t(4) << 20;
constexpr int kPieces = 8;

Findings check_cpu() {
  const BuildInfo info = build_info();
  const auto has = [&](std::string_view flag) {
    return std::find(info.cpu_flags.begin(), info.cpu_flags.end(), flag) != info.cpu_flags.end();
  };
  const std::string what = fmt::format("{}, {}", info.cpu.empty() ? "CPU" : info.cpu,
                                       has("avx512f")   ? "AVX-512"
                                       : has("avx2")    ? "AVX2"
                                       : has("asimddp") ? "NEON with dot products"
                                                        : "no AVX2");
  if (has("avx512f") || has("avx2") || has("asimddp")) return {{Level::kOk, what, ""}};
  return {{Level::kWarn, what, "prefill will be several times slower; use a CPU with AVX2"}};
}

Findings check_threads() {
  const int32_t n_cores = available_threads();
  const char* policy = std::getenv("OMP_WAIT_POLICY");
  const char* threads = std::getenv("OMP_NUM_THREADS");
  const std::string what = fmt::format("{} usable cores, OMP_WAIT_POLICY={}", n_cores,
                                       policy == nullptr ? "(unset)" : policy);
  Findings findings;
  if (policy == nullptr || strcasecmp(policy, "passive") != 0) {
    findings.push_back(
        {Level::kWarn, what,
         "unset it or set it to passive: spinning threads cost seconds on a busy machine"});
  } else {
    findings.push_back({Level::kOk, what, ""});
  }
  if (threads != nullptr && std::atoi(threads) > n_cores) {
    findings.push_back({Level::kWarn,
                        fmt::format("OMP_NUM_THREADS={} on {} cores", threads, n_cores),
                        "unset OMP_NUM_THREADS"});
  }
  return findings;
}

Findings check_load() {
  double load = 0;
  if (getloadavg(&load, 1) != 1) return {};
  const int32_t n_cores = available_threads();
  const std::string what = fmt::format("load average {:.1f} on {} cores", load, n_cores);
  if (load <= n_cores) return {{Level::kOk, what, ""}};
  return {{Level::kWarn, what, "other programs use the cores: times measured now mean little"}};
}

// Memory that can be had without swapping: what the kernel says, or less where a container has a
// limit.
double available_memory() {
  double available = std::numeric_limits<double>::infinity();
  std::ifstream meminfo("/proc/meminfo");
  for (std::string line; std::getline(meminfo, line);) {
    unsigned long long kib = 0;
    if (std::sscanf(line.c_str(), "MemAvailable: %llu kB", &kib) == 1)
      available = 1024.0 * static_cast<double>(kib);
  }
  double limit = 0;
  double used = 0;
  if (std::ifstream("/sys/fs/cgroup/memory.max") >> limit &&
      std::ifstream("/sys/fs/cgroup/memory.current") >> used) {
    available = std::min(available, std::max(0.0, limit - used));
  }
  return available;
}

// Weights, some of them turned into a wider type at load, and working memory for one request.
double memory_need(uint64_t model_bytes) {
  return 1.25 * static_cast<double>(model_bytes) + 0.5 * kGigabyte;
}

Findings check_memory() {
  const double available = available_memory();
  Findings findings;
  for (const CatalogEntry& entry : catalog()) {
    const double need = memory_need(entry.bytes);
    if (need <= available || !fs::exists(model_path(entry.name))) continue;
    findings.push_back({Level::kWarn,
                        fmt::format("{:.1f} GB of memory free, {} needs about {:.1f}",
                                    available / kGigabyte, entry.name, need / kGigabyte),
                        "use a smaller model or end other programs"});
  }
  if (findings.empty()) {
    findings.push_back({Level::kOk,
                        fmt::format("{:.1f} GB of memory free, enough for every pulled model",
                                    available / kGigabyte),
                        ""});
  }
  return findings;
}

// Bytes per second of writing one file and having it on the medium, or 0 when the folder refuses.
double write_speed(const fs::path& dir) {
  std::string name = (dir / "doctor.XXXXXX").string();
  const int fd = mkstemp(name.data());
  if (fd < 0) return 0;
  unlink(name.c_str());
  const std::vector<char> piece(kPiece, 'x');
  const Stopwatch watch;
  bool is_ok = true;
  for (int i = 0; is_ok && i < kPieces; ++i) {
    is_ok = write(fd, piece.data(), piece.size()) == static_cast<ssize_t>(piece.size());
  }
  is_ok = is_ok && fsync(fd) == 0;
  close(fd);
  return is_ok ? kPieces * static_cast<double>(kPiece) / (watch.ms() / 1000) : 0;
}

Findings check_cache_dir() {
  const fs::path dir = cache_dir();
  make_private_dir(dir);
  const double speed = write_speed(dir);
  if (speed == 0) {
    return {{Level::kFail, fmt::format("cannot write in {}", dir.string()),
             "make room and give yourself the right to write, or set TESSERA_CACHE"}};
  }
  Findings findings;
  const double n_free = static_cast<double>(fs::space(dir).available);
  const std::string what =
      fmt::format("cache {}, {:.1f} GB free", dir.string(), n_free / kGigabyte);
  if (n_free < 2 * kGigabyte) {
    findings.push_back(
        {Level::kWarn, what,
         "stored KV takes about 12 to 60 kB a token: make room or set TESSERA_CACHE"});
  } else {
    findings.push_back({Level::kOk, what, ""});
  }
  const std::string measured = fmt::format("cache disk writes {:.0f} MB/s", speed / 1e6);
  if (speed < 30e6) {
    findings.push_back({Level::kWarn, measured,
                        "indexing will wait for the disk; set TESSERA_CACHE to a faster one"});
  } else {
    findings.push_back({Level::kOk, measured, ""});
  }
  return findings;
}

Findings check_models() {
  Findings findings;
  for (const CatalogEntry& entry : catalog()) {
    const fs::path path = model_path(entry.name);
    if (!fs::exists(path)) continue;
    if (fs::file_size(path) == entry.bytes && model_digest(path) == entry.sha256) {
      findings.push_back(
          {Level::kOk, fmt::format("model {} ({})", entry.name, human_bytes(entry.bytes)), ""});
    } else {
      findings.push_back(
          {Level::kFail, fmt::format("model {} is not the file of the catalogue", entry.name),
           fmt::format("tessera model rm {0} && tessera model pull {0}", entry.name)});
    }
  }
  if (findings.empty()) {
    findings.push_back({Level::kWarn, fmt::format("no model in {}", models_dir().string()),
                        "tessera model pull qwen2.5-coder-0.5b"});
  }
  return findings;
}

Findings check_pip() {
  // A fixed command: nothing of the user's reaches the shell.
  const bool has_pip = std::system("python3 -m pip --version >/dev/null 2>&1") == 0;
  if (has_pip) return {{Level::kOk, "python3 with pip, for models that come as packages", ""}};
  return {{Level::kWarn, "no python3 with pip",
           "apt install python3-pip, or models come from Hugging Face only"}};
}

using Check = Findings();
constexpr Check* kChecks[] = {check_cpu,       check_threads, check_load, check_memory,
                              check_cache_dir, check_models,  check_pip};

constexpr std::string_view level_name(Level level) {
  return level == Level::kOk ? "ok" : level == Level::kWarn ? "warn" : "FAIL";
}

void print(const Session& session, const Finding& finding) {
  const Session::Color color = finding.level == Level::kOk     ? Session::Color::kGreen
                               : finding.level == Level::kWarn ? Session::Color::kYellow
                                                               : Session::Color::kRed;
  const std::string name = fmt::format("{:4}", level_name(finding.level));
  session.print(fmt::format("{} {}{}{}\n", session.paint(color, name), finding.what,
                            finding.fix.empty() ? "" : ": ", finding.fix));
}

void run(Session& session) {
  nlohmann::json checks = nlohmann::json::array();
  bool has_failed = false;
  for (Check* check : kChecks) {
    session.throw_if_stopped();
    Findings findings;
    try {
      findings = check();
    } catch (const Error& error) {
      // One check that cannot be made is one bad finding; the others still tell something.
      findings = {{Level::kFail, error.what(), ""}};
    }
    for (const Finding& finding : findings) {
      has_failed |= finding.level == Level::kFail;
      checks.push_back(
          {{"status", level_name(finding.level)}, {"what", finding.what}, {"fix", finding.fix}});
      if (!session.json()) print(session, finding);
    }
  }
  if (session.json()) session.print_json({{"ok", !has_failed}, {"checks", checks}});
  if (has_failed) session.set_exit_status(kExitFailed);
}

}  // namespace

void add_doctor(CLI::App& app, Session& session) {
  CLI::App* command =
      app.add_subcommand("doctor", "look for what would make things slow or wrong here");
  command->callback([&session] { run(session); });
}

}  // namespace tessera
