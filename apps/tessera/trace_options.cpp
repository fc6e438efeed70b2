#include "tessera/trace_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <utility>

#include "base/error.h"
#include "catalog/catalog.h"
#include "model/model.h"
#include "reuse/policy.h"
#include "tessera/build_info.h"
#include "tessera/policy_options.h"

namespace tessera {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kAdaCache = "adacache";

const std::map<std::string, StoreMode> kStoreModes = {
    {"warm", StoreMode::kWarm}, {"filling", StoreMode::kFilling}, {"cold", StoreMode::kCold}};

// What a configuration reads of the settings.
ordered_json settings_json(const TraceConfig& config, const AdaptiveContext& adaptive) {
  ordered_json out = {{"name", config.name}};
  if (reads_ratio(config.policy, config.options)) out["ratio"] = config.options.recompute_ratio;
  if (config.policy == kAdaCache) out["soft_ratio"] = config.options.alpha();
  if (config.is_adaptive) {
    out["step"] = adaptive.step;
    out["lambda"] = adaptive.confidence.lambda;
    out["kl_scale"] = adaptive.confidence.kl_scale;
    out["tau"] = adaptive.threshold;
  }
  return out;
}

void note_settings(const Session& session, const TraceOptions& t) {
  for (const TraceConfig& config : t.configs) {
    std::vector<std::string> parts;
    const ordered_json settings = settings_json(config, t.adaptive);
    for (const auto& [name, value] : settings.items()) {
      if (value.is_number()) parts.push_back(fmt::format("{} {:.4g}", name, value.get<double>()));
    }
    if (!parts.empty()) session.note(fmt::format("{}: {}", config.name, fmt::join(parts, ", ")));
  }
}

// What was tuned for this model holds where nothing was given, and what was not is said.
void apply_profile(const Session& session, TraceCommand& o) {
  TraceOptions& t = o.trace;
  const ModelProfile profile = read_profile(t.model_digest);
  t.sink_layer = profile.sink_layer.value_or(t.sink_layer);
  apply(profile, o.given, t.adaptive);
  std::vector<PolicySetting> settings;
  for (TraceConfig& config : t.configs) {
    apply(profile, config.policy, o.given, config.options);
    settings.push_back({config.policy, config.options, config.is_adaptive});
  }
  for (const std::string& note : profile_notes(profile, o.given, settings, t.adaptive))
    session.note(note);
  note_settings(session, t);
}

// A limit holds for RAM and disk together, so RAM has a part of it only where one was asked for.
void complete_store(TraceCommand& o) {
  TraceOptions& t = o.trace;
  t.mode = kStoreModes.at(o.store);
  if (t.store_limit_bytes > 0 && t.store_share > 0) {
    throw Error(ErrorCode::kInvalidRequest,
                "--store-limit and --store-share - both bound the store - give one of them");
  }
  const bool has_limit = t.store_limit_bytes > 0 || t.store_share > 0;
  if (has_limit && !o.has_ram_tier) t.ram_limit_bytes = 0;
}

void add_stream_options(CLI::App& app, TraceCommand& o) {
  TraceOptions& t = o.trace;
  app.add_option("--file", o.files,
                 "JSONL file of questions with their passages, as docs/EVAL.md shows; may be "
                 "repeated")
      ->required();
  app.add_option("--corpus", o.corpus,
                 "JSONL file of more passages to retrieve from: {\"title\", \"text\"} a line");
  app.add_option("--requests", t.n_requests, "Requests that are computed")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  app.add_option("--seed", t.stream.seed, "Of the stream and of the intervals")
      ->capture_default_str();
  app.add_option("--skew", t.stream.skew, "s of Zipf's law over the articles; 0: all alike")
      ->check(CLI::Range(0.0, 10.0))
      ->capture_default_str();
  app.add_option("--articles", t.stream.n_articles, "Articles, the likeliest ones; 0: all")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
}

void add_store_options(CLI::App& app, TraceCommand& o) {
  app.add_option("--store", o.store,
                 "warm: every passage is indexed before; filling: empty at first; after a request "
                 "both store what the policy publishes and index what was missed; cold: empty, and "
                 "stays so")
      ->check(CLI::IsMember({"warm", "filling", "cold"}))
      ->capture_default_str();
  app.add_option("--store-limit", o.trace.store_limit_bytes,
                 "Bytes of KV that the store of each configuration holds, in memory and on disk "
                 "together, as in 200MB; 0: no limit")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  app.add_option("--store-share", o.trace.store_share,
                 "The same as a share of the KV of the whole corpus; 0: no limit")
      ->check(CLI::Range(0.0, 100.0));
  o.trace.ram_limit_bytes = uint64_t{256} << 20;
  app.add_option("--ram-tier", o.trace.ram_limit_bytes,
                 "Bytes of KV that each configuration keeps in memory, as in 256MB; 0: none. Where "
                 "the store has a limit they are a part of it, and by default there are none")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  app.add_option("--warm-dir", o.warm_dir,
                 "Folder that keeps the KV of the corpus for later runs; default: none does");
}

void add_choice_options(CLI::App& app, TraceCommand& o, const std::string& defaults) {
  TraceOptions& t = o.trace;
  app.add_option(
         "--configs", o.configs,
         "Policies; with +aca behind the name adaptive context on top (the paper's adaptive "
         "context augmentation), with +paper KV of approximate reuse taken for exact. Full "
         "prefill always runs; default: " +
             defaults)
      ->delimiter(',');
  add_ratio_option(app, o.policy_options);
  add_policy_options(app, o.policy_options);
  add_adaptive_options(app, t.adaptive);
  app.add_option("--anchor", o.anchor, "What stood before the chunks when they were indexed")
      ->check(CLI::IsMember({"bare", "preamble", "leadin"}))
      ->capture_default_str();
  app.add_option("--max-tokens", t.max_tokens, "Longest answer")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
}

}  // namespace

