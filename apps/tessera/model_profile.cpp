#include "tessera/model_profile.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/text_util.h"
#include "tessera/format.h"
#include "tessera/json_field.h"

namespace tessera {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr int kFormat = 1;
constexpr std::string_view kAdaCacheName = "adacache";

ModelProfile::AdaCache adacache_from(const Field& field) {
  const ModelProfile::AdaCache out = {field.at("alpha").share(), field.at("beta").share()};
  if (out.alpha > out.beta) {
    throw Unusable(fmt::format("field 'adacache.alpha' is {} where at most beta, {}, is expected",
                               out.alpha, out.beta));
  }
  return out;
}

ModelProfile::Adaptive adaptive_from(const Field& field) {
  return {.lambda = field.at("lambda").share(),
          .kl_scale = field.at("kl_scale").number_above_0(),
          .threshold = field.at("threshold").number(),
          .policy = field.at("policy").text(),
          .step = field.at("step").integer(1, std::numeric_limits<int32_t>::max())};
}

TunedPart part_from(const Field& field) {
  TunedPart out;
  out.date = field.at("date").text();
  out.tasks = field.at("tasks").texts();
  out.data_digest = field.at("data_digest").text();
  out.metric = field.at("metric").text();
  out.bound = field.at("bound").number_from_0();
  if (const Field loss = field.at("loss"); !loss.is_null()) out.loss = loss.number();
  out.loss_in_sample = field.at("loss_in_sample").number();
  out.n = field.at("n").integer(0, std::numeric_limits<int32_t>::max());
  return out;
}

// Throws Unusable for what is no profile of this model.
ModelProfile profile_from(const json& record, const std::string& model_digest) {
  const Field whole(record);
  if (whole.at("format").integer(0, std::numeric_limits<int32_t>::max()) != kFormat)
    throw Unusable("it is of another version of the program");
  if (whole.at("model_digest").text() != model_digest) throw Unusable("it is of another model");
  ModelProfile out;
  if (const auto field = whole.find("sink_layer"))
    out.sink_layer = field->integer(0, kMostLayers - 1);
  if (const auto field = whole.find("adacache")) out.adacache = adacache_from(*field);
  if (const auto field = whole.find("adaptive")) out.adaptive = adaptive_from(*field);
  if (const auto field = whole.find("ratios")) {
    for (const auto& [policy, ratio] : field->members()) out.ratios[policy] = ratio.share();
  }
  if (const auto field = whole.find("tuned")) {
    for (const auto& [name, part] : field->members()) out.tuned[name] = part_from(part);
  }
  if (const auto field = whole.find("unmet")) {
    for (const auto& [name, bound] : field->members()) out.unmet[name] = bound.number_from_0();
  }
  if (const auto field = whole.find("gate")) out.gate = gate_from(*field);
  return out;
}

// Nothing where the file is there and no profile of this model, with the reason in `why`.
std::optional<ModelProfile> load(const fs::path& file, const std::string& model_digest,
                                 std::string& why) {
  std::error_code ignored;
  if (fs::symlink_status(file, ignored).type() == fs::file_type::not_found) return ModelProfile{};
  const fs::file_status status = fs::status(file, ignored);
  if (fs::is_directory(status) || fs::is_other(status)) {  // a pipe would be waited for
    why = fs::is_directory(status) ? "it is a folder" : "it is no regular file";
    return std::nullopt;
  }
  const std::optional<std::vector<std::byte>> bytes = read_file(file);
  if (!bytes) {
    why = "it cannot be read";
    return std::nullopt;
  }
  const auto* begin = reinterpret_cast<const char*>(bytes->data());
  const json record = json::parse(begin, begin + bytes->size(), nullptr, false);
  if (record.is_discarded()) {
    why = "it is not JSON, or was cut off";
    return std::nullopt;
  }
  try {
    return profile_from(record, model_digest);
  } catch (const Unusable& error) {
    why = error.what();
    return std::nullopt;
  }
}

// What cannot be read may hold what took hours to find: it stays, under a name that is free.
void set_aside(const fs::path& file, const std::string& why) {
  std::error_code error;
  fs::path kept = file.string() + ".damaged";
  for (int n = 2; fs::exists(fs::symlink_status(kept, error)); ++n)
    kept = fmt::format("{}.damaged{}", file.string(), n);
  fs::rename(file, kept, error);
  if (error) {
    throw Error(ErrorCode::kIo,
                fmt::format("cannot write {} - {}, and it cannot be renamed: {} - move it away and "
                            "run again",
                            file.string(), why, error.message()));
  }
  spdlog::warn("{} is written anew - {} - what was there is kept as {}", file.string(), why,
               kept.string());
}

template <typename Value>
void take(const std::map<std::string, Value>& from, const std::string& name,
          std::map<std::string, Value>& into) {
  into.erase(name);
  const auto found = from.find(name);
  if (found != from.end()) into.insert(*found);
}

// A value that a request takes from a part of the profile.
struct TunedValue {
  std::string text;
  std::string how;
};

// Puts `texts` behind `out` where `part` was tuned.
void add_tuned(const ModelProfile& profile, const std::string& part,
               const std::vector<std::string>& texts, std::vector<TunedValue>& out) {
  const auto found = profile.tuned.find(part);
  if (found == profile.tuned.end()) return;
  const TunedPart& how = found->second;
  const auto n = static_cast<uint64_t>(std::max(how.n, 0));
  for (const std::string& text : texts)
    out.push_back({text, fmt::format("{}, {}", counted(n, "question"), how.date)});
}

std::vector<std::string> adaptive_texts(const GivenOptions& given,
                                        const AdaptiveContext& adaptive) {
  std::vector<std::string> out;
  if (!given.lambda) out.push_back(fmt::format("lambda {:.4g}", adaptive.confidence.lambda));
  if (!given.kl_scale) out.push_back(fmt::format("kl_scale {:.4g}", adaptive.confidence.kl_scale));
  if (!given.threshold) out.push_back(fmt::format("tau {:.4g}", adaptive.threshold));
  return out;
}

// Alpha that beta cuts is not the one that was tuned.
bool stands_on_tuned_alpha(const ModelProfile& profile, const GivenOptions& given,
                           const PolicyOptions& options) {
  return !given.soft_ratio && profile.tuned.contains(kAlphaPart) &&
         options.soft_ratio <= options.recompute_ratio;
}

// The tuned ratios that a policy stands on.
std::vector<TunedValue> tuned_ratios(const ModelProfile& profile, const GivenOptions& given,
                                     const PolicySetting& setting) {
  const PolicyOptions& options = setting.options;
  const bool is_adacache = setting.policy == kAdaCacheName;
  std::vector<TunedValue> out;
  if (is_adacache && stands_on_tuned_alpha(profile, given, options))
    add_tuned(profile, kAlphaPart, {fmt::format("alpha {:.4g}", options.alpha())}, out);
  if (reads_ratio(setting.policy, options) && !given.ratio) {
    const char* name = is_adacache ? "beta" : "ratio";
    add_tuned(profile, ratio_part(setting.policy),
              {fmt::format("{} {:.4g}", name, options.recompute_ratio)}, out);
  }
  return out;
}

// "" for no values.
std::string tuned_line(const std::vector<TunedValue>& values) {
  std::string out;
  for (size_t i = 0; i < values.size(); ++i) {
    out += (out.empty() ? "tuned: " : ", ") + values[i].text;
    const bool is_last = i + 1 == values.size() || values[i + 1].how != values[i].how;
    if (is_last) out += fmt::format(" ({})", values[i].how);
  }
  return out;
}

// "" for no values.
std::string untuned_line(const std::vector<std::string>& values) {
  if (values.empty()) return {};
  return fmt::format("untuned: {} - 'tessera tune' finds them", fmt::join(values, ", "));
}

// Of a part that is not tuned: whether tuning was tried.
std::string_view unmet_text(const ModelProfile& profile, const std::string& part) {
  return profile.unmet.contains(part) ? " (exceeds the bound of the last tuning)" : "";
}

// The ratios that a policy stands on and that were neither given nor tuned.
std::vector<std::string> untuned_ratios(const ModelProfile& profile, const GivenOptions& given,
                                        const PolicySetting& setting) {
  const PolicyOptions& options = setting.options;
  const auto named = [&profile](const char* name, double value, const std::string& part) {
    return fmt::format("{} {:.4g}{}", name, value, unmet_text(profile, part));
  };
  std::vector<std::string> out;
  if (setting.policy != kAdaCacheName) {
    // Of the others only those that were tried: their papers and docs/EVAL.md speak of the ratio.
    if (!given.ratio && profile.unmet.contains(setting.policy))
      out.push_back(named("ratio", options.recompute_ratio, setting.policy));
    return out;
  }
  if (!given.soft_ratio && !profile.tuned.contains(kAlphaPart))
    out.push_back(named("alpha", options.alpha(), kAlphaPart));
  if (!given.ratio && !profile.tuned.contains(kBetaPart))
    out.push_back(named("beta", options.recompute_ratio, kBetaPart));
  return out;
}

std::vector<std::string> untuned_adaptive(const ModelProfile& profile, const GivenOptions& given,
                                          const AdaptiveContext& adaptive) {
  if (profile.tuned.contains(kAdaptivePart)) return {};
  std::vector<std::string> out = adaptive_texts(given, adaptive);
  if (!out.empty() && profile.unmet.contains(kAdaptivePart))
    out.back() += " (the last tuning found none that saves rows within its bound)";
  return out;
}

// Where tuned values of adaptive context stand beside what they were not tuned with.
std::vector<std::string> misfits(const ModelProfile::Adaptive& tuned, const GivenOptions& given,
                                 const std::set<std::string>& names,
                                 const AdaptiveContext& adaptive) {
  std::vector<std::string> out;
  if (given.threshold) return out;
  if (given.lambda || given.kl_scale) {
    out.push_back(
        fmt::format("tau {:.4g} was tuned with lambda {:.4g} and kl_scale {:.4g}, not "
                    "with what is given - give --adaptive-threshold too",
                    tuned.threshold, tuned.lambda, tuned.kl_scale));
  }
  std::set<std::string> others = names;
  if (tuned.step == adaptive.step) others.erase(tuned.policy);
  if (!others.empty()) {
    out.push_back(
        fmt::format("adaptive context was tuned under {} at step {}, not under {} at step {}",
                    tuned.policy, tuned.step, fmt::join(others, ", "), adaptive.step));
  }
  return out;
}

// What adaptive context stands on under the policies `names`; "" for what it does not.
std::vector<std::string> adaptive_lines(const ModelProfile& profile, const GivenOptions& given,
                                        const std::set<std::string>& names,
                                        const AdaptiveContext& adaptive) {
  if (names.empty()) return {};
  std::vector<TunedValue> tuned;
  add_tuned(profile, kAdaptivePart, adaptive_texts(given, adaptive), tuned);
  std::vector<std::string> out = {tuned_line(tuned),
                                  untuned_line(untuned_adaptive(profile, given, adaptive))};
  if (profile.adaptive)
    std::ranges::move(misfits(*profile.adaptive, given, names, adaptive), std::back_inserter(out));
  return out;
}

// Of policies that all read a ratio; "" where their ratios are of one origin.
std::string uneven_ratios_line(const ModelProfile& profile, const GivenOptions& given,
                               std::set<std::string> names) {
  if (given.ratio) return {};
  for (const PolicyInfo& policy : policies()) {
    if (policy.is_control) names.erase(std::string(policy.name));
  }
  std::vector<std::string> tuned, untuned, untried;
  for (const std::string& policy : names) {
    const std::string part = ratio_part(policy);
    if (profile.tuned.contains(part)) {
      tuned.push_back(policy);
      continue;
    }
    untuned.push_back(fmt::format("{}{}", policy, unmet_text(profile, part)));
    if (!profile.unmet.contains(part)) untried.push_back(policy);
  }
  if (tuned.empty() || untuned.empty()) return {};
  const std::string advice =
      untried.empty()
          ? ""
          : fmt::format(" - 'tessera tune --policies {}' finds it", fmt::join(untried, ","));
  return fmt::format(
      "the ratio of {} is not tuned for this model while that of {} is: their times are not of "
      "like quality{}",
      fmt::join(untuned, ", "), fmt::join(tuned, ", "), advice);
}

}  // namespace

