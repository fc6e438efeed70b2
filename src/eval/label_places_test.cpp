#include "eval/label_places.h"

#include <gtest/gtest.h>

#include <vector>

namespace tessera {
namespace {

constexpr Box kArea = {0, 0, 400, 300};
constexpr double kHeight = 14;

TEST(LabelPlaces, AloneALabelStandsRightOfItsMark) {
  const std::vector<Label> labels = {{100, 100, 50}};

  const std::vector<Box> boxes = place_labels(labels, kHeight, {}, kArea);

  ASSERT_EQ(boxes.size(), 1);
  EXPECT_DOUBLE_EQ(boxes[0].left, 109);
  EXPECT_DOUBLE_EQ(boxes[0].right, 159);
  EXPECT_DOUBLE_EQ(boxes[0].top, 93);
  EXPECT_DOUBLE_EQ(boxes[0].bottom, 107);
}

TEST(LabelPlaces, AtTheEdgeItTurnsToWhereThereIsRoom) {
  const std::vector<Label> labels = {{395, 100, 50}};
  const std::vector<Box> marks = {{389, 94, 401, 106}};

  const std::vector<Box> boxes = place_labels(labels, kHeight, marks, kArea);

  EXPECT_LE(boxes[0].right, kArea.right);
  EXPECT_EQ(boxes[0].overlap(marks[0]), 0);
}

TEST(LabelPlaces, LabelsOfCrowdedMarksHideNeitherEachOtherNorTheMarks) {
  std::vector<Label> labels;
  std::vector<Box> marks;
  for (int i = 0; i < 8; ++i) {
    const double x = 200 + 6.0 * i, y = 150 + (i % 2 == 0 ? 4 : -4);
    labels.push_back({x, y, 40});
    marks.push_back({x - 5, y - 5, x + 5, y + 5});
  }

  const std::vector<Box> boxes = place_labels(labels, kHeight, marks, kArea);

  for (size_t i = 0; i < boxes.size(); ++i) {
    for (size_t j = 0; j < i; ++j) EXPECT_EQ(boxes[i].overlap(boxes[j]), 0) << i << " " << j;
    for (const Box& mark : marks) EXPECT_EQ(boxes[i].overlap(mark), 0) << i;
  }
}

TEST(BoxOverlap, IsTheCommonArea) {
  const Box box = {0, 0, 10, 10};
  EXPECT_DOUBLE_EQ(box.overlap({5, 8, 20, 20}), 10);
  EXPECT_DOUBLE_EQ(box.overlap({10, 0, 20, 10}), 0) << "they touch";
  EXPECT_DOUBLE_EQ(box.overlap({11, 11, 12, 12}), 0);
}

}  // namespace
}  // namespace tessera
