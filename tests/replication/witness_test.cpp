// Terms of a witness: which of several publishers is the last, without a clock.

#include "src/replication/witness.hpp"

#include <gmock/gmock.h>

#include <filesystem>
#include <thread>

#include "tests/replication/rogue_support.hpp"

namespace sparcl::replication {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::unique_ptr<Witness> taken(const std::string& path, const std::string& holder) {
  Result<std::unique_ptr<Witness>> made = Witness::take(path, holder);
  EXPECT_TRUE(made.ok()) << made.status().message();
  return std::move(*made);
}

TEST(Witness, GivesEachHolderTheNextTerm) {
  const test::TempFolder folder;
  const std::string path = folder / "witness";
  const std::unique_ptr<Witness> first = taken(path, "host a, pid 1");
  EXPECT_EQ(first->term(), 1u);
  EXPECT_TRUE(first->check().ok());
  ASSERT_TRUE(first->raise(40).ok());
  EXPECT_TRUE(first->check().ok());
  const std::unique_ptr<Witness> second = taken(path, "host b, pid 2");
  EXPECT_EQ(second->term(), 41u);
  EXPECT_TRUE(second->check().ok());
  for (const Status& status : {first->check(), first->raise(50)}) {
    EXPECT_EQ(status.code(), Code::kInvalidUsage);
    EXPECT_THAT(status.message(), AllOf(HasSubstr("host b, pid 2 has taken over in term 41"),
                                        HasSubstr("host a, pid 1, term 40")));
  }
  EXPECT_EQ(taken(path, "host a, pid 1")->term(), 42u);
}

TEST(Witness, TwoOfOneNameAreTwo) {
  const test::TempFolder folder;
  const auto first = taken(folder / "w", "one process");
  const auto second = taken(folder / "w", "one process");
  EXPECT_EQ(first->check().code(), Code::kInvalidUsage);
  EXPECT_TRUE(second->check().ok());
}

TEST(Witness, ManyAtOnceGetDifferentTerms) {
  const test::TempFolder folder;
  std::vector<std::uint64_t> terms(16);
  std::vector<std::thread> all;
  for (std::uint64_t& term : terms)
    all.emplace_back([&] { term = taken(folder / "w", "somebody")->term(); });
  for (std::thread& each : all) each.join();
  std::ranges::sort(terms);
  for (std::size_t i = 0; i < terms.size(); ++i) EXPECT_EQ(terms[i], i + 1);
}

// A publisher that cannot know publishes nothing.
TEST(Witness, AFileThatDoesNotTellIsAnError) {
  const test::TempFolder folder;
  const std::string path = folder / "w";
  const auto witness = taken(path, "me");
  test::write_text(path, "something else");
  EXPECT_EQ(witness->check().code(), Code::kCorrupt);
  EXPECT_EQ(Witness::take(path, "me").status().code(), Code::kCorrupt);
  std::filesystem::remove(path);
  EXPECT_EQ(witness->check().code(), Code::kCorrupt);
  EXPECT_EQ(Witness::take(folder / "none/w", "me").status().code(), Code::kSystemError);
}

// Its second look at the file hangs for a while.
int look_beside_a_hang() {
  const test::TempFolder folder;
  const auto made = Witness::take(folder / "w", "me", 0.05);
  if (!made.ok()) return 1;
  Witness& witness = **made;
  const double begin = net::monotonic_seconds();
  if (witness.check().code() != Code::kTimeout) return 2;
  if (net::monotonic_seconds() - begin > 0.3) return 3;
  std::optional<Status> looked = witness.look(0, begin);  // has a thread of its own
  for (int i = 0; i < 100 && !looked; ++i) {
    usleep(1'000);
    looked = witness.look(0, begin);
  }
  if (!looked || !looked->ok()) return 4;
  Status status = witness.check();
  for (int i = 0; i < 100 && !status.ok(); ++i) status = witness.check();
  return status.ok() ? 0 : 5;
}

TEST(Witness, AFileSystemThatHangsDelaysItsCallersForABoundedTime) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  ::setenv("SPARCL_TEST_FAILPOINT", "witness.read:2:delay=400", 1);
  EXPECT_EXIT(std::_Exit(look_beside_a_hang()), ::testing::ExitedWithCode(0), "");
  ::unsetenv("SPARCL_TEST_FAILPOINT");
}

// A paused publisher that comes back: the other one has taken over meanwhile.
TEST(Witness, APublisherThatWasReplacedPublishesNothingMore) {
  const test::TempFolder folder;
  SmallModel source, other, copy(3);
  PublisherOptions options = local_options();
  options.witness_path = folder / "witness";
  const auto publisher = open_publisher(source, options);
  source.step(1);
  ASSERT_TRUE(publisher->publish(1).ok());
  const auto replica = open_replica(copy, publisher->address());
  ASSERT_TRUE(replica->next(20).ok());
  const auto next = open_publisher(other, options);
  other.step(2);
  ASSERT_TRUE(next->publish(5).ok());
  source.step(3);
  const Status refused = publisher->publish(2).status();
  EXPECT_EQ(refused.code(), Code::kInvalidUsage) << refused.message();
  EXPECT_THAT(refused.message(), HasSubstr("has taken over in term 2"));
  // Its replicas are told so, by name.
  const double until = net::monotonic_seconds() + 20;
  Status status;
  while (net::monotonic_seconds() < until &&
         std::string(status.message()).find("has taken over") == std::string::npos)
    status = replica->next(0.2).status();
  EXPECT_THAT(status.message(), HasSubstr("has taken over in term 2"));
  SmallModel second(4);
  const auto follower = open_replica(second, next->address());
  ASSERT_TRUE(follower->next(20).ok());
  EXPECT_TRUE(second.is_same_as(other));
}

// Clocks do not count: a replica that has held a version of a later term is followed.
TEST(Witness, ReplicasThatKnowALaterTermRaiseIt) {
  const test::TempFolder folder;
  SmallModel source, copy(3);
  PublisherOptions options = local_options();
  options.witness_path = folder / "first";
  auto publisher = open_publisher(source, options);
  for (int i = 0; i < 5; ++i) publisher = open_publisher(source, options);
  source.step(1);
  ASSERT_TRUE(publisher->publish(1).ok());
  const std::string address = publisher->address();
  const auto replica = open_replica(copy, address);
  ASSERT_TRUE(replica->next(20).ok());
  publisher = nullptr;
  options.witness_path = folder / "lost and begun anew";
  options.listen = address;
  const auto next = open_publisher(source, options);
  source.step(2);
  ASSERT_TRUE(next->publish(2).ok());
  const Result<Subscriber::Swap> swap = replica->next(20);
  ASSERT_TRUE(swap.ok()) << swap.status().message();
  EXPECT_EQ(swap->version, 2u);
  const double until = net::monotonic_seconds() + 20;
  while (net::monotonic_seconds() < until &&
         test::read_text(folder / "lost and begun anew").find("term 7") == std::string::npos)
    usleep(10'000);
  EXPECT_THAT(test::read_text(folder / "lost and begun anew"), HasSubstr("term 7"));
}

}  // namespace
}  // namespace sparcl::replication