fs::path profile_file(const std::string& model_digest) {
  return data_dir() / "profiles" / fmt::format("model-{}.json", model_digest);
}

json to_json(const ModelProfile& profile) {
  json out = json::object();
  if (profile.sink_layer) out["sink_layer"] = *profile.sink_layer;
  if (profile.adacache)
    out["adacache"] = {{"alpha", profile.adacache->alpha}, {"beta", profile.adacache->beta}};
  if (profile.adaptive) {
    out["adaptive"] = {{"lambda", profile.adaptive->lambda},
                       {"kl_scale", profile.adaptive->kl_scale},
                       {"threshold", profile.adaptive->threshold},
                       {"policy", profile.adaptive->policy},
                       {"step", profile.adaptive->step}};
  }
  out["ratios"] = profile.ratios;
  out["tuned"] = json::object();
  for (const auto& [name, part] : profile.tuned) {
    out["tuned"][name] = {{"date", part.date},
                          {"tasks", part.tasks},
                          {"data_digest", part.data_digest},
                          {"metric", part.metric},
                          {"bound", part.bound},
                          {"loss", part.loss ? json(*part.loss) : json()},
                          {"loss_in_sample", part.loss_in_sample},
                          {"n", part.n}};
  }
  out["unmet"] = profile.unmet;
  if (profile.gate) out["gate"] = to_json(*profile.gate);
  return out;
}

