#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collectives/broadcast/dense_choice.hpp"
#include "update_world.hpp"

namespace sparcl::collectives {
namespace {

using broadcast::UpdateCall;
using test::UpdateWorld;
using ::testing::HasSubstr;

const std::vector<codec::ArraySpec> kTensors{
    {DataType::kBfloat16, 270'001}, {DataType::kBfloat16, 128}, {DataType::kFloat32, 3'000},
    {DataType::kUint8, 0},          {DataType::kInt64, 1},      {DataType::kFloat8e4m3, 999}};

void use(UpdateWorld& world, const char* algorithm) {
  for (CommContext& context : world.contexts) context.broadcast_algorithm = algorithm;
}

void expect_dense(UpdateWorld& world, const transport::SimOutcome& outcome) {
  ASSERT_TRUE(outcome.ok()) << outcome.report;
  EXPECT_EQ(world.ranks_at_target(), world.party.size());
  for (int rank = 0; rank < world.party.size(); ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    EXPECT_TRUE(world.party.result(rank).ok()) << world.party.result(rank).message();
    EXPECT_STREQ(world.reports[r].algorithm, broadcast::kDenseName);
    EXPECT_EQ(world.reports[r].nnz_in, world.map.element_count());
    EXPECT_EQ(world.calls[r].outcome.version, 8u);
  }
}

TEST(DenseBroadcast, EveryRankCountRootAndSizeArrivesBitForBit) {
  std::uint64_t seed = 0;
  for (const int ranks : {2, 3, 4, 5, 7, 8}) {
    for (const int root : {0, ranks - 1}) {
      for (const std::uint64_t count : {1ULL, 4'095ULL, 65'536ULL, 300'001ULL}) {
        SCOPED_TRACE(testing::Message() << ranks << " ranks, root " << root << ", " << count);
        UpdateWorld world({{DataType::kUint8, 3}, {DataType::kBfloat16, count}}, ranks, ++seed);
        world.writing = seed % 2 == 0 ? codec::Writing::kEarly : codec::Writing::kStaged;
        use(world, broadcast::kDenseName);
        if (seed % 4 < 2) world.share_windows();
        world.change(seed % 3 == 0 ? 0.01 : 1);
        const transport::SimOutcome outcome = world.broadcast(root);
        expect_dense(world, outcome);
      }
    }
  }
}

TEST(DenseBroadcast, TheRootDecidesByWhatHasChanged) {
  for (const double share : {0.0, 0.001, 0.6, 1.0}) {
    SCOPED_TRACE(share);
    UpdateWorld world(kTensors, 3, 5);
    use(world, "auto");
    world.change(share);
    const transport::SimOutcome outcome = world.broadcast(1);
    if (share > 0.5) {
      expect_dense(world, outcome);
    } else {
      EXPECT_EQ(world.ranks_at_target(), 3);
      EXPECT_STRNE(world.reports[0].algorithm, broadcast::kDenseName);
    }
  }
}

// Whoever holds something else holds the root's values afterwards.
TEST(DenseBroadcast, BasesAreNotChecked) {
  UpdateWorld world(kTensors, 4, 17);
  use(world, "auto");
  world.change(0.9);
  SeededRandom random(1);
  world.held[3].change(random, 1.0, world.map);
  const transport::SimOutcome outcome = world.broadcast(0);
  expect_dense(world, outcome);
}

TEST(DenseBroadcast, CallsThatNeedChangesAreNotDense) {
  UpdateWorld world(kTensors, 3, 6);
  use(world, broadcast::kDenseName);
  for (CommContext& context : world.contexts) context.verify = codec::Verify::kFull;
  world.change(1);
  const transport::SimOutcome outcome = world.broadcast(1);
  EXPECT_TRUE(outcome.ok()) << outcome.report;
  EXPECT_EQ(world.ranks_at_target(), 3);
  EXPECT_STRNE(world.reports[0].algorithm, broadcast::kDenseName);
}

TEST(DenseBroadcast, TheStatesHashAndTheSnapshotComeWithTheCommit) {
  UpdateWorld world(kTensors, 4, 27);
  use(world, broadcast::kDenseName);
  test::Arrays snapshot = world.old_state;
  const auto pointers = snapshot.pointers();
  const std::vector<const std::byte*> base(pointers.begin(), pointers.end());
  world.change(0.5);
  const transport::SimOutcome outcome = world.broadcast(0, [&](int rank, UpdateCall& call) {
    call.sender.with_state_hash = rank == 0;
    if (rank != 0) return;
    call.sender.base = base;
    call.sender.snapshot = pointers;
  });
  expect_dense(world, outcome);
  const Hash128 now = codec::state_hash(world.map, world.new_state.const_pointers(), {1, 2});
  for (const UpdateCall& call : world.calls) {
    EXPECT_EQ(call.outcome.hash, now);
    EXPECT_FALSE(call.outcome.has_written_snapshot);
  }
  EXPECT_EQ(snapshot, world.new_state);
}

TEST(DenseBroadcast, ChangesThatLieTogetherAreSentAlone) {
  UpdateWorld world({{DataType::kBfloat16, 400'000}}, 3, 8);
  use(world, "auto");
  std::byte* const bytes = world.new_state.pointers()[0];
  for (std::size_t i = 0; i < 160'000; ++i) bytes[i] ^= std::byte{1};  // a fifth, in one piece
  const transport::SimOutcome outcome = world.broadcast(0);
  EXPECT_TRUE(outcome.ok()) << outcome.report;
  EXPECT_EQ(world.ranks_at_target(), 3);
  EXPECT_STRNE(world.reports[0].algorithm, broadcast::kDenseName);
}

TEST(DenseBroadcast, RanksNeedNotAgreeOnFragments) {
  UpdateWorld world({{DataType::kBfloat16, 3'000'000}}, 3, 9);
  use(world, "auto");
  world.contexts[1].fragment_bytes = broadcast::kMinFragmentBytes;
  world.change(1);
  const transport::SimOutcome outcome = world.broadcast(0);
  ASSERT_TRUE(outcome.ok()) << outcome.report;
  if (world.party.result(0).ok()) expect_dense(world, outcome);  // else a Mismatch of sparse plans
  EXPECT_TRUE(world.party.engine(1).health().ok());
}

TEST(DenseBroadcast, ARankThatNamesAFanoutIsAMismatch) {
  UpdateWorld world(kTensors, 4, 10);
  use(world, broadcast::kDenseName);
  world.contexts[2].broadcast_algorithm = "binary_tree";
  world.change(1);
  const transport::SimOutcome outcome = world.broadcast(0);
  ASSERT_TRUE(outcome.ok()) << outcome.report;
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(world.party.result(rank).code(), Code::kMismatch);
    EXPECT_THAT(world.party.result(rank).message(), HasSubstr("SPARCL_ALGO_BROADCAST dense"));
  }
}

// Early writers have written everything by then.
TEST(DenseBroadcast, ARankThatObjectsAtTheEndLeavesAllAsTheyWere) {
  for (const codec::Writing writing : {codec::Writing::kEarly, codec::Writing::kStaged}) {
    UpdateWorld world(kTensors, 5, 31);
    world.writing = writing;
    use(world, broadcast::kDenseName);
    world.share_windows();
    world.change(1);
    test::Arrays snapshot = world.old_state;
    const auto pointers = snapshot.pointers();
    const transport::SimOutcome outcome = world.broadcast(0, [&](int rank, UpdateCall& call) {
      if (rank == 2) call.version = 9;
      if (rank == 0) call.sender.snapshot = pointers;
    });
    ASSERT_TRUE(outcome.ok()) << outcome.report;
    for (int rank = 0; rank < 5; ++rank) {
      EXPECT_EQ(world.party.result(rank).code(), Code::kMismatch);
      EXPECT_TRUE(world.party.engine(rank).health().ok());
      if (rank == 0) continue;
      EXPECT_EQ(world.held[static_cast<std::size_t>(rank)], world.old_state);
    }
    EXPECT_TRUE(world.calls[0].outcome.has_written_snapshot);  // the root knows of no base now
  }
}

}  // namespace
}  // namespace sparcl::collectives
