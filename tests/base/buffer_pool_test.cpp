#include "src/base/buffer_pool.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

#include "src/base/segment_pool.hpp"

namespace sparcl {
namespace {

TEST(BufferPool, GivesWhatWasGivenBack) {
  BufferPool pool;
  std::byte* first = nullptr;
  {
    const Buffer buffer = pool.take(100'000);
    ASSERT_EQ(buffer.size(), 100'000U);
    std::memset(buffer.data(), 1, buffer.size());
    first = buffer.data();
  }
  const Buffer again = pool.take(99'000);  // of the same size class
  EXPECT_EQ(again.data(), first);
  EXPECT_NE(pool.take(99'000).data(), first) << "while it is held";
}

TEST(BufferPool, EverySizeIsLargeEnough) {
  BufferPool pool;
  for (std::size_t bytes = 0; bytes < 40'000; bytes += bytes < 4'200 ? 1 : 97) {
    const Buffer buffer = pool.take(bytes);
    ASSERT_EQ(buffer.size(), bytes);
    if (bytes > 0)
      std::memset(buffer.data(), 0xff,
                  bytes);  // AddressSanitizer sees a size class that is too small
  }
}

TEST(BufferPool, GivesBeyondWhatItHasAndBeyondASegment) {
  BufferPool pool(kSegmentBytes);
  std::vector<Buffer> held;
  for (int i = 0; i < 6; ++i) std::memset(held.emplace_back(pool.take(1 << 20)).data(), i, 1 << 20);
  std::memset(held.emplace_back(pool.take(3 * kSegmentBytes)).data(), 6, 3 * kSegmentBytes);
  for (int i = 0; i < 6; ++i)
    EXPECT_EQ(held[static_cast<std::size_t>(i)].data()[(1 << 20) - 1], static_cast<std::byte>(i));
}

TEST(BufferPool, BuffersOutliveItAndAreLetGoByAnyThread) {
  std::vector<Buffer> held;
  {
    BufferPool pool;
    for (int i = 0; i < 100; ++i) held.push_back(pool.take(10'000));
    std::vector<std::jthread> threads;
    for (int t = 0; t < 2; ++t) {
      threads.emplace_back([&pool] {
        for (int i = 0; i < 1'000; ++i) pool.take(20'000 + 10 * static_cast<std::size_t>(i));
      });
    }
  }
  std::jthread([last = std::move(held)]() mutable { last.clear(); });
}

}  // namespace
}  // namespace sparcl
