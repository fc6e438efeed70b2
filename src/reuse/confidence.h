#pragma once
// How sure a model is of its next token: AdaCache's reason to stop adding context (its section on
// adaptive context augmentation; DESIGN.md section 6.2). Pure; thread-safe.
#include <cstdint>
#include <optional>
#include <span>

namespace tessera {

// What the logits of the last layers say, read through the output norm and head.
struct Certainty {
  // Mean of KL(layer || last layer) over the layers before it, nats; nothing of one layer alone.
  std::optional<double> kl;
  double entropy = 0;  // of the last layer's distribution, nats
};
// `logits`: [n_layers, n_vocab], ascending, of one row.
Certainty certainty_of(std::span<const float> logits, int32_t n_vocab);

struct ConfidenceOptions {
  double lambda = 0.5;    // weight of the layers' agreement; 1 - lambda that of the entropy
  double kl_scale = 1.0;  // c: the KL at which the agreement is 1/e, nats; its median on data
};
// lambda * exp(-kl / kl_scale) + (1 - lambda) * (1 - entropy / ln n_vocab): 0..1, higher is surer.
// Without a divergence it counts as 0.
double confidence_of(const Certainty& certainty, const ConfidenceOptions& options, int32_t n_vocab);

// How many of the last layers to read: the paper's 4, and 1 where their agreement has no weight,
// for each costs a row of the head.
inline int32_t certainty_layers(const ConfidenceOptions& options) {
  return options.lambda > 0 ? 4 : 1;
}

}  // namespace tessera
