#include "src/base/staging.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <numeric>
#include <thread>
#include <vector>

namespace sparcl {
namespace {

constexpr std::uint64_t kSegment = Staging::kSegmentBytes;

std::vector<std::byte> counting(std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i * 31 + i / 255);
  return bytes;
}

TEST(Staging, ReservesWholeSegmentsAndNothingMore) {
  Staging staging;
  EXPECT_EQ(staging.capacity_bytes(), 0u);
  staging.reserve(0);
  EXPECT_EQ(staging.capacity_bytes(), 0u);
  staging.reserve(1);
  EXPECT_EQ(staging.capacity_bytes(), kSegment);
  staging.reserve(kSegment);
  EXPECT_EQ(staging.capacity_bytes(), kSegment);
  staging.reserve(kSegment + 1);
  EXPECT_EQ(staging.capacity_bytes(), 2 * kSegment);
}

TEST(Staging, GivesBackWhatWasWrittenAcrossSegments) {
  const std::vector<std::byte> bytes = counting(2 * kSegment + 1234);
  for (const std::uint64_t first :
       {std::uint64_t{0}, std::uint64_t{1}, kSegment - 1, kSegment, kSegment + 1}) {
    Staging staging;
    staging.write(first, bytes);
    std::vector<std::byte> scratch;
    const std::byte* piece = staging.contiguous(first, bytes.size(), scratch);
    EXPECT_EQ(0, std::memcmp(piece, bytes.data(), bytes.size())) << first;
  }
}

TEST(Staging, CopiesOnlyWhatCrossesASegment) {
  Staging staging;
  staging.write(0, counting(2 * kSegment));
  std::vector<std::byte> scratch;
  EXPECT_EQ(staging.contiguous(kSegment - 8, 8, scratch), staging.slice(kSegment - 8, 8).data());
  EXPECT_TRUE(scratch.empty());
  const std::byte* crossing = staging.contiguous(kSegment - 8, 9, scratch);
  EXPECT_EQ(crossing, scratch.data());
  EXPECT_EQ(0, std::memcmp(crossing, staging.slice(kSegment - 8, 8).data(), 8));
  EXPECT_EQ(crossing[8], *staging.slice(kSegment, 1).data());
}

TEST(Staging, KeepsSlicesAliveAndInPlaceWhileItGrows) {
  Buffer slice;
  {
    Staging staging;
    staging.write(0, counting(16));
    slice = staging.slice(4, 8);
    staging.reserve(20 * kSegment);
    EXPECT_EQ(staging.slice(4, 8).data(), slice.data());
  }
  EXPECT_EQ(0, std::memcmp(slice.data(), counting(16).data() + 4, 8));
}

TEST(Staging, TakesEmptyPieces) {
  Staging staging;
  staging.write(0, {});
  EXPECT_EQ(staging.capacity_bytes(), 0u);
  std::vector<std::byte> scratch;
  staging.contiguous(0, 0, scratch);
  EXPECT_TRUE(scratch.empty());
}

TEST(SegmentPool, GivesNobodyWhatAnotherHolds) {
  std::vector<Buffer> held;
  std::vector<Buffer> slices;
  for (int i = 0; i < 100; ++i) {
    held.push_back(take_segment());
    ASSERT_EQ(held.back().size(), kSegmentBytes);
    held.back().data()[kSegmentBytes - 1] = static_cast<std::byte>(i);
    if (i % 3 != 0) continue;
    slices.push_back(held.back().slice(kSegmentBytes - 1, 1));  // outlives its segment's owner
    held.pop_back();
  }
  for (int i = 0; i < 40; ++i) take_segment().data()[kSegmentBytes - 1] = std::byte{255};
  for (std::size_t i = 0; i < slices.size(); ++i)
    EXPECT_EQ(slices[i].data()[0], static_cast<std::byte>(3 * i));
}

TEST(Staging, FitGivesBackWhatItsEndDoesNotNeed) {
  for (const std::uint64_t end :
       {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{Staging::kSegmentBytes},
        std::uint64_t{Staging::kSegmentBytes} + 1000,
        2 * std::uint64_t{Staging::kSegmentBytes} - 1}) {
    std::vector<std::byte> bytes(end);
    for (std::size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<std::byte>(i * 7 + i / 1000);
    Staging staging;
    staging.reserve(end + 2 * Staging::kSegmentBytes);
    staging.write(0, bytes);
    const Buffer sent = end > 0 ? staging.slice(end - 1, 1) : Buffer();
    staging.fit(end);
    std::vector<std::byte> read(end);
    staging.copy(0, end, read.data());
    EXPECT_EQ(read, bytes) << end;
    EXPECT_LE(staging.capacity_bytes(), end + Staging::kSegmentBytes);
    if (end == 0) continue;
    EXPECT_EQ(sent.data()[0], bytes.back()) << "what is being sent stays";
  }
}

TEST(SegmentPool, ServesManyThreads) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([thread, &wrong] {
      for (int i = 0; i < 200; ++i) {
        const Buffer mine = take_segment();
        const Buffer other = take_segment();
        mine.data()[0] = static_cast<std::byte>(thread);
        other.data()[0] = static_cast<std::byte>(thread + 100);
        std::this_thread::yield();
        wrong += mine.data()[0] != static_cast<std::byte>(thread) ||
                 other.data()[0] != static_cast<std::byte>(thread + 100);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Buffer, SlicesShareTheBytes) {
  const Buffer whole = Buffer::allocate(10);
  const Buffer part = whole.slice(2, 5).slice(1, 3);
  EXPECT_EQ(part.data(), whole.data() + 3);
  EXPECT_EQ(part.size(), 3u);
  part.data()[0] = std::byte{42};
  EXPECT_EQ(whole.bytes()[3], std::byte{42});
}

}  // namespace
}  // namespace sparcl
