#include "src/net/bootstrap/roll_call.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/base/seeded_random.hpp"

namespace sparcl::net {
namespace {

using testing::HasSubstr;

Join member(int rank, int nranks, std::size_t blob_bytes = 3) {
  Join join;
  join.rank = rank;
  join.nranks = nranks;
  join.pid = 100 + static_cast<std::uint32_t>(rank);
  join.host = fmt::format("h{}", rank);
  join.blob.assign(blob_bytes, static_cast<std::byte>(rank));
  return join;
}

TEST(RollCall, NamesWhoIsMissing) {
  RollCall roll;
  for (const int rank : {4, 0, 1, 3}) ASSERT_TRUE(roll.admit(member(rank, 8)).ok());
  EXPECT_EQ(roll.missing(), "ranks 2, 5-7 of 8");
  for (const int rank : {7, 5, 6}) ASSERT_TRUE(roll.admit(member(rank, 8)).ok());
  EXPECT_EQ(roll.missing(), "rank 2 of 8");
  EXPECT_EQ(roll.missing_numbers(), "2");
  EXPECT_FALSE(roll.is_complete());
  ASSERT_TRUE(roll.admit(member(2, 8)).ok());
  EXPECT_TRUE(roll.is_complete());
}

TEST(RollCall, TheListOfTheMissingIsNotEndless) {
  RollCall roll;
  for (int rank = 0; rank < 1000; rank += 2) ASSERT_TRUE(roll.admit(member(rank, 1000)).ok());
  EXPECT_LT(roll.missing().size(), 120U);
  EXPECT_THAT(roll.missing(), HasSubstr("ranks 1, 3, 5"));
  EXPECT_THAT(roll.missing(), HasSubstr("and others of 1000"));
}

TEST(RollCall, TwoOfOneNumber) {
  RollCall roll;
  ASSERT_TRUE(roll.admit(member(1, 2)).ok());
  Join other = member(1, 2);
  other.host = "elsewhere";
  other.pid = 7;
  const Status status = roll.admit(other);
  EXPECT_EQ(status.code(), Code::kInvalidUsage);
  EXPECT_THAT(status.message(),
              HasSubstr("rank 1 of 2: host h1, pid 101, and host elsewhere, pid 7"));
}

TEST(RollCall, DifferentNumbersOfRanks) {
  RollCall roll;
  ASSERT_TRUE(roll.admit(member(1, 2)).ok());
  const Status status = roll.admit(member(0, 4));
  EXPECT_EQ(status.code(), Code::kMismatch);
  EXPECT_THAT(status.message(), HasSubstr("rank 0 (host h0, pid 100) says that there are 4 ranks, "
                                          "rank 1 (host h1, pid 101) says 2"));
}

TEST(RollCall, TheTableIsByRank) {
  RollCall roll;
  for (const int rank : {2, 0, 1})
    ASSERT_TRUE(roll.admit(member(rank, 3, static_cast<std::size_t>(rank) * 10)).ok());
  const Result<std::vector<std::byte>> bytes = roll.table();
  ASSERT_TRUE(bytes.ok());
  const Result<BlobTable> table = decode_table(*bytes, 3);
  ASSERT_TRUE(table.ok());
  for (std::size_t rank = 0; rank < 3; ++rank)
    EXPECT_EQ((*table)[rank], std::vector<std::byte>(rank * 10, static_cast<std::byte>(rank)));
  EXPECT_EQ(decode_table(*bytes, 4).status().code(), Code::kCorrupt);
  for (std::size_t cut = 0; cut < bytes->size(); ++cut)
    EXPECT_FALSE(decode_table(std::span(*bytes).first(cut), 3).ok()) << cut;
}

TEST(BootstrapMessages, ANoteSaysWhoIsMissing) {
  const Result<Note> note = decode_note(encode_note({4, 8, "2, 5-7"}));
  ASSERT_TRUE(note.ok());
  EXPECT_EQ(note->text(), "4 of 8 ranks are here, missing: 2, 5-7");
  const Result<Note> earlier = decode_note(encode_note({4, 8, ""}));
  ASSERT_TRUE(earlier.ok());
  EXPECT_EQ(earlier->text(), "4 of 8 ranks are here");
}

// Whatever the bytes are: an answer, and nothing read beyond them (AddressSanitizer looks on).
TEST(BootstrapMessages, TakeAnyBytes) {
  SeededRandom random{3};
  const std::vector<std::byte> join = encode_join(member(1, 3));
  const std::vector<std::byte> failure = encode_failure(Status(Code::kTimeout, "late"));
  for (int i = 0; i < 20'000; ++i) {
    std::vector<std::byte> bytes = i % 2 == 0 ? join : failure;
    bytes.resize(random.below(bytes.size() + 8));
    for (int k = 0; k < 3 && !bytes.empty(); ++k)
      bytes[random.below(bytes.size())] = static_cast<std::byte>(random.below(256));
    const std::vector<std::byte> exact(bytes);
    if (const Result<Join> back = decode_join(exact); back.ok()) {
      EXPECT_LT(back->rank, back->nranks);
      EXPECT_GE(back->rank, 0);
    }
    EXPECT_FALSE(decode_failure(exact).ok());
    EXPECT_FALSE(decode_table(exact, kMaxRanks).ok());
    (void)decode_note(exact);
  }
}

}  // namespace
}  // namespace sparcl::net