ModelProfile read_profile(const std::string& model_digest, int32_t n_layers) {
  const fs::path file = profile_file(model_digest);
  std::string why;
  std::optional<ModelProfile> profile = load(file, model_digest, why);
  if (!profile) {
    spdlog::warn(
        "{} is not used - {} - the built-in settings hold: remove it, or run 'tessera tune' again, "
        "which renames it",
        file.string(), why);
    return {};
  }
  if (profile->sink_layer && *profile->sink_layer >= n_layers) {
    spdlog::warn(
        "sink_layer {} in {} is not used - the model has {} layers - its middle layer is taken: "
        "'tessera analyze attention --write-profile' finds a better one",
        *profile->sink_layer, file.string(), n_layers);
    profile->sink_layer.reset();
  }
  return *std::move(profile);
}

void write_profile(const std::string& model_digest, const ModelProfile& profile) {
  const fs::path file = profile_file(model_digest);
  json record = to_json(profile);
  record["format"] = kFormat;
  record["model_digest"] = model_digest;
  try {
    profile_from(record, model_digest);
  } catch (const Unusable& error) {  // all of the file would be lost to the next reader
    throw Error(ErrorCode::kModel,
                fmt::format("cannot write {} - {} - it stays as it was: give finite bounds, or use "
                            "another model",
                            file.string(), error.what()));
  }
  make_private_dir(file.parent_path());
  std::string why;
  if (!load(file, model_digest, why)) set_aside(file, why);
  // The name of a task may hold any bytes.
  const std::string text = record.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
  const std::span<const std::byte> piece = std::as_bytes(std::span(text));
  if (write_file_atomic(file, {&piece, 1}, why)) return;
  throw Error(ErrorCode::kIo,
              fmt::format("cannot write {} - {} - put it right and run again", file.string(), why));
}

