#pragma once
// The checks that decide whether a model may be answered with under approximate reuse: whether KV
// is moved rightly, whether the model reads at all, and how far a policy is from full prefill.
// docs/GATE.md tells what each finds.
//
// Everything that takes an engine overwrites its working KV and adds to its store, is greedy, and
// throws what the engine throws. Not thread-safe.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "eval/registry.h"
#include "eval/runner.h"
#include "eval/sample.h"
#include "eval/statistics.h"

namespace tessera {

// What the checks are. A verdict of an older one does not count.
inline constexpr int32_t kGateVersion = 1;

// Bounds of the checks A and B; gate.cpp says why they are what they are.
struct GateBounds {
  static const double kMovedK, kRatioOneLogits, kRatioOneTop1, kNats, kContextGain, kBaseGain,
      kNeedles;
};

struct GateCheck {
  std::string name;
  double value = 0;  // may be NaN, which passes nothing
  double bound = 0;
  Better better = Better::kLower;  // kLower: at most the bound; kHigher: at least
  bool passed() const { return better == Better::kLower ? value <= bound : value >= bound; }
};
bool all_passed(std::span<const GateCheck> checks);

// A text that questions are asked about.
struct GateDocument {
  std::string name;  // that questions know it by
  std::string title;
  std::string text;
};
// From a file whose first line is a heading.
GateDocument document_from(std::string name, std::string_view text);

struct GateQuestion {
  std::string id, text;
  std::vector<std::string> answers;
  std::string document;
};

// A sample for each question: the piece of its document that holds the answer, another one of it,
// and such pieces of other questions, five in all, in an order drawn from a fixed seed. Pieces are
// whole sentences of at most 560 bytes. Pure. Throws Error(kInvalidRequest) for a question whose
// document is not there, or does not hold the answer.
std::vector<Sample> gate_samples(std::span<const GateDocument> documents,
                                 std::span<const GateQuestion> questions);

// Needles of one passage each, in `text`. Throws as make_needles().
std::vector<Sample> gate_needles(std::string_view text);

// What the checks read.
struct GateData {
  std::vector<GateDocument> documents;  // at least three
  std::vector<Sample> needles;          // at least one
  std::vector<Sample> samples;          // at least one
};

struct GateHooks {
  std::function<void(std::string_view what)> step;  // before each step
  std::stop_token stop;
};

// A: whether K is moved as it is computed. `moved_k`: moved_k_error(); `ratio_1_logits` and
// `ratio_1_top1`: ratio_one().
std::vector<GateCheck> check_moves(Engine& engine, const GateData& data, const GateHooks& hooks);

// B: whether the model reads at all, by full prefill alone. `nats` and `context_gain`: means of
// reading_of() over three documents; `base_gain`: base_gain() over the first; `needles`: share of
// them that is found.
std::vector<GateCheck> check_reading(Engine& engine, const GateData& data, const GateHooks& hooks);
// Of each, for progress.
size_t n_move_steps();
size_t n_reading_steps(const GateData& data);

// K that is loaded against K that is computed at the same positions of a prompt that holds
// `text`, as the largest relative error of a row, ||loaded - computed|| / ||computed||, over all
// layers for a chunk that goes back to where it was computed, and over layer 0, whose K depends on
// nothing else, for one that was computed at position 0 and moved.
double moved_k_error(Engine& engine, std::string_view text, const std::stop_token& stop);

// The default policy at ratio 1 against full prefill, along the first tokens of full's answer.
struct RatioOne {
  double max_delta = 0;  // largest |difference| of a logit
  double top1 = 0;       // share of tokens of which the likeliest is the same
};
RatioOne ratio_one(Engine& engine, const Sample& sample, const std::stop_token& stop);

// How well the model reads plain text behind the preamble, nats a token. Throws
// Error(kInvalidRequest) for a context that holds nothing of it.
struct Reading {
  double nats = 0;          // of the whole text
  double context_gain = 0;  // what its first half takes off each token of the second
};
Reading reading_of(Engine& engine, std::string_view text, const std::stop_token& stop);

// What the best of other rotary bases, 100 and 10 times smaller and larger, takes off each token of
// a text that is read at `own_nats`; negative where the file's own is the best of them. A base is a
// number in the file that nothing else there depends on, and a model whose base is wrong may still
// read passably.
double base_gain(Engine& engine, std::string_view text, double own_nats,
                 const std::stop_token& stop);

// Whether full prefill's answer to a needle holds its number.
bool finds_needle(Engine& engine, const Sample& needle, const std::stop_token& stop);

// C: a policy against full prefill.
struct Fidelity {
  double ratio = 0;
  Estimate kl, top1;  // means over questions
};
Fidelity fidelity_of(const RunLog& log, double ratio);

}  // namespace tessera
