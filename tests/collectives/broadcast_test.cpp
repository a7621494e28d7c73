#include "collectives/broadcast/broadcast.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "update_world.hpp"

namespace sparcl::collectives {
namespace {

using test::UpdateWorld;
using ::testing::HasSubstr;

const std::vector<codec::ArraySpec> kModel{
    {DataType::kBfloat16, 70'001}, {DataType::kBfloat16, 128}, {DataType::kFloat32, 3'000},
    {DataType::kUint8, 0},         {DataType::kInt64, 1},      {DataType::kFloat8e4m3, 999}};

void expect_all_new(UpdateWorld& world, const transport::SimOutcome& outcome) {
  ASSERT_TRUE(outcome.ok()) << outcome.report;
  for (int rank = 0; rank < world.party.size(); ++rank) {
    EXPECT_TRUE(world.party.result(rank).ok()) << world.party.result(rank).message();
    EXPECT_TRUE(world.reports[static_cast<std::size_t>(rank)].applied);
    EXPECT_EQ(world.calls[static_cast<std::size_t>(rank)].outcome.version, 8u);
  }
  EXPECT_EQ(world.ranks_at_target(), world.party.size());
}

void expect_all_old(UpdateWorld& world, const transport::SimOutcome& outcome, int root, Code code) {
  ASSERT_TRUE(outcome.ok()) << outcome.report;
  for (int rank = 0; rank < world.party.size(); ++rank) {
    EXPECT_EQ(world.party.result(rank).code(), code) << world.party.result(rank).message();
    EXPECT_FALSE(world.reports[static_cast<std::size_t>(rank)].applied);
    EXPECT_TRUE(world.party.engine(rank).health().ok());
    if (rank == root) continue;
    EXPECT_EQ(world.held[static_cast<std::size_t>(rank)], world.old_state);
  }
}

TEST(UpdateBroadcast, EveryRankCountRootFanoutAndDensityArrivesBitForBit) {
  std::uint64_t seed = 0;
  for (const int ranks : test::rank_counts()) {
    for (const int root : {0, ranks - 1}) {
      for (const broadcast::FanoutRow& row : broadcast::fanout_table()) {
        for (const double share : {0.0, 0.001, 0.3, 1.0}) {
          SCOPED_TRACE(testing::Message() << ranks << " ranks, root " << root << ", " << row.name
                                          << ", share " << share);
          UpdateWorld world(kModel, ranks, ++seed);
          world.writing = seed % 2 == 0 ? codec::Writing::kEarly : codec::Writing::kStaged;
          for (CommContext& context : world.contexts) context.broadcast_algorithm = row.name;
          world.change(share);
          const transport::SimOutcome outcome = world.broadcast(root);
          expect_all_new(world, outcome);
        }
      }
    }
  }
}

TEST(UpdateBroadcast, SettingsThatDifferAreAMismatchThatNamesThem) {
  struct Row {
    const char* odd;
    const char* others;
    void (*change)(CommContext&);
  };
  const Row rows[] = {
      {"SPARCL_VERIFY full", "SPARCL_VERIFY touched",
       [](CommContext& context) { context.verify = codec::Verify::kFull; }},
      {"SPARCL_VERIFY off", "SPARCL_VERIFY touched",
       [](CommContext& context) { context.verify = codec::Verify::kOff; }},
      {"SPARCL_ALGO_BROADCAST binary_tree", "SPARCL_ALGO_BROADCAST chain",
       [](CommContext& context) { context.broadcast_algorithm = "binary_tree"; }},
      {"SPARCL_FRAGMENT_BYTES 262144", "SPARCL_FRAGMENT_BYTES 65536",
       [](CommContext& context) { context.fragment_bytes = 262'144; }},
  };
  for (const int ranks : {2, 3, 4, 8}) {
    for (const Row& row : rows) {
      for (const int odd : {0, ranks - 1}) {
        SCOPED_TRACE(testing::Message() << ranks << " ranks, rank " << odd << " with " << row.odd);
        UpdateWorld world(kModel, ranks, 3);
        for (CommContext& context : world.contexts) {
          context.broadcast_algorithm = "chain";
          context.fragment_bytes = 65'536;
        }
        const CommContext usual = world.contexts[static_cast<std::size_t>(odd)];
        row.change(world.contexts[static_cast<std::size_t>(odd)]);
        world.change(0.1);
        const transport::SimOutcome outcome = world.broadcast(1);
        expect_all_old(world, outcome, 1, Code::kMismatch);
        for (int rank = 0; rank < ranks; ++rank) {
          const std::string& text = world.party.result(rank).message();
          EXPECT_THAT(text, HasSubstr("differ in their settings"));
          EXPECT_THAT(text, HasSubstr(row.odd));
          EXPECT_THAT(text, HasSubstr(row.others));
          EXPECT_THAT(text, HasSubstr("rank " + std::to_string(odd) + " called"));
        }
        world.contexts[static_cast<std::size_t>(odd)] = usual;
        const transport::SimOutcome again = world.broadcast(1);
        expect_all_new(world, again);
      }
    }
  }
}

TEST(UpdateBroadcast, EveryVerifyLevelAndKernelSetWorks) {
  for (const codec::Verify verify :
       {codec::Verify::kOff, codec::Verify::kTouched, codec::Verify::kFull}) {
    for (const kernels::KernelSet* bodies :
         {&kernels::reference_kernels(), &kernels::cpu_kernels()}) {
      UpdateWorld world(kModel, 3, 4);
      for (CommContext& context : world.contexts) {
        context.verify = verify;
        context.kernels = bodies;
      }
      world.change(0.02);
      const transport::SimOutcome outcome = world.broadcast(1);
      expect_all_new(world, outcome);
    }
  }
}

TEST(UpdateBroadcast, LongStreamsCrossManyFragmentsAndSegments) {
  for (const std::uint32_t fragment :
       {broadcast::kMinFragmentBytes, broadcast::kMaxFragmentBytes}) {
    UpdateWorld world({{DataType::kFloat32, 3'000'000}}, 4, fragment);
    for (CommContext& context : world.contexts) context.fragment_bytes = fragment;
    world.change(0.7);
    const transport::SimOutcome outcome = world.broadcast(2);
    expect_all_new(world, outcome);
    EXPECT_GT(world.reports[0].traffic.stream_bytes, Staging::kSegmentBytes);
  }
}

TEST(UpdateBroadcast, WithoutABaseEverythingIsSent) {
  UpdateWorld world(kModel, 4, 3);
  const std::vector<const std::byte*> nothing(kModel.size(), nullptr);
  SeededRandom random(5);
  world.held[3].fill(random);  // whatever a rank holds
  const transport::SimOutcome outcome =
      world.broadcast(0, [&](int rank, broadcast::UpdateCall& call) {
        if (rank == 0) call.sender.base = nothing;
      });
  expect_all_new(world, outcome);
}

TEST(UpdateBroadcast, AWrongBaseIsRefusedByAllBeforeTheFirstWrite) {
  for (const int ranks : {2, 3, 5, 8}) {
    UpdateWorld world(kModel, ranks, 17);
    world.change(0.05);
    const auto odd = static_cast<std::size_t>(ranks - 1);
    SeededRandom random(1);
    world.held[odd].change(random, 1.0, world.map);
    const test::Arrays held_by_odd = world.held[odd];
    const transport::SimOutcome outcome = world.broadcast(0);
    ASSERT_TRUE(outcome.ok()) << outcome.report;
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(world.party.result(rank).code(), Code::kWrongBase);
      EXPECT_THAT(world.party.result(rank).message(),
                  HasSubstr(rank == ranks - 1 ? "" : "rank " + std::to_string(ranks - 1)));
      EXPECT_TRUE(world.party.engine(rank).health().ok());
    }
    EXPECT_EQ(world.held[odd], held_by_odd);
    for (std::size_t rank = 1; rank < odd; ++rank) EXPECT_EQ(world.held[rank], world.old_state);
  }
}

TEST(UpdateBroadcast, RepeatingACallAcceptsRanksThatAreAtTheTarget) {
  for (const codec::Verify verify : {codec::Verify::kTouched, codec::Verify::kFull}) {
    UpdateWorld world(kModel, 4, 23);
    world.writing = codec::Writing::kEarly;
    for (CommContext& context : world.contexts) context.verify = verify;
    world.change(0.05);
    world.held[2] = world.new_state;
    const transport::SimOutcome outcome = world.broadcast(0);
    expect_all_new(world, outcome);
  }
}

TEST(UpdateBroadcast, StateHashesTravelAndAreFollowedFromUpdateToUpdate) {
  UpdateWorld world(kModel, 4, 27);
  std::optional<Hash128> known =
      codec::state_hash(world.map, world.old_state.const_pointers(), {1, 2});
  for (int step = 0; step < 3; ++step) {
    world.change(step == 1 ? 0 : 0.05);  // an update without changes, too
    const transport::SimOutcome outcome =
        world.broadcast(0, [&](int rank, broadcast::UpdateCall& call) {
          call.sender.with_state_hash = rank == 0;
          call.known_hash = known;
          if (rank == 2) call.known_hash.reset();          // has not followed
          if (rank == 3) call.known_hash = Hash128{3, 4};  // followed something else
        });
    expect_all_new(world, outcome);
    const Hash128 now = codec::state_hash(world.map, world.new_state.const_pointers(), {1, 2});
    for (const broadcast::UpdateCall& call : world.calls) EXPECT_EQ(call.outcome.hash, now);
    known = now;
    world.old_state = world.new_state;
  }
}

// The root's hash is off, and with it the names of base and target; who tracks the true one has no
// ground to object, and who agrees on the base sees that the target follows.
TEST(UpdateBroadcast, AHashThatIsKnownWronglyIsNoError) {
  UpdateWorld world(kModel, 3, 28);
  world.change(0.05);
  const transport::SimOutcome outcome =
      world.broadcast(0, [&](int rank, broadcast::UpdateCall& call) {
        call.sender.with_state_hash = rank == 0;
        if (rank != 2) call.known_hash = Hash128{5, 6};
        if (rank == 2)
          call.known_hash = codec::state_hash(world.map, world.old_state.const_pointers(), {1, 2});
      });
  expect_all_new(world, outcome);
}

TEST(UpdateBroadcast, ARefusalOnOneRankEndsTheCallEverywhereAndTheNextOneWorks) {
  UpdateWorld world(kModel, 5, 29);
  world.change(0.05);
  transport::SimOutcome outcome = world.broadcast(0, [](int rank, broadcast::UpdateCall& call) {
    if (rank == 3) call.refusal = Status(Code::kInvalidArgument, "state is NULL");
  });
  expect_all_old(world, outcome, 0, Code::kInvalidArgument);
  outcome = world.broadcast(0);
  expect_all_new(world, outcome);
}

TEST(UpdateBroadcast, AVersionThatTheRootDoesNotSendIsAMismatch) {
  UpdateWorld world(kModel, 3, 31);
  world.change(0.05);
  const transport::SimOutcome outcome =
      world.broadcast(0, [](int rank, broadcast::UpdateCall& call) {
        if (rank == 2) call.version = 9;
      });
  expect_all_old(world, outcome, 0, Code::kMismatch);
}

TEST(UpdateBroadcast, ADifferentSchemaOrFragmentSettingIsAMismatch) {
  for (const bool schema : {true, false}) {
    UpdateWorld world(kModel, 3, 37);
    world.change(0.05);
    if (!schema) world.contexts[1].fragment_bytes = broadcast::kMaxFragmentBytes;
    if (!schema)
      world.contexts[0].fragment_bytes = world.contexts[2].fragment_bytes =
          broadcast::kMinFragmentBytes;
    const transport::SimOutcome outcome =
        world.broadcast(0, [&](int rank, broadcast::UpdateCall& call) {
          if (schema && rank == 1) call.schema_hash = {3, 4};
        });
    expect_all_old(world, outcome, 0, Code::kMismatch);
  }
}

TEST(UpdateBroadcast, TheRootsSnapshotComesForwardWithTheCommit) {
  UpdateWorld world(kModel, 3, 41);
  world.change(0.05);
  test::Arrays snapshot = world.old_state;
  const auto pointers = snapshot.pointers();
  const std::vector<const std::byte*> base(pointers.begin(), pointers.end());
  const transport::SimOutcome outcome =
      world.broadcast(0, [&](int rank, broadcast::UpdateCall& call) {
        if (rank != 0) return;
        call.sender.base = base;
        call.sender.snapshot = pointers;
      });
  expect_all_new(world, outcome);
  EXPECT_EQ(snapshot, world.new_state);
}

}  // namespace
}  // namespace sparcl::collectives
