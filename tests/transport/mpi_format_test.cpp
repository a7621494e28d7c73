// The parts of the MPI transport that need no MPI.

#include <gtest/gtest.h>

#include <climits>
#include <set>

#include "src/base/seeded_random.hpp"
#include "src/transport/mpi/channel_tags.hpp"
#include "src/transport/mpi/head_format.hpp"
#include "src/transport/recently_closed.hpp"
#include "tests/support/party.hpp"

namespace sparcl {
namespace {

TEST(HeadFormat, ReadsWhatItWrites) {
  for (const std::size_t eager_bytes : {0, 1, 3, 2032}) {
    const transport::HeadFormat format(eager_bytes);
    const Buffer message = conformance::pattern_message(eager_bytes + 1, 1);
    const Buffer head = Buffer::allocate(format.largest_head());
    format.write(head.data(), message.data(), {message.size(), 77});
    const auto body = format.read(head.data(), 100);
    ASSERT_TRUE(body);
    EXPECT_EQ(body->total_bytes, message.size());
    EXPECT_EQ(body->tag, 77u);
    EXPECT_TRUE(conformance::has_pattern(head.bytes().first(eager_bytes / 8 * 8), 1));
    EXPECT_TRUE(format.fits_eagerly(eager_bytes));
    EXPECT_FALSE(format.fits_eagerly(eager_bytes + 1));
  }
}

TEST(HeadFormat, RefusesTrailersThatMakeNoSense) {
  const transport::HeadFormat format(8);
  const Buffer message = Buffer::allocate(9);
  const Buffer head = Buffer::allocate(format.largest_head());
  const auto reads = [&](std::uint64_t total_bytes, std::uint64_t tag) {
    format.write(head.data(), message.data(), {total_bytes, tag});
    return format.read(head.data(), 100).has_value();
  };
  EXPECT_TRUE(reads(9, 1));
  EXPECT_TRUE(reads(UINT64_MAX, 100));  // whether there is room is the receiver's to say
  EXPECT_FALSE(reads(8, 1));            // would have gone in one message
  EXPECT_FALSE(reads(0, 1));
  EXPECT_FALSE(reads(9, 0));  // the tag of signals
  EXPECT_FALSE(reads(9, 101));
  EXPECT_FALSE(reads(9, UINT64_MAX));
}

TEST(ChannelTags, AreDifferentForAllChannelsOfAManyCalls) {
  constexpr int kPromisedByMpi = 32'767;
  const transport::ChannelTags tags(kPromisedByMpi);
  std::set<int> seen;
  for (std::uint32_t call = 0; call < 2'048; ++call) {
    for (std::uint8_t lane = 0; lane < transport::kLanes; ++lane) {
      const int tag = tags.of({call, lane});
      EXPECT_GE(tag, 0);
      EXPECT_LE(tag, kPromisedByMpi);
      EXPECT_TRUE(seen.insert(tag).second);
    }
  }
}

TEST(ChannelTags, StayInRangeForEveryCallNumber) {
  for (const int upper_bound : {32'767, 1'000'000, INT_MAX - 1, INT_MAX}) {
    const transport::ChannelTags tags(upper_bound);
    for (const std::uint32_t call : {0u, 1u, 8'388'607u, 8'388'608u, UINT32_MAX}) {
      EXPECT_GE(tags.of({call, transport::kLanes - 1}), transport::kLanes - 1);
      EXPECT_LE(tags.of({call, transport::kLanes - 1}), upper_bound);
    }
  }
}

// Else the message of a later call with the same tag would be dropped.
TEST(RecentlyClosed, AnOldChannelIsNotLookedAtAgainHoweverTheLooksFall) {
  SeededRandom random(3);
  transport::RecentlyClosed closed;
  EXPECT_TRUE(closed.empty());
  std::set<std::uint32_t> seen;
  for (std::uint32_t call = 0; call < 2'000; ++call) {
    closed.add({call, 0});
    for (std::uint64_t looks = random.below(4); looks > 0; --looks) {
      const std::uint32_t looked_at = closed.next().call;
      EXPECT_LT(call - looked_at, transport::RecentlyClosed::kRemembered);
      seen.insert(looked_at);
    }
  }
  EXPECT_GT(seen.size(), 1'000u);
}

}  // namespace
}  // namespace sparcl
