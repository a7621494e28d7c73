// Memory runs out at any one place: a replica never shows other bytes than those of the version it
// names, and goes on once there is memory again.

#include <gtest/gtest.h>

#include <map>
#include <optional>

#include "src/base/worker_pool.hpp"
#include "tests/replication/replica_pair.hpp"
#include "tests/support/failing_memory.hpp"
#include "tests/support/tier.hpp"

namespace sparcl::replication {
namespace {

using test::fail_allocation_of_others;
using test::fail_allocation_of_this_thread;

constexpr double kPatience = 20;

// A publisher and a replica, which begin with version 1.
class Pair {
 public:
  explicit Pair(bool double_buffer, unsigned threads = 1, std::uint64_t elements = 200'000)
      : source_(0, elements), copy_(7, elements), pool_(threads) {
    publisher_ = std::move(*Publisher::create(source_.view(), local_options()));
    SubscriberOptions own = replica_options();
    own.double_buffer = double_buffer;
    own.sweep_s = 0;
    ReplicatedState view = copy_.view();
    if (threads > 1) view.workers = &pool_;
    replica_ = std::move(*Subscriber::create(view, publisher_->address(), own));
    publish(1);
    EXPECT_TRUE(reaches(1));
  }

  void publish(std::uint64_t version, int changes = 20'000) {
    source_.step(version, changes);
    EXPECT_TRUE(publisher_->publish(version).ok());
    hash_[version] = source_.hash();
  }
  // The first try finds no memory for one of its allocations. True: it came to that one.
  bool publish_at_the_second_try(std::uint64_t version, long after) {
    source_.step(version, 2'000);
    bool is_published = false;
    fail_allocation_of_this_thread(after);
    try {
      is_published = publisher_->publish(version).ok();
    } catch (const std::bad_alloc&) {
    }
    const bool has_failed = test::has_failed_in_this_thread();
    fail_allocation_of_this_thread(-1);
    EXPECT_TRUE(is_published || publisher_->publish(version).ok());
    hash_[version] = source_.hash();
    return has_failed;
  }
  void wait_staged(std::uint64_t version) {
    EXPECT_TRUE(publisher_->wait_staged(version, 1, kPatience).ok());
  }

  // What is shown is what is said.
  bool is_right() {
    std::vector<std::byte*> arrays;
    for (std::size_t i = 0; i < 2; ++i)
      arrays.push_back(const_cast<std::byte*>(replica_->array(i)));
    return copy_.view().hash_of(arrays) == hash_[replica_->versions().held];
  }
  bool reaches(std::uint64_t version) {
    for (const double until = net::monotonic_seconds() + kPatience;
         net::monotonic_seconds() < until;) {
      if (replica_->versions().held == version) return is_right();
      if (replica_->next(1).ok() && !is_right()) return false;
    }
    return false;
  }
  Subscriber& replica() { return *replica_; }

 private:
  SmallModel source_, copy_;
  WorkerPool pool_;
  std::unique_ptr<Publisher> publisher_;
  std::unique_ptr<Subscriber> replica_;
  std::map<std::uint64_t, Hash128> hash_;
};

struct Kind {
  const char* name;
  bool double_buffer;
  unsigned threads;
  int changes;
};
void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

class MemoryOfNext : public ::testing::TestWithParam<Kind> {};

// The first of two updates is checked by the replica's thread, the second in next().
TEST_P(MemoryOfNext, MayRunOutAnywhere) {
  int failures = 0;
  for (long after = 0;; ++after) {
    SCOPED_TRACE(testing::Message() << "after " << after << " allocations");
    Pair pair(GetParam().double_buffer, GetParam().threads);
    pair.publish(2, GetParam().changes);
    pair.publish(3, GetParam().changes);
    pair.wait_staged(3);
    fail_allocation_of_this_thread(after);
    try {
      (void)pair.replica().next(1).ok();
    } catch (const std::bad_alloc&) {  // as sparcl.h says it: sparclOutOfMemory
    }
    const bool has_failed = test::has_failed_in_this_thread();
    fail_allocation_of_this_thread(-1);
    failures += has_failed ? 1 : 0;
    ASSERT_TRUE(pair.is_right());
    ASSERT_TRUE(pair.reaches(3));
    pair.publish(4);
    ASSERT_TRUE(pair.reaches(4));
    if (!has_failed) break;
  }
  EXPECT_GT(failures, 5);
}

INSTANTIATE_TEST_SUITE_P(Memory, MemoryOfNext,
                         ::testing::Values(Kind{"InPlace", false, 1, 20'000},
                                           Kind{"TwoSets", true, 1, 20'000},
                                           Kind{"Workers", false, 3, 20'000},
                                           Kind{"DecodedAnew", false, 1, 150'000},
                                           Kind{"DecodedAnewByWorkersInTwoSets", true, 3, 150'000}),
                         [](const auto& kind) { return std::string(kind.param.name); });

// A publish() that fails has changed nothing, or the next one would find nothing that changed.
TEST(MemoryOfPublish, MayRunOutAnywhere) {
  int failures = 0;
  for (long after = 0;; ++after) {
    SCOPED_TRACE(testing::Message() << "after " << after << " allocations");
    Pair pair(false, 1, 20'000);
    const bool has_failed = pair.publish_at_the_second_try(2, after);
    failures += has_failed ? 1 : 0;
    ASSERT_TRUE(pair.reaches(2));
    pair.publish(3, 2'000);
    ASSERT_TRUE(pair.reaches(3));
    if (!has_failed) break;
  }
  EXPECT_GT(failures, 20);
}

// A step back that finds no memory is still wanted.
TEST(MemoryOfAStepBack, MayRunOutAnywhere) {
  for (const bool double_buffer : {false, true}) {
    int failures = 0;
    for (long after = 0;; ++after) {
      SCOPED_TRACE(testing::Message()
                   << "after " << after << " allocations" << (double_buffer ? ", two sets" : ""));
      Pair pair(double_buffer);
      pair.publish(2);
      ASSERT_TRUE(pair.reaches(2));
      ASSERT_TRUE(pair.replica().pin(1).ok());
      fail_allocation_of_this_thread(after);
      try {
        (void)pair.replica().next(1).ok();
      } catch (const std::bad_alloc&) {
      }
      const bool has_failed = test::has_failed_in_this_thread();
      fail_allocation_of_this_thread(-1);
      failures += has_failed ? 1 : 0;
      ASSERT_TRUE(pair.is_right());
      ASSERT_TRUE(pair.reaches(1));
      if (!has_failed) break;
    }
    EXPECT_GT(failures, 0);
  }
}

TEST(MemoryOfAReplicasThread, MayRunOutAnywhere) {
  int failures = 0;
  for (long after = 0; after < 40; after += test::by_tier(7, 1)) {
    SCOPED_TRACE(testing::Message() << "after " << after << " allocations");
    Pair pair(false, 1, 600'000);
    fail_allocation_of_others(after, 4096);
    pair.publish(2);
    pair.publish(3);
    EXPECT_TRUE(pair.reaches(3));
    failures += test::has_failed_in_others() ? 1 : 0;
    fail_allocation_of_others(-1, 0);
  }
  EXPECT_GT(failures, 1);  // how many allocations there are is a matter of timing
}

}  // namespace
}  // namespace sparcl::replication
