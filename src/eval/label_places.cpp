#include "eval/label_places.h"

#include <algorithm>
#include <array>
#include <limits>

namespace tessera {
namespace {

// Distances from the mark's middle, pixels; from the third on a line has to lead to the label.
constexpr std::array kDistances = {9.0, 15.0, 24.0, 36.0, 50.0, 68.0};
struct Direction {
  double x = 0, y = 0;
};
// The likeliest to be read as the mark's own first.
constexpr std::array kDirections = {
    Direction{1, 0}, Direction{0.7, -0.7}, Direction{0.7, 0.7},   Direction{0, -1},
    Direction{0, 1}, Direction{-1, 0},     Direction{-0.7, -0.7}, Direction{-0.7, 0.7}};
// In square pixels of overlap: what a pixel of distance and a later direction weigh.
constexpr double kDistanceCost = 1.5, kDirectionCost = 1, kLabelOverlapCost = 3;

Box box_at(const Label& label, double height, double distance, Direction to) {
  const double x = label.x + distance * to.x, y = label.y + distance * to.y;
  // The box leans on its point: right of it for a direction to the right, above for one upwards.
  const double left = to.x > 0 ? x : to.x < 0 ? x - label.width : x - label.width / 2;
  const double top = to.x != 0 ? y - height / 2 : to.y > 0 ? y - height / 4 : y - height * 3 / 4;
  return {left, top, left + label.width, top + height};
}

void move_into(Box& box, const Box& area) {
  const double right = std::max(area.left - box.left, 0.0) - std::max(box.right - area.right, 0.0);
  const double down = std::max(area.top - box.top, 0.0) - std::max(box.bottom - area.bottom, 0.0);
  box = {box.left + right, box.top + down, box.right + right, box.bottom + down};
}

double covered(const Box& box, std::span<const Box> others) {
  double out = 0;
  for (const Box& other : others) out += box.overlap(other);
  return out;
}

}  // namespace

double Box::overlap(const Box& other) const {
  const double width = std::min(right, other.right) - std::max(left, other.left);
  const double height = std::min(bottom, other.bottom) - std::max(top, other.top);
  return width > 0 && height > 0 ? width * height : 0;
}

std::vector<Box> place_labels(std::span<const Label> labels, double height,
                              std::span<const Box> obstacles, const Box& area) {
  std::vector<Box> out;
  for (const Label& label : labels) {
    Box best;
    double least = std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < kDistances.size() * kDirections.size(); ++i) {
      const double distance = kDistances.at(i / kDirections.size());
      const size_t direction = i % kDirections.size();
      Box box = box_at(label, height, distance, kDirections.at(direction));
      move_into(box, area);
      const double cost = covered(box, obstacles) + kLabelOverlapCost * covered(box, out) +
                          kDistanceCost * distance +
                          kDirectionCost * static_cast<double>(direction);
      if (cost >= least) continue;
      least = cost;
      best = box;
    }
    out.push_back(best);
  }
  return out;
}

}  // namespace tessera
