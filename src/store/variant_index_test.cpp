#include "store/variant_index.h"

#include <gmock/gmock.h>

#include <fstream>
#include <thread>

#include "base/sqlite.h"
#include "store/score_store.h"
#include "store/store_testing.h"

namespace tessera {
namespace {

using store_testing::key_number;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Optional;
using testing::SizeIs;
using testing::UnorderedElementsAre;

constexpr uint32_t kMax = VariantIndex::kMaxVariants;

// Shares neither blob nor company with a variant of another number.
Variant variant_number(uint32_t n) {
  return {.blob = key_number(1000 + n),
          .company = {.predecessor = key_number(2000 + n), .sink = key_number(3000 + n)},
          .depth = 1,
          .owns_blob = n % 2 == 1};
}

class VariantIndexTest : public testing::Test {
 protected:
  using Admission = VariantIndex::Admission;

  std::filesystem::path file() const { return folder_.path() / "below" / "variants.db"; }

  // Offers a variant until it is taken in: others that are in use lose half of it each time.
  static void insist(VariantIndex& index, const ChunkKey& chunk, const Variant& variant,
                     std::vector<Variant>& gone) {
    for (int tries = 0; tries < 10; ++tries) {
      if (index.admit(chunk, variant, gone) == Admission::kKept) return;
    }
    ADD_FAILURE() << "refused ten times";
  }
  // The variants [begin, end) under chunk_; what went for them is in gone_.
  void put_numbers(VariantIndex& index, uint32_t begin, uint32_t end) {
    for (uint32_t n = begin; n < end; ++n) insist(index, chunk_, variant_number(n), gone_);
  }
  void change(const std::string& sql) const {
    Database database(file());
    database.execute(sql);
  }
  // Neither an exception nor an answer, and nothing that would have its blob erased.
  void expect_serves_nothing(VariantIndex& index) {
    EXPECT_EQ(index.admit(chunk_, variant_number(1), gone_), Admission::kFailed);
    EXPECT_THAT(gone_, IsEmpty());
    EXPECT_THAT(index.find(chunk_), IsEmpty());
    EXPECT_THAT(index.list(), IsEmpty());
    index.count_use(chunk_, variant_number(1).blob);
    index.erase(chunk_, variant_number(1).blob);
    index.clear();
    EXPECT_EQ(index.stats().entries, 0U);
    EXPECT_GE(index.stats().errors, 1U);
  }

