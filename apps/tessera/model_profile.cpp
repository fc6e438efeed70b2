#include "tessera/model_profile.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <iterator>
#include <span>
#include <stdexcept>

#include "base/error.h"
#include "base/file.h"

namespace tessera {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr int kFormat = 1;
constexpr std::string_view kAdaCacheName = "adacache";

// A value that is no share would be refused at every request from then on.
double share_of(const json& value) {
  const auto share = value.get<double>();
  if (!(share >= 0 && share <= 1))
    throw std::out_of_range(fmt::format("{} is not a number from 0 to 1", share));
  return share;
}

ModelProfile::AdaCache adacache_from(const json& value) {
  const ModelProfile::AdaCache out = {share_of(value.at("alpha")), share_of(value.at("beta"))};
  if (out.alpha > out.beta)
    throw std::out_of_range(fmt::format("alpha {} is above beta {}", out.alpha, out.beta));
  return out;
}

ModelProfile::Adaptive adaptive_from(const json& value) {
  ModelProfile::Adaptive out;
  out.lambda = share_of(value.at("lambda"));
  value.at("kl_scale").get_to(out.kl_scale);
  value.at("threshold").get_to(out.threshold);
  value.at("policy").get_to(out.policy);
  value.at("step").get_to(out.step);
  if (!(out.kl_scale > 0))
    throw std::out_of_range(fmt::format("kl_scale {} is not above 0", out.kl_scale));
  return out;
}

TunedPart part_from(const json& value) {
  TunedPart out;
  value.at("date").get_to(out.date);
  value.at("tasks").get_to(out.tasks);
  value.at("data_digest").get_to(out.data_digest);
  value.at("metric").get_to(out.metric);
  value.at("bound").get_to(out.bound);
  if (!value.at("loss").is_null()) out.loss = value["loss"].get<double>();
  value.at("loss_in_sample").get_to(out.loss_in_sample);
  value.at("n").get_to(out.n);
  return out;
}

// Throws json::exception or std::out_of_range for what is no profile of this model.
ModelProfile profile_from(const json& record, const std::string& model_digest) {
  if (record.at("format").get<int>() != kFormat)
    throw std::out_of_range("it is of another version of the program");
  if (record.at("model_digest").get<std::string>() != model_digest)
    throw std::out_of_range("it is of another model");
  ModelProfile out;
  if (record.contains("sink_layer")) {
    out.sink_layer = record["sink_layer"].get<int32_t>();
    if (*out.sink_layer < 0) throw std::out_of_range("sink_layer is negative");
  }
  if (record.contains("adacache")) out.adacache = adacache_from(record["adacache"]);
  if (record.contains("adaptive")) out.adaptive = adaptive_from(record["adaptive"]);
  if (record.contains("ratios")) {
    for (const auto& [policy, ratio] : record["ratios"].items())
      out.ratios[policy] = share_of(ratio);
  }
  if (record.contains("tuned")) {
    for (const auto& [name, part] : record["tuned"].items()) out.tuned[name] = part_from(part);
  }
  if (record.contains("unmet")) record["unmet"].get_to(out.unmet);
  return out;
}

template <typename Value>
void take(const std::map<std::string, Value>& from, const std::string& name,
          std::map<std::string, Value>& into) {
  into.erase(name);
  const auto found = from.find(name);
  if (found != from.end()) into.insert(*found);
}

// Of a part that is not tuned: whether tuning was tried.
std::string_view unmet_text(const ModelProfile& profile, const std::string& part) {
  return profile.unmet.contains(part) ? " (exceeds the bound of the last tuning)" : "";
}

// The ratios that a request stands on and that were neither given nor tuned.
std::vector<std::string> untuned_ratios(const ModelProfile& profile, const std::string& policy,
                                        const GivenOptions& given, const PolicyOptions& options) {
  const auto named = [&profile](const char* name, double value, const std::string& part) {
    return fmt::format("{} {:.4g}{}", name, value, unmet_text(profile, part));
  };
  std::vector<std::string> out;
  if (policy != kAdaCacheName) {
    // Of the others only those that were tried: their papers and docs/EVAL.md speak of the ratio.
    if (!given.ratio && profile.unmet.contains(policy))
      out.push_back(named("ratio", options.recompute_ratio, policy));
    return out;
  }
  if (!given.soft_ratio && !profile.tuned.contains(kAlphaPart))
    out.push_back(named("alpha", options.soft_ratio, kAlphaPart));
  if (!given.ratio && !profile.tuned.contains(kBetaPart))
    out.push_back(named("beta", options.recompute_ratio, kBetaPart));
  return out;
}

std::vector<std::string> untuned_adaptive(const ModelProfile& profile, const GivenOptions& given,
                                          const AdaptiveContext& adaptive) {
  std::vector<std::string> out;
  if (profile.tuned.contains(kAdaptivePart)) return out;
  if (!given.lambda) out.push_back(fmt::format("lambda {:.4g}", adaptive.confidence.lambda));
  if (!given.kl_scale) out.push_back(fmt::format("kl_scale {:.4g}", adaptive.confidence.kl_scale));
  if (!given.threshold) out.push_back(fmt::format("tau {:.4g}", adaptive.threshold));
  if (!out.empty() && profile.unmet.contains(kAdaptivePart))
    out.back() += " (the last tuning found none that saves rows within its bound)";
  return out;
}

// Where tuned values of adaptive context stand beside what they were not tuned with.
std::vector<std::string> misfits(const ModelProfile::Adaptive& tuned, const std::string& policy,
                                 const GivenOptions& given, const AdaptiveContext& adaptive) {
  std::vector<std::string> out;
  if (given.threshold) return out;
  if (given.lambda || given.kl_scale) {
    out.push_back(
        fmt::format("tau {:.4g} was tuned with lambda {:.4g} and kl_scale {:.4g}, not "
                    "with what is given - give --adaptive-threshold too",
                    tuned.threshold, tuned.lambda, tuned.kl_scale));
  }
  if (tuned.policy != policy || tuned.step != adaptive.step) {
    out.push_back(
        fmt::format("adaptive context was tuned under {} at step {}, not under {} at step {}",
                    tuned.policy, tuned.step, policy, adaptive.step));
  }
  return out;
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
  return out;
}

ModelProfile read_profile(const std::string& model_digest) {
  const fs::path file = profile_file(model_digest);
  const std::optional<std::vector<std::byte>> bytes = read_file(file);
  if (!bytes) return {};
  const auto* begin = reinterpret_cast<const char*>(bytes->data());
  std::string why;
  try {
    return profile_from(json::parse(begin, begin + bytes->size()), model_digest);
  } catch (const json::exception& error) {
    why = error.what();
  } catch (const std::out_of_range& error) {
    why = error.what();
  }
  spdlog::warn("{} is not used - {} - the built-in settings hold; 'tessera tune' writes it anew",
               file.string(), why);
  return {};
}

void write_profile(const std::string& model_digest, const ModelProfile& profile) {
  const fs::path file = profile_file(model_digest);
  make_private_dir(file.parent_path());
  json record = to_json(profile);
  record["format"] = kFormat;
  record["model_digest"] = model_digest;
  const std::string text = record.dump(2) + "\n";
  const std::span<const std::byte> piece = std::as_bytes(std::span(text));
  std::string error;
  if (write_file_atomic(file, {&piece, 1}, error)) return;
  throw Error(ErrorCode::kIo, fmt::format("cannot write {} - {} - put it right and run again",
                                          file.string(), error));
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

std::string untuned_note(const ModelProfile& profile, std::string_view policy,
                         const GivenOptions& given, const PolicyOptions& options,
                         const AdaptiveContext* adaptive) {
  const std::string name(policy);
  std::vector<std::string> values = untuned_ratios(profile, name, given, options), notes;
  if (adaptive != nullptr) {
    std::ranges::move(untuned_adaptive(profile, given, *adaptive), std::back_inserter(values));
    if (profile.adaptive) notes = misfits(*profile.adaptive, name, given, *adaptive);
  }
  if (!values.empty()) {
    notes.insert(notes.begin(),
                 fmt::format("untuned: {} - 'tessera tune' finds them", fmt::join(values, ", ")));
  }
  return fmt::format("{}", fmt::join(notes, "; "));
}

}  // namespace tessera
