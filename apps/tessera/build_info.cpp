#include "tessera/build_info.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <sstream>

#include "build_config.h"

namespace tessera {
namespace {

// Those that some kernel of ggml asks for.
constexpr std::array<std::string_view, 18> kKernelFlags = {
    "sse4_2",      "avx",         "f16c",     "fma",      "avx2",     "bmi2",
    "avx_vnni",    "avx512f",     "avx512bw", "avx512vl", "avx512dq", "avx512vbmi",
    "avx512_vnni", "avx512_bf16", "amx_tile", "amx_int8", "asimddp",  "i8mm"};

// The text behind "NAME\t: " in the first line of that name.
std::string cpuinfo_field(std::string_view cpuinfo, std::string_view name) {
  for (size_t begin = 0; begin < cpuinfo.size();) {
    const size_t end = std::min(cpuinfo.find('\n', begin), cpuinfo.size());
    const std::string_view line = cpuinfo.substr(begin, end - begin);
    const size_t colon = line.find(": ");
    if (line.starts_with(name) && colon != std::string_view::npos) {
      return std::string(line.substr(colon + 2));
    }
    begin = end + 1;
  }
  return {};
}

std::string read_cpuinfo() {
  std::ifstream file("/proc/cpuinfo");
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

std::vector<std::string> kernel_flags(std::string_view cpuinfo) {
  std::string all = cpuinfo_field(cpuinfo, "flags");
  if (all.empty()) all = cpuinfo_field(cpuinfo, "Features");
  std::istringstream words(all);
  std::vector<std::string> found;
  std::copy_if(std::istream_iterator<std::string>(words), {}, std::back_inserter(found),
               [&](const std::string& flag) {
                 return std::find(kKernelFlags.begin(), kKernelFlags.end(), flag) !=
                        kKernelFlags.end();
               });
  return found;
}

BuildInfo build_info() {
  const std::string cpuinfo = read_cpuinfo();
  return {.version = build_config::kVersion,
          .commit = build_config::kCommit,
          .ggml = build_config::kGgml,
          .compiler = build_config::kCompiler,
          .build_type = build_config::kBuildType,
          .data_dir = build_config::kDataDir,
          .cpu = cpuinfo_field(cpuinfo, "model name"),
          .cpu_flags = kernel_flags(cpuinfo)};
}

}  // namespace tessera
