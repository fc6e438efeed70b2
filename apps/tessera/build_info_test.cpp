#include "tessera/build_info.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(KernelFlags, KeepsThoseThatMatterInTheOrderOfTheKernel) {
  EXPECT_THAT(kernel_flags("processor\t: 0\nflags\t\t: fpu fma avx avx2 rdrand\n"
                           "\nprocessor\t: 1\nflags\t\t: fpu avx512f\n"),
              ElementsAre("fma", "avx", "avx2"));
}

TEST(KernelFlags, ReadsTheFeaturesOfArm) {
  EXPECT_THAT(kernel_flags("Features\t: fp asimd asimddp i8mm\n"), ElementsAre("asimddp", "i8mm"));
}

TEST(KernelFlags, IsEmptyWhereNothingIsKnown) {
  EXPECT_THAT(kernel_flags(""), IsEmpty());
  EXPECT_THAT(kernel_flags("no colon here"), IsEmpty());
}

TEST(BuildInfo, NamesTheProcessorOfThisMachine) {
  const BuildInfo info = build_info();

  EXPECT_FALSE(info.version.empty());
  EXPECT_FALSE(info.commit.empty());
  EXPECT_FALSE(info.cpu_flags.empty());
}

}  // namespace
}  // namespace tessera