void add_trace_options(CLI::App& app, TraceCommand& o, const std::string& defaults) {
  app.add_option("-m,--model", o.model, "Name of the catalogue, or path of a GGUF file")
      ->capture_default_str();
  add_stream_options(app, o);
  add_choice_options(app, o, defaults);
  add_store_options(app, o);
  o.loading.add_to(app);
  o.loading.add_keep_file_types_to(app);
  o.trace.n_ctx = 4096;
  app.add_option("--ctx", o.trace.n_ctx,
                 "Tokens of prompt and answer together, of each configuration's own working KV")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
}

void complete_trace(const Session& session, const CLI::App& app,
                    std::span<const std::string> configs, TraceCommand& o) {
  TraceOptions& t = o.trace;
  o.given = given_options(app);
  o.has_ram_tier = app.get_option("--ram-tier")->count() > 0;
  complete_store(o);
  if (o.configs.empty()) o.configs.assign(configs.begin(), configs.end());
  t.configs = trace_configs(o.configs, o.policy_options);
  for (const std::string& file : o.files) t.question_files.emplace_back(file);
  t.corpus_file = o.corpus;
  t.warm_dir = o.warm_dir;
  t.anchor = anchor_from_name(o.anchor).value_or(t.anchor);
  t.model_path = resolve_model(o.model);
  t.model_name = o.model;
  t.model_digest = model_digest(t.model_path);
  apply_profile(session, o);
  t.load = o.loading.load_options();
  t.n_threads = o.loading.n_threads;
  t.note = [&session](std::string_view line) { session.note(line); };
  t.stop = session.stop_token();
}

ordered_json trace_header(const TraceCommand& o) {
  const BuildInfo build = build_info();
  const TraceOptions& t = o.trace;
  ordered_json configs = ordered_json::array();
  for (const TraceConfig& c : t.configs) {
    ordered_json& config = configs.emplace_back(settings_json(c, t.adaptive));
    config["policy_options"] = policy_options_json(c.options);
  }
  return {{"kind", "run"},
          {"commit", build.commit},
          {"cpu", build.cpu},
          {"model", o.model},
          {"model_digest", t.model_digest},
          {"files", o.files},
          {"corpus", o.corpus},
          {"configs", std::move(configs)},
          {"requests", t.n_requests},
          {"top_k", t.top_k},
          {"seed", t.stream.seed},
          {"skew", t.stream.skew},
          {"articles", t.stream.n_articles},
          {"novel", t.is_novel},
          {"long", t.n_long_requests},
          {"generations", t.n_generations},
          {"store", o.store},
          {"store_limit_bytes", t.store_limit_bytes},
          {"store_share", t.store_share},
          {"ram_limit_bytes", t.ram_limit_bytes},
          {"threads", t.n_threads > 0 ? t.n_threads : available_threads()},
          {"layout", o.loading.layout},
          {"keep_file_types", o.loading.keep_file_types},
          {"ctx", t.n_ctx},
          {"sink_layer", t.sink_layer},
          {"anchor", o.anchor},
          {"max_tokens", t.max_tokens}};
}

}  // namespace tessera
