// What a reader asks of a store whose versions a publisher tells of.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "src/api/store_fallback.hpp"
#include "src/api/stored_state.hpp"
#include "src/replication/publisher.hpp"
#include "src/store/address/open_store.hpp"
#include "src/store/chain_writer.hpp"
#include "tests/replication/sharded_model.hpp"
#include "tests/store/forwarding_store.hpp"
#include "tests/support/temp_folder.hpp"

namespace sparcl::test {
namespace {

using api::StoreFallback;
using api::ToldWait;

class CountingReads final : public store::ForwardingStore {
 public:
  CountingReads(std::unique_ptr<store::ObjectStore> store, int& reads)
      : ForwardingStore(*store), owned_(std::move(store)), reads_(reads) {}
  Result<std::optional<std::vector<std::byte>>> read_all(const std::string& key,
                                                         std::size_t max_bytes) override {
    ++reads_;
    return store_.read_all(key, max_bytes);
  }
  Result<bool> read(const std::string& key, std::uint64_t first,
                    std::span<std::byte> into) override {
    ++reads_;
    return store_.read(key, first, into);
  }
  Result<bool> read_whole(const std::string& key, std::uint64_t bytes, std::uint64_t first,
                          const store::PieceSink& sink) override {
    ++reads_;
    return store_.read_whole(key, bytes, first, sink);
  }

 private:
  std::unique_ptr<store::ObjectStore> owned_;
  int& reads_;
};

TEST(StoreRequests, AVersionThatIsThereTakesTwo) {
  const TempFolder folder;
  const auto open = [&] {
    return std::move(*store::open_store("file:" + (folder / "store"), store::Missing::kIsMade));
  };
  replication::HeldTensors trained(replication::whole_schema()),
      served(replication::whole_schema());
  const std::unique_ptr<store::ObjectStore> objects = open();
  auto writer = store::ChainWriter::open(*objects, api::chain_state(trained.view()), {});
  ASSERT_TRUE(writer.ok()) << writer.status().message();
  replication::PublisherOptions options;
  const auto publisher = replication::Publisher::create(trained.view(), options);
  ASSERT_TRUE(publisher.ok()) << publisher.status().message();
  const auto publish = [&](std::uint64_t version) {
    trained.change(version, 50);
    ASSERT_TRUE((*writer)->publish(version).ok());
    ASSERT_TRUE((*publisher)->publish(version).ok());
  };
  publish(1);
  int reads = 0;
  StoreFallback::Options from;
  from.is_first = true;
  StoreFallback source(std::make_unique<CountingReads>(open(), reads), std::move(from));
  replication::SubscriberOptions reading;
  reading.only_told = true;
  const auto subscriber =
      replication::Subscriber::create(served.view(), (*publisher)->address(), reading);
  ASSERT_TRUE(subscriber.ok()) << subscriber.status().message();
  ASSERT_TRUE(source.next(**subscriber, 30).ok());
  reads = 0;
  for (std::uint64_t version = 2; version <= 6; ++version) {
    publish(version);
    const auto swap = source.next(**subscriber, 30);
    ASSERT_TRUE(swap.ok()) << swap.status().message();
    EXPECT_EQ(swap->version, version);
    EXPECT_EQ(served.hash(), trained.hash());
  }
  EXPECT_EQ(reads, 10) << "the record and the delta of each";
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(source.next(**subscriber, 0.001).ok());
  EXPECT_EQ(reads, 10) << "nothing is asked for while nothing is told";
}

TEST(ToldWait, LooksMoreRarelyAndLearnsHowLongTheStoreNeeds) {
  ToldWait wait;
  wait.begin(10, 10);
  EXPECT_EQ(wait.due(), 10) << "the first look is at once";
  double now = 10, longest = 0;
  for (int i = 0; i < 10; ++i) {
    wait.missed(now);
    longest = std::max(longest, wait.due() - now);
    now = wait.due();
  }
  EXPECT_NEAR(longest, 1, 1e-9);
  EXPECT_EQ(wait.misses(), 10);
  EXPECT_EQ(wait.lasts(now), now - 10);
  wait.found(10.25);
  EXPECT_FALSE(wait.is_on());

  wait.begin(20, 20);
  EXPECT_DOUBLE_EQ(wait.due(), 20.25) << "as long as the last version needed";
  wait.found(20.25);
  wait.begin(30, 30);
  const double shorter = wait.due();
  EXPECT_LT(shorter, 30.25) << "it may need less now";
  wait.missed(shorter);
  EXPECT_DOUBLE_EQ(wait.due(), 30.25) << "it needs as long as before: two looks";
  wait.found(30.25);
  wait.begin(35, 35);
  EXPECT_DOUBLE_EQ(wait.due(), 35.25);
  wait.end();
  wait.begin(40, 50);
  EXPECT_LT(wait.due(), 50) << "a late user looks at once";
}

}  // namespace
}  // namespace sparcl::test
