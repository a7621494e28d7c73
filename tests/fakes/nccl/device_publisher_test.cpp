// A publisher of tensors in device memory: replicas hold what it held, bit for bit; and where the
// driver fails nothing is published.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <optional>
#include <random>

#include "tests/fakes/nccl/device_model.hpp"

namespace sparcl::test {
namespace {

using testing::HasSubstr;

TEST(DevicePublisher, ReplicasHoldWhatItHeld) {
  for (const unsigned places : {DeviceModel::kAllOnDevice, DeviceModel::kMixed}) {
    DeviceModel trainer(places), replica(DeviceModel::kAllOnHost, 9, false);
    const OwnPublisher publisher(trainer.state());
    const OwnSubscriber subscriber(replica.state(), publisher.address());
    for (std::uint64_t version = 1; version <= 6; ++version) {
      trainer.step(version, version == 4 ? 0.7 : 0.01);
      const Bytes published = trainer.read();
      ASSERT_EQ(sparclPublish(publisher.get(), version), sparclSuccess)
          << sparclGetLastError(nullptr);
      trainer.step(100, 1);  // tensors may change once it has returned
      ASSERT_EQ(subscriber.reach(version), sparclSuccess) << sparclGetLastError(nullptr);
      EXPECT_EQ(replica.read(), published);
      trainer.write(published);
    }
  }
}

// Work that the default stream holds comes first.
TEST(DevicePublisher, ReadsBehindTheDefaultStream) {
  DeviceModel trainer(DeviceModel::kAllOnDevice), replica(DeviceModel::kAllOnHost, 9, false);
  const OwnPublisher publisher(trainer.state());
  const OwnSubscriber subscriber(replica.state(), publisher.address());
  for (std::uint64_t version = 1; version <= 2; ++version) {
    enqueue(nullptr, [&trainer, version] { trainer.step(version + 10, 0.02); });
    ASSERT_EQ(sparclPublish(publisher.get(), version), sparclSuccess)
        << sparclGetLastError(nullptr);
    ASSERT_EQ(subscriber.reach(version), sparclSuccess);
    EXPECT_EQ(replica.read(), trainer.read());
  }
}

// Wherever a copy fails: an error with the driver's word, and the next call publishes what the
// tensors then hold.
TEST(DevicePublisher, ACopyThatFailsPublishesNothing) {
  DeviceModel trainer(DeviceModel::kAllOnDevice), replica(DeviceModel::kAllOnHost, 9, false);
  const OwnPublisher publisher(trainer.state());
  const OwnSubscriber subscriber(replica.state(), publisher.address());
  std::uint64_t version = 1;
  int failed = 0, since_success = 0;
  for (int failing = 0; since_success < 2 && failing < 60; ++failing) {
    SCOPED_TRACE(testing::Message() << "from copy " << failing);
    trainer.step(version * 100 + static_cast<std::uint64_t>(failing), 0.01);
    fail_copies_from(failing);
    const sparclResult_t result = sparclPublish(publisher.get(), version);
    fail_copies_from(-1);
    if (result != sparclSuccess) {
      ++failed;
      EXPECT_EQ(result, sparclUnhandledCudaError);
      EXPECT_THAT(
          sparclGetLastError(nullptr),
          HasSubstr("sparclPublish: CUDA: a copy of device memory: an illegal memory access"));
      std::uint64_t held = 0;
      EXPECT_EQ(subscriber.next(&held, 0.01), sparclTimeout);
      if (failing % 2 == 0) continue;  // the next one fails, too
      trainer.step(version, 0.01);
      ASSERT_EQ(sparclPublish(publisher.get(), version), sparclSuccess)
          << sparclGetLastError(nullptr);
    } else if (version > 1) {
      ++since_success;
    }
    ASSERT_EQ(subscriber.reach(version), sparclSuccess) << sparclGetLastError(nullptr);
    EXPECT_EQ(replica.read(), trainer.read());
    ++version;
  }
  EXPECT_GE(failed, 4);
  EXPECT_EQ(since_success, 2);
}

TEST(DevicePublisher, MarksAndThreads) {
  setenv("SPARCL_THREADS", "3", 1);
  DeviceModel trainer(DeviceModel::kAllOnDevice), replica(DeviceModel::kAllOnHost, 9, false);
  const OwnPublisher publisher(trainer.state());
  unsetenv("SPARCL_THREADS");
  const OwnSubscriber subscriber(replica.state(), publisher.address());
  for (std::uint64_t version = 1; version <= 4; ++version) {
    if (version == 3) {
      const std::uint64_t indices[3] = {0, 65'535, 65'999};
      ASSERT_EQ(sparclStateMarkIndices(trainer.state(), "more", indices, 3), sparclSuccess);
      for (const std::uint64_t i : indices) trainer.seen(4)[i * 8] ^= 0x55;
    } else {
      trainer.step(version, 0.05);
    }
    ASSERT_EQ(sparclPublish(publisher.get(), version), sparclSuccess)
        << sparclGetLastError(nullptr);
    ASSERT_EQ(subscriber.reach(version), sparclSuccess);
    EXPECT_EQ(replica.read(), trainer.read());
  }
}

// One trainer with its tensors on the device, and one with the same on the host.
struct Twins {
  explicit Twins(bool trains_matrix = true) {
    for (const DeviceModel* const model : {&device, &host}) {
      EXPECT_EQ(sparclStateSetTrainable(model->state(), "matrix", trains_matrix ? 1 : 0),
                sparclSuccess);
    }
    publishers.emplace_back(device.state());
    publishers.emplace_back(host.state());
    subscriber.emplace(replica.state(), publishers[0].address());
    host_subscriber.emplace(host_replica.state(), publishers[1].address());
  }
  void step(std::uint64_t seed, double density) const {
    device.step(seed, density);
    host.step(seed, density);
  }
  // Both publish, in streams of the same length, and the replicas come to hold the same.
  void publish(std::uint64_t version) {
    SCOPED_TRACE(testing::Message() << "version " << version);
    for (const OwnPublisher& each : publishers)
      ASSERT_EQ(sparclPublish(each.get(), version), sparclSuccess) << sparclGetLastError(nullptr);
    EXPECT_EQ(bytes_published(publishers[0].get()), bytes_published(publishers[1].get()));
    ASSERT_EQ(subscriber->reach(version), sparclSuccess) << sparclGetLastError(nullptr);
    ASSERT_EQ(host_subscriber->reach(version), sparclSuccess) << sparclGetLastError(nullptr);
    EXPECT_EQ(replica.read(), host_replica.read());
  }
  // The same, and whether the tensors were copied out to be compared.
  bool is_read(std::uint64_t version) {
    const int before = device.copies_out();
    publish(version);
    return device.copies_out() > before;
  }

