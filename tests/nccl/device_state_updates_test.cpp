// Updates of states whose tensors are all on one GPU: coded, checked and written there, against a snapshot there. What they give is
// what they give on the host, bit for bit, also where some of them go by way of the host.

#include "tests/nccl/update_ranks.hpp"

namespace sparcl::test {
namespace {

using testing::AnyOf;
using testing::Each;
using testing::HasSubstr;

using DeviceStateUpdates = NcclRanks;

std::uint64_t bytes_received(UpdateRanks& ranks, int rank) { return report_of(ranks.party().comm(rank)).bytes_received; }

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
    EXPECT_EQ(device.models[0]->copies_out(true) + device.models[1]->copies_out() + device.models[2]->copies_out(), 0);
    std::uint8_t hashes[2][16];
    for (int rank : {0, 1}) ASSERT_EQ(sparclStateHash(device.state(rank), hashes[rank]), sparclSuccess);
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

// Between them calls that the host makes: with options, without waiting, with kernels turned off. What the ranks have confirmed
// goes with it, there and back: no later one sends all.
TEST_F(DeviceStateUpdates, TheSnapshotGoesWhereTheNextCallIs) {
  const sparclUpdateOptions_t top_k = with(sparclSelectTopK), adopting = with(sparclSelectTopK, sparclValuesExact, 1),
                              lossy = with(sparclSelectAll, sparclValuesInt8), all = SPARCL_UPDATE_OPTIONS_INITIALIZER;
  UpdateRanks device = UpdateRanks::on_device(2), host = UpdateRanks::on_host(2);
  std::uint64_t version = 0;
  for (const sparclUpdateOptions_t* options : {&all, &all, &top_k, &all, &adopting, &top_k, &all, &all, &lossy, &all, &all}) {
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
    EXPECT_EQ(sparclIBroadcastUpdate(device.state(rank), 0, 0, comm, &request), sparclSuccess);
    return sparclWait(&request, nullptr);
  };
  for (const bool waits : {false, true, false}) {
    device.models[0]->step(++version, 0.01);
    const Bytes trained = device.models[0]->read();
    ASSERT_THAT(waits ? device.update(0, 0) : device.party().run(without_waiting), Each(sparclSuccess)) << device.error(0);
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
    EXPECT_EQ(device.models[0]->copies_out() > out, is_tight || version == 1) << "version " << version;
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

// A state that is none's version says so, whoever asks, until an update that sends all has come.
void expect_torn(const DeviceModel& model) {
  ThreadRanks alone(1);
  EXPECT_THAT(alone.run([&](int, sparclComm_t comm) { return sparclBroadcastUpdate(model.state(), 9, 0, comm, nullptr); }),
              Each(sparclInvalidUsage));
  EXPECT_THAT(std::string(sparclGetLastError(alone.comm(0))), HasSubstr("are no version since"));
  sparclPublisher_t publisher = nullptr;
  EXPECT_EQ(sparclPublisherCreate(&publisher, model.state(), nullptr), sparclInvalidUsage);
}

// Wherever the driver fails: before the vote all ranks have its error and nothing is written; then the communicator is over, and
// the tensors hold the old version or the new one, or their state is none's. Another communicator brings all together.
int expect_errors(void (*fail_from)(int), int failing_rank) {
  int torn = 0;
  bool has_succeeded = false;
  for (int failing = 0; !has_succeeded && failing < 60; ++failing) {
    SCOPED_TRACE(testing::Message() << "rank " << failing_rank << " from " << failing);
    // Who else works there would count, too.
    const auto places = failing_rank == 0
                            ? [](int rank) { return rank == 0 ? DeviceModel::kAllOnDevice : DeviceModel::kAllOnHost; }
                            : [](int rank) { return rank == 1 ? DeviceModel::kAllOnDevice : DeviceModel::kAllOnHost; };
    UpdateRanks ranks(2, places);
    EXPECT_THAT(ranks.update(1, 0), Each(sparclSuccess)) << ranks.error(0);
    ranks.models[0]->step(2, 0.1);  // in modes that the device reads
    const Bytes trained = ranks.models[0]->read(), before = ranks.models[1]->read();
    fail_from(failing);
    const std::vector<sparclResult_t> results = ranks.update(2, 0);
    fail_from(-1);
    has_succeeded = results[0] == sparclSuccess && results[1] == sparclSuccess;
    EXPECT_EQ(ranks.models[0]->read(), trained);
    const DeviceModel& other = *ranks.models[1];
    if (has_succeeded) {
      EXPECT_EQ(other.read(), trained);
    } else if (results[1] == sparclUnhandledCudaError) {
      EXPECT_EQ(results[0], sparclUnhandledCudaError);
      EXPECT_EQ(other.read(), before);
    } else {
      EXPECT_THAT(results[0], AnyOf(sparclSuccess, sparclRemoteError));
      ranks.meet_again();
      if (failing_rank == 1) {
        expect_torn(other);
        ++torn;
      } else {
        EXPECT_EQ(other.read(), trained);
      }
    }
    // With another communicator, or where the root could not keep what it had sent, all of it.
    ranks.models[0]->step(3, 0.01);
    EXPECT_THAT(ranks.update(3, 0), Each(sparclSuccess)) << ranks.error(0);
    EXPECT_EQ(other.read(), ranks.models[0]->read());
    if (torn > 0) {
      EXPECT_THAT(ranks.update(4, 1), Each(sparclSuccess)) << ranks.error(1) << ": it is a version again";
    }
  }
  EXPECT_TRUE(has_succeeded);
  return torn;
}

TEST_F(DeviceStateUpdates, ADriverThatFails) {
  for (const auto fail_from : {fail_copies_from, fail_launches_from, fail_events_from}) {
    (void)expect_errors(fail_from, 0);
    EXPECT_GE(expect_errors(fail_from, 1), 1);
  }
}

// Two communicators of one state: the other's root knows nothing of what has failed, and sends what has changed.
TEST_F(DeviceStateUpdates, TornTensorsTakeNoChanges) {
  DeviceModel root(DeviceModel::kAllOnHost, 0, false), device(DeviceModel::kAllOnDevice, 0, false);
  ThreadRanks one(2);
  std::optional<ThreadRanks> other(std::in_place, 2);
  const auto update = [&](ThreadRanks& party, std::uint64_t version) {
    return party.run([&](int rank, sparclComm_t comm) {
      return sparclBroadcastUpdate(rank == 0 ? root.state() : device.state(), version, 0, comm, nullptr);
    });
  };
  ASSERT_THAT(update(one, 1), Each(sparclSuccess));
  DeviceModel second(DeviceModel::kAllOnHost, 0, false);
  const auto update_by_second = [&](std::uint64_t version) {
    return other->run([&](int rank, sparclComm_t comm) {
      return sparclBroadcastUpdate(rank == 0 ? second.state() : device.state(), version, 0, comm, nullptr);
    });
  };
  ASSERT_THAT(update_by_second(1), Each(sparclSuccess));
  bool is_torn = false;
  for (int failing = 0; !is_torn && failing < 40; ++failing) {
    root.step(2, 0.3);
    std::optional<ThreadRanks> broken(std::in_place, 2);
    fail_copies_from(failing);
    const auto results = update(*broken, 2);
    fail_copies_from(-1);
    is_torn = results[1] == sparclRemoteError;
  }
  ASSERT_TRUE(is_torn);
  second.step(3, 0.01);
  EXPECT_THAT(update_by_second(3), Each(sparclWrongBase));
  EXPECT_THAT(std::string(sparclGetLastError(other->comm(0))), HasSubstr("rank 1 holds no version"));
  expect_torn(device);
  // Nor does a subscriber that has brought no version make one of them; one that has does.
  {
    const OwnPublisher publisher(second.state());
    { const OwnSubscriber subscriber(device.state(), publisher.address()); }
    expect_torn(device);
    ASSERT_EQ(sparclPublish(publisher.get(), 4), sparclSuccess);
    const OwnSubscriber subscriber(device.state(), publisher.address());
    ASSERT_EQ(subscriber.reach(4), sparclSuccess) << sparclGetLastError(nullptr);
    EXPECT_EQ(device.read(), second.read());
  }
  { const OwnPublisher publisher(device.state()); }
  second.step(5, 0.01);
  other.emplace(2);
  EXPECT_THAT(update_by_second(3), Each(sparclSuccess)) << "all of it is sent";
  EXPECT_EQ(device.read(), second.read());
}

// The snapshot is the state's: it goes with it, and with another rank's update, but never while a stream may still use it.
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

TEST_F(DeviceStateUpdates, ASnapshotThatAStuckStreamUsesIsKept) {
  const int before = allocations_alive();
  {
    UpdateRanks device = UpdateRanks::on_device(2);
    ASSERT_THAT(device.update(1, 0), Each(sparclSuccess));
    device.models[0]->step(2, 0.01);
    std::atomic<bool> is_over = false;
    stall(stream_of(0), 0);
    std::jthread aborting([&] {
      while (!is_over && !is_stalled(stream_of(0))) std::this_thread::yield();
      EXPECT_EQ(sparclCommAbort(device.party().comm(0)), sparclSuccess);
    });
    EXPECT_THAT(device.update(2, 0), Each(sparclRemoteError));
    is_over = true;
  }
  EXPECT_EQ(allocations_alive(), before + 3) << "what the root codes with, on the device and pinned, and its snapshot";
  go_on(stream_of(0));
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
    const std::uint64_t seed = random(), kind = random() % 8, is_untrained = random() % 6, is_met_again = random() % 10;
    const double density = random() % 4 == 0 ? 0.5 : random() % 4 == 0 ? 0 : 0.01;
    sparclUpdateOptions_t options = with(kind == 0 ? sparclSelectTopK : sparclSelectAll);
    if (kind == 1) options = with(sparclSelectThreshold, sparclValuesExact, 1);
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
