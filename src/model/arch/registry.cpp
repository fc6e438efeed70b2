// Every architecture family, in one place.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "model/arch/architecture.h"

namespace tessera {

using ArchitecturePtr = std::unique_ptr<Architecture>;
ArchitecturePtr make_gemma3();
ArchitecturePtr make_llama();
ArchitecturePtr make_qwen2();
ArchitecturePtr make_qwen3();

namespace {

struct Row {
  std::string_view name;  // general.architecture
  ArchitecturePtr (*make)();
};

constexpr Row kArchitectures[] = {
    {"gemma3", make_gemma3},
    {"llama", make_llama},
    {"qwen2", make_qwen2},
    {"qwen3", make_qwen3},
};

}  // namespace

std::vector<std::string_view> architecture_names() {
  std::vector<std::string_view> names;
  for (const Row& row : kArchitectures) names.push_back(row.name);
  return names;
}

ArchitecturePtr make_architecture(std::string_view name) {
  for (const Row& row : kArchitectures) {
    if (row.name == name) return row.make();
  }
  return nullptr;
}

ArchitecturePtr architecture_of(const GgufFile& file) {
  const std::string name = file.arch();
  ArchitecturePtr arch = make_architecture(name);
  if (arch == nullptr) {
    file.fail("general.architecture",
              fmt::format("is '{}', which is not supported; supported are {}", name,
                          fmt::join(architecture_names(), ", ")));
  }
  return arch;
}

}  // namespace tessera
