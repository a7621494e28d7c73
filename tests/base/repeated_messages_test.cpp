#include "src/base/repeated_messages.hpp"

#include <gtest/gtest.h>

namespace sparcl {
namespace {

TEST(RepeatedMessages, AreSaidAtOnceAndThenEverMoreRarely) {
  RepeatedMessages messages;
  std::vector<double> said;
  std::uint64_t told = 0;
  for (int second = 0; second < 2000; ++second) {
    const std::uint64_t times = messages.count("a", second);
    if (times > 0) said.push_back(second);
    told += times;
  }
  EXPECT_EQ(said, (std::vector<double>{0, 60, 180, 420, 900, 1860}));
  EXPECT_EQ(told, 1861U) << "all are counted once";
}

TEST(RepeatedMessages, AnotherOneAndOneThatHadStoppedAreNews) {
  RepeatedMessages messages;
  EXPECT_EQ(messages.count("a", 0), 1U);
  EXPECT_EQ(messages.count("a", 1), 0U);
  EXPECT_EQ(messages.count("b", 1), 1U);
  EXPECT_EQ(messages.count("a", 10'000), 1U);
  EXPECT_EQ(messages.count("a", 10'001), 0U);
}

TEST(RepeatedMessages, ManyDifferentOnesTakeBoundedMemory) {
  RepeatedMessages messages;
  for (int i = 0; i < 100'000; ++i) ASSERT_EQ(messages.count(std::to_string(i), i * 1e-3), 1U);
  EXPECT_EQ(messages.count("99999", 100), 0U) << "the last ones are known";
  EXPECT_EQ(messages.count("0", 100), 1U);
  EXPECT_EQ(times_text(1), "");
  EXPECT_EQ(times_text(60), " (60 times since it was last said)");
}

}  // namespace
}  // namespace sparcl
