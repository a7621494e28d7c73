// A store that changes under its reader.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <memory>
#include <utility>

#include "src/api/stored_state.hpp"
#include "src/store/address/open_store.hpp"
#include "src/store/chain_writer.hpp"
#include "tests/replication/sharded_model.hpp"
#include "tests/store/forwarding_store.hpp"
#include "tests/support/temp_folder.hpp"
#include "tools/sparcl/followed_chain.hpp"

namespace sparcl::test {
namespace {

using ::testing::HasSubstr;

// Counts what a chain reads.
class CountedRecords final : public store::ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;
  Result<std::optional<std::vector<std::byte>>> read_all(const std::string& key,
                                                         std::size_t max_bytes) override {
    ++reads_;
    return store_.read_all(key, max_bytes);
  }
  int take() { return std::exchange(reads_, 0); }

 private:
  int reads_ = 0;
};

class FollowedStore : public ::testing::Test {
 protected:
  // A run of its own at the store's address, with other weights.
  void begin_run(std::uint64_t seed) {
    writer_.reset();
    if (seed > 1) trained_.change(1000 + seed, 50);
    written_ = std::move(*store::open_store("file:" + store(), store::Missing::kIsMade));
    auto writer = store::ChainWriter::open(*written_, api::chain_state(trained_.view()), {});
    ASSERT_TRUE(writer.ok()) << writer.status().message();
    writer_ = std::move(*writer);
  }
  void publish(std::uint64_t version) {
    trained_.change(version, 50);
    const Status published = writer_->publish(version);
    ASSERT_TRUE(published.ok()) << published.message();
  }
  // The version; 0: none, or an error, which is kept.
  std::uint64_t look() {
    const auto newest = followed_.newest(now_);
    status_ = newest.status();
    return newest.ok() && *newest ? (*newest)->version : 0;
  }
  std::uint64_t look_at_three() {
    begin_run(1);
    for (std::uint64_t version = 1; version <= 3; ++version) publish(version);
    return look();
  }
  void begin_anew() {
    writer_.reset();
    std::filesystem::remove_all(store());
    begin_run(2);
  }
  std::string store() const { return folder_ / "store"; }

  const TempFolder folder_;
  std::unique_ptr<store::ObjectStore> objects_ =
      std::move(*store::open_store("file:" + store(), store::Missing::kIsMade));
  CountedRecords counted_{*objects_};
  store::Chain chain_{counted_};
  tool::FollowedChain followed_{chain_};
  replication::HeldTensors trained_{replication::whole_schema()};
  std::unique_ptr<store::ObjectStore> written_;  // by the present run
  std::unique_ptr<store::ChainWriter> writer_;
  Status status_;
  double now_ = 100;
};

TEST_F(FollowedStore, AsksTwiceForEachVersionAndNeverSkipsOne) {
  EXPECT_EQ(look(), 0U);
  EXPECT_TRUE(status_.ok());
  begin_run(1);
  publish(1);
  EXPECT_EQ(look(), 1U);
  for (std::uint64_t version = 2; version <= 4; ++version) {
    publish(version);
    counted_.take();
    EXPECT_EQ(look(), version);
    EXPECT_EQ(counted_.take(), 2) << "the record, and the number that was noted";
    EXPECT_EQ(look(), version);
    EXPECT_EQ(counted_.take(), 2);
  }
  for (std::uint64_t version = 5; version <= 9; ++version) publish(version);
  EXPECT_EQ(look(), 9U);
}

TEST_F(FollowedStore, NamesAStoreThatIsGoneUntilItIsBack) {
  ASSERT_EQ(look_at_three(), 3U);
  writer_->finish();
  std::filesystem::rename(store(), folder_ / "elsewhere");
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(look(), 0U);
    EXPECT_EQ(status_.code(), Code::kRemoteError);
    EXPECT_THAT(std::string(status_.message()),
                HasSubstr("version 3, which was read last, is gone"));
  }
  std::filesystem::rename(folder_ / "elsewhere", store());
  publish(4);
  EXPECT_EQ(look(), 4U) << status_.message();
}

TEST_F(FollowedStore, TakesNoVersionOfAnotherRun) {
  ASSERT_EQ(look_at_three(), 3U);
  begin_anew();
  for (std::uint64_t version = 1; version <= 5; ++version) {
    publish(version);
    for (int looks = 0; looks < 2; ++looks) {
      EXPECT_EQ(look(), 0U) << version;
      EXPECT_EQ(status_.code(), Code::kMismatch) << version;
      EXPECT_THAT(std::string(status_.message()), HasSubstr("begun anew")) << version;
    }
  }
}

// The other run has just the next record when the reader looks again.
TEST_F(FollowedStore, TakesNoNextRecordThatLeadsOnFromOtherWeights) {
  ASSERT_EQ(look_at_three(), 3U);
  begin_anew();
  for (std::uint64_t version = 1; version <= 4; ++version) publish(version);
  EXPECT_EQ(look(), 0U);
  EXPECT_THAT(std::string(status_.message()), HasSubstr("another run has written record 4"));
}

// A writer that was killed between a record and `newest`.
TEST_F(FollowedStore, LooksSeldomForARecordThatIsNotNoted) {
  ASSERT_EQ(look_at_three(), 3U);
  const std::string late = "2\n";
  const std::array pieces{std::as_bytes(std::span(late))};
  ASSERT_TRUE(objects_->replace(store::kNewest, pieces).ok());
  counted_.take();
  EXPECT_EQ(look(), 3U);
  EXPECT_EQ(counted_.take(), 3);
  EXPECT_EQ(look(), 3U);
  EXPECT_EQ(counted_.take(), 2);
  now_ += 60;
  EXPECT_EQ(look(), 3U);
  EXPECT_EQ(counted_.take(), 3);
}

}  // namespace
}  // namespace sparcl::test