  store_testing::ScratchDir folder_;
  ChunkKey chunk_ = key_number(1);
  std::vector<Variant> gone_;
};

TEST_F(VariantIndexTest, WhatWasPutIsFoundAlsoByAnotherProcess) {
  {
    VariantIndex index(file());
    EXPECT_THAT(index.find(chunk_), IsEmpty());
    put_numbers(index, 1, 3);
  }
  VariantIndex again(file());

  EXPECT_THAT(again.find(chunk_), ElementsAre(variant_number(2), variant_number(1)));
  EXPECT_THAT(gone_, IsEmpty());
  EXPECT_EQ(again.stats().entries, 2U);
  EXPECT_EQ(again.stats().errors, 0U);
}

TEST_F(VariantIndexTest, FileIsForThisUserAlone) {
  using std::filesystem::perms;
  VariantIndex index(file());
  put_numbers(index, 1, 2);

  for (const char* suffix : {"", "-wal", "-shm"})
    EXPECT_EQ(std::filesystem::status(file().string() + suffix).permissions(),
              perms::owner_read | perms::owner_write)
        << suffix;
}

TEST_F(VariantIndexTest, MemoryKeepsOneIndexEachAndNoFile) {
  VariantIndex index(":memory:"), other(":memory:");
  put_numbers(index, 0, kMax + 1);

  EXPECT_THAT(index.find(chunk_), SizeIs(kMax));
  EXPECT_THAT(gone_, ElementsAre(variant_number(0)));
  EXPECT_THAT(other.find(chunk_), IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(":memory:"));
  EXPECT_EQ(index.stats().errors, 0U);
}

TEST_F(VariantIndexTest, MostUsedComesFirstOfEqualsTheLatest) {
  VariantIndex index(file());
  put_numbers(index, 1, 4);

  index.count_use(chunk_, variant_number(1).blob);
  index.count_use(chunk_, variant_number(1).blob);
  index.count_use(chunk_, variant_number(3).blob);
  index.count_use(chunk_, variant_number(2).blob);

  EXPECT_THAT(index.find(chunk_),
              ElementsAre(variant_number(1), variant_number(2), variant_number(3)));
}

TEST_F(VariantIndexTest, NeverMoreThanTheBoundAreKept) {
  VariantIndex index(file());
  for (uint32_t n = 1; n <= 3 * kMax; ++n) {
    put_numbers(index, n, n + 1);

    EXPECT_EQ(index.find(chunk_).front(), variant_number(n)) << "the new one is not what goes";
    EXPECT_EQ(index.stats().entries, std::min(n, kMax));
    EXPECT_EQ(index.stats().entries + gone_.size(), n);
  }
}

TEST_F(VariantIndexTest, LeastUsedGoes) {
  VariantIndex index(file());
  put_numbers(index, 0, kMax);
  for (const uint32_t n : {0, 1, 3}) index.count_use(chunk_, variant_number(n).blob);

  put_numbers(index, kMax, kMax + 1);

  EXPECT_THAT(gone_, ElementsAre(variant_number(2)));
}

TEST_F(VariantIndexTest, OfEquallyUsedTheOneUsedLongestAgoGoes) {
  VariantIndex index(file());
  put_numbers(index, 0, kMax);
  for (const uint32_t n : {1, 2, 3, 0}) index.count_use(chunk_, variant_number(n).blob);

  put_numbers(index, kMax, kMax + 1);

  EXPECT_THAT(gone_, ElementsAre(variant_number(1)));
}

TEST_F(VariantIndexTest, OldFameFades) {
  VariantIndex index(file());
  put_numbers(index, 0, kMax);
  for (int use = 1; use < 100; ++use) index.count_use(chunk_, variant_number(0).blob);

  put_numbers(index, kMax, kMax + 10);
  EXPECT_THAT(index.find(chunk_), testing::Contains(variant_number(0)));

  put_numbers(index, kMax + 10, kMax + 60);
  EXPECT_THAT(gone_, testing::Contains(variant_number(0)));
}

TEST_F(VariantIndexTest, WhatMeetsOnceDoesNotFlushWhatIsInUse) {
  VariantIndex index(file());
  put_numbers(index, 0, kMax);
  const auto offer = [&](uint32_t n) { return index.admit(chunk_, variant_number(n), gone_); };

  EXPECT_EQ(offer(50), Admission::kRefused) << "all were used since they came";
  EXPECT_THAT(gone_, IsEmpty());
  for (uint32_t n = 0; n < kMax; ++n) index.count_use(chunk_, variant_number(n).blob);
  EXPECT_EQ(offer(51), Admission::kRefused);
  EXPECT_EQ(offer(52), Admission::kKept) << "nobody came in between";
}

TEST_F(VariantIndexTest, SameCompanyGoesOnlyForWhatIsNearerToFullPrefill) {
  VariantIndex index(file());
  put_numbers(index, 0, kMax);
  index.count_use(chunk_, variant_number(1).blob);
  Variant other = variant_number(1);
  other.blob = key_number(77);

  EXPECT_EQ(index.admit(chunk_, other, gone_), Admission::kPresent);
  EXPECT_THAT(gone_, IsEmpty());
  other.depth = 2;
  EXPECT_EQ(index.admit(chunk_, other, gone_), Admission::kPresent);
  other.depth = 0;
  EXPECT_EQ(index.admit(chunk_, other, gone_), Admission::kKept);

  EXPECT_THAT(gone_, ElementsAre(variant_number(1)));
  EXPECT_THAT(index.find(chunk_),
              ElementsAre(other, variant_number(3), variant_number(2), variant_number(0)))
      << "its uses stay";
}

TEST_F(VariantIndexTest, BlobThatIsPutAgainIsNotGone) {
  VariantIndex index(file());
  put_numbers(index, 1, 2);
  Variant in_other_company = variant_number(1);
  in_other_company.company.sink = ChunkKey{};
  in_other_company.depth = 0;

  EXPECT_EQ(index.admit(chunk_, variant_number(1), gone_), Admission::kPresent);
  EXPECT_THAT(index.find(chunk_), ElementsAre(variant_number(1)));
  EXPECT_EQ(index.admit(chunk_, in_other_company, gone_), Admission::kKept);

  EXPECT_THAT(index.find(chunk_), ElementsAre(in_other_company));
  EXPECT_THAT(gone_, IsEmpty());
}

TEST_F(VariantIndexTest, HalfOfACompanyIsAnotherCompany) {
  VariantIndex index(file());
  put_numbers(index, 1, 2);
  Variant other = variant_number(2);
  other.company.predecessor = variant_number(1).company.predecessor;

  EXPECT_EQ(index.admit(chunk_, other, gone_), Admission::kKept);

  EXPECT_THAT(index.find(chunk_), ElementsAre(other, variant_number(1)));
}

TEST_F(VariantIndexTest, ChunksHaveNothingToDoWithEachOther) {
  VariantIndex index(file());
  const ChunkKey other = key_number(2);
  put_numbers(index, 0, kMax);
  insist(index, other, variant_number(0), gone_);  // company and blob of the first chunk's

  index.count_use(other, variant_number(0).blob);
  put_numbers(index, kMax, kMax + 1);
  EXPECT_THAT(gone_, ElementsAre(variant_number(0))) << "its use under the other is not its own";
  index.erase(chunk_, variant_number(1).blob);

  EXPECT_THAT(index.find(other), ElementsAre(variant_number(0)));
  EXPECT_THAT(index.find(chunk_), SizeIs(kMax - 1));
}

TEST_F(VariantIndexTest, ListHasTheVariantsOfAllChunksWithTheirUses) {
  VariantIndex index(file());
  const ChunkKey other = key_number(2);
  put_numbers(index, 1, 3);
  insist(index, other, variant_number(3), gone_);

  index.count_use(chunk_, variant_number(2).blob);

  EXPECT_THAT(index.list(), UnorderedElementsAre(ListedVariant{chunk_, variant_number(1), 1},
                                                 ListedVariant{chunk_, variant_number(2), 2},
                                                 ListedVariant{other, variant_number(3), 1}));
}

TEST_F(VariantIndexTest, ListLeavesDamagedRowsOutAndAlone) {
  VariantIndex index(file());
  put_numbers(index, 1, 4);
  change("UPDATE variant SET sink = 'x' WHERE last_used = 1");
  change("UPDATE variant SET chunk = 'x' WHERE last_used = 2");

  EXPECT_THAT(index.list(), ElementsAre(ListedVariant{chunk_, variant_number(3), 1}));
  EXPECT_EQ(index.stats().entries, 3U);
}

TEST_F(VariantIndexTest, ErasedIsNotFoundNorIsAnythingOnceCleared) {
  VariantIndex index(file());
  put_numbers(index, 1, 4);

  index.erase(chunk_, variant_number(2).blob);
  index.erase(chunk_, key_number(99));  // nobody's
  EXPECT_THAT(index.find(chunk_), ElementsAre(variant_number(3), variant_number(1)));

  index.clear();
  EXPECT_THAT(index.find(chunk_), IsEmpty());
  EXPECT_EQ(index.stats().entries, 0U);
  EXPECT_EQ(index.stats().errors, 0U);
}

TEST_F(VariantIndexTest, TwoProcessesSeeEachOthersVariantsAndUses) {
  VariantIndex index(file()), other(file());
  put_numbers(index, 1, 3);

  other.count_use(chunk_, variant_number(1).blob);
  EXPECT_THAT(index.find(chunk_), ElementsAre(variant_number(1), variant_number(2)));

  put_numbers(other, 3, kMax + 1);
  put_numbers(index, kMax + 1, kMax + 2);
  EXPECT_THAT(gone_, ElementsAre(variant_number(2)));
  EXPECT_EQ(index.find(chunk_), other.find(chunk_));
}

TEST_F(VariantIndexTest, TwoProcessesHoldTheBoundTogether) {
  constexpr uint32_t kPuts = 20;
  VariantIndex index(file()), other(file());
  std::vector<Variant> gone[2];
  const auto put_all = [&](VariantIndex& into, uint32_t which) {
    for (uint32_t n = 0; n < kPuts; ++n)
      insist(into, chunk_, variant_number(100 * which + n), gone[which]);
  };
  {
    const std::jthread one([&] { put_all(index, 0); });
    const std::jthread two([&] { put_all(other, 1); });
  }

  EXPECT_EQ(index.stats().entries, kMax);
  EXPECT_EQ(gone[0].size() + gone[1].size(), 2 * kPuts - kMax) << "each went once";
}

TEST_F(VariantIndexTest, FileOfAnotherUseIsLeftAlone) {
  ASSERT_TRUE(ScoreStore(file()).put(chunk_, {{{0, 3}}, {0.5F}}));
  const auto before = read_file(file());
  {
    VariantIndex index(file());
    expect_serves_nothing(index);
  }

  EXPECT_TRUE(read_file(file()) == before);
  EXPECT_TRUE(ScoreStore(file()).contains(chunk_));
}

TEST_F(VariantIndexTest, FileThatIsNoDatabaseIsLeftAlone) {
  const std::string text = "this is a text, and long enough to be looked at as a file's header: " +
                           std::string(100, '.');
  std::filesystem::create_directories(file().parent_path());
  std::ofstream(file()) << text;
  VariantIndex index(file());

  expect_serves_nothing(index);

  EXPECT_THAT(read_file(file()), Optional(SizeIs(text.size())));
}

TEST_F(VariantIndexTest, DamagedFileServesNothing) {
  {
    VariantIndex index(file());
    put_numbers(index, 1, 3);
  }
  constexpr std::streamoff kHeaderBytes = 100;
  const auto n_damaged = std::filesystem::file_size(file()) - kHeaderBytes;
  {
    std::fstream bytes(file(), std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekp(kHeaderBytes) << std::string(n_damaged, '\xFF');
  }
  VariantIndex index(file());

  expect_serves_nothing(index);
}

TEST_F(VariantIndexTest, FileThatFailsLaterServesNothing) {
  VariantIndex index(file());
  put_numbers(index, 1, 3);
  change("DROP TABLE variant");

  expect_serves_nothing(index);
}

TEST_F(VariantIndexTest, RowWhoseKeysAreNoneIsAMissAndIsDropped) {
  for (const char* damage : {"blob = 'x'", "blob = x'00'", "predecessor = upper(predecessor)",
                             "sink = substr(sink, 2)", "sink = NULL"}) {
    VariantIndex index(file());
    put_numbers(index, 11, 13);
    change(std::string("UPDATE variant SET ") + damage + " WHERE uses = 1 AND last_used = 1");

    EXPECT_THAT(index.find(chunk_), ElementsAre(variant_number(12))) << damage;
    EXPECT_EQ(index.stats().entries, 1U) << damage;
    index.clear();
  }
}

TEST_F(VariantIndexTest, DamagedRowGivesItsPlaceBeforeAnyOther) {
  VariantIndex index(file());
  put_numbers(index, 0, kMax);
  change("UPDATE variant SET sink = 'x', uses = 100 WHERE last_used = 2");

  put_numbers(index, kMax, kMax + 1);

  EXPECT_THAT(gone_, IsEmpty()) << "what its blob was is not known";
  EXPECT_THAT(index.find(chunk_), ElementsAre(variant_number(4), variant_number(3),
                                              variant_number(2), variant_number(0)));
}

}  // namespace
}  // namespace tessera
