// A resolver that takes its time holds nobody up.

#include "src/net/name_lookup.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace sparcl::net {
namespace {

using ::testing::HasSubstr;

const HostPort kSomeHost{"node7", 4711};

std::atomic<bool> may_answer;
std::atomic<int> answered;

Addresses answer_when_allowed(const HostPort& where) {
  while (!may_answer) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  ++answered;
  return std::vector<NetAddress>{loopback_address(where.port)};
}

TEST(NameLookup, TellsWhenTheAnswerIsThere) {
  may_answer = false;
  NameLookup lookup(answer_when_allowed);
  EXPECT_EQ(lookup.fd(), -1);
  Addresses answer = Status(Code::kInternalError, "none");
  EXPECT_FALSE(lookup.take(answer));
  for (int round = 0; round < 2; ++round) {
    ASSERT_TRUE(lookup.start(kSomeHost).ok());
    EXPECT_TRUE(lookup.is_under_way());
    if (round == 0) {
      EXPECT_FALSE(lookup.take(answer));
    }
    may_answer = true;
    pollfd entry{lookup.fd(), POLLIN, 0};
    ASSERT_EQ(poll_until(std::span(&entry, 1), monotonic_seconds() + 20), 1);
    ASSERT_TRUE(lookup.take(answer));
    ASSERT_TRUE(answer.ok()) << answer.status().message();
    EXPECT_EQ(answer->front(), loopback_address(4711));
    EXPECT_FALSE(lookup.is_under_way());
  }
}

TEST(NameLookup, NobodyWaitsPastTheDeadline) {
  may_answer = false;
  const int before = answered;
  const Addresses answer =
      resolve_until(kSomeHost, monotonic_seconds() + 0.05, answer_when_allowed);
  EXPECT_EQ(answered, before);
  EXPECT_EQ(answer.status().code(), Code::kTimeout);
  EXPECT_THAT(std::string(answer.status().message()), HasSubstr("'node7'"));
  may_answer = true;  // its thread finds that nobody waits any more
  while (answered == before) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

TEST(NameLookup, GivesTheSystemsAnswer) {
  const Addresses answer =
      resolve_until(*parse_host_port("127.0.0.1:99"), monotonic_seconds() + 20);
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->front(), loopback_address(99));
}

Addresses no_answer(const HostPort& where) {
  ADD_FAILURE() << "the resolver is asked for " << where.host;
  return Status(Code::kSystemError, "no answer");
}

// Not even where no time is left.
TEST(NameLookup, NeverAsksTheResolverForNumericAddresses) {
  for (const char* text : {"127.0.0.1:99", "[::1]:99", "[fd00::7]:99", "[fe80::1%lo]:99", ":99"}) {
    const HostPort where = *parse_host_port(text);
    const Addresses answer = resolve_until(where, monotonic_seconds() - 1, no_answer);
    ASSERT_TRUE(answer.ok()) << text << ": " << answer.status().message();
    EXPECT_EQ(to_text(answer->front()), text == std::string(":99") ? "127.0.0.1:99" : text);
    NameLookup lookup(no_answer);
    ASSERT_TRUE(lookup.start(where).ok());
    Addresses taken = Status(Code::kInternalError, "none");
    ASSERT_TRUE(lookup.take(taken)) << text << " at once";
    EXPECT_EQ(taken->front(), answer->front());
  }
  EXPECT_FALSE(numeric_address(kSomeHost).has_value());
}

}  // namespace
}  // namespace sparcl::net
