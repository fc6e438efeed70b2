#include "bench/load.h"

#include <gtest/gtest.h>

#include <optional>

namespace tessera {
namespace {

TEST(QualityBound, IsReadFromItsNameAndNumber) {
  const std::optional<QualityBound> kl = quality_bound_from("kl:1.5");
  ASSERT_TRUE(kl.has_value());
  EXPECT_EQ(kl->kind, QualityBound::Kind::kKl);
  EXPECT_EQ(kl->limit, 1.5);
  EXPECT_EQ(quality_bound_from("top1:0.9").value().kind, QualityBound::Kind::kTop1);
  EXPECT_EQ(quality_bound_from("same").value().kind, QualityBound::Kind::kSame);
  for (const char* text : {"", "f1", "f1:", "f1:x", "f1:1.5", "f1:0.5 ", "f1:-0.1", "top1:nan",
                           "kl:inf", "same:1", "rouge:0.5"})
    EXPECT_FALSE(quality_bound_from(text).has_value()) << text;
}

TEST(TtftBound, IsAPositiveNumberOfMilliseconds) {
  EXPECT_EQ(ttft_bound_from("ttft:800.5").value(), 800.5);
  for (const char* text : {"", "800", "ttft:", "ttft:0", "ttft:-1", "ttft:8s", "ttft:nan", "e2e:1"})
    EXPECT_FALSE(ttft_bound_from(text).has_value()) << text;
}

TEST(QualityBound, HoldsAtItsLimitAndNotBeyond) {
  TraceRow full, row;
  full.answer = "the river";
  row.answer = "the river";
  row.f1 = 0.5;
  row.kl = 0.1;
  row.top1 = 0.9;
  const auto holds = [&](const char* bound) {
    return is_good(row, full, quality_bound_from(bound).value());
  };

  EXPECT_TRUE(holds("f1:0.5"));
  EXPECT_FALSE(holds("f1:0.51"));
  EXPECT_TRUE(holds("kl:0.1"));
  EXPECT_FALSE(holds("kl:0.09"));
  EXPECT_TRUE(holds("top1:0.9"));
  EXPECT_FALSE(holds("top1:0.91"));
  EXPECT_TRUE(holds("same"));
  row.answer = "a river";
  EXPECT_FALSE(holds("same"));
}

}  // namespace
}  // namespace tessera
