#pragma once
// What this program was made from and on what it runs: for `tessera version`, bug reports and bench
// results.
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

struct BuildInfo {
  std::string version;
  std::string commit;  // short, "unknown" outside git, "+changes" when the tree was not clean at
                       // configure time
  std::string ggml;
  std::string compiler;
  std::string build_type;
  std::string data_dir;  // data/ of the source tree this was built from
  std::string cpu;       // model name, of the machine that runs
  std::vector<std::string>
      cpu_flags;  // those that ggml's kernels care about, of the machine that runs
};

BuildInfo build_info();

// The flags of /proc/cpuinfo's text that ggml's kernels care about, in its order.
std::vector<std::string> kernel_flags(std::string_view cpuinfo);

}  // namespace tessera