  DeviceModel device{DeviceModel::kAllOnDevice}, host{DeviceModel::kAllOnHost},
      replica{DeviceModel::kAllOnHost, 9, false}, host_replica{DeviceModel::kAllOnHost, 9, false};
  std::deque<OwnPublisher> publishers;
  std::optional<OwnSubscriber> subscriber, host_subscriber;
};

TEST(DevicePublisher, WhatChangedCrossesAlone) {
  Twins twins;
  EXPECT_TRUE(twins.is_read(1));
  for (std::uint64_t version = 2; version <= 6; ++version) {
    const double density = version == 4 ? 0.6 : version == 6 ? 0 : 0.01;
    twins.step(version, density);
    EXPECT_EQ(twins.is_read(version), density > 0.5) << "where most changes all of it is read";
    EXPECT_EQ(twins.replica.read(), twins.device.read());
  }
}

// What marks do not name is not sent, and stays unknown to those who hold the model: nothing on the
// device says what they hold.
TEST(DevicePublisher, MarksAreWhatIsRead) {
  Twins twins;
  twins.publish(1);
  twins.step(2, 0.01);
  EXPECT_FALSE(twins.is_read(2));
  twins.step(3, 0.02);
  const std::uint64_t indices[3] = {0, 65'535, 65'999};
  for (const DeviceModel* const model : {&twins.device, &twins.host})
    ASSERT_EQ(sparclStateMarkIndices(model->state(), "more", indices, 3), sparclSuccess);
  twins.publish(3);
  EXPECT_NE(twins.replica.read(), twins.device.read());
  EXPECT_TRUE(twins.is_read(4));
  EXPECT_EQ(twins.replica.read(), twins.device.read());
  twins.step(5, 0.01);
  EXPECT_FALSE(twins.is_read(5));
  EXPECT_EQ(twins.replica.read(), twins.device.read());
}

TEST(DevicePublisher, WhatDoesNotTrainStays) {
  Twins twins(false);
  twins.publish(1);
  const Bytes first = twins.replica.read();
  for (std::uint64_t version = 2; version <= 4; ++version) {
    twins.step(version, 0.01);
    EXPECT_FALSE(twins.is_read(version));
    EXPECT_EQ(twins.replica.read()[1], first[1]);
    EXPECT_NE(twins.replica.read()[4], first[4]);
  }
  for (const DeviceModel* const model : {&twins.device, &twins.host})
    ASSERT_EQ(sparclStateSetTrainable(model->state(), "matrix", 1), sparclSuccess);
  EXPECT_FALSE(twins.is_read(5));
  EXPECT_EQ(twins.replica.read(), twins.device.read());
}

TEST(DevicePublisher, WithoutRoomForACopyOrAsTheUserWantsAllIsRead) {
  set_free_memory(std::size_t{64} << 20);
  Twins twins;
  twins.publish(1);
  twins.step(2, 0.01);
  EXPECT_TRUE(twins.is_read(2));
  set_free_memory(0);  // from the end of the next one on there is one
  twins.step(3, 0.01);
  EXPECT_TRUE(twins.is_read(3));
  twins.step(4, 0.01);
  EXPECT_FALSE(twins.is_read(4));
  for (const char* name : {"SPARCL_DEVICE_SNAPSHOT", "SPARCL_DEVICE_KERNELS"}) {
    setenv(name, "off", 1);
    Twins without;
    unsetenv(name);
    without.publish(1);
    without.step(2, 0.01);
    EXPECT_TRUE(without.is_read(2)) << name;
  }
}

// One that was left out by marks is looked at again once they say nothing any more, though another
// still does not train.
TEST(DevicePublisher, MarksOnceBesideATensorThatDoesNotTrain) {
  Twins twins(false);
  for (std::uint64_t version = 1; version <= 7; ++version) {
    twins.step(version, 0.01);
    const std::uint64_t index = 5;
    for (const DeviceModel* const model : {&twins.device, &twins.host}) {
      if (version != 3) continue;
      ASSERT_EQ(sparclStateMarkIndices(model->state(), "more", &index, 1), sparclSuccess);
    }
    EXPECT_EQ(twins.is_read(version), version == 1 || version == 3 || version == 4) << version;
  }
}

// As any training's is: it takes no more memory from version to version.
TEST(DevicePublisher, OnAStreamThatIsNeverIdle) {
  DeviceModel trainer(DeviceModel::kAllOnDevice);
  const OwnPublisher publisher(trainer.state());
  std::vector<int> alive;
  for (std::uint64_t version = 1; version <= 8; ++version) {
    trainer.step(version, 0.01);
    enqueue(nullptr, [] {});
    ASSERT_EQ(sparclPublish(publisher.get(), version), sparclSuccess)
        << sparclGetLastError(nullptr);
    alive.push_back(allocations_alive());
  }
  EXPECT_EQ(alive[2], alive.back()) << testing::PrintToString(alive);
}

// The program has taken what was left of the GPU's memory: all is read.
TEST(DevicePublisher, OnAGpuThatHasFilledUp) {
  Twins twins;
  twins.publish(1);
  fail_allocations(true);
  for (std::uint64_t version = 2; version <= 4; ++version) {
    twins.step(version, 0.01);
    EXPECT_TRUE(twins.is_read(version));
  }
  fail_allocations(false);
  twins.step(5, 0.01);
  twins.publish(5);
  twins.step(6, 0.01);
  EXPECT_FALSE(twins.is_read(6));
}

// Any steps, marks, tensors that do not train, and failures: what is sent is what the host would
// send.
class AnyPublisher : public testing::TestWithParam<int> {};

TEST_P(AnyPublisher, SendsTheHostsStreams) {
  std::mt19937_64 random(static_cast<std::uint64_t>(GetParam()));
  constexpr const char* kNames[] = {"bias", "matrix", "ids", "empty", "more", "bytes"};
  Twins twins;
  Bytes older = twins.device.read();
  for (std::uint64_t version = 1; version <= 12; ++version) {
    const Bytes now = twins.device.read();
    twins.step(random(), random() % 6 == 0 ? 0.3 : random() % 6 == 0 ? 0 : 0.01);
    if (random() % 3 == 0) {  // some elements are again what they were
      Bytes mixed = twins.device.read();
      for (std::size_t i = 0; i < mixed.size(); ++i)
        std::copy_n(older[i].begin(), mixed[i].size() / 16 * 8, mixed[i].begin());
      for (const DeviceModel* const model : {&twins.device, &twins.host}) model->write(mixed);
    }
    if (random() % 2 == 0) older = now;
    const std::uint64_t toggles = random() % 3, tensor = random() % 6, trains = random() % 2,
                        marks = random() % 5,
                        indices[2] = {random() % 30'000, 40'000 + random() % 10'000};
    for (const DeviceModel* const model : {&twins.device, &twins.host}) {
      if (toggles == 0) {
        ASSERT_EQ(sparclStateSetTrainable(model->state(), kNames[tensor], static_cast<int>(trains)),
                  sparclSuccess);
      }
      if (marks == 0) {
        ASSERT_EQ(sparclStateMarkIndices(model->state(), "more", indices, 2), sparclSuccess);
      }
    }
    const std::uint64_t fails = random() % 6;
    const int from = static_cast<int>(random() % 30);
    if (fails == 0) fail_copies_from(from);
    if (fails == 1) fail_launches_from(from);
    if (fails == 2) fail_events_from(from);
    if (fails == 3) fail_allocations(true);
    const sparclResult_t result = sparclPublish(twins.publishers[0].get(), version);
    for (const auto recover : {fail_copies_from, fail_launches_from, fail_events_from}) recover(-1);
    fail_allocations(false);
    if (result != sparclSuccess) {
      ASSERT_EQ(sparclPublish(twins.publishers[0].get(), version), sparclSuccess)
          << sparclGetLastError(nullptr);
    }
    ASSERT_EQ(sparclPublish(twins.publishers[1].get(), version), sparclSuccess);
    EXPECT_EQ(bytes_published(twins.publishers[0].get()),
              bytes_published(twins.publishers[1].get()));
    ASSERT_EQ(twins.subscriber->reach(version), sparclSuccess) << sparclGetLastError(nullptr);
    ASSERT_EQ(twins.host_subscriber->reach(version), sparclSuccess) << sparclGetLastError(nullptr);
    ASSERT_EQ(twins.replica.read(), twins.host_replica.read()) << "version " << version;
  }
}
INSTANTIATE_TEST_SUITE_P(Seeds, AnyPublisher, testing::Range(0, 4));

TEST(DevicePublisher, ACopyForComparisonGoesWithThePublisher) {
  const int before = allocations_alive();
  {
    Twins twins;
    twins.publish(1);
    twins.step(2, 0.01);
    twins.publish(2);
    EXPECT_GT(allocations_alive(), before + 1);
  }
  EXPECT_EQ(allocations_alive(), before);
}

// Wherever launches and marks fail, too: nothing is published, or the version that the tensors
// hold.
TEST(DevicePublisher, ADriverThatFails) {
  for (const auto fail_from : {fail_copies_from, fail_launches_from, fail_events_from}) {
    DeviceModel trainer(DeviceModel::kAllOnDevice), replica(DeviceModel::kAllOnHost, 9, false);
    const OwnPublisher publisher(trainer.state());
    const OwnSubscriber subscriber(replica.state(), publisher.address());
    std::uint64_t version = 1;
    ASSERT_EQ(sparclPublish(publisher.get(), version), sparclSuccess)
        << sparclGetLastError(nullptr);
    for (int failing = 0; failing < 12; ++failing) {
      trainer.step(static_cast<std::uint64_t>(failing), 0.01);
      fail_from(failing);
      ++version;
      const sparclResult_t result = sparclPublish(publisher.get(), version);
      fail_from(-1);
      if (result != sparclSuccess) {
        EXPECT_EQ(result, sparclUnhandledCudaError);
        ASSERT_EQ(sparclPublish(publisher.get(), version), sparclSuccess)
            << sparclGetLastError(nullptr);
      }
      ASSERT_EQ(subscriber.reach(version), sparclSuccess) << sparclGetLastError(nullptr);
      EXPECT_EQ(replica.read(), trainer.read()) << "from " << failing;
    }
  }
}

TEST(DevicePublisher, TheHashOfAStateIsTheHosts) {
  std::uint8_t expected[16], found[16];
  DeviceModel host(DeviceModel::kAllOnHost);
  ASSERT_EQ(sparclStateHash(host.state(), expected), sparclSuccess);
  for (const unsigned places : {DeviceModel::kAllOnDevice, DeviceModel::kMixed}) {
    DeviceModel device(places);
    ASSERT_EQ(sparclStateHash(device.state(), found), sparclSuccess) << sparclGetLastError(nullptr);
    EXPECT_EQ(std::memcmp(found, expected, sizeof found), 0);
    fail_copies_from(1);
    EXPECT_EQ(sparclStateHash(device.state(), found), sparclUnhandledCudaError);
    fail_copies_from(-1);
  }
}

// Beside masters on the host, which the publisher reads through another source.
TEST(DevicePublisher, BesideMasters) {
  DeviceModel trainer(DeviceModel::kMixed), replica(DeviceModel::kAllOnHost, 9, false);
  std::vector<float> master(70'000, 0.0F);
  std::vector<std::uint16_t> rounded(master.size(), 7);
  const std::uint64_t shape = master.size();
  ASSERT_EQ(
      sparclStateAddMaster(trainer.state(), "master", master.data(), sparclBfloat16, 1, &shape),
      sparclSuccess);
  ASSERT_EQ(sparclStateAdd(replica.state(), "master", rounded.data(), sparclBfloat16, 1, &shape),
            sparclSuccess);
  const OwnPublisher publisher(trainer.state());
  const OwnSubscriber subscriber(replica.state(), publisher.address());
  for (std::uint64_t version = 1; version <= 3; ++version) {
    master[version * 20'000] = 1.0F;
    trainer.step(version, 0.01);
    ASSERT_EQ(sparclPublish(publisher.get(), version), sparclSuccess)
        << sparclGetLastError(nullptr);
    ASSERT_EQ(subscriber.reach(version), sparclSuccess);
    EXPECT_EQ(replica.read(), trainer.read());
    for (std::uint64_t i = 1; i <= 3; ++i)
      EXPECT_EQ(rounded[i * 20'000], i <= version ? 0x3f80 : 0);
  }
}

}  // namespace
}  // namespace sparcl::test
