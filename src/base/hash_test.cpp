#include "base/hash.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "base/error.h"

namespace tessera {
namespace {

Sha256Digest digest_of(std::string_view text) {
  Sha256 hash;
  hash.update(text);
  return hash.digest();
}

Sha256Digest fields(std::initializer_list<std::pair<std::string_view, std::string_view>> list) {
  Sha256 hash;
  for (const auto& [tag, value] : list) hash.field(tag, value);
  return hash.digest();
}

TEST(Sha256, AgreesWithPublishedVectors) {
  EXPECT_EQ(to_hex(digest_of("")),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(to_hex(digest_of("abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Sha256, PiecesGiveTheDigestOfTheWhole) {
  Sha256 hash;
  hash.update("ab");
  hash.update("");
  hash.update("c");

  EXPECT_EQ(hash.digest(), digest_of("abc"));
}

TEST(Sha256, FieldIsTagAndValueBehindTheirLengths) {
  Sha256 hash;
  hash.field("t", "xy");

  EXPECT_EQ(hash.digest(), digest_of(std::string_view("\1\0\0\0t\2\0\0\0\0\0\0\0xy", 15)));
}

TEST(Sha256, NumberFieldIsEightLittleEndianBytes) {
  Sha256 hash;
  hash.field("n", uint64_t{0x0102});

  EXPECT_EQ(hash.digest(), fields({{"n", std::string_view("\2\1\0\0\0\0\0\0", 8)}}));
}

TEST(Sha256, NoTwoListsOfFieldsGiveTheSameDigest) {
  const std::set<Sha256Digest> digests = {fields({{"ab", "c"}}),
                                          fields({{"a", "bc"}}),
                                          fields({{"a", "b"}, {"c", ""}}),
                                          fields({{"a", ""}, {"b", "c"}}),
                                          fields({{"a", "b"}}),
                                          fields({{"a", "b"}, {"", ""}}),
                                          fields({{"", "ab"}}),
                                          fields({{"a", ""}, {"b", ""}})};

  EXPECT_EQ(digests.size(), 8U);
  EXPECT_EQ(fields({{"ab", "c"}}), fields({{"ab", "c"}}));
}

TEST(Hex, RoundTripIsTheIdentity) {
  Sha256Digest digest = digest_of("round trip");
  digest[0] = std::byte{0x0A};

  EXPECT_EQ(digest_from_hex(to_hex(digest)), digest);
  EXPECT_EQ(to_hex(digest).substr(0, 2), "0a");
}

TEST(Hex, UpperCaseIsReadToo) {
  const Sha256Digest digest = digest_from_hex(std::string(64, 'A'));

  EXPECT_EQ(to_hex(digest), std::string(64, 'a'));
}

TEST(Hex, AnythingElseIsRefused) {
  for (const std::string& text :
       {std::string(), std::string(63, '0'), std::string(65, '0'), std::string(63, '0') + "g",
        std::string(62, '0') + "-1", std::string(63, '0') + '\0'}) {
    EXPECT_THROW(digest_from_hex(text), Error) << text;
  }
}

TEST(Xxh3, AgreesWithPublishedVectorAndSeesOneBit) {
  EXPECT_EQ(xxh3_64({}), 0x2D06800538D394C2ULL);
  std::vector<std::byte> bytes(1000);
  const uint64_t before = xxh3_64(bytes);
  bytes[500] = std::byte{1};

  EXPECT_NE(xxh3_64(bytes), before);
}

}  // namespace
}  // namespace tessera
