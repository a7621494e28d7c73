#include "src/base/buffer_pool.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <thread>
#include <vector>

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
    if (bytes > 0) std::memset(buffer.data(), 0xff, bytes);  // AddressSanitizer sees a size class that is too small
  }
}

TEST(BufferPool, KeepsNoMoreThanItMay) {
  BufferPool pool(1 << 20);
  std::vector<Buffer> held;
  std::set<std::byte*> addresses;
  for (int i = 0; i < 8; ++i) addresses.insert(held.emplace_back(pool.take(512 << 10)).data());
  held.clear();
  int known = 0;
  for (int i = 0; i < 3; ++i) known += addresses.contains(held.emplace_back(pool.take(512 << 10)).data());
  EXPECT_GE(known, 2);
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
