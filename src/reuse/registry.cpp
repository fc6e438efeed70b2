// Every reuse policy, in one place. To add one: write policies/NAME.cpp, then add its declaration
// and row here. The contract tests and --help then know it; the tables in README.md
// and docs/POLICIES.md are written by hand.
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
PolicyPtr make_cacheblend(const PolicyOptions&);
PolicyPtr make_speccache(const PolicyOptions&);
PolicyPtr make_adacache(const PolicyOptions&);
PolicyPtr make_query_aware(const PolicyOptions&);
PolicyPtr make_random(const PolicyOptions&);
PolicyPtr make_oracle(const PolicyOptions&);

namespace {

struct Row {
  std::string_view name;
  PolicyPtr (*make)(const PolicyOptions&);
  std::string_view summary;
  bool is_control = false;
  bool is_exact = false;
  bool reads_ratio = true;
};

constexpr Row kPolicies[] = {
    {.name = "full",
     .make = make_full,
     .summary = "every token anew; the quality reference",
     .is_exact = true,
     .reads_ratio = false},
    {.name = "prefix",
     .make = make_prefix,
     .summary = "load only what stands behind the same tokens as before; the rest anew",
     .is_exact = true,
     .reads_ratio = false},
    {.name = "reuse",
     .make = make_reuse,
     .summary = "load every chunk and recompute none of it; the lower bound",
     .reads_ratio = false},
    {"epic", make_epic, "load every chunk and recompute its first tokens"},
    {"cacheblend", make_cacheblend,
     "recompute the tokens whose V at layer 1 is furthest from full prefill's"},
    {"speccache", make_speccache,
     "recompute the tokens that a small scorer model rates highest, by runs of neighbours"},
    {"adacache", make_adacache,
     "recompute the tokens that look out of their chunk, fewer where it meets familiar company"},
    {"query_aware", make_query_aware,
     "recompute the windows of tokens that the question attends to most"},
    {"random", make_random, "recompute tokens drawn at random; a control", true},
    {"oracle", make_oracle,
     "recompute the tokens whose KV is furthest from full prefill's, which runs first; a control",
     true},
};

[[noreturn]] void refuse(const std::string& what) { throw Error(ErrorCode::kInvalidRequest, what); }

// Written so that NaN is refused too.
void check_spans(const SpanOptions& o) {
  if (!(o.smooth >= 0)) {
    refuse(
        fmt::format("smoothness {} is out of range - neighbours join a span while their scores "
                    "differ by less - give 0 or more",
                    o.smooth));
  }
  if (!(o.cover >= 0 && o.cover <= 1)) {
    refuse(
        fmt::format("cover {} is out of range - it is the share of a span that must be chosen "
                    "for the rest to be - give a number from 0 to 1",
                    o.cover));
  }
  if (o.max_tokens < 1) {
    refuse(fmt::format("spans of {} tokens - are empty - give 1 or more", o.max_tokens));
  }
  if (!(o.clip_quantile > 0 && o.clip_quantile <= 1)) {
    refuse(
        fmt::format("clip quantile {} is out of range - scores above it count as it - give a "
                    "number above 0, up to 1 for none",
                    o.clip_quantile));
  }
}

void check_options(const PolicyOptions& o) {
  if (!(o.recompute_ratio >= 0 && o.recompute_ratio <= 1)) {
    refuse(
        fmt::format("recompute ratio {} is out of range - it is the share of loaded tokens to "
                    "compute again - give a number from 0 to 1",
                    o.recompute_ratio));
  }
  if (o.head_tokens < 0) {
    refuse(
        fmt::format("head tokens {} is negative - it is the number of tokens per chunk to "
                    "compute again - give 0 to let the ratio decide, or a positive number",
                    o.head_tokens));
  }
  if (o.window < 1 || o.window % 2 == 0) {
    refuse(
        fmt::format("window {} is not odd and positive - it is the width of the running mean - "
                    "give 1, 3, 5 ...",
                    o.window));
  }
  if (!(o.head_share >= 0 && o.head_share <= 1)) {
    refuse(
        fmt::format("head share {} is out of range - it is the share of the budget for the "
                    "first tokens of chunks - give a number from 0 to 1",
                    o.head_share));
  }
  if (!(o.soft_ratio >= 0 && o.soft_ratio <= 1)) {
    refuse(
        fmt::format("soft ratio {} is out of range - it is the share of tokens to compute again "
                    "where a chunk meets familiar company - give a number from 0 to 1",
                    o.soft_ratio));
  }
  if (!o.layers.empty()) layer_part(o.layers);
  check_spans(o.spans);
}

}  // namespace

std::vector<PolicyInfo> policies() {
  std::vector<PolicyInfo> out;
  for (const Row& row : kPolicies)
    out.push_back({row.name, row.summary, row.is_control, row.is_exact, row.reads_ratio});
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