void merge(const ModelProfile& from, const std::set<std::string>& parts, ModelProfile& into) {
  for (const std::string& part : parts) {
    take(from.tuned, part, into.tuned);
    take(from.unmet, part, into.unmet);
    if (part == kBetaPart) {
      into.adacache = from.adacache;
    } else if (part == kAdaptivePart) {
      into.adaptive = from.adaptive;
    } else if (part != kAlphaPart) {
      take(from.ratios, part, into.ratios);
    }
  }
}

void apply(const ModelProfile& profile, std::string_view policy, const GivenOptions& given,
           PolicyOptions& options) {
  if (policy == kAdaCacheName) {
    if (!profile.adacache) return;
    if (!given.ratio) options.recompute_ratio = profile.adacache->beta;
    if (!given.soft_ratio) options.soft_ratio = profile.adacache->alpha;
    return;
  }
  const auto tuned = profile.ratios.find(std::string(policy));
  if (tuned != profile.ratios.end() && !given.ratio) options.recompute_ratio = tuned->second;
}

void apply(const ModelProfile& profile, const GivenOptions& given, AdaptiveContext& adaptive) {
  if (!profile.adaptive) return;
  if (!given.kl_scale) adaptive.confidence.kl_scale = profile.adaptive->kl_scale;
  if (!given.lambda) adaptive.confidence.lambda = profile.adaptive->lambda;
  if (!given.threshold) adaptive.threshold = profile.adaptive->threshold;
}

