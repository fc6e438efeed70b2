#include "engine/answer_json.h"

#include <optional>

namespace tessera {

nlohmann::json to_json(const Account& a) {
  return {{"prompt_tokens", a.total()},
          {"cached_tokens", a.cached()},
          {"exact", a.exact},
          {"soft", a.soft},
          {"independent", a.independent},
          {"recomputed", a.recomputed},
          {"fresh", a.fresh}};
}

nlohmann::json to_json(const Timings& t) {
  return {{"tokenize_ms", t.tokenize_ms}, {"retrieve_ms", t.retrieve_ms},
          {"load_ms", t.load_ms},         {"load_hidden_ms", t.load_hidden_ms},
          {"score_ms", t.score_ms},       {"select_ms", t.select_ms},
          {"prefill_ms", t.prefill_ms},   {"first_token_ms", t.first_token_ms},
          {"decode_ms", t.decode_ms},     {"ttft_ms", t.ttft_ms()}};
}

nlohmann::json to_json(const AdaptiveReport& report) {
  nlohmann::json rounds = nlohmann::json::array();
  for (const Round& r : report.rounds) {
    const std::optional<double>& kl = r.certainty.kl;
    rounds.push_back({{"passages", r.n_passages},
                      {"kl", kl ? nlohmann::json(*kl) : nlohmann::json()},
                      {"entropy", r.certainty.entropy},
                      {"confidence", r.confidence},
                      {"rows", r.rows},
                      {"probe_rows", r.probe_rows},
                      {"ms", r.ms}});
  }
  return {{"passages_given", report.n_given},
          {"passages_seen", report.n_seen},
          {"stopped", report.is_confident ? "confident" : "last passage"},
          {"repeated_rows", report.repeated_rows},
          {"break_even_rounds", report.break_even_rounds},
          {"rounds", rounds}};
}

nlohmann::json to_json(const SegmentReport& s) {
  nlohmann::json out = {
      {"kind", segment_kind_name(s.kind)}, {"tokens", s.n_tokens},
      {"match", match_name(s.match)},      {"tier", s.tier.empty() ? "none" : s.tier},
      {"recomputed", s.recomputed},        {"approximation_depth", s.approximation_depth}};
  if (s.match == Match::kSoft)
    out["matched"] = {{"predecessor", s.matched_predecessor}, {"sink", s.matched_sink}};
  return out;
}

nlohmann::json to_json(const Answer& answer) {
  nlohmann::json segments = nlohmann::json::array();
  for (const SegmentReport& s : answer.segments) segments.push_back(to_json(s));
  nlohmann::json out = {{"text", answer.text},
                        {"policy", answer.policy},
                        {"finish_reason", answer.finish_reason},
                        {"completion_tokens", answer.tokens.size()},
                        {"usage", to_json(answer.account)},
                        {"probe_rows", answer.probe_rows},
                        {"scorer_rows", answer.scorer_rows},
                        {"timings", to_json(answer.timings)},
                        {"segments", segments}};
  if (answer.adaptive) out["adaptive_context"] = to_json(*answer.adaptive);
  return out;
}

nlohmann::json to_json(const Comparison& c) {
  return {{"answer", to_json(c.policy)},         {"ttft_ratio", c.ttft_ratio()},
          {"mean_kl", c.distance.mean_kl},       {"top1", c.distance.top1},
          {"positions", c.distance.n_positions}, {"same_answer", c.same_answer}};
}

}  // namespace tessera
