#pragma once
// What a trace comes to: the figures that tables and results are made of. Plain values.
//
// Shares are 0..1, times are ms, and full prefill is the first configuration.
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "eval/statistics.h"

namespace tessera {

struct MatchShare {
  std::string_view name;
  double share = 0;
};
// Hard, soft, independent, miss, in this order.
using MatchShares = std::vector<MatchShare>;

// Of all requests of the stream, also those that are only modelled.
struct StreamFigures {
  size_t n_requests = 0;
  double repeated_questions = 0;
  double repeated_lists = 0;  // the same passages in the same order
  size_t n_shuffled = 0;      // lists that were reordered to be novel
  double top_tenth_share = 0;
};

// At the end of the run. A chunk counts once, however many tiers hold it.
struct StoreFigures {
  std::string config;
  size_t n_chunks = 0;
  uint64_t bytes = 0;       // of these
  uint64_t held_bytes = 0;  // by all tiers together
  size_t n_variants = 0;
};

struct ContextFigures {
  std::map<int32_t, double> seen_shares;  // share of requests, by how many passages they saw
  double seen_deviation = 0;              // standard, passages
  double confident_share = 0;
  double n_rounds = 0;
  double break_even_rounds = 0;
  double repeated_rows_share = 0;  // of the tokens of all prompts
};

struct TtftFigures {
  double mean = 0;
  double p50 = 0;
  double p90 = 0;
  std::optional<double> p99;  // of at least 100 requests
};

struct ConfigFigures {
  std::string config;
  MatchShares matches;
  double recomputed_tokens = 0;  // mean
  double rows_share = 0;
  TtftFigures ttft;
  Estimate full_ratio;  // mean TTFT of full prefill / its own
  double publish_ms = 0;
  size_t n_unpublished = 0;  // requests whose chunks were not all stored
  Estimate f1;
  Estimate exact_match;
  Estimate kl;       // to full prefill of all passages, nats
  Estimate kl_seen;  // to full prefill of the passages seen, nats
  double n_seen = 0;
  std::optional<ContextFigures> context;  // only with adaptive context
};

struct PairSide {
  std::string config;
  double f1 = 0;
  double kl = 0;
};
struct PairFigures {
  PairSide slower;
  PairSide sooner;
  Estimate ratio;  // of mean TTFTs
  double mean_of_ratios = 0;
  double greatest_ratio = 0;
  std::optional<double> paper_mean;  // only of the pairs that AdaCache's paper reports
};

// Request by request: adaptive context less the same policy with all passages.
struct F1Difference {
  std::string adaptive;
  std::string fixed;
  Estimate difference;
  std::optional<double> low_target;  // the interval's low end is to be at least that
};

struct SourceConfig {
  std::string config;
  double n_seen = 0;
  std::optional<ContextFigures> context;
  std::optional<double> cacheblend_ratio;  // of mean TTFTs
};
struct SourceFigures {
  std::string name;  // of the file, without folder and extension
  size_t n_requests = 0;
  std::vector<SourceConfig> configs;
};

struct SteadyFigures {
  std::string config;
  size_t window = 0;  // requests at each end
  MatchShares first;
  MatchShares last;
  double found_change = 0;      // hits of any kind, last less first, points
  std::optional<double> floor;  // of the change; of long traces alone
};

struct GenerationFigures {
  double kl = 0;  // to full prefill of the passages seen, nats
  double soft_share = 0;
  uint32_t depth = 0;  // greatest, of the KV that was loaded
};
struct LineageFigures {
  std::string config;
  std::vector<GenerationFigures> generations;  // the finished ones
  std::optional<double> kl_growth;             // last / first; of several, from more than 0
  uint32_t depth = 0;
  bool is_bounded = false;  // both of these have a ceiling
};

struct ModelledFigures {
  std::string config;
  double row_ms = 0;
  MatchShares matches;
  double rows_share = 0;
  double ttft_mean = 0;
  // The requests that were run for real as well.
  size_t n_checked = 0;
  MatchShares real;
  MatchShares modelled;
  double greatest_difference = 0;  // points
};
struct ModelledPair {
  std::string slower;
  std::string sooner;
  double ratio = 0;
};

// One number of passages.
struct RunReport {
  std::string model;
  int32_t top_k = 0;
  StreamFigures stream;
  std::vector<StoreFigures> stores;
  size_t n_requests = 0;     // computed
  double n_given = 0;        // passages of a prompt, mean
  bool is_cold = false;      // nothing is stored, before or after
  bool is_of_paper = false;  // as the paper's runs are: its means are targets
  std::vector<ConfigFigures> configs;
  std::vector<PairFigures> pairs;
  std::vector<F1Difference> f1_differences;
  std::vector<SourceFigures> sources;  // none of a single file
  std::vector<SteadyFigures> steady;   // of novel traces
};

// The same over stand-in blobs.
struct LongReport {
  std::string model;
  int32_t top_k = 0;
  size_t n_requests = 0;
  std::vector<ModelledFigures> configs;
  std::vector<ModelledPair> pairs;
  std::vector<SteadyFigures> steady;
};

struct GenerationsReport {
  std::string model;
  int32_t top_k = 0;
  size_t n_lists = 0;
  std::vector<LineageFigures> configs;
  std::vector<StoreFigures> stores;
};

struct TopKRatios {
  int32_t top_k = 0;
  std::optional<double> adaptive;  // full / adacache+aca
  std::optional<double> prefix;    // full / prefix
};
// AdaCache's figure of top-k, at its ends.
struct PaperRange {
  double top_2 = 0;
  double top_8 = 0;
};
constexpr PaperRange kPaperAdaptive = {2.93, 4.67};
constexpr PaperRange kPaperPrefix = {1.76, 1.13};

// Over several numbers of passages, fewest first: whether the lead grows with them.
struct TopKReport {
  std::string model;
  std::vector<TopKRatios> ratios;
};

using TraceReport = std::variant<RunReport, LongReport, GenerationsReport, TopKReport>;

constexpr double kDepthCeiling = 1;        // of approximation, where it is bounded
constexpr double kGrowthCeiling = 1.2;     // KL of the last generation to that of the first
constexpr double kModelledDifference = 2;  // points: shares of the real run may differ by

}  // namespace tessera
