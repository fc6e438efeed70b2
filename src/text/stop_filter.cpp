#include "text/stop_filter.h"

#include <algorithm>
#include <utility>

namespace tessera {
namespace {

// Length of the longest end of `text` that is a beginning of `stop`.
size_t partial_match(std::string_view text, std::string_view stop) {
  for (size_t n = std::min(text.size(), stop.size() - 1); n > 0; --n) {
    if (text.ends_with(stop.substr(0, n))) return n;
  }
  return 0;
}

}  // namespace

std::string StopFilter::push(std::string_view text) {
  if (stopped_) return {};
  held_ += text;
  size_t cut = std::string::npos;
  size_t keep = 0;
  for (const std::string& stop : stops_) {
    if (stop.empty()) continue;
    cut = std::min(cut, held_.find(stop));
    keep = std::max(keep, partial_match(held_, stop));
  }
  stopped_ = cut != std::string::npos;
  std::string out = held_.substr(0, stopped_ ? cut : held_.size() - keep);
  held_ = stopped_ ? std::string() : held_.substr(held_.size() - keep);
  return out;
}

std::string StopFilter::finish() { return stopped_ ? std::string() : std::exchange(held_, {}); }

}  // namespace tessera