std::string ratio_part(std::string_view policy) {
  return std::string(policy == kAdaCacheName ? kBetaPart : policy);
}

bool reads_ratio(std::string_view policy, const PolicyOptions& options) {
  if (policy == "epic" && options.head_tokens != 0) return false;
  return std::ranges::any_of(
      policies(), [policy](const PolicyInfo& p) { return p.name == policy && p.reads_ratio; });
}

std::string ratio_text(const ModelProfile& profile, std::string_view policy,
                       const GivenOptions& given, const PolicyOptions& options) {
  if (!reads_ratio(policy, options)) return "-";
  const auto marked = [](double value, bool is_tuned) {
    return fmt::format("{:.4g}{}", value, is_tuned ? " (tuned)" : "");
  };
  std::string out =
      marked(options.recompute_ratio, !given.ratio && profile.tuned.contains(ratio_part(policy)));
  if (policy == kAdaCacheName)
    out += ", alpha " + marked(options.alpha(), stands_on_tuned_alpha(profile, given, options));
  return out;
}

std::vector<std::string> profile_notes(const ModelProfile& profile, const GivenOptions& given,
                                       std::span<const PolicySetting> settings,
                                       const AdaptiveContext& adaptive) {
  std::vector<std::string> out;
  const auto add = [&out](const std::string& who, const std::string& what) {
    const std::string line = who + what;
    if (!what.empty() && std::ranges::find(out, line) == out.end()) out.push_back(line);
  };
  std::set<std::string> with_ratio, with_rounds;
  for (const PolicySetting& s : settings) {
    const std::string who = settings.size() > 1 ? s.policy + ": " : "";
    add(who, tuned_line(tuned_ratios(profile, given, s)));
    add(who, untuned_line(untuned_ratios(profile, given, s)));
    if (reads_ratio(s.policy, s.options)) with_ratio.insert(s.policy);
    if (s.is_adaptive) with_rounds.insert(s.policy);
  }
  for (const std::string& line : adaptive_lines(profile, given, with_rounds, adaptive))
    add("", line);
  add("", uneven_ratios_line(profile, given, with_ratio));
  return out;
}

}  // namespace tessera
