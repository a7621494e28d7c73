#include "examples/rl_weight_sync/rollout_channel.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <stdexcept>

namespace training {
namespace {

RolloutMessage rollout(std::uint64_t version, std::size_t count) {
  RolloutMessage message;
  message.head.kind = MessageKind::kRollout;
  message.head.version = version;
  for (std::size_t i = 0; i < count; ++i) message.tokens.push_back(static_cast<Token>(i % 97));
  return message;
}

TEST(RolloutChannel, KeepsMessagesAndTheirBounds) {
  ChannelPair ends = make_channel_pair();
  EXPECT_FALSE(ends.mine.receive());
  ASSERT_TRUE(ends.others.send(rollout(3, 1024)));
  ASSERT_TRUE(ends.others.send(rollout(4, 0)));
  const std::optional<RolloutMessage> first = ends.mine.receive(), second = ends.mine.receive();
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->head.version, 3U);
  EXPECT_EQ(first->tokens, rollout(3, 1024).tokens);
  EXPECT_EQ(second->head.version, 4U);
  EXPECT_TRUE(second->tokens.empty());
  EXPECT_FALSE(ends.mine.is_over());
}

TEST(RolloutChannel, AFullOneBlocksNobody) {
  ChannelPair ends = make_channel_pair();
  int sent = 0;
  while (sent < 100'000 && ends.others.send(rollout(1, 1024))) ++sent;
  EXPECT_GT(sent, 0);
  EXPECT_LT(sent, 100'000);
}

TEST(RolloutChannel, WhatWasSentBeforeTheEndArrives) {
  ChannelPair ends = make_channel_pair();
  ASSERT_TRUE(ends.others.send(rollout(5, 8)));
  ends.others.say_no_more();
  ASSERT_TRUE(ends.mine.receive());
  EXPECT_FALSE(ends.mine.is_over());
  EXPECT_FALSE(ends.mine.receive());
  EXPECT_TRUE(ends.mine.is_over());
  EXPECT_TRUE(ends.mine.send(rollout(6, 8)));  // the other direction is as it was
  EXPECT_TRUE(ends.others.receive());
}

TEST(RolloutChannel, RefusesWhatIsNoMessage) {
  ChannelPair ends = make_channel_pair();
  ASSERT_EQ(::send(ends.others.descriptor(), "short", 5, 0), 5);
  EXPECT_THROW((void)ends.mine.receive(), std::runtime_error);
  RolloutMessage::Head head;
  head.token_count = 1U << 30;
  ASSERT_EQ(::send(ends.others.descriptor(), &head, sizeof head, 0),
            static_cast<ssize_t>(sizeof head));
  EXPECT_THROW((void)ends.mine.receive(), std::runtime_error);
}

}  // namespace
}  // namespace training
