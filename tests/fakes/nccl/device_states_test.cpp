// Broadcasts of states whose tensors are in device memory: of several types, some small, some
// empty, blocks of several of them.

#include <deque>

#include "src/device/device_block_decoder.hpp"
#include "tests/collectives/update_world.hpp"
#include "tests/fakes/nccl/device_codec.hpp"

namespace sparcl::test {
namespace {

using collectives::broadcast::UpdateOnDevice;
using testing::Each;
using testing::HasSubstr;

// Of the first type: blocks of one array, one of three, blocks of the last one; of others: several
// before a block's border, one at it.
const std::vector<codec::ArraySpec> kState{
    {DataType::kBfloat16, 70'001},   {DataType::kBfloat16, 128},  {DataType::kBfloat16, 0},
    {DataType::kBfloat16, 200'000},  {DataType::kFloat32, 3'000}, {DataType::kUint8, 0},
    {DataType::kFloat32, 90'000},    {DataType::kInt64, 1},       {DataType::kFloat8e4m3, 999},
    {DataType::kFloat8e4m3, 64'537}, {DataType::kUint8, 65'536}};

struct DeviceStates : DeviceCodec {
  DeviceStates() { (void)stream_of(0); }
};

TEST_F(DeviceStates, ChangesTravelAsTheHosts) {
  const State base = codec::random_state(kState, 60);
  for (const double density : {0.0, 0.02, 0.05}) {
    State target = codec::changed_state(base, density, codec::Change::kUlp, 61);
    target.arrays[7] = base.arrays[7];  // one element: another mode would take fewer bytes
    for (const bool is_named : {false, true}) {
      codec::EncodeOptions options;
      options.mode = &codec::kFlatMode;
      options.with_state_hash = is_named;
      const std::vector<std::byte> expected = codec::encode(base, target, options).bytes;
      collectives::broadcast::UpdateCall call;
      call.sender.with_state_hash = is_named;
      EXPECT_TRUE(sent(&base, target, call) == expected);
      call.known_hash = codec::state_hash(base.map(), base.read(), {});
      EXPECT_TRUE(sent(&base, target, call) == expected);
    }
  }
}

TEST_F(DeviceStates, AWholeStateTravelsAsTheHosts) {
  const State target = codec::random_state(kState, 62);
  const codec::BlockMap map = target.map();
  const std::vector<const std::byte*> no_base(kState.size(), nullptr), arrays = target.read();
  codec::EncodeOptions options;
  options.with_state_hash = true;
  codec::UpdateEncoder encoder(map, no_base, arrays, options, kernels::cpu_kernels());
  codec::VectorSink sink;
  while (!encoder.finished()) ASSERT_TRUE(encoder.step(1 << 20, sink).ok());
  collectives::broadcast::UpdateCall call;
  call.sender.with_state_hash = true;
  EXPECT_TRUE(sent(nullptr, target, call) == sink.bytes());
}

// However small, and also where all but the last batch is decoded again.
TEST_F(DeviceStates, BatchesOfAnySize) {
  const State base = codec::random_state(kState, 63),
              target = codec::changed_state(base, 0.1, codec::Change::kUlp, 64);
  const codec::BlockMap map = base.map();
  for (const codec::BlockMode* mode : {&codec::kFlatMode, &codec::kDenseMode}) {
    codec::EncodeOptions options;
    options.mode = mode;
    options.with_state_hash = true;
    const std::vector<std::byte> bytes = codec::encode(base, target, options).bytes;
    for (const device::BatchLimits& limits :
         {device::BatchLimits{}, {1, kBlockElements, 2 << 20, 0}}) {
      for (const codec::Verify verify :
           {codec::Verify::kOff, codec::Verify::kTouched, codec::Verify::kFull}) {
        const StateOnDevice held(kState, base.read());
        device::DeviceBlockDecoder blocks(scratch, map, held.pointers(), verify,
                                          kernels::cpu_kernels(), stream_of(0), limits);
        ASSERT_TRUE(blocks.reserve().ok());
        codec::UpdateDecoder decoder(map, held.pointers(), verify, {}, kernels::cpu_kernels());
        decoder.set_elsewhere(blocks);
        const Staging& staging = codec::staged(bytes);
        const Status checked = check_stream(decoder, staging, bytes.size());
        ASSERT_TRUE(checked.ok()) << checked.message();
        EXPECT_TRUE(held.read() == base.arrays);
        do ASSERT_TRUE(decoder.apply(staging).ok());
        while (blocks.is_applying());
        EXPECT_TRUE(held.read() == target.arrays);
      }
    }
  }
}

// One broadcast of three ranks, each with its state there or on the host.
struct World : UpdateWorld {
  World(std::vector<bool> on_device, double density, std::uint64_t seed)
      : UpdateWorld(kState, static_cast<int>(on_device.size()), seed, patient()),
        is_there(std::move(on_device)) {
    change(density);
    for (std::size_t r = 0; r < is_there.size(); ++r) {
      scratches.push_back(std::make_unique<device::DeviceScratch>(**api::device_kernels()));
      EXPECT_TRUE(scratches.back()
                      ->enter(*gpu::context_of(OnDevice<std::byte>({std::byte{0}}).get()))
                      .ok());
      devices.push_back({scratches.back().get(), stream_of(static_cast<int>(r))});
    }
  }

  // The simulator's clock runs on while the stand-in's threads work.
  static SimOptions patient() {
    SimOptions options;
    options.timeout_s = 1e6;
    return options;
  }

  void broadcast(int root, bool has_base,
                 const std::function<void(int, collectives::broadcast::UpdateCall&)>& adjust = {}) {
    const auto bytes_of = [&](std::size_t r) {
      return static_cast<int>(r) == root ? &new_state : &held[r];
    };
    for (std::size_t r = 0; r < is_there.size(); ++r)
      states.emplace_back(kState, bytes_of(r)->const_pointers());
    base.emplace(kState, old_state.const_pointers());
    const std::vector<const std::byte*> no_base(kState.size(), nullptr);
    outcome = UpdateWorld::broadcast(root, [&](int rank, collectives::broadcast::UpdateCall& call) {
      const auto r = static_cast<std::size_t>(rank);
      call.sender.with_state_hash = true;
      if (rank == root && !has_base) call.sender.base = no_base;
      if (is_there[r]) {
        call.device = &devices[r];
        call.held = states[r].pointers();
        if (rank == root && has_base) call.sender.base = base->read_pointers();
      }
      if (adjust) adjust(rank, call);
    });
    ASSERT_TRUE(outcome.ok()) << outcome.report;
  }
  bool all_hold(const Arrays& arrays, int but = -1) const {
    for (std::size_t r = 0; r < is_there.size(); ++r) {
      if (static_cast<int>(r) != but &&
          !(is_there[r] ? states[r].holds(arrays.const_pointers()) : held[r] == arrays))
        return false;
    }
    return true;
  }
  void expect_success() {
    for (int rank = 0; rank < party.size(); ++rank)
      EXPECT_TRUE(party.result(rank).ok()) << party.result(rank).message();
    EXPECT_TRUE(all_hold(new_state));
  }

  std::vector<bool> is_there;
  std::vector<std::unique_ptr<device::DeviceScratch>> scratches;
  std::vector<UpdateOnDevice> devices;
  std::deque<StateOnDevice> states;
  std::optional<StateOnDevice> base;
  transport::SimOutcome outcome;
};

TEST_F(DeviceStates, AreBroadcast) {
  for (const codec::Verify verify :
       {codec::Verify::kOff, codec::Verify::kTouched, codec::Verify::kFull}) {
    for (const bool has_base : {true, false}) {
      for (const bool root_is_there : {true, false}) {
        SCOPED_TRACE(testing::Message()
                     << has_base << root_is_there << " verify " << static_cast<int>(verify));
        World world({root_is_there, true, !root_is_there}, 0.02, 65);
        for (comm::CommContext& context : world.contexts) context.verify = verify;
        world.broadcast(0, has_base);
        world.expect_success();
        if (root_is_there) {
          EXPECT_EQ(world.states[1].copied_out(), 0) << "it stays there";
        }
        EXPECT_TRUE(world.calls[1].outcome.hash.has_value());
        EXPECT_EQ(world.calls[1].outcome.hash, world.calls[0].outcome.hash);
      }
    }
  }
}

// What the ranks hold is the next call's base, on the device, too; of a call that failed it stays.
TEST_F(DeviceStates, TheRootsSnapshotComesForwardWithTheCommit) {
  for (const bool is_refused : {false, true}) {
    for (const bool has_base : {false, true}) {
      World world({true, true}, 0.02, 66);
      world.broadcast(0, has_base, [&](int rank, collectives::broadcast::UpdateCall& call) {
        if (rank == 0) call.sender.snapshot = world.base->pointers();
        if (rank == 1 && is_refused)
          call.refusal = Status(Code::kInvalidArgument, "as the test wants it");
      });
      if (!is_refused) world.expect_success();
      EXPECT_TRUE(
          world.base->holds((is_refused ? world.old_state : world.new_state).const_pointers()));
      EXPECT_EQ(world.base->copied_out(), 0);
    }
  }
}

// Nothing is written anywhere, and the words are the host's.
TEST_F(DeviceStates, WhatIsWrongIsTheHostsError) {
  for (const codec::Verify verify : {codec::Verify::kTouched, codec::Verify::kFull}) {
    std::string texts[2];
    for (const bool is_there : {true, false}) {
      World world({true, is_there, is_there}, 0.3, 67);
      for (comm::CommContext& context : world.contexts) context.verify = verify;
      SeededRandom random(68);
      world.held[1].change(random, 0.001, world.map);
      const Arrays wrong = world.held[1];
      world.broadcast(0, true, [](int, collectives::broadcast::UpdateCall& call) {
        call.array_name = [](std::uint32_t i) { return "t" + std::to_string(i); };
      });
      for (int rank = 0; rank < 3; ++rank)
        EXPECT_EQ(world.party.result(rank).code(), Code::kWrongBase);
      EXPECT_TRUE(is_there ? world.states[1].holds(wrong.const_pointers())
                           : world.held[1] == wrong);
      EXPECT_TRUE(is_there ? world.states[2].holds(world.old_state.const_pointers())
                           : world.held[2] == world.old_state);
      texts[is_there ? 1 : 0] = world.party.result(2).message();
    }
    EXPECT_EQ(texts[0], texts[1]);
  }
  World world({true, true}, 0.02, 69);
  world.broadcast(0, true, [](int rank, collectives::broadcast::UpdateCall& call) {
    if (rank == 1) call.schema_hash = {9, 9};
  });
  EXPECT_EQ(world.party.result(0).code(), Code::kMismatch);
  EXPECT_TRUE(world.all_hold(world.old_state, 0));
}

// A state that is at the target already, as a call is made again.
TEST_F(DeviceStates, TheTargetMayBeHeldAlready) {
  World world({true, true}, 0.02, 70);
  world.held[1] = world.new_state;
  world.broadcast(0, true);
  world.expect_success();
}

}  // namespace
}  // namespace sparcl::test
