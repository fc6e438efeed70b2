#include "tessera/policy_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

#include "base/text_util.h"

namespace tessera {
namespace {

// Lets an option of an enumeration, or of bool, be given by the names of its values, which are then
// all that --help and a refusal show.
template <typename Value>
void take_names(CLI::Option& option, const std::map<std::string, Value>& values) {
  std::vector<std::string> names;
  names.reserve(values.size());
  for (const auto& [name, value] : values) names.push_back(name);
  const std::string known = fmt::format("{}", fmt::join(names, "|"));
  option.type_name(known);
  const auto translate = [values, known](std::string& given) {
    const auto found = values.find(given);
    if (found == values.end()) return fmt::format("{} is none of {}", quote(given), known);
    given = std::to_string(static_cast<int>(found->second));
    return std::string();
  };
  option.transform(CLI::Validator(translate, ""));
}

void add_query_aware(CLI::App& app, PolicyOptions& o) {
  app.add_option("--window", o.window,
                 "query_aware: tokens of the running mean over the question's attention, odd")
      ->capture_default_str();
  app.add_option("--head-share", o.head_share,
                 "query_aware: share of the recomputed tokens that goes to the first of each chunk")
      ->capture_default_str();
  app.add_flag("--scorer-attention", o.scorer_attention,
               "query_aware: the attention of the scorer, not of the model that answers");
}

void add_speccache(CLI::App& app, PolicyOptions& o) {
  app.add_flag("--online-scores", o.online_scores,
               "speccache: the scorer reads the whole prompt for each question; else its scores of "
               "each chunk alone are kept");
  const std::map<std::string, SpanReading> readings = {{"none", SpanReading::kNone},
                                                       {"literal", SpanReading::kLiteral},
                                                       {"seeded", SpanReading::kSeeded},
                                                       {"larger", SpanReading::kLarger}};
  CLI::Option* spans = app.add_option(
      "--spans", o.spans.reading,
      "speccache: completion of spans: none; literal, cut back to the budget by score; seeded, "
      "from 0.85 of the budget; larger, up to 1.2 of it; default seeded");
  take_names(*spans, readings);
  app.add_option("--tau-smooth", o.spans.smooth,
                 "speccache: neighbours join a span while their scores differ by less, relatively")
      ->capture_default_str();
  app.add_option("--tau-cover", o.spans.cover,
                 "speccache: share of a span that must be chosen for the rest to be")
      ->capture_default_str();
  app.add_option("--max-span", o.spans.max_tokens, "speccache: longest span, in scorer tokens")
      ->capture_default_str();
  app.add_option("--clip-quantile", o.spans.clip_quantile,
                 "speccache: scores above this quantile count as it; 1: none do")
      ->capture_default_str();
}

void add_adacache(CLI::App& app, PolicyOptions& o) {
  app.add_option(
         "--soft-ratio", o.soft_ratio,
         "adacache: share of soft chunks' tokens that is recomputed, at most that of independent "
         "ones; what 'tessera tune' found for the model comes before the default, except in "
         "'eval'\n"
         "soft: computed behind other text, but with the same chunk before it or the same sink")
      ->capture_default_str();
  const std::map<std::string, bool> tiers = {{"exact", false}, {"as_paper", true}};
  CLI::Option* hard_tier = app.add_option(
      "--hard-tier", o.hard_as_paper,
      "adacache: what may be loaded behind the same tokens without recompute: exact KV only, or "
      "as_paper, also KV that approximate reuse has made; default exact");
  take_names(*hard_tier, tiers);
}

}  // namespace

std::vector<CLI::Option*> add_adaptive_options(CLI::App& app, AdaptiveContext& o) {
  return {
      app.add_option("--adaptive-step", o.step, "Adaptive context: passages that a round adds")
          ->capture_default_str(),
      app.add_option("--adaptive-threshold", o.threshold,
                     "Adaptive context: confidence, 0..1, above which a round is the last (-1: the "
                     "first is, 1: none is); what 'tessera tune' found for the model comes before "
                     "the default")
          ->capture_default_str(),
      app.add_option("--adaptive-lambda", o.confidence.lambda,
                     "Adaptive context: weight of the last layers' agreement in the confidence; "
                     "the rest is that of the entropy")
          ->capture_default_str(),
      app.add_option("--adaptive-kl-scale", o.confidence.kl_scale,
                     "Adaptive context: divergence of the last layers that leaves 1/e of their "
                     "agreement, nats")
          ->capture_default_str()};
}

GivenOptions given_options(const CLI::App& app) {
  const auto is_given = [&](const char* name) { return app.get_option(name)->count() > 0; };
  return {.ratio = is_given("--ratio"),
          .soft_ratio = is_given("--soft-ratio"),
          .lambda = is_given("--adaptive-lambda"),
          .threshold = is_given("--adaptive-threshold"),
          .kl_scale = is_given("--adaptive-kl-scale")};
}

void add_ratio_option(CLI::App& app, PolicyOptions& o) {
  app.add_option("--ratio", o.recompute_ratio,
                 "Share of independent chunks' tokens that is recomputed, 0..1; what 'tessera "
                 "tune' found for the model comes before the default\n"
                 "exact: computed behind the very same text, nothing is recomputed; independent: "
                 "computed alone")
      ->capture_default_str();
}

void add_policy_options(CLI::App& app, PolicyOptions& o) {
  app.add_option("--head-tokens", o.head_tokens,
                 "epic: first tokens of each chunk, in place of --ratio");
  add_query_aware(app, o);
  add_speccache(app, o);
  add_adacache(app, o);
  app.add_option(
      "--layers", o.layers,
      "query_aware, speccache: layers that scores are read from: all, two_thirds, half, "
      "third, last (counted from the last one down) or numbers as in 8-15; default: half "
      "for query_aware, third for speccache");
  app.add_flag(
      "--bottom-right-mask", o.bottom_right_mask,
      "cacheblend: the mask of its reference code, under which recomputed tokens see later "
      "ones; to compare");
}

nlohmann::json policy_options_json(const PolicyOptions& o) {
  return {{"head_tokens", o.head_tokens},
          {"window", o.window},
          {"head_share", o.head_share},
          {"layers", o.layers},
          {"scorer_attention", o.scorer_attention},
          {"online_scores", o.online_scores},
          {"bottom_right_mask", o.bottom_right_mask},
          {"soft_ratio", o.soft_ratio},
          {"hard_as_paper", o.hard_as_paper},
          {"span_reading", static_cast<int>(o.spans.reading)},
          {"span_smooth", o.spans.smooth},
          {"span_cover", o.spans.cover},
          {"span_max_tokens", o.spans.max_tokens},
          {"span_clip_quantile", o.spans.clip_quantile}};
}

std::string policy_help() {
  std::string out =
      fmt::format("Which KV to reuse and what to recompute:\nauto: {}", kDefaultPolicy);
  for (const PolicyInfo& p : policies()) out += fmt::format("\n{}: {}", p.name, p.summary);
  return out;
}

}  // namespace tessera
