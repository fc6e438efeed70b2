#include "reuse/layer_part.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "base/text_util.h"

namespace tessera {
namespace {

struct Named {
  std::string_view name;
  double share;
};

constexpr Named kParts[] = {
    {"all", 1.0}, {"two_thirds", 2.0 / 3}, {"half", 0.5}, {"third", 1.0 / 3}, {"last", 0.0}};

bool read_number(std::string_view text, int32_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value >= 0;
}

}  // namespace

LayerPart layer_part(std::string_view text) {
  for (const Named& part : kParts) {
    if (part.name == text) return {.share = part.share};
  }
  const size_t dash = text.find('-');
  LayerPart part;
  if (dash != std::string_view::npos && read_number(text.substr(0, dash), part.first) &&
      read_number(text.substr(dash + 1), part.last) && part.first <= part.last)
    return part;
  throw Error(ErrorCode::kInvalidRequest,
              fmt::format("layers {} - unknown - give all, two_thirds, half, third, last, or the "
                          "first and the last layer as in 8-15",
                          quote(text)));
}

LayerRange layers_of(const LayerPart& part, int32_t n_layers) {
  if (part.first < 0) {
    // 1/3 of 30 must not become 9 by rounding.
    const auto n = static_cast<int32_t>(std::floor(part.share * n_layers + 1e-6));
    return {n_layers - std::max(1, n), n_layers};
  }
  if (part.last >= n_layers) {
    throw Error(ErrorCode::kInvalidRequest,
                fmt::format("layers {}-{} - the model has layers 0 to {} - give numbers of those",
                            part.first, part.last, n_layers - 1));
  }
  return {part.first, part.last + 1};
}

}  // namespace tessera
