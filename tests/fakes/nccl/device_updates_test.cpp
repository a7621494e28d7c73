// Updates of states with tensors in device memory: what they give on the host, bit for bit,
// whatever the options. Here and there the tensors' mirror on the host is what an update is made
// of, or comes to; device_state_updates_test: those that stay on the device.

#include "tests/fakes/nccl/update_ranks.hpp"

namespace sparcl::test {
namespace {

using testing::Each;
using testing::HasSubstr;

using DeviceUpdates = NcclRanks;

TEST_F(DeviceUpdates, ReachAllRanks) {
  for (const int ranks : {1, 2, 3, 4, 5}) {
    UpdateRanks device = UpdateRanks::mixed(ranks);
    for (std::uint64_t version = 1; version <= 6; ++version) {
      const int root = version < 5 ? 0 : ranks - 1;
      const DeviceModel& trained = *device.models[static_cast<std::size_t>(root)];
      trained.step(version, version == 3 ? 0.6 : version == 4 ? 0 : 0.01);
      const Bytes expected = trained.read();
      ASSERT_THAT(device.update(version, root), Each(sparclSuccess)) << device.error(0);
      EXPECT_THAT(device.read(), Each(expected)) << ranks << " ranks, version " << version;
      for (const auto& model : device.models) {
        std::uint64_t held = 0;
        EXPECT_EQ(sparclStateVersion(model->state(), &held), sparclSuccess);
        EXPECT_EQ(held, version);
      }
    }
  }
}

// Each rank holds what it would hold on the host: the root what it trained, or adopted, the others
// what was sent.
TEST_F(DeviceUpdates, WithOptionsHaveTheHostsBits) {
  for (const sparclUpdateOptions_t& options :
       {with(sparclSelectThreshold), with(sparclSelectTopK), with(sparclSelectGrid),
        with(sparclSelectBytes), with(sparclSelectTopK, sparclValuesExact, sparclOn),
        with(sparclSelectAll, sparclValuesInt8),
        with(sparclSelectAll, sparclValuesFloat8, sparclOn)}) {
    SCOPED_TRACE(testing::Message() << "select " << options.select << ", values " << options.values
                                    << ", adopt " << options.adopt);
    UpdateRanks device = UpdateRanks::mixed(3), host = UpdateRanks::on_host(3);
    for (std::uint64_t version = 1; version <= 4; ++version) {
      for (UpdateRanks* const each : {&device, &host}) {
        each->models[0]->step(version, 0.02);
        ASSERT_THAT(each->update(version, 0, &options), Each(sparclSuccess)) << each->error(0);
      }
      EXPECT_EQ(device.read(), host.read());
      EXPECT_EQ(device.models[1]->read(), device.models[2]->read());
    }
  }
}

TEST_F(DeviceUpdates, MarksTensorsThatDoNotTrainAndPriorities) {
  UpdateRanks device = UpdateRanks::mixed(2), host = UpdateRanks::on_host(2);
  for (UpdateRanks* const each : {&device, &host}) {
    for (const auto& model : each->models)
      ASSERT_EQ(sparclStateSetPriority(model->state(), "bytes", 3), sparclSuccess);
    ASSERT_THAT(each->update(1, 0), Each(sparclSuccess)) << each->error(0);
    const sparclState_t state = each->models[0]->state();
    each->models[0]->step(2, 0.01);
    const std::uint64_t indices[2] = {3, 65'999};
    for (const std::uint64_t i : indices) each->models[0]->seen(4)[i * 8] ^= 0x11;
    ASSERT_EQ(sparclStateMarkIndices(state, "more", indices, 2), sparclSuccess);
    ASSERT_EQ(sparclStateSetTrainable(state, "matrix", 0), sparclSuccess);
    ASSERT_THAT(each->update(2, 0), Each(sparclSuccess)) << each->error(0);
  }
  EXPECT_EQ(device.read(), host.read());
}

TEST_F(DeviceUpdates, NonBlocking) {
  UpdateRanks device = UpdateRanks::mixed(3);
  for (std::uint64_t version = 1; version <= 3; ++version) {
    device.models[1]->step(version, 0.02);
    const Bytes expected = device.models[1]->read();
    EXPECT_THAT(device.party().run([&](int rank, sparclComm_t comm) {
      sparclRequest_t request = nullptr;
      const sparclState_t state = device.models[static_cast<std::size_t>(rank)]->state();
      EXPECT_EQ(sparclIBroadcastUpdate(state, version, 1, nullptr, comm, nullptr, &request),
                sparclSuccess);
      return sparclWait(&request, nullptr);
    }),
                Each(sparclSuccess));
    EXPECT_THAT(device.read(), Each(expected));
  }
}

// What the stream holds comes first.
TEST_F(DeviceUpdates, InTheStreamsOrder) {
  UpdateRanks device = UpdateRanks::mixed(2);
  DeviceModel all_there(DeviceModel::kAllOnDevice, 0, false);
  for (std::uint64_t version = 1; version <= 2; ++version) {
    EXPECT_THAT(device.party().run([&](int rank, sparclComm_t comm) {
      if (rank == 0) enqueue(stream_of(0), [&, version] { all_there.step(version, 0.01); });
      const sparclState_t state = rank == 0 ? all_there.state() : device.models[1]->state();
      return sparclBroadcastUpdate(state, version, 0, nullptr, comm, stream_of(rank));
    }),
                Each(sparclSuccess));
    EXPECT_EQ(device.models[1]->read(), all_there.read());
  }
  EXPECT_GT(copies_in_stream(stream_of(0)), 0);
}

TEST_F(DeviceUpdates, AStreamIsForDeviceMemory) {
  UpdateRanks host = UpdateRanks::on_host(1);
  EXPECT_THAT(host.party().run([&](int, sparclComm_t comm) {
    return sparclBroadcastUpdate(host.models[0]->state(), 1, 0, nullptr, comm, stream_of(0));
  }),
              Each(sparclUnsupported));
}

// A replica that holds something else: an error on all ranks, and nothing is written.
TEST_F(DeviceUpdates, AWrongBaseLeavesTheTensorsAsTheyWere) {
  UpdateRanks device = UpdateRanks::mixed(3);
  ASSERT_THAT(device.update(1, 0), Each(sparclSuccess));
  device.models[0]->step(2, 0.3);
  device.models[1]->step(77, 0.3);
  const std::vector<Bytes> before = device.read();
  EXPECT_THAT(device.update(2, 0), Each(sparclWrongBase));
  EXPECT_EQ(device.read(), before);
}

// An update that fails leaves nothing behind that the next one takes for what the tensors hold.
TEST_F(DeviceUpdates, AfterAFailedOneTheTensorsAreReadAgain) {
  UpdateRanks device = UpdateRanks::mixed(2);
  ASSERT_THAT(device.update(1, 0), Each(sparclSuccess));
  for (std::uint64_t version = 2; version <= 5; ++version) {
    device.models[0]->step(version, 0.2);
    const Bytes held = device.models[1]->read();
    device.models[1]->step(77, 0.2);
    EXPECT_THAT(device.update(version, 0), Each(sparclWrongBase));
    device.models[1]->write(held);
    ASSERT_THAT(device.update(version, 0), Each(sparclSuccess)) << device.error(0);
    EXPECT_EQ(device.models[1]->read(), device.models[0]->read());
  }
}

// Wherever a copy of one rank fails. Before the ranks have voted: all have the error, and hold what
// they held. After it: that rank alone has one, the others hold the update, and so does it after
// the next call.
TEST_F(DeviceUpdates, ACopyThatFails) {
  int agreed = 0, alone = 0, succeeded = 0;
  for (const bool adopts : {false, true}) {
    const sparclUpdateOptions_t options =
        with(sparclSelectTopK, sparclValuesExact, adopts ? sparclOn : sparclOff);
    succeeded = 0;
    for (int failing = 0; succeeded == 0 && failing < 40; ++failing) {
      SCOPED_TRACE(testing::Message()
                   << "from copy " << failing << (adopts ? ", the root adopts" : ""));
      // Copies are counted together: so one rank alone makes them.
      UpdateRanks host = UpdateRanks::on_host(2);
      DeviceModel device(DeviceModel::kMixed, 0, false);
      const DeviceModel& root = adopts ? device : *host.models[0];
      const DeviceModel& other = adopts ? *host.models[1] : device;
      const auto update = [&](std::uint64_t version) {
        return host.party().run([&](int rank, sparclComm_t comm) {
          return sparclBroadcastUpdate(rank == 0 ? root.state() : other.state(), version, 0,
                                       &options, comm, nullptr);
        });
      };
      ASSERT_THAT(update(1), Each(sparclSuccess)) << host.error(0);
      root.step(2, 0.02);
      const Bytes trained = root.read(), before = other.read();
      fail_copies_from(failing);
      const std::vector<sparclResult_t> results = update(2);
      fail_copies_from(-1);
      const std::size_t failed = adopts ? 0 : 1;
      if (results[0] == sparclSuccess && results[1] == sparclSuccess) {
        ++succeeded;
      } else if (results[1 - failed] != sparclSuccess) {
        ++agreed;
        EXPECT_THAT(results, Each(sparclUnhandledCudaError));
        EXPECT_EQ(root.read(), trained);
        EXPECT_EQ(other.read(), before);
      } else {
        ++alone;
        EXPECT_EQ(results[failed], sparclUnhandledCudaError);
        const std::string text = host.error(static_cast<int>(failed));
        EXPECT_THAT(text, HasSubstr("the update was made, "));
        const bool as_they_were = text.find("no version until") == std::string::npos;
        if (as_they_were) {
          EXPECT_EQ(device.read(), adopts ? trained : before);
        }
        EXPECT_EQ(report_of(host.party().comm(static_cast<int>(failed))).applied, 0);
      }
      // The next ones bring all together again.
      for (std::uint64_t version = 3; version <= 4; ++version) {
        root.step(version, 0.001);
        ASSERT_THAT(host.party().run([&](int rank, sparclComm_t comm) {
          return sparclBroadcastUpdate(rank == 0 ? root.state() : other.state(), version, 0,
                                       nullptr, comm, nullptr);
        }),
                    Each(sparclSuccess))
            << host.error(0) << host.error(1);
        EXPECT_EQ(root.read(), other.read());
      }
    }
    EXPECT_EQ(succeeded, 1);
  }
  EXPECT_GE(agreed, 5);
  EXPECT_GE(alone, 5);
}

// Tensors that lack an update are nobody's version, whatever was tried with them meanwhile, and
// whatever the program has written there.
TEST_F(DeviceUpdates, WhatLacksAnUpdateIsNotBelieved) {
  int lost = 0;
  bool has_succeeded = false;
  for (int failing = 0; !has_succeeded && failing < 40; ++failing) {
    SCOPED_TRACE(testing::Message() << "from copy " << failing);
    UpdateRanks host = UpdateRanks::on_host(2);
    const DeviceModel& root = *host.models[0];
    DeviceModel device(DeviceModel::kMixed, 0, false);
    const auto update = [&](std::uint64_t version) {
      return host.party().run([&](int rank, sparclComm_t comm) {
        return sparclBroadcastUpdate(rank == 0 ? root.state() : device.state(), version, 0, nullptr,
                                     comm, nullptr);
      });
    };
    ASSERT_THAT(update(1), Each(sparclSuccess)) << host.error(0);
    root.step(2, 0.02);
    fail_copies_from(failing);
    const std::vector<sparclResult_t> results = update(2);
    fail_copies_from(-1);
    has_succeeded = results[1] == sparclSuccess;
    if (results[0] != sparclSuccess || has_succeeded) continue;
    ++lost;
    sparclPublisher_t publisher = nullptr;
    EXPECT_EQ(sparclPublisherCreate(&publisher, device.state(), nullptr), sparclInvalidUsage);
    EXPECT_THAT(std::string(sparclGetLastError(nullptr)), HasSubstr("lack what version"));
    sparclSubscriber_t subscriber = nullptr;
    EXPECT_NE(sparclSubscriberCreate(&subscriber, device.state(), "no address", nullptr),
              sparclSuccess);
    device.step(99, 0.1);
    root.step(3, 0.001);
    ASSERT_THAT(update(3), Each(sparclSuccess)) << host.error(0) << host.error(1);
    EXPECT_EQ(root.read(), device.read());
  }
  EXPECT_TRUE(has_succeeded);
  EXPECT_GT(lost, 0);
}

// By way of the host, roots that change, and a driver that fails anywhere: ranks that succeed hold
// the root's state; one that does not holds what it held, or its error says that it holds no
// version, or an earlier one that it lacks an update.
class AnyTroubleOfUpdates : public testing::TestWithParam<int> {};

TEST_P(AnyTroubleOfUpdates, LeavesAStateOrAnError) {
  const Setting off("SPARCL_DEVICE_KERNELS", "off");
  (void)stream_of(0);  // before there are threads
  std::mt19937_64 random(static_cast<std::uint64_t>(GetParam()));
  const int ranks = 2 + GetParam() % 3;
  UpdateRanks device = UpdateRanks::mixed(ranks);
  std::vector<bool> is_lost(static_cast<std::size_t>(ranks),
                            false);  // the tensors lack what all others hold
  for (std::uint64_t version = 1; version <= 20; ++version) {
    const auto root = random() % 3 == 0 ? random() % static_cast<std::uint64_t>(ranks) : 0;
    const Bytes untrained = device.models[root]->read();
    device.models[root]->step(random(), random() % 4 == 0 ? 0.3 : 0.01);
    const std::vector<Bytes> before = device.read();
    if (random() % 2 == 0) fail_copies_from(static_cast<int>(random() % 30));
    const std::vector<sparclResult_t> results = device.update(version, static_cast<int>(root));
    fail_copies_from(-1);
    const bool is_made = std::ranges::count(results, sparclSuccess) > 0;
    if (!is_made) device.models[root]->write(untrained);  // else it holds no base for another root
    for (int rank = 0; rank < ranks; ++rank) {
      const auto at = static_cast<std::size_t>(rank);
      const Bytes now = device.models[at]->read();
      if (results[at] == sparclSuccess) {
        EXPECT_EQ(now, before[root]) << "rank " << rank << ", version " << version;
        is_lost[at] = false;
      } else if (results[at] == sparclInvalidUsage) {
        EXPECT_TRUE(is_lost[root]);
        EXPECT_THAT(device.error(rank),
                    HasSubstr("the tensors in device memory lack what version"));
      } else {
        EXPECT_EQ(results[at], sparclUnhandledCudaError) << device.error(rank);
        if (at != root && !is_lost[at] &&
            device.error(rank).find("no version until") == std::string::npos) {
          EXPECT_EQ(now, before[at]) << "rank " << rank << ", version " << version;
        }
        is_lost[at] = is_lost[at] || is_made;
      }
    }
  }
  const auto sound = static_cast<std::size_t>(std::ranges::find(is_lost, false) - is_lost.begin());
  const Bytes last = device.models[sound]->read();
  EXPECT_THAT(device.update(21, static_cast<int>(sound)), Each(sparclSuccess)) << device.error(0);
  EXPECT_THAT(device.read(), Each(last));
}
INSTANTIATE_TEST_SUITE_P(Seeds, AnyTroubleOfUpdates, testing::Range(0, 4));

// Kept from one update to the next, and gone with the state.
TEST_F(DeviceUpdates, MemoryGoesWithTheState) {
  const int before = allocations_alive();
  {
    UpdateRanks device = UpdateRanks::mixed(2);
    ASSERT_THAT(device.update(1, 0), Each(sparclSuccess));
  }
  EXPECT_EQ(allocations_alive(), before);
}

}  // namespace
}  // namespace sparcl::test
