#include "eval/deviation.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "engine/kv_deviation.h"
#include "eval/stored_passages.h"

namespace tessera {
namespace {

constexpr size_t kLeastPassages = 2;

using Field = double MatrixDeviation::*;

template <typename Value>
Estimate estimate_of(std::span<const PromptDeviation> prompts, const Resamples& resamples,
                     Value value) {
  std::vector<double> values;
  values.reserve(prompts.size());
  for (const PromptDeviation& prompt : prompts) values.push_back(value(prompt));
  return estimate(values, Statistic::kMean, resamples);
}

// Over every second matrix from `first`: 0 for K, 1 for V.
double mean_over_layers(const PromptDeviation& prompt, size_t first, Field field) {
  double sum = 0;
  for (size_t i = first; i < prompt.matrices.size(); i += 2) sum += prompt.matrices[i].*field;
  return 2 * sum / static_cast<double>(prompt.matrices.size());
}

template <typename Of>
MatrixEstimate estimates(std::span<const PromptDeviation> prompts, const Resamples& resamples,
                         Of of) {
  const auto take = [&](Field field) {
    return estimate_of(prompts, resamples, [&](const PromptDeviation& p) { return of(p, field); });
  };
  return {take(&MatrixDeviation::error), take(&MatrixDeviation::cosine),
          take(&MatrixDeviation::head_share)};
}

struct Sums {
  double error = 0, head_error = 0, cosine = 0;
};

void add_chunk(const KvGeometry& geometry, std::span<const std::byte> full,
               const ReusedChunk& chunk, size_t matrix, Sums& sums) {
  const size_t n_rows = full.size() / KvChunk::payload_bytes(geometry, 1);
  const auto begin = static_cast<size_t>(chunk.range.begin);
  const auto n_tokens = static_cast<size_t>(chunk.range.size());
  for (size_t i = 0; i < n_tokens; ++i) {
    const KvDeviation token = deviation_between(geometry, {full, n_rows, begin + i},
                                                {chunk.payload, n_tokens, i}, matrix);
    sums.error += token.relative();
    sums.cosine += token.cosine();
    if (i < static_cast<size_t>(kHeadTokens)) sums.head_error += token.relative();
  }
}

}  // namespace

PromptDeviation deviation_of(const KvGeometry& geometry, std::span<const std::byte> full,
                             std::span<const ReusedChunk> chunks) {
  size_t n_tokens = 0, n_head = 0;
  for (const ReusedChunk& chunk : chunks) {
    n_tokens += static_cast<size_t>(chunk.range.size());
    n_head += static_cast<size_t>(std::min(chunk.range.size(), kHeadTokens));
  }
  CHECK(n_tokens > 0);
  const auto n = static_cast<double>(n_tokens);
  PromptDeviation out;
  out.head_tokens_share = static_cast<double>(n_head) / n;
  for (size_t matrix = 0; matrix < 2 * static_cast<size_t>(geometry.n_layers); ++matrix) {
    Sums sums;
    for (const ReusedChunk& chunk : chunks) add_chunk(geometry, full, chunk, matrix, sums);
    out.matrices.push_back({sums.error / n, sums.cosine / n,
                            sums.error > 0 ? sums.head_error / sums.error : out.head_tokens_share});
  }
  return out;
}

std::vector<PromptDeviation> measure_deviation(Engine& engine, const Request& request,
                                               const std::string& id,
                                               std::span<const AnchorKind> anchors,
                                               const std::stop_token& stop) {
  if (request.passages.size() < kLeastPassages) {
    throw Error(ErrorCode::kInvalidRequest,
                fmt::format("it has {} passages, at least {} are needed: the first is left out - "
                            "give more passages",
                            request.passages.size(), kLeastPassages));
  }
  engine.kv().clear();
  const std::vector<std::byte> full =
      full_kv(engine.decoder(), engine.kv(), engine.prompt_of(request), stop);
  std::vector<PromptDeviation> out;
  for (const AnchorKind anchor : anchors) {
    Request asked = request;
    asked.anchor = anchor;
    const Prefilled stored = store_passages(engine, asked, id, stop);
    std::vector<ReusedChunk> chunks;
    for (size_t i = 0; i < stored.plan.segments.size(); ++i) {
      if (stored.plan.segments[i].kind == SegmentKind::kChunk)
        chunks.push_back({stored.plan.segments[i].range, stored.found[i].chunk->payload()});
    }
    out.push_back(deviation_of(engine.domain().geometry, full, std::span(chunks).subspan(1)));
  }
  return out;
}

DeviationReport deviation_report(std::span<const PromptDeviation> prompts,
                                 const Resamples& resamples) {
  CHECK(!prompts.empty());
  DeviationReport out;
  for (size_t i = 0; i < prompts.front().matrices.size(); ++i) {
    const auto of_matrix = [i](const PromptDeviation& p, Field f) { return p.matrices[i].*f; };
    out.matrices.push_back(estimates(prompts, resamples, of_matrix));
  }
  const auto of_kind = [&](size_t first) {
    return estimates(prompts, resamples, [first](const PromptDeviation& p, Field f) {
      return mean_over_layers(p, first, f);
    });
  };
  out.k = of_kind(0);
  out.v = of_kind(1);
  for (const PromptDeviation& prompt : prompts)
    out.head_tokens_share += prompt.head_tokens_share / static_cast<double>(prompts.size());
  return out;
}

}  // namespace tessera
