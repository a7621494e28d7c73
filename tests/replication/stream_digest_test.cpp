// The tree of digests over an update's bytes: its shape, and what a replica takes of bytes that
// come.

#include "src/model/stream_digest.hpp"

#include <gtest/gtest.h>

#include <random>

#include "src/replication/staged_update.hpp"
#include "src/trust/sha256.hpp"
#include "tests/replication/rogue_support.hpp"

namespace sparcl::replication {
namespace {

Digest256 sha(std::initializer_list<std::span<const std::byte>> parts) {
  std::vector<std::byte> all;
  for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  return *sha256_of(all);
}

// RFC 9162, 2.1.1, as it is written there.
Digest256 tree_of(std::span<const Digest256> leaves) {
  if (leaves.size() == 1) return leaves[0];
  std::size_t left = 1;
  while (2 * left < leaves.size()) left *= 2;
  const std::byte mark{1};
  const Digest256 one = tree_of(leaves.first(left)), other = tree_of(leaves.subspan(left));
  return sha({std::span(&mark, 1), one, other});
}

TEST(StreamDigest, RootsAreThoseOfRfc9162) {
  EXPECT_EQ(*root_of({}), *sha256_of({}));
  EXPECT_EQ(to_integer<int>((*sha256_of({}))[0]), 0xe3);  // e3b0c442...: SHA-256 of nothing
  const std::byte mark{0}, byte{7};
  EXPECT_EQ(*leaf_digest(std::span(&byte, 1)), sha({std::span(&mark, 1), std::span(&byte, 1)}));
  std::mt19937_64 random(1);
  for (std::size_t count = 1; count <= 70; ++count) {
    std::vector<Digest256> leaves(count);
    for (Digest256& leaf : leaves) {
      for (std::byte& each : leaf) each = std::byte(static_cast<std::uint8_t>(random()));
    }
    EXPECT_EQ(*root_of(leaves), tree_of(leaves)) << count;
  }
}

TEST(StreamDigest, LeavesAreTheSameHoweverTheBytesCome) {
  Staging bytes;
  for (const std::uint64_t size :
       {std::uint64_t{1}, kLeafBytes - 1, kLeafBytes, kLeafBytes + 1, 5 * kLeafBytes + 77}) {
    const Buffer noise = noise_of(size);
    bytes.write(0, noise.bytes());
    StreamDigest digest;
    for (std::uint64_t end = 0; end < size; end += 700'000)
      ASSERT_TRUE(digest.advance(bytes, end).ok());
    ASSERT_TRUE(digest.finish(bytes, size).ok());
    EXPECT_EQ(digest.take_leaves(), leaves_of(noise.bytes())) << size;
    EXPECT_EQ(leaves_of(noise.bytes()).size(), leaf_count(size));
  }
}

struct Incoming : ::testing::Test {
  static constexpr std::size_t kSize = 3 * kLeafBytes + 1000;
  Buffer bytes = noise_of(kSize);
  Commit commit = sealed(Commit(), bytes.bytes());
  std::vector<Digest256> leaves = leaves_of(bytes.bytes());
  StagedUpdate update{commit, {}};

  Status give(std::size_t first, std::size_t count, bool is_false = false) {
    const Buffer place = update.destination(count);
    if (place.size() == 0) return Status(Code::kInternalError, "they are not wanted");
    std::memcpy(place.data(), bytes.data() + first, count);
    if (is_false) place.data()[count / 2] ^= std::byte{1};
    return update.received(count);
  }
};

TEST_F(Incoming, ALeafCountsOnceItIsWholeAndRight) {
  EXPECT_EQ(update.destination(10).size(), 0U);  // not before the leaves are known
  ASSERT_TRUE(update.take_leaves({{0, 0}, 0, leaves}).ok());
  ASSERT_TRUE(give(0, 1000).ok());
  EXPECT_EQ(update.received_bytes(), 0U);
  ASSERT_TRUE(give(1000, kLeafBytes - 1000).ok());
  EXPECT_EQ(update.received_bytes(), kLeafBytes);
  // A false one is not kept, and what was right before it is.
  EXPECT_EQ(give(kLeafBytes, kLeafBytes, true).code(), Code::kCorrupt);
  EXPECT_EQ(update.received_bytes(), kLeafBytes);
  EXPECT_EQ(update.next_byte(), kLeafBytes);
  // Nor is a part of one, when another sends the rest.
  ASSERT_TRUE(give(kLeafBytes, 500, true).ok());
  update.change_sender(StagedUpdate::Leaf::kChecked);
  EXPECT_EQ(update.next_byte(), kLeafBytes);
  for (std::size_t at = kLeafBytes; at < kSize; at += kLeafBytes) {
    ASSERT_TRUE(give(at, std::min<std::size_t>(kLeafBytes, kSize - at)).ok());
  }
  EXPECT_TRUE(update.has_all_bytes());
}

TEST_F(Incoming, LeavesThatAreNotTheCommitsAreNotTaken) {
  std::vector<Digest256> wrong = leaves;
  wrong[2][5] ^= std::byte{1};
  EXPECT_EQ(update.take_leaves({{0, 0}, 0, wrong}).code(), Code::kCorrupt);
  EXPECT_FALSE(update.has_leaves());
  const std::vector<Digest256> first(leaves.begin(), leaves.begin() + 2),
      rest(leaves.begin() + 2, leaves.end());
  for (const Leaves& each :
       {Leaves{{0, 0}, 1, first}, Leaves{{0, 9}, 0, first}, Leaves{{0, 0}, 0, {}},
        Leaves{{0, 0}, 0, std::vector<Digest256>(5)}, Leaves{{0, 0}, UINT64_MAX, leaves}}) {
    EXPECT_EQ(update.take_leaves(each).code(), Code::kCorrupt);
  }
  ASSERT_TRUE(update.take_leaves({{0, 0}, 0, first}).ok());
  EXPECT_FALSE(update.has_leaves());
  update.change_sender(StagedUpdate::Leaf::kChecked);  // another one begins anew
  ASSERT_TRUE(update.take_leaves({{0, 0}, 0, first}).ok());
  ASSERT_TRUE(update.take_leaves({{0, 0}, 2, rest}).ok());
  EXPECT_TRUE(update.has_leaves());
  EXPECT_EQ(update.take_leaves({{0, 0}, 0, leaves}).code(), Code::kCorrupt);  // once
}

TEST_F(Incoming, MemoryIsCheckedToo) {
  ASSERT_TRUE(update.take_leaves({{0, 0}, 0, leaves}).ok());
  Buffer wrong = noise_of(kSize);
  wrong.data()[kLeafBytes + 9] ^= std::byte{1};
  EXPECT_EQ(update.adopt(0, wrong).code(), Code::kCorrupt);
  EXPECT_EQ(update.received_bytes(), 0U);
  EXPECT_TRUE(update.adopt(0, bytes).ok());
  EXPECT_TRUE(update.has_all_bytes());
}

// It has announced them over the same connection. What another sends after them is checked.
TEST_F(Incoming, LeavesOfThePublisherItselfNeedNoDigest) {
  update.change_sender(StagedUpdate::Leaf::kBelieved);
  ASSERT_TRUE(update.take_leaves({{0, 0}, 0, leaves}).ok());
  ASSERT_TRUE(give(0, kLeafBytes, true).ok());
  EXPECT_EQ(update.received_bytes(), kLeafBytes);
  update.change_sender(StagedUpdate::Leaf::kChecked);
  EXPECT_EQ(give(kLeafBytes, kLeafBytes, true).code(), Code::kCorrupt);
  EXPECT_EQ(update.received_bytes(), kLeafBytes);
}

}  // namespace
}  // namespace sparcl::replication
