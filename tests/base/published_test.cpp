#include "src/base/flight/published.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "tests/support/tier.hpp"

namespace sparcl::flight {
namespace {

struct Value {
  std::array<std::uint64_t, 37> words{};
};

Value all(std::uint64_t number) {
  Value value;
  value.words.fill(number);
  return value;
}

TEST(Published, ZeroBytesAreAValue) {
  alignas(Published<Value>) std::array<std::byte, sizeof(Published<Value>)> zeros{};
  Value value = all(1);
  EXPECT_TRUE(reinterpret_cast<Published<Value>*>(zeros.data())->load(value));
  EXPECT_EQ(value.words, all(0).words);
}

TEST(Published, GivesBackWhatWasStored) {
  Published<Value> published{};
  for (std::uint64_t i = 1; i < 5; ++i) {
    published.store(all(i));
    Value value;
    ASSERT_TRUE(published.load(value));
    EXPECT_EQ(value.words, all(i).words);
    EXPECT_EQ(published.held().words, all(i).words);
  }
}

TEST(Published, AWriterThatDiedInAStoreLeavesNothingToRead) {
  Published<Value> published{};
  published.store(all(1));
  *reinterpret_cast<std::uint64_t*>(&published) |= 1;
  Value value;
  EXPECT_FALSE(published.load(value));
  published.store(all(2));  // the next writer mends it
  ASSERT_TRUE(published.load(value));
  EXPECT_EQ(value.words, all(2).words);
}

TEST(Published, ReadersNeverSeeTornValues) {
  const std::uint64_t last = test::by_tier<std::uint64_t>(200'000, 20'000'000);
  const auto published = std::make_unique<Published<Value>>();
  std::atomic<std::uint64_t> torn{0}, read{0}, backward{0};
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] {
      for (std::uint64_t seen = 0; seen < last;) {
        Value value;
        if (!published->load(value)) continue;
        ++read;
        if (value.words != all(value.words[0]).words) ++torn;
        if (value.words[0] < seen) ++backward;
        seen = value.words[0];
      }
    });
  }
  for (std::uint64_t i = 1; i <= last; ++i) published->store(all(i));
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(torn, 0u);
  EXPECT_EQ(backward, 0u);
  EXPECT_GE(read, readers.size());
}

}  // namespace
}  // namespace sparcl::flight
