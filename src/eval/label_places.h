#pragma once
// Where the labels of marks go so that they hide neither each other nor the marks. Pure;
// thread-safe.
#include <span>
#include <vector>

namespace tessera {

// In pixels, y downwards.
struct Box {
  double left = 0, top = 0, right = 0, bottom = 0;
  double overlap(const Box& other) const;  // area
};

struct Label {
  double x = 0, y = 0;  // of the mark
  double width = 0;     // of the text; 0: it has none
};

// A box for each label, `height` high: beside its mark where there is room, else farther off.
// Labels are placed in their order, each where it covers the least of `obstacles` and of those
// before it. Boxes lie within `area`, which must have room for one.
std::vector<Box> place_labels(std::span<const Label> labels, double height,
                              std::span<const Box> obstacles, const Box& area);

}  // namespace tessera
