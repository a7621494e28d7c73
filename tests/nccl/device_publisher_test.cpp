// A publisher of tensors in device memory: replicas hold what it held, bit for bit; and where the driver fails nothing is
// published.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/nccl/device_model.hpp"

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
      ASSERT_EQ(sparclPublish(publisher.get(), version), sparclSuccess) << sparclGetLastError(nullptr);
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
    ASSERT_EQ(sparclPublish(publisher.get(), version), sparclSuccess) << sparclGetLastError(nullptr);
    ASSERT_EQ(subscriber.reach(version), sparclSuccess);
    EXPECT_EQ(replica.read(), trainer.read());
  }
}

// Wherever a copy fails: an error with the driver's word, and the next call publishes what the tensors then hold.
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
      EXPECT_THAT(sparclGetLastError(nullptr), HasSubstr("sparclPublish: CUDA: a copy of device memory: an illegal memory access"));
      std::uint64_t held = 0;
      EXPECT_EQ(subscriber.next(&held, 0.01), sparclTimeout);
      if (failing % 2 == 0) continue;  // the next one fails, too
      trainer.step(version, 0.01);
      ASSERT_EQ(sparclPublish(publisher.get(), version), sparclSuccess) << sparclGetLastError(nullptr);
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
    ASSERT_EQ(sparclPublish(publisher.get(), version), sparclSuccess) << sparclGetLastError(nullptr);
    ASSERT_EQ(subscriber.reach(version), sparclSuccess);
    EXPECT_EQ(replica.read(), trainer.read());
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

TEST(DevicePublisher, ADeviceMasterIsRefused) {
  DeviceModel model(DeviceModel::kMixed);
  const FakeDeviceMemory memory = fake_device_memory(400);
  const std::uint64_t shape = 100;
  EXPECT_EQ(sparclStateAddMaster(model.state(), "master", static_cast<const float*>(memory.device), sparclBfloat16, 1, &shape),
            sparclUnsupported);
  EXPECT_THAT(sparclGetLastError(nullptr), HasSubstr("master of 'master' is device memory"));
}

// Beside masters on the host, which the publisher reads through another source.
TEST(DevicePublisher, BesideMasters) {
  DeviceModel trainer(DeviceModel::kMixed), replica(DeviceModel::kAllOnHost, 9, false);
  std::vector<float> master(70'000, 0.0F);
  std::vector<std::uint16_t> rounded(master.size(), 7);
  const std::uint64_t shape = master.size();
  ASSERT_EQ(sparclStateAddMaster(trainer.state(), "master", master.data(), sparclBfloat16, 1, &shape), sparclSuccess);
  ASSERT_EQ(sparclStateAdd(replica.state(), "master", rounded.data(), sparclBfloat16, 1, &shape), sparclSuccess);
  const OwnPublisher publisher(trainer.state());
  const OwnSubscriber subscriber(replica.state(), publisher.address());
  for (std::uint64_t version = 1; version <= 3; ++version) {
    master[version * 20'000] = 1.0F;
    trainer.step(version, 0.01);
    ASSERT_EQ(sparclPublish(publisher.get(), version), sparclSuccess) << sparclGetLastError(nullptr);
    ASSERT_EQ(subscriber.reach(version), sparclSuccess);
    EXPECT_EQ(replica.read(), trainer.read());
    for (std::uint64_t i = 1; i <= 3; ++i) EXPECT_EQ(rounded[i * 20'000], i <= version ? 0x3f80 : 0);
  }
}

}  // namespace
}  // namespace sparcl::test
