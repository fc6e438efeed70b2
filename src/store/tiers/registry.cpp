#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "store/tier.h"

namespace tessera {

// To add a tier: write NAME.cpp beside this file, then its declaration and its row here.
std::unique_ptr<Tier> make_ram_tier(const TierOptions& options);
std::unique_ptr<Tier> make_disk_tier(const TierOptions& options);

namespace {

struct Row {
  std::string_view name;
  std::unique_ptr<Tier> (*make)(const TierOptions&);
};

constexpr Row kTiers[] = {
    {"ram", make_ram_tier},
    {"disk", make_disk_tier},
};

}  // namespace

std::vector<std::string_view> tier_names() {
  std::vector<std::string_view> names;
  for (const Row& row : kTiers) names.push_back(row.name);
  return names;
}

std::unique_ptr<Tier> make_tier(std::string_view name, const TierOptions& options) {
  for (const Row& row : kTiers) {
    if (row.name == name) return row.make(options);
  }
  throw Error(ErrorCode::kInvalidRequest,
              fmt::format("unknown tier '{}' - there is none of that name - use one of {}", name,
                          fmt::join(tier_names(), ", ")));
}

}  // namespace tessera
