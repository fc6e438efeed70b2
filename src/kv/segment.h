#pragma once
// The parts of a prompt, and how the KV of each was found.
#include <cstdint>
#include <string>
#include <vector>

namespace tessera {

// Half-open range of token positions in the prompt, [begin, end).
struct TokenRange {
  int32_t begin = 0;
  int32_t end = 0;
  int32_t size() const { return end - begin; }
};

// Half-open range of a model's layers, [begin, end), counted from 0.
struct LayerRange {
  int32_t begin = 0;
  int32_t end = 0;
  int32_t size() const { return end - begin; }
  bool empty() const { return end <= begin; }
  bool holds(int32_t layer) const { return layer >= begin && layer < end; }
};

enum class SegmentKind { kPreamble, kChunk, kText, kQuery };

// How the KV of a segment was found. kExact: it was computed behind the very tokens that stand
// before it now.
enum class Match { kMiss, kIndependent, kSoft, kExact };

struct Segment {
  SegmentKind kind = SegmentKind::kText;
  TokenRange range;
  Match match = Match::kMiss;
};

// KV that was loaded but was made in another context: a candidate for recompute.
inline bool is_approximate(const Segment& s) {
  return s.match == Match::kSoft || s.match == Match::kIndependent;
}

// A prompt as ids, cut into segments that cover it without gaps. Every segment was tokenised alone.
struct Prompt {
  std::vector<int32_t> ids;
  std::vector<Segment> segments;  // ascending; segments[i].range.end == segments[i + 1].range.begin
};

}  // namespace tessera
