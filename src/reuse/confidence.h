#pragma once
// How sure a model is of its next token: AdaCache's reason to stop adding context (its section on
// adaptive context augmentation; DESIGN.md section 6.2). Pure; thread-safe.
#include <cstdint>
#include <span>

namespace tessera {

// What the logits of the last layers say, read through the output norm and head.
struct Certainty {
  double kl = 0;       // mean of KL(layer || last layer) over the layers before it, nats
  double entropy = 0;  // of the last layer's distribution, nats
};
// `logits`: [n_layers, n_vocab], ascending, of one row. Of one layer alone there is no divergence.
Certainty certainty_of(std::span<const float> logits, int32_t n_vocab);

struct ConfidenceOptions {
  double lambda = 0.5;    // weight of the layers' agreement; 1 - lambda that of the entropy
  double kl_scale = 1.0;  // c: the KL at which the agreement is 1/e, nats; its median on data
};
// lambda * exp(-kl / kl_scale) + (1 - lambda) * (1 - entropy / ln n_vocab): 0..1, higher is surer.
double confidence_of(const Certainty& certainty, const ConfidenceOptions& options, int32_t n_vocab);

inline constexpr int32_t kCertaintyLayers = 4;  // the last ones, which the paper reads

}  // namespace tessera
