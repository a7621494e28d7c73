// Updates of states whose tensors are all on one GPU: coded, checked and written there, against a
// snapshot there. What they give is what they give on the host, bit for bit, also where some of
// them go by way of the host.

#include "tests/fakes/nccl/update_ranks.hpp"

namespace sparcl::test {
namespace {

using testing::Each;
using testing::HasSubstr;

using DeviceStateUpdates = NcclRanks;

std::uint64_t bytes_received(UpdateRanks& ranks, int rank) {
  return report_of(ranks.party().comm(rank)).bytes_received;
}

// The first sends all, through pinned memory; of the others what changed crosses, and nothing else.
TEST_F(DeviceStateUpdates, WhatChangedCrossesAlone) {
  for (const char* level : {"off", "touched", "full"}) {
    const Verifying verifying(level);
    UpdateRanks device = UpdateRanks::on_device(3);
    ASSERT_THAT(device.update(1, 0), Each(sparclSuccess)) << device.error(0);
    const int first = device.models[0]->copies_out();
    for (std::uint64_t version = 2; version <= 5; ++version) {
      device.models[0]->step(version, version == 4 ? 0.6 : 0.01);
      const Bytes trained = device.models[0]->read();
      ASSERT_THAT(device.update(version, 0), Each(sparclSuccess)) << device.error(0);
      EXPECT_THAT(device.read(), Each(trained)) << "version " << version;
      EXPECT_GT(report_of(device.party().comm(0)).nnz_in, 0u);
    }
    EXPECT_EQ(device.models[0]->copies_out(), first);
    EXPECT_EQ(device.models[0]->copies_out(true) + device.models[1]->copies_out() +
                  device.models[2]->copies_out(),
              0);
    std::uint8_t hashes[2][16];
    for (int rank : {0, 1})
      ASSERT_EQ(sparclStateHash(device.state(rank), hashes[rank]), sparclSuccess);
    EXPECT_EQ(std::memcmp(hashes[0], hashes[1], 16), 0);
  }
}

// Any rank may be the root: the first time it sends all, and it is the base of what it sends then.
TEST_F(DeviceStateUpdates, RootsTakeTurns) {
  UpdateRanks device = UpdateRanks::on_device(3);
  std::uint64_t version = 0;
  for (const int root : {0, 0, 1, 1, 0, 0, 2}) {
    device.models[static_cast<std::size_t>(root)]->step(++version, 0.02);
    const Bytes trained = device.models[static_cast<std::size_t>(root)]->read();
    ASSERT_THAT(device.update(version, root), Each(sparclSuccess)) << device.error(0);
    EXPECT_THAT(device.read(), Each(trained)) << "version " << version;
  }
}

// Between them calls that the host makes: with options, without waiting, with kernels turned off.
// What the ranks have confirmed goes with it, there and back: no later one sends all.
TEST_F(DeviceStateUpdates, TheSnapshotGoesWhereTheNextCallIs) {
  const sparclUpdateOptions_t top_k = with(sparclSelectTopK),
                              adopting = with(sparclSelectTopK, sparclValuesExact, sparclOn),
                              lossy = with(sparclSelectAll, sparclValuesInt8),
                              all = SPARCL_UPDATE_OPTIONS_INITIALIZER;
  UpdateRanks device = UpdateRanks::on_device(2), host = UpdateRanks::on_host(2);
  std::uint64_t version = 0;
  for (const sparclUpdateOptions_t* options :
       {&all, &all, &top_k, &all, &adopting, &top_k, &all, &all, &lossy, &all, &all}) {
    ++version;
    for (UpdateRanks* const each : {&device, &host}) {
      each->models[0]->step(version, 0.01);
      ASSERT_THAT(each->update(version, 0, options), Each(sparclSuccess)) << each->error(0);
    }
    EXPECT_EQ(device.read(), host.read()) << "version " << version;
    if (version > 1) {
      EXPECT_LT(bytes_received(device, 1), 60'000u) << "version " << version;
    }
  }
  const auto without_waiting = [&](int rank, sparclComm_t comm) {
    sparclRequest_t request = nullptr;
    EXPECT_EQ(
        sparclIBroadcastUpdate(device.state(rank), version, 0, nullptr, comm, nullptr, &request),
        sparclSuccess);
    return sparclWait(&request, nullptr);
  };
  for (const bool waits : {false, true, false}) {
    device.models[0]->step(++version, 0.01);
    const Bytes trained = device.models[0]->read();
    ASSERT_THAT(waits ? device.update(version, 0) : device.party().run(without_waiting),
                Each(sparclSuccess))
        << device.error(0);
    EXPECT_THAT(device.read(), Each(trained));
    EXPECT_LT(bytes_received(device, 1), 60'000u);
  }
}

TEST_F(DeviceStateUpdates, TensorsThatDoNotTrainStay) {
  UpdateRanks device = UpdateRanks::on_device(2), host = UpdateRanks::on_host(2);
  for (UpdateRanks* const each : {&device, &host}) {
    ASSERT_THAT(each->update(1, 0), Each(sparclSuccess)) << each->error(0);
    ASSERT_EQ(sparclStateSetTrainable(each->state(0), "matrix", 0), sparclSuccess);
    for (std::uint64_t version = 2; version <= 4; ++version) {
      if (version == 4) {
        ASSERT_EQ(sparclStateSetTrainable(each->state(0), "matrix", 1), sparclSuccess);
      }
      each->models[0]->step(version, 0.01);
      ASSERT_THAT(each->update(version, 0), Each(sparclSuccess)) << each->error(0);
    }
  }
  EXPECT_EQ(device.read(), host.read());
  EXPECT_EQ(device.models[0]->read(), device.models[1]->read());
}

// What they do not name is not sent, wherever the tensors are; they may name nothing.
TEST_F(DeviceStateUpdates, MarksAreWhatIsSent) {
  for (const std::size_t marks : {0U, 1U}) {
    UpdateRanks device = UpdateRanks::on_device(2), host = UpdateRanks::on_host(2);
    for (UpdateRanks* const each : {&device, &host}) {
      for (std::uint64_t version = 1; version <= 4; ++version) {
        each->models[0]->step(version, 0.01);
        const std::uint64_t index = 7;
        if (version == 3) {
          ASSERT_EQ(sparclStateMarkIndices(each->state(0), "more", &index, marks), sparclSuccess);
        }
        ASSERT_THAT(each->update(version, 0), Each(sparclSuccess)) << each->error(0);
        EXPECT_EQ(each->models[1]->read() == each->models[0]->read(), version != 3);
      }
    }
    EXPECT_EQ(device.read(), host.read());
  }
}

TEST_F(DeviceStateUpdates, AStreamOfAnotherGpuIsRefused) {
  UpdateRanks device = UpdateRanks::on_device(2);
  put_on_gpu(stream_of(0, 2), 1);
  for (const std::uint64_t version : {1, 2}) {  // the second time the root has a snapshot there
    device.models[0]->step(version, 0.01);
    EXPECT_THAT(device.party().run([&](int rank, sparclComm_t comm) {
      return sparclBroadcastUpdate(device.state(rank), version, 0, nullptr, comm,
                                   rank == 0 ? stream_of(0, 2) : nullptr);
    }),
                Each(sparclInvalidArgument));
    EXPECT_THAT(device.error(0), HasSubstr("stream is another GPU's than 'bias' is on"));
    ASSERT_THAT(device.update(version, 0), Each(sparclSuccess)) << device.error(0);
    EXPECT_EQ(device.models[1]->read(), device.models[0]->read());
  }
}

// Without it the update goes by way of the host, whose snapshot it then is.
TEST_F(DeviceStateUpdates, ASnapshotThatTheGpuHasNoRoomFor) {
  struct Room {
    explicit Room(std::size_t bytes) { set_free_memory(bytes); }
    ~Room() { set_free_memory(0); }
  };
  UpdateRanks device = UpdateRanks::on_device(2);
  std::uint64_t version = 0;
  for (const bool is_tight : {false, true, true, false, false, true}) {
    const Room room(is_tight ? std::size_t{64} << 20 : 0);
    if (is_tight) {  // a snapshot that is there already needs none
      const sparclUpdateOptions_t by_host = with(sparclSelectTopK);
      ASSERT_THAT(device.update(++version, 0, &by_host), Each(sparclSuccess)) << device.error(0);
    }
    const int out = device.models[0]->copies_out();
    device.models[0]->step(++version, 0.01);
    ASSERT_THAT(device.update(version, 0), Each(sparclSuccess)) << device.error(0);
    EXPECT_EQ(device.models[1]->read(), device.models[0]->read());
    EXPECT_EQ(device.models[0]->copies_out() > out, is_tight || version == 1)
        << "version " << version;
  }
}

// As a user asks for it, who needs the GPU's memory.
TEST_F(DeviceStateUpdates, ASnapshotThatIsToBeOnTheHost) {
  const Setting off("SPARCL_DEVICE_SNAPSHOT", "off");
  UpdateRanks device = UpdateRanks::on_device(2);
  for (std::uint64_t version = 1; version <= 3; ++version) {
    const int out = device.models[0]->copies_out();
    device.models[0]->step(version, 0.01);
    ASSERT_THAT(device.update(version, 0), Each(sparclSuccess)) << device.error(0);
    EXPECT_EQ(device.models[1]->read(), device.models[0]->read());
    EXPECT_GT(device.models[0]->copies_out(), out) << "it is read, version " << version;
  }
}

TEST_F(DeviceStateUpdates, AWrongBaseIsRefusedAndNothingIsWritten) {
  UpdateRanks device = UpdateRanks::on_device(3);
  ASSERT_THAT(device.update(1, 0), Each(sparclSuccess));
  device.models[0]->step(2, 0.3);
  device.models[1]->step(77, 0.3);
  const std::vector<Bytes> before = device.read();
  EXPECT_THAT(device.update(2, 0), Each(sparclWrongBase));
  EXPECT_THAT(device.error(2), HasSubstr("rank 1"));
  EXPECT_EQ(device.read(), before);
  // Right again, the same call succeeds.
  device.models[1]->write(before[2]);
  ASSERT_THAT(device.update(2, 0), Each(sparclSuccess)) << device.error(0);
  EXPECT_THAT(device.read(), Each(before[0]));
}

// The snapshot is the state's: it goes with it, and with another rank's update, but never while a
// stream may still use it.
TEST_F(DeviceStateUpdates, MemoryIsGivenBack) {
  const int before = allocations_alive();
  {
    UpdateRanks device = UpdateRanks::on_device(2);
    ASSERT_THAT(device.update(1, 0), Each(sparclSuccess));
    device.models[0]->step(2, 0.01);
    ASSERT_THAT(device.update(2, 0), Each(sparclSuccess));
    const int with_one = allocations_alive();
    ASSERT_THAT(device.update(3, 1), Each(sparclSuccess));
    EXPECT_EQ(allocations_alive(), with_one) << "one snapshot, of the last root's";
  }
  EXPECT_EQ(allocations_alive(), before);
}

TEST_F(DeviceStateUpdates, OverNccl) {
  const Setting always("SPARCL_ALGO_BROADCAST", "nccl");
  UpdateRanks device = UpdateRanks::on_device(3);
  ASSERT_THAT(use_nccl(device.party()), Each(sparclSuccess)) << device.error(0);
  for (std::uint64_t version = 1; version <= 4; ++version) {
    device.models[2]->step(version, 0.01);
    const Bytes trained = device.models[2]->read();
    ASSERT_THAT(device.update(version, 2), Each(sparclSuccess)) << device.error(0);
    EXPECT_EQ(algorithm_of(device.party().comm(0)), "nccl");
    EXPECT_THAT(device.read(), Each(trained));
  }
}

// Any calls in any order, on the device and on the host: the same bits.
class AnyUpdatesOfStates : public testing::TestWithParam<int> {};

TEST_P(AnyUpdatesOfStates, HaveTheHostsBits) {
  (void)stream_of(0);  // before there are threads
  std::mt19937_64 random(static_cast<std::uint64_t>(GetParam()));
  const int ranks = 1 + GetParam() % 4;
  UpdateRanks device = UpdateRanks::on_device(ranks), host = UpdateRanks::on_host(ranks);
  int root = 0;
  for (std::uint64_t version = 1; version <= 12; ++version) {
    if (random() % 5 == 0) root = static_cast<int>(random() % static_cast<std::uint64_t>(ranks));
    const std::uint64_t seed = random(), kind = random() % 8, is_untrained = random() % 6,
                        is_met_again = random() % 10;
    const double density = random() % 4 == 0 ? 0.5 : random() % 4 == 0 ? 0 : 0.01;
    sparclUpdateOptions_t options = with(kind == 0 ? sparclSelectTopK : sparclSelectAll);
    if (kind == 1) options = with(sparclSelectThreshold, sparclValuesExact, sparclOn);
    for (UpdateRanks* const each : {&device, &host}) {
      if (is_met_again == 0) each->meet_again();
      const DeviceModel& trained = *each->models[static_cast<std::size_t>(root)];
      ASSERT_EQ(sparclStateSetTrainable(trained.state(), "more", is_untrained != 0), sparclSuccess);
      trained.step(seed, density);
      ASSERT_THAT(each->update(version, root, &options), Each(sparclSuccess)) << each->error(0);
    }
    ASSERT_EQ(device.read(), host.read()) << "version " << version << ", root " << root;
  }
}
INSTANTIATE_TEST_SUITE_P(Seeds, AnyUpdatesOfStates, testing::Range(0, 5));

}  // namespace
}  // namespace sparcl::test
