// Every reuse policy, in one place. To add one: write policies/NAME.cpp, then add its declaration
// and row here. The contract tests, --help and the docs then know it.
#include <fmt/format.h>

#include "base/error.h"
#include "base/text_util.h"
#include "reuse/policy.h"

namespace tessera {

using PolicyPtr = std::unique_ptr<ReusePolicy>;
PolicyPtr make_full(const PolicyOptions&);
PolicyPtr make_prefix(const PolicyOptions&);
PolicyPtr make_reuse(const PolicyOptions&);
PolicyPtr make_epic(const PolicyOptions&);

namespace {

struct Row {
  std::string_view name;
  PolicyPtr (*make)(const PolicyOptions&);
  std::string_view summary;
};

constexpr Row kPolicies[] = {
    {"full", make_full, "every token anew; the quality reference"},
    {"prefix", make_prefix,
     "load only what stands behind the same tokens as before; the rest anew"},
    {"reuse", make_reuse, "load every chunk and recompute none of it; the lower bound"},
    {"epic", make_epic, "load every chunk and recompute its first tokens"},
};

// Written so that NaN is refused too.
void check_options(const PolicyOptions& options) {
  if (!(options.recompute_ratio >= 0 && options.recompute_ratio <= 1)) {
    throw Error(ErrorCode::kInvalidRequest,
                fmt::format("recompute ratio {} is out of range - it is the share of loaded tokens "
                            "to compute again - "
                            "give a number from 0 to 1",
                            options.recompute_ratio));
  }
  if (options.head_tokens < 0) {
    throw Error(
        ErrorCode::kInvalidRequest,
        fmt::format(
            "head tokens {} is negative - it is the number of tokens per chunk to compute again - "
            "give 0 to let the ratio decide, or a positive number",
            options.head_tokens));
  }
}

}  // namespace

std::vector<PolicyInfo> policies() {
  std::vector<PolicyInfo> out;
  for (const Row& row : kPolicies) out.push_back({row.name, row.summary});
  return out;
}

PolicyPtr make_policy(std::string_view name, const PolicyOptions& options) {
  check_options(options);
  std::vector<std::string_view> known;
  for (const Row& row : kPolicies) {
    if (row.name == name) return row.make(options);
    known.push_back(row.name);
  }
  throw Error(ErrorCode::kInvalidRequest, unknown_name("reuse policy", name, known));
}

}  // namespace tessera
