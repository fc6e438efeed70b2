#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/text_util.h"
#include "engine/answer_json.h"
#include "engine/compare.h"
#include "tessera/ask_report.h"
#include "tessera/command.h"
#include "tessera/format.h"
#include "tessera/gate_policy.h"
#include "tessera/model_profile.h"
#include "tessera/policy_options.h"
#include "tessera/workspace.h"

namespace tessera {
namespace {

using nlohmann::json;

struct AskOptions {
  ModelOptions model;
  std::string question;
  std::string store;
  std::string passages_file;
  std::string system;
  std::string anchor;
  std::string policy = kAutoPolicy;
  PolicyOptions policy_options;
  AdaptiveContext adaptive;
  bool is_adaptive = false;
  GivenOptions given;
  int32_t top_k = 6;
  int32_t max_tokens = 64;
  SamplerOptions sampler;
  std::string compare;  // what stands behind --compare
  bool is_compared = false;
  bool no_stream = false;
  bool is_forced = false;
};

struct Source {
  std::string label;
  double score = 0;
};

// Passages of a question and where they came from.
struct Context {
  std::vector<PassageText> passages;
  std::vector<Source> sources;
  double retrieve_ms = 0;
};

PassageText passage_of(const json& item, size_t index) {
  if (item.is_string()) return {"", item.get<std::string>()};
  const auto text_field = [&](const char* name, bool required) -> std::string {
    const auto found = item.is_object() ? item.find(name) : item.end();
    if (item.is_object() && found != item.end() && found->is_string())
      return found->get<std::string>();
    if (!required && (!item.is_object() || found == item.end())) return "";
    throw Error(ErrorCode::kInvalidRequest,
                fmt::format("passage {} - needs a string \"{}\" - give {{\"title\": ..., \"text\": "
                            "...}} or a string",
                            index + 1, name));
  };
  return {text_field("title", false), text_field("text", true)};
}

Context read_passages(const std::string& file) {
  const std::optional<std::vector<std::byte>> bytes = read_file(file);
  if (!bytes)
    throw Error(ErrorCode::kNotFound,
                fmt::format("cannot read {} - give a JSON file of passages", file));
  const auto* begin = reinterpret_cast<const char*>(bytes->data());
  json root;
  try {
    root = json::parse(begin, begin + bytes->size());
  } catch (const json::exception& error) {
    throw Error(ErrorCode::kInvalidRequest,
                fmt::format("{} is not JSON - {} - give an array of passages", file, error.what()));
  }
  // Moved: a copy goes down as many calls as the text is nested deep.
  if (root.is_object() && root.contains("passages")) root = std::move(root["passages"]);
  if (!root.is_array())
    throw Error(
        ErrorCode::kInvalidRequest,
        fmt::format("{} - holds no array of passages - give [{{\"title\": ..., \"text\": ...}}]",
                    file));
  Context out;
  for (size_t i = 0; i < root.size(); ++i) {
    out.passages.push_back(passage_of(root[i], i));
    out.sources.push_back({out.passages.back().title.empty() ? fmt::format("passage {}", i + 1)
                                                             : out.passages.back().title,
                           0});
  }
  return out;
}

Context retrieve(const DocumentStore& documents, const AskOptions& o) {
  const Stopwatch watch;
  Context out;
  for (const SearchHit& hit : documents.search(o.question, o.top_k)) {
    out.passages.push_back({hit.passage.passage.title, hit.passage.passage.text});
    out.sources.push_back(
        {fmt::format("{} ({})", hit.passage.document, hit.passage.passage.title), hit.score});
  }
  out.retrieve_ms = watch.ms();
  return out;
}

// What was tuned for this model holds where nothing was given; which values do is said. `requests`:
// one, or the same under several policies.
void note_profile(const Session& session, const ModelProfile& profile, const GivenOptions& given,
                  std::span<const Request> requests) {
  std::vector<PolicySetting> settings;
  settings.reserve(requests.size());
  for (const Request& r : requests)
    settings.push_back({r.policy, r.policy_options, r.adaptive.has_value()});
  const AdaptiveContext adaptive = requests.front().adaptive.value_or(AdaptiveContext{});
  for (const std::string& note : profile_notes(profile, given, settings, adaptive))
    session.note(note);
}

// The same request under a policy with that one's own settings.
Request with_policy(Request request, std::string_view policy, const AskOptions& o,
                    const ModelProfile& profile) {
  request.policy = policy;
  request.policy_options = o.policy_options;
  apply(profile, policy, o.given, request.policy_options);
  if (request.adaptive) apply(profile, o.given, *request.adaptive);
  return request;
}

Request request_of(const AskOptions& o, const Context& context, AnchorKind anchor) {
  Request r;
  r.passages = context.passages;
  r.question = o.question;
  if (!o.system.empty()) r.system = o.system;
  if (o.is_adaptive) r.adaptive = o.adaptive;
  r.anchor = anchor;
  r.max_tokens = o.max_tokens;
  r.sampler = o.sampler;
  return r;
}

std::string ttft_text(const Answer& a) { return human_duration(a.timings.ttft_ms() / 1000.0); }

void print_account(const Session& session, const Request& request, const Answer& a) {
  session.note(fmt::format("first token {} - {}", ttft_text(a), account_text(a.account)));
  if (a.adaptive) session.note(adaptive_text(request, *a.adaptive));
}

// `answer`: the one that read them; null: several did, each in its own way.
void print_sources(const Session& session, const Context& context, const Answer* answer) {
  if (context.sources.empty())
    return session.note("no passage matches the question: answered without any");
  std::vector<std::string> readings(context.sources.size(), answer == nullptr ? "" : " - not read");
  if (answer != nullptr) {
    const std::vector<SegmentReport> chunks = chunks_of(*answer);
    for (size_t i = 0; i < chunks.size(); ++i) readings[i] = " - " + reading_text(chunks[i]);
  }
  for (size_t i = 0; i < context.sources.size(); ++i) {
    const Source& s = context.sources[i];
    const std::string score = s.score > 0 ? fmt::format(" {:.2f}", s.score) : "";
    session.note(fmt::format("source {}: {}{}{}", i + 1, s.label, score, readings[i]));
  }
}

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

// `answer` as for print_sources().
json to_json(const Context& context, const Answer* answer) {
  json out = json::array();
  for (size_t i = 0; i < context.sources.size(); ++i) {
    out.push_back({{"source", context.sources[i].label},
                   {"score", context.sources[i].score},
                   {"title", context.passages[i].title},
                   {"text", context.passages[i].text}});
  }
  if (answer == nullptr) return out;
  const size_t n_read = chunks_of(*answer).size();
  for (size_t i = 0; i < out.size(); ++i) out[i]["read"] = i < n_read;
  return out;
}

void note_reference(const Session& session, const Request& request) {
  if (request.adaptive)
    session.note("times and distance are against full prefill over all passages");
}

void print_comparison(const Session& session, const Comparison& c, const Request& request) {
  const std::string name = configuration_name(request);
  session.print(fmt::format("{:{}} {}\n{}: {}\n", "full:", name.size() + 1, c.full.text, name,
                            c.policy.text));
  session.note(fmt::format("first token: full {}, {} {}, {}", ttft_text(c.full), name,
                           ttft_text(c.policy), sooner_text(c.ttft_ratio())));
  session.note(fmt::format("distance: mean KL {:.4f}, top-1 {:.0f}% over {} tokens; {}",
                           c.distance.mean_kl, 100 * c.distance.top1, c.distance.n_positions,
                           c.same_answer ? "same answer" : "the answers differ"));
  note_reference(session, request);
  print_account(session, request, c.policy);
}

// Afterwards, when the answer is out: chunks that were missed get their KV for the next time.
void store_missed(const Session& session, Engine& engine, const Request& request,
                  const Prefilled& prefilled) {
  const bool is_stored = engine.commit(request, prefilled, session.stop_token());
  if (!is_stored)
    session.note("the KV of new passages was not stored; they are new again next time");
}

void report(const Session& session, const Comparison& c, const Request& request,
            const Context& context) {
  if (!session.json()) {
    print_comparison(session, c, request);
    return print_sources(session, context, &c.policy);
  }
  json out = to_json(c);
  out["full"] = to_json(c.full);
  out["retrieved"] = to_json(context, &c.policy);
  session.print_json(out);
}

std::string rows_text(const Answer& a) {
  const double rows = computed_rows(a);
  return a.scorer_rows > 0 ? fmt::format("{:.0f} + {:.0f} of the scorer", rows, a.scorer_rows)
                           : fmt::format("{:.0f}", rows);
}

// A policy beside full prefill, and the request that it answered.
struct Compared {
  Request request;
  std::string ratio;
  Comparison result;
};

void print_all(const Session& session, const Answer& full, const std::vector<Compared>& all) {
  const auto n_read = [](const Answer& a) { return fmt::format("{}", chunks_of(a).size()); };
  Table table({{"policy"},
               {"ratio"},
               {"first token", Table::Align::kRight},
               {"sooner", Table::Align::kRight},
               {"passages", Table::Align::kRight},
               {"rows", Table::Align::kRight},
               {"mean KL", Table::Align::kRight},
               {"top-1", Table::Align::kRight},
               {"answer"}});
  table.add_row({"full", "-", ttft_text(full), "", n_read(full),
                 fmt::format("{}", full.account.rows()), "", "", one_line(full.text)});
  for (const auto& [request, ratio, c] : all) {
    table.add_row({configuration_name(request), ratio, ttft_text(c.policy),
                   fmt::format("{:.2f} x", c.ttft_ratio()), n_read(c.policy), rows_text(c.policy),
                   fmt::format("{:.4f}", c.distance.mean_kl),
                   fmt::format("{:.0f}%", 100 * c.distance.top1),
                   c.same_answer ? "same" : one_line(c.policy.text)});
  }
  session.print(table.text());
}

json to_json(const Compared& c) {
  json out = to_json(c.result);
  const PolicyOptions& options = c.request.policy_options;
  if (reads_ratio(c.request.policy, options)) out["ratio"] = options.recompute_ratio;
  if (c.request.policy == "adacache") out["soft_ratio"] = options.alpha();
  return out;
}

void report_all(const Session& session, const Answer& full, const std::vector<Compared>& all,
                const Context& context) {
  if (!session.json()) {
    print_all(session, full, all);
    note_reference(session, all.front().request);
    return print_sources(session, context, nullptr);
  }
  json compared = json::array();
  for (const Compared& c : all) compared.push_back(to_json(c));
  session.print_json(
      {{"full", to_json(full)}, {"policies", compared}, {"retrieved", to_json(context, nullptr)}});
}

// `request` under every policy whose needs are met.
std::vector<Request> requests_under_all(const Session& session, Workspace& workspace,
                                        const AskOptions& o, const Request& request) {
  std::vector<Request> out;
  for (const PolicyInfo& policy : policies()) {
    if (policy.name == "full") continue;
    Request one = with_policy(request, policy.name, o, workspace.profile());
    if (workspace.scorer() == nullptr && Engine::needs_scorer(one.policy, one.policy_options)) {
      session.note(
          fmt::format("{} is left out: it needs a scorer - give one with --scorer, or get "
                      "the default one with 'tessera model pull {}'",
                      policy.name, kDefaultScorer));
      continue;
    }
    out.push_back(std::move(one));
  }
  return out;
}

// Every policy behind the same reference. The passages are brought into memory first, or the policy
// that runs first would pay for reading them.
void compare_all(Session& session, Workspace& workspace, const AskOptions& o,
                 const Request& request, const Context& context) {
  Engine& engine = workspace.engine();
  const ModelProfile& profile = workspace.profile();
  const std::stop_token stop = session.stop_token();
  const std::vector<Request> requests = requests_under_all(session, workspace, o, request);
  note_profile(session, profile, o.given, requests);
  Reference full = full_reference(engine, request, stop);
  full.answer.timings.retrieve_ms = context.retrieve_ms;
  const Prefilled asked = engine.prefill(request, stop);  // what it misses is stored in the end
  Request reading = request;
  reading.policy = "reuse";
  reading.adaptive.reset();  // or passages behind the round that is sure would stay unread
  engine.prefill(reading, stop);
  std::vector<Compared> all;
  for (const Request& one : requests) {
    session.note(fmt::format("comparing {}", configuration_name(one)));
    // Scores that are kept are made before, or the line would pay for what indexing does.
    if (Engine::needs_scorer(one.policy, one.policy_options)) engine.prefill(one, stop);
    all.push_back({one, ratio_text(profile, one.policy, o.given, one.policy_options),
                   compare_with(engine, full, one, {}, stop)});
    all.back().result.policy.timings.retrieve_ms = context.retrieve_ms;
    all.back().result.prefilled = {};  // its pins and logits
  }
  report_all(session, full.answer, all, context);
  store_missed(session, engine, request, asked);
}

void run_compare(Session& session, Engine& engine, const Request& request, const Context& context) {
  Comparison c = compare_with_full(engine, request, {}, session.stop_token());
  c.full.timings.retrieve_ms = c.policy.timings.retrieve_ms = context.retrieve_ms;
  report(session, c, request, context);
  store_missed(session, engine, request, c.prefilled);
}

// What an answer is reported with.
struct Asked {
  Request request;
  Context context;
  ChosenPolicy chosen;
  bool is_streamed = false;
};

void report(const Session& session, const Answer& answer, const Asked& asked) {
  const auto& [request, context, chosen, is_streamed] = asked;
  if (session.json()) {
    json out = to_json(answer);
    out["retrieved"] = to_json(context, &answer);
    add_choice(chosen, out);
    return session.print_json(out);
  }
  session.print(is_streamed ? "\n" : answer.text + "\n");
  print_account(session, request, answer);
  if (const std::string note = note_of(chosen); !note.empty()) session.note(note);
  print_sources(session, context, &answer);
}

void run_plain(Session& session, Engine& engine, const Asked& asked) {
  const Engine::TextSink sink = [&](std::string_view text) {
    if (asked.is_streamed) session.print(text);
  };
  Prefilled prefilled = engine.prefill(asked.request, session.stop_token());
  prefilled.timings.retrieve_ms = asked.context.retrieve_ms;
  const Answer answer = engine.generate(asked.request, prefilled, sink, session.stop_token());
  report(session, answer, asked);
  store_missed(session, engine, asked.request, prefilled);
}

// The policy that the answer is given under, with its options. Comparisons show how far they are
// from full prefill, so that no gate is asked.
ChosenPolicy choose(const AskOptions& o, const StoreSettings& settings, AnchorKind anchor) {
  const std::string digest = digest_of_model(o.model, settings);
  const ModelProfile profile = read_profile(digest);
  return choose_policy(profile, gate_of(digest, profile),
                       {.policy = o.policy,
                        .options = o.policy_options,
                        .given = o.given,
                        .anchor = anchor,
                        .is_forced = o.is_forced,
                        .is_measured = o.is_compared});
}

void ask(Session& session, AskOptions o) {
  if (o.store.empty() == o.passages_file.empty()) {
    throw Error(ErrorCode::kInvalidRequest,
                "ask - needs --store NAME or --passages FILE.json, and only one of them");
  }
  if (!o.compare.empty() && o.compare != "all") {
    throw Error(ErrorCode::kInvalidRequest,
                fmt::format("ask - --compare takes 'all' or nothing, not {} - put the question in "
                            "front of it",
                            quote(o.compare)));
  }
  if (o.is_compared && o.sampler.temperature != 0) {
    throw Error(ErrorCode::kInvalidRequest,
                "ask - --compare takes the likeliest tokens on both sides, it does not sample - "
                "leave out --temperature or --compare");
  }
  // A slip is said before the model loads.
  make_policy(o.policy == kAutoPolicy ? kDefaultPolicy : o.policy, o.policy_options);
  if (o.is_adaptive) check_adaptive(o.adaptive);
  const Sampler checked(o.sampler);
  StoreSettings settings;
  Context context;
  if (o.store.empty()) {
    context = read_passages(o.passages_file);
  } else {
    const std::unique_ptr<DocumentStore> documents = open_documents(o.store);
    settings = settings_of(*documents, o.store);
    context = retrieve(*documents, o);
  }
  const AnchorKind anchor = anchor_from_name(o.anchor).value_or(settings.anchor);
  const ChosenPolicy chosen = choose(o, settings, anchor);
  const bool is_all = o.compare == "all";
  if (!is_all) {  // of all, each has ratios of its own
    o.policy_options = chosen.options;
    o.given = chosen.given;
  }
  const bool needs_scorer = Engine::needs_scorer(chosen.policy, o.policy_options) ||
                            (is_all && has_scorer(o.model, settings));
  Workspace workspace(o.model, settings, needs_scorer);
  const ModelProfile& profile = workspace.profile();
  const Request request = with_policy(request_of(o, context, anchor), chosen.policy, o, profile);
  if (is_all) return compare_all(session, workspace, o, request, context);
  note_profile(session, profile, o.given, {&request, 1});
  if (o.is_compared) return run_compare(session, workspace.engine(), request, context);
  run_plain(session, workspace.engine(),
            {request, std::move(context), chosen, !o.no_stream && !session.json()});
}

}  // namespace

void add_ask(CLI::App& app, Session& session) {
  auto options = std::make_shared<AskOptions>();
  CLI::App* sub =
      app.add_subcommand("ask", "Answer a question from an indexed store or from given passages");
  sub->add_option("question", options->question, "The question")->required();
  sub->add_option("--store", options->store, "Store to search, made by 'tessera index'");
  sub->add_option("--passages", options->passages_file,
                  "JSON file: an array of strings or of {\"title\", \"text\"}");
  sub->add_option("--policy", options->policy, policy_help())->capture_default_str();
  sub->add_flag("--force", options->is_forced,
                "Run a policy that 'tessera gate' has not passed for the model, which else falls "
                "back to prefix; --compare needs none");
  add_ratio_option(*sub, options->policy_options);
  add_policy_options(*sub, options->policy_options);
  CLI::Option* adaptive =
      sub->add_flag("--adaptive", options->is_adaptive,
                    "Add passages a few at a time, under any policy, until the model is sure of "
                    "its first token");
  for (CLI::Option* option : add_adaptive_options(*sub, options->adaptive)) option->needs(adaptive);
  sub->add_option("--anchor", options->anchor,
                  "What stood before the chunks when they were indexed; default: the store's")
      ->check(CLI::IsMember({"bare", "preamble", "leadin"}));
  sub->add_option("--top-k", options->top_k, "Passages to retrieve")
      ->check(CLI::Range(1, 128))
      ->capture_default_str();
  sub->add_option("--max-tokens", options->max_tokens, "Longest answer")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  sub->add_option("--system", options->system, "Another system message");
  sub->add_option("--temperature", options->sampler.temperature, "0: always the likeliest token")
      ->capture_default_str();
  sub->add_option("--sample-top-k", options->sampler.top_k,
                  "Sample from so many of the likeliest tokens; 0: from all")
      ->capture_default_str();
  sub->add_option("--top-p", options->sampler.top_p,
                  "Sample from the likeliest tokens that hold this mass")
      ->capture_default_str();
  sub->add_option("--min-p", options->sampler.min_p,
                  "Sample from tokens at least this fraction as likely as the likeliest")
      ->capture_default_str();
  sub->add_option("--seed", options->sampler.seed, "Seed of the sampler")->capture_default_str();
  CLI::Option* compare =
      sub->add_option("--compare", options->compare,
                      "Run full prefill too: both answers, both times, and their distance; greedy "
                      "both times. 'all': every policy beside full prefill")
          ->expected(0, 1);
  sub->add_flag("--no-stream", options->no_stream, "Print the answer only when it is complete");
  options->model.add_to(*sub);
  sub->callback([options, compare, sub, &session] {
    options->is_compared = compare->count() > 0;
    options->given = given_options(*sub);
    ask(session, std::move(*options));
  });
}

}  // namespace tessera
