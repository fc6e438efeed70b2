#pragma once
// What was measured of a model and holds for every later run with it: where chunks' sinks are read
// off, and the tuned settings of reuse. One JSON file per model, in `profiles` of the data folder.
//
// Functions are thread-safe; of processes that write the same profile the last one wins.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/request.h"
#include "reuse/policy.h"
#include "tessera/gate_record.h"

namespace tessera {

// How a value was found.
struct TunedPart {
  std::string date;                // of UTC, as in 2025-01-31
  std::vector<std::string> tasks;  // whose questions it was measured on
  std::string data_digest;         // over all of them, hex
  std::string metric;              // what the bound is of: "kl" or "f1_loss"
  double bound = 0;
  // Of the chosen value: on the half of the questions that it was not chosen on, and back; empty
  // for fewer than two of them. In sample: on those that it was chosen on.
  std::optional<double> loss;
  double loss_in_sample = 0;
  int32_t n = 0;  // questions
  bool operator==(const TunedPart&) const = default;
};

struct ModelProfile {
  struct AdaCache {
    double alpha = 0;  // of soft matches, at most beta
    double beta = 0;   // of independent ones
    bool operator==(const AdaCache&) const = default;
  };
  struct Adaptive {
    double lambda = 0;
    double kl_scale = 1;   // c, nats
    double threshold = 0;  // tau
    std::string policy;    // it was tuned under
    int32_t step = 1;      // and passages a round
    bool operator==(const Adaptive&) const = default;
  };

  std::optional<int32_t> sink_layer;
  std::optional<AdaCache> adacache;
  std::optional<Adaptive> adaptive;
  std::map<std::string, double> ratios;    // by policy, adacache excepted
  std::map<std::string, TunedPart> tuned;  // by the names below
  std::map<std::string, double> unmet;     // bounds that nothing met, of parts that stay untuned
  std::optional<GateRecord> gate;
  bool operator==(const ModelProfile&) const = default;
};

// Names of tuned parts; that of a policy's ratio is its own name, but for adacache beta.
inline constexpr const char* kBetaPart = "adacache.beta";
inline constexpr const char* kAlphaPart = "adacache.alpha";
inline constexpr const char* kAdaptivePart = "adaptive";
std::string ratio_part(std::string_view policy);

std::filesystem::path profile_file(const std::string& model_digest);

// No model has more.
inline constexpr int32_t kMostLayers = 65536;

// An empty one where there is none. A file that is damaged, of another model, or of which a value
// is of another type or out of range counts as none, with a warning in the log that names it.
// Unknown fields are passed over. A sink layer that is none of the model's `n_layers` is left out,
// with a warning.
ModelProfile read_profile(const std::string& model_digest, int32_t n_layers = kMostLayers);

// The file appears whole or not at all; one that read_profile() does not use is renamed to
// NAME.damaged (damaged2, ... where that is taken), with a warning. Throws Error(kModel) for values
// that could not be read back, as those that are not finite: the file stays as it was then.
// Error(kIo) when the system refuses.
void write_profile(const std::string& model_digest, const ModelProfile& profile);

// All that is set, as in the file.
nlohmann::json to_json(const ModelProfile& profile);

// Puts the values and records of `parts` (names as above) in `from` in the place of those in
// `into`, and takes away what `from` has not. Alpha comes with beta.
void merge(const ModelProfile& from, const std::set<std::string>& parts, ModelProfile& into);

// Options that the user gave, which no profile overrides.
struct GivenOptions {
  bool ratio = false;
  bool soft_ratio = false;
  bool lambda = false;
  bool threshold = false;
  bool kl_scale = false;
};

// Puts the tuned values of `policy` where nothing was given; untuned ones stay as they are.
void apply(const ModelProfile& profile, std::string_view policy, const GivenOptions& given,
           PolicyOptions& options);
void apply(const ModelProfile& profile, const GivenOptions& given, AdaptiveContext& adaptive);

// Whether a policy recomputes a share of what it has loaded. Others recompute nothing of it,
// everything, or a number of tokens.
bool reads_ratio(std::string_view policy, const PolicyOptions& options);

// The ratios of a policy as they are used, those that were tuned marked: "0.15", "0.02 (tuned),
// alpha 0 (tuned)"; "-": it reads none.
std::string ratio_text(const ModelProfile& profile, std::string_view policy,
                       const GivenOptions& given, const PolicyOptions& options);

// A policy with the settings that it runs under.
struct PolicySetting {
  std::string policy;
  PolicyOptions options;
  bool is_adaptive = false;
};

// Lines that say what `settings` stand on, none of them twice: the tuned values and how they were
// found; values that were neither given nor tuned; tuned ones that were found under other settings;
// and that some policies' ratios are tuned while others', controls excepted, are not, which says
// little about the policies. Of several, each is named. `adaptive`: of all that are adaptive.
std::vector<std::string> profile_notes(const ModelProfile& profile, const GivenOptions& given,
                                       std::span<const PolicySetting> settings,
                                       const AdaptiveContext& adaptive);

}  // namespace tessera
