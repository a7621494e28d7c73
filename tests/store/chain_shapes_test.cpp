// What a writer puts beside the deltas, and how much work it spends on fewer bytes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "src/store/coding_effort.hpp"
#include "src/store/compaction.hpp"
#include "src/store/object_cache.hpp"
#include "tests/store/chain_support.hpp"

namespace sparcl::store {
namespace {

class ChainShapes : public ChainOfVersions {
 protected:
  bool changes_again = false;  // the same elements each time

  // Few change: deltas do not grow as large as an anchor.
  void publish_some(int count) {
    const auto by = writer(*store);
    for (int i = 0; i < count; ++i) {
      trained.change(changes_again ? 10 : versions.size() + 10, 3000);
      publish(*by, versions.size() + 1);
    }
  }
  std::vector<ChainStep> steps(const std::optional<model::HeldVersion>& held = std::nullopt) {
    return *steps_to(chain, **chain.newest(), {.held = held});
  }
  std::vector<ChainStep> steps_upto(std::size_t version) {
    return *steps_to(chain, *chain.record(version), {});
  }
  void expect_all_come_back() {
    for (std::size_t to = 0; to < versions.size(); ++to) {
      for (int from = -1; from < static_cast<int>(versions.size()); from += 4) {
        HeldTensors held(kTensors);
        std::optional<model::HeldVersion> what;
        if (from >= 0) {
          set_to(held, static_cast<std::size_t>(from));
          what = versions[static_cast<std::size_t>(from)];
        }
        const Status status = bring(held, *chain.record(to + 1), what);
        ASSERT_TRUE(status.ok()) << from << " to " << to << ": " << status.message();
        ASSERT_TRUE(content(held) == contents[to]) << from << " to " << to;
      }
    }
  }
  // As a reader that has restored the version with the cache.
  void fetch(std::size_t version) {
    HeldTensors held(kTensors);
    ASSERT_TRUE(bring(held, *chain.record(version)).ok());
  }
  void keep_fetched(StoreLink link) {
    store->set_cache(*ObjectCache::open((folder / "cache"), std::uint64_t{1} << 30));
    store->set_link(link);
  }
};

TEST_F(ChainShapes, AnIndependentChainIsOneObjectFromItsLastAnchor) {
  options.shape = ChainShape::kIndependent;
  options.anchor_every = 6;
  publish_some(16);
  for (std::size_t version = 1; version <= 16; ++version) {
    const std::size_t anchor = version < 7 ? 1 : version < 13 ? 7 : 13;
    const auto path = steps_upto(version);
    EXPECT_EQ(path.front().number, anchor) << version;
    EXPECT_EQ(path.size(), version == anchor ? 1U : 2U) << version;
    EXPECT_EQ(path.back().from, version == anchor ? 0U : anchor) << version;
  }
  expect_all_come_back();
}

TEST_F(ChainShapes, AWriterThatBeginsAnewBeginsWithAnAnchor) {
  options.shape = ChainShape::kIndependent;
  options.anchor_every = 6;
  publish_some(3);
  publish_some(4);
  EXPECT_TRUE(*chain.shortcut(4, 0)) << "the values since the first anchor are not known any more";
  EXPECT_EQ(steps().size(), 2U);
  EXPECT_EQ(steps().front().number, 4U);
  expect_all_come_back();
}

TEST_F(ChainShapes, APlainChainHasNoSkips) {
  options.shape = ChainShape::kPlain;
  options.anchor_every = 9;
  publish_some(18);
  EXPECT_TRUE(keys("skips").empty());
  EXPECT_EQ(steps().size(), 9U) << "the anchor of version 10, and 8 deltas";
  expect_all_come_back();
}

TEST_F(ChainShapes, WritersOfEachShapeGoOnAfterEachOther) {
  options.anchor_every = 16;
  for (const ChainShape shape : {ChainShape::kHybrid, ChainShape::kIndependent, ChainShape::kPlain,
                                 ChainShape::kIndependent, ChainShape::kHybrid}) {
    options.shape = shape;
    publish_some(5);
  }
  expect_all_come_back();
}

TEST_F(ChainShapes, CompactionAddsWhatAnIndependentChainLacks) {
  options.shape = ChainShape::kIndependent;
  options.anchor_every = 16;
  publish_some(12);
  const std::vector<std::string> made = keys("shortcuts");
  ASSERT_EQ(made.size(), 10U);
  for (const std::string& key : made) ASSERT_TRUE(store->remove(key).ok());
  EXPECT_EQ(steps().size(), 12U);
  const Result<std::uint64_t> added = compact(chain, kernels::cpu_kernels());
  ASSERT_TRUE(added.ok()) << added.status().message();
  EXPECT_EQ(*added, 11U) << "as many skips as before, and the newest version's anchor";
  EXPECT_EQ(steps_upto(11).size(), 2U);
  expect_all_come_back();
}

TEST_F(ChainShapes, AReaderThatKeepsTheAnchorFetchesOneObjectHoweverManyRoundsItSkips) {
  options.shape = ChainShape::kIndependent;
  options.anchor_every = 64;
  changes_again = true;
  publish_some(11);
  keep_fetched(StoreLink::kMetered);
  fetch(1);
  const auto path = steps(versions[1]);
  ASSERT_EQ(path.size(), 2U);
  EXPECT_TRUE(path.front().is_anchor());
  EXPECT_TRUE(store->cache()->has(path.front().object));
  HeldTensors held(kTensors);
  set_to(held, 1);
  ASSERT_TRUE(bring(held, **chain.newest(), versions[1]).ok());
  EXPECT_TRUE(content(held) == contents.back());
}

// Bytes of a local disk take time, too.
TEST_F(ChainShapes, OnAMeasuredLinkAFetchedAnchorIsNoReasonToReadItAgain) {
  options.shape = ChainShape::kIndependent;
  options.anchor_every = 64;
  publish_some(11);
  keep_fetched(StoreLink::kMeasured);
  fetch(1);
  for (const ChainStep& step : steps(versions[8])) EXPECT_FALSE(step.is_anchor());
}

TEST_F(ChainShapes, AnEarlierAnchorThatWasFetchedLeadsOverALaterOne) {
  options.shape = ChainShape::kIndependent;
  options.anchor_every = 5;
  publish_some(16);
  keep_fetched(StoreLink::kMetered);
  fetch(1);
  const auto path = steps();
  EXPECT_EQ(path.front().number, 1U);
  for (const ChainStep& step : path)
    EXPECT_TRUE(!step.is_anchor() || store->cache()->has(step.object)) << step.number;
  HeldTensors held(kTensors);
  ASSERT_TRUE(bring(held, **chain.newest()).ok());
  EXPECT_TRUE(content(held) == contents.back());
}

// What a cache has must not keep a reader from what leads there without it.
TEST_F(ChainShapes, DamageOnTheWayFromAFetchedAnchorIsPassedBy) {
  options.shape = ChainShape::kPlain;
  publish_some(12);  // anchors: 1, 5, 9
  keep_fetched(StoreLink::kMetered);
  fetch(5);
  const StoredObject delta = *chain.record(7)->delta;
  std::filesystem::resize_file(store->location_of(delta.key), delta.bytes - 1);
  HeldTensors held(kTensors);
  EXPECT_EQ(steps().front().number, 5U);
  ASSERT_TRUE(restore_in_place(chain, **chain.newest(), state_of(held)).ok()) << "from anchor 9";
  EXPECT_TRUE(content(held) == contents.back());
}

TEST_F(ChainShapes, EarlierRecordsNeedNotBeSoundWhereThereIsACache) {
  options.shape = ChainShape::kPlain;
  publish_some(12);
  keep_fetched(StoreLink::kMeasured);
  std::ofstream(store->location_of(commit_key(5))) << "garbage";
  const Chain fresh(*store);
  HeldTensors held(kTensors);
  ASSERT_TRUE(restore_in_place(fresh, *fresh.record(12), state_of(held)).ok());
  EXPECT_TRUE(content(held) == contents.back());
}

TEST_F(ChainShapes, CompactionKeepsTheShapeRightAfterAnAnchor) {
  options.shape = ChainShape::kIndependent;
  publish_some(10);  // anchors: 1, 5, 9
  ASSERT_FALSE((*chain.newest())->skips_from_anchor);
  const std::string skip = shortcut_key(4, 1);
  ASSERT_TRUE(store->remove(skip).ok());
  ASSERT_TRUE(compact(chain, kernels::cpu_kernels()).ok());
  EXPECT_THAT(keys("shortcuts"), testing::Contains(skip));
}

TEST_F(ChainShapes, TheLinkSaysHowMuchWorkFewerBytesAreWorth) {
  std::vector<std::uint64_t> bytes;
  for (const StoreLink link : {StoreLink::kFast, StoreLink::kMeasured, StoreLink::kMetered}) {
    const std::string place = folder / std::to_string(bytes.size());
    const auto own = std::move(
        *open_store(test::store_url(test::StoreBody::kDirectory, place), Missing::kIsMade));
    own->set_link(link);
    HeldTensors state(kTensors);
    state.change(1, 2);
    auto by = std::move(*ChainWriter::open(*own, state_of(state), options));
    ASSERT_TRUE(by->publish(1).ok());
    const std::uint64_t anchor = by->newest()->anchor->bytes;
    state.change(2, 3);
    ASSERT_TRUE(by->publish(2).ok());
    bytes.push_back(anchor + by->newest()->delta->bytes);
    by->finish();
    HeldTensors held(kTensors);
    Chain chain_of_own(*own);
    ASSERT_TRUE(restore_in_place(chain_of_own, **chain_of_own.newest(), state_of(held)).ok());
    EXPECT_TRUE(content(held) == content(state));
  }
  EXPECT_GT(bytes[0], bytes[1]);
  EXPECT_GE(bytes[1], bytes[2]);
}

TEST(CodingEffort, FollowsTheLinkAndTheProcessor) {
  EffortChoice choice(StoreLink::kMeasured);
  EXPECT_EQ(choice.next(), Effort::kNormal) << "nothing is known";
  choice.note(choice.next(), {.coding = 1, .putting = 1});
  EXPECT_EQ(choice.next(), Effort::kNormal);
  for (int i = 0; i < 10; ++i) choice.note(choice.next(), {.coding = 1, .putting = 1000});
  EXPECT_EQ(choice.next(), Effort::kSmallest);
  // What more work takes does not look like a slower processor.
  for (int i = 0; i < 10; ++i) choice.note(choice.next(), {.coding = 6, .putting = 970});
  EXPECT_EQ(choice.next(), Effort::kSmallest);
  for (int i = 0; i < 10; ++i) choice.note(choice.next(), {.coding = 6, .putting = 1});
  EXPECT_EQ(choice.next(), Effort::kNormal);
  EXPECT_EQ(EffortChoice(StoreLink::kFast).next(), Effort::kFast);
  EXPECT_EQ(EffortChoice(StoreLink::kMetered).next(), Effort::kSmallest);
}

}  // namespace
}  // namespace sparcl::store
