// Replicas with tensors in device memory: they hold the publisher's version, bit for bit, and never
// anything else without an error.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>

#include "src/api/device_kernel_choice.hpp"
#include "src/model/device_tensors.hpp"
#include "src/replication/publisher.hpp"
#include "src/replication/subscriber.hpp"
#include "tests/fakes/nccl/device_model.hpp"

namespace sparcl::test {
namespace {

using testing::HasSubstr;

constexpr unsigned kPlaces[] = {DeviceModel::kMixed, DeviceModel::kAllOnDevice,
                                ~DeviceModel::kMixed};

TEST(DeviceReplica, OneToThreeHoldWhatWasPublished) {
  for (std::size_t replicas = 1; replicas <= 3; ++replicas) {
    DeviceModel trainer(replicas == 2 ? DeviceModel::kAllOnHost : DeviceModel::kMixed);
    const OwnPublisher publisher(trainer.state());
    constexpr std::uint64_t kVersions = 8;
    std::vector<Bytes> published(kVersions + 1);
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < replicas; ++i) {
      threads.emplace_back([&, i] {
        DeviceModel replica(kPlaces[i], static_cast<unsigned char>(i), false);
        const OwnSubscriber subscriber(replica.state(), publisher.address());
        for (std::uint64_t version = 0; version < kVersions;) {
          ASSERT_EQ(subscriber.next(&version), sparclSuccess) << sparclGetLastError(nullptr);
          EXPECT_EQ(replica.read(), published[version]) << "version " << version;
          std::uint64_t held = 0;
          EXPECT_EQ(sparclSubscriberVersion(subscriber.get(), &held, nullptr), sparclSuccess);
          EXPECT_EQ(held, version);
        }
      });
    }
    for (std::uint64_t version = 1; version <= kVersions; ++version) {
      trainer.step(version, version == 4 ? 0.6 : version == 6 ? 0 : 0.01);
      published[version] = trainer.read();
      ASSERT_EQ(sparclPublish(publisher.get(), version), sparclSuccess);
      if (version % 3 != 0) {
        ASSERT_EQ(sparclPublisherWait(publisher.get(), version, static_cast<int>(replicas), 20),
                  sparclSuccess);
      }
    }
    for (std::thread& thread : threads) thread.join();
  }
}

TEST(DeviceReplica, OnlyWhatChangedCrosses) {
  DeviceModel trainer(DeviceModel::kAllOnHost), replica(DeviceModel::kAllOnDevice, 9, false);
  const OwnPublisher publisher(trainer.state());
  const OwnSubscriber subscriber(replica.state(), publisher.address());
  ASSERT_EQ(sparclPublish(publisher.get(), 1), sparclSuccess);
  ASSERT_EQ(subscriber.reach(1), sparclSuccess);
  trainer.step(5, 0.001);
  ASSERT_EQ(sparclPublish(publisher.get(), 2), sparclSuccess);
  const std::size_t before = bytes_copied(nullptr);
  ASSERT_EQ(subscriber.reach(2), sparclSuccess);
  EXPECT_LT(bytes_copied(nullptr) - before, 10'000U);
  EXPECT_EQ(replica.read(), trainer.read());
}

// What it holds is known when it comes back: nothing of it is sent, nor copied to the device.
TEST(DeviceReplica, ComesBack) {
  DeviceModel trainer(DeviceModel::kAllOnHost), replica(DeviceModel::kMixed, 9, false);
  const OwnPublisher publisher(trainer.state());
  for (std::uint64_t version = 1; version <= 4; ++version) {
    trainer.step(version, 0.01);
    ASSERT_EQ(sparclPublish(publisher.get(), version), sparclSuccess);
    if (version == 3) continue;
    const OwnSubscriber subscriber(replica.state(), publisher.address());
    const std::size_t before = bytes_copied(nullptr);
    ASSERT_EQ(subscriber.reach(version), sparclSuccess);
    if (version > 1) {
      EXPECT_LT(bytes_copied(nullptr) - before, 100'000U);
    }
    EXPECT_EQ(replica.read(), trainer.read());
  }
}

TEST(DeviceReplica, GoesBack) {
  DeviceModel trainer(DeviceModel::kAllOnHost), replica(DeviceModel::kMixed, 9, false);
  const OwnPublisher publisher(trainer.state());
  const OwnSubscriber subscriber(replica.state(), publisher.address());
  Bytes second;
  for (std::uint64_t version = 1; version <= 3; ++version) {
    trainer.step(version, 0.01);
    if (version == 2) second = trainer.read();
    ASSERT_EQ(sparclPublish(publisher.get(), version), sparclSuccess);
    ASSERT_EQ(subscriber.reach(version), sparclSuccess);
  }
  ASSERT_EQ(sparclSubscriberPin(subscriber.get(), 2), sparclSuccess) << sparclGetLastError(nullptr);
  std::uint64_t version = 0;
  fail_copies_from(0);
  EXPECT_EQ(subscriber.next(&version), sparclUnhandledCudaError);
  fail_copies_from(-1);
  EXPECT_EQ(replica.read(), trainer.read());
  ASSERT_EQ(subscriber.next(&version), sparclSuccess) << sparclGetLastError(nullptr);
  EXPECT_EQ(version, 2U);
  EXPECT_EQ(replica.read(), second);
  ASSERT_EQ(sparclSubscriberPin(subscriber.get(), 0), sparclSuccess);
  ASSERT_EQ(subscriber.reach(3), sparclSuccess);
  EXPECT_EQ(replica.read(), trainer.read());
}

// Wherever a copy fails: the tensors hold the version before, or the error says that they hold
// none; and the next call brings it.
TEST(DeviceReplica, ACopyThatFailsIsAnErrorAndTheNextCallBringsIt) {
  DeviceModel trainer(DeviceModel::kAllOnHost), replica(DeviceModel::kMixed, 9, false);
  const OwnPublisher publisher(trainer.state());
  const OwnSubscriber subscriber(replica.state(), publisher.address());
  std::uint64_t version = 0, held = 0;
  int as_they_were = 0, half_done = 0, succeeded = 0;
  for (int failing = 0; succeeded < 4 && failing < 40; ++failing) {
    ++version;
    SCOPED_TRACE(testing::Message() << "version " << version << ", from copy " << failing);
    trainer.step(version, version % 2 == 1 ? 0.5 : 0.01);  // all bytes, and what changed
    const Bytes before = replica.read();
    ASSERT_EQ(sparclPublish(publisher.get(), version), sparclSuccess);
    fail_copies_from(failing / 2);
    const sparclResult_t result = subscriber.next(&held);
    fail_copies_from(-1);
    if (result == sparclSuccess) {
      ++succeeded;
    } else {
      EXPECT_EQ(result, sparclUnhandledCudaError);
      const std::string text = sparclGetLastError(nullptr);
      if (text.find("hold what they held") != std::string::npos) {
        ++as_they_were;
        EXPECT_EQ(replica.read(), before);
      } else {
        ++half_done;
        EXPECT_THAT(text, HasSubstr("no version"));
      }
      EXPECT_EQ(sparclSubscriberVersion(subscriber.get(), &held, nullptr), sparclSuccess);
      EXPECT_EQ(held, version - 1);
      ASSERT_EQ(subscriber.next(&held), sparclSuccess) << sparclGetLastError(nullptr);
    }
    EXPECT_EQ(held, version);
    EXPECT_EQ(replica.read(), trainer.read());
  }
  EXPECT_GE(as_they_were, 1);
  EXPECT_GE(half_done, 3);
  EXPECT_EQ(succeeded, 4);
}

// Newer versions that come before it is brought there come with it.
TEST(DeviceReplica, AfterAnErrorItGoesOnToTheNewest) {
  DeviceModel trainer(DeviceModel::kAllOnHost), replica(DeviceModel::kAllOnDevice, 9, false);
  const OwnPublisher publisher(trainer.state());
  const OwnSubscriber subscriber(replica.state(), publisher.address());
  std::uint64_t held = 0;
  ASSERT_EQ(sparclPublish(publisher.get(), 1), sparclSuccess);
  ASSERT_EQ(subscriber.reach(1), sparclSuccess);
  trainer.step(2, 0.01);
  ASSERT_EQ(sparclPublish(publisher.get(), 2), sparclSuccess);
  fail_copies_from(0);
  EXPECT_EQ(subscriber.next(&held), sparclUnhandledCudaError);
  fail_copies_from(-1);
  trainer.step(3, 0.01);
  ASSERT_EQ(sparclPublish(publisher.get(), 3), sparclSuccess);
  ASSERT_EQ(subscriber.reach(3), sparclSuccess);
  EXPECT_EQ(replica.read(), trainer.read());
}

TEST(DeviceReplica, ACommitThatFailsIsRepeated) {
  DeviceModel trainer(DeviceModel::kAllOnHost), replica(DeviceModel::kMixed, 9, false);
  const OwnPublisher publisher(trainer.state());
  const OwnSubscriber subscriber(replica.state(), publisher.address());
  std::uint64_t held = 0;
  ASSERT_EQ(sparclPublish(publisher.get(), 1), sparclSuccess);
  ASSERT_EQ(subscriber.reach(1), sparclSuccess);
  const Bytes before = replica.read();
  trainer.step(2, 0.01);
  ASSERT_EQ(sparclPublish(publisher.get(), 2), sparclSuccess);
  for (const bool fails : {true, false}) {
    std::uint64_t prepared = 0;
    ASSERT_EQ(sparclSubscriberPrepare(subscriber.get(), 20, &prepared), sparclSuccess)
        << sparclGetLastError(nullptr);
    EXPECT_EQ(prepared, 2U);
    EXPECT_EQ(replica.read(), before);
    fail_copies_from(fails ? 0 : -1);
    EXPECT_EQ(sparclSubscriberCommit(subscriber.get(), 2),
              fails ? sparclUnhandledCudaError : sparclSuccess);
    fail_copies_from(-1);
    EXPECT_EQ(sparclSubscriberVersion(subscriber.get(), &held, nullptr), sparclSuccess);
    EXPECT_EQ(held, fails ? 1U : 2U);
  }
  EXPECT_EQ(replica.read(), trainer.read());
}

// Columns of a matrix that the publisher has whole.
TEST(DeviceReplica, HoldsSlices) {
  constexpr std::uint64_t kRows = 700, kColumns = 300, kShape[2] = {kRows, kColumns},
                          kBegin[2] = {0, 100}, kExtent[2] = {kRows, 150};
  const FakeDeviceMemory whole = fake_device_memory(kRows * kColumns * 4),
                         slice = fake_device_memory(kRows * 150 * 4);
  sparclState_t trained = nullptr, held = nullptr;
  ASSERT_EQ(sparclStateCreate(&trained), sparclSuccess);
  ASSERT_EQ(sparclStateCreate(&held), sparclSuccess);
  ASSERT_EQ(sparclStateAdd(trained, "matrix", whole.device, sparclInt32, 2, kShape), sparclSuccess);
  ASSERT_EQ(
      sparclStateAddSlice(held, "matrix", slice.device, sparclInt32, 2, kShape, kBegin, kExtent),
      sparclSuccess);
  {
    const OwnPublisher publisher(trained);
    const OwnSubscriber subscriber(held, publisher.address());
    auto* const all = static_cast<std::uint32_t*>(whole.bytes);
    std::mt19937_64 random(1);
    for (std::uint64_t version = 1; version <= 4; ++version) {
      for (int i = 0; i < 2000; ++i)
        all[random() % (kRows * kColumns)] = static_cast<std::uint32_t>(random());
      ASSERT_EQ(sparclPublish(publisher.get(), version), sparclSuccess)
          << sparclGetLastError(nullptr);
      ASSERT_EQ(subscriber.reach(version), sparclSuccess) << sparclGetLastError(nullptr);
      for (std::uint64_t row = 0; row < kRows; ++row) {
        ASSERT_EQ(std::memcmp(static_cast<std::uint32_t*>(slice.bytes) + row * 150,
                              all + row * kColumns + 100, 150 * 4),
                  0);
      }
    }
  }
  EXPECT_EQ(sparclStateDestroy(held), sparclSuccess);
  EXPECT_EQ(sparclStateDestroy(trained), sparclSuccess);
}

TEST(DeviceReplica, WithoutASecondSetTheTensorsAreTheStates) {
  DeviceModel replica(DeviceModel::kMixed, 9, false);
  const OwnSubscriber subscriber(replica.state(), "127.0.0.1:9");
  for (std::size_t i = 0; i < replica.tensors(); ++i) {
    const void* data = nullptr;
    EXPECT_EQ(sparclSubscriberTensor(subscriber.get(), i, &data), sparclSuccess);
    EXPECT_EQ(data, replica.address(i));
  }
}

// Where the tensors of the shown set lie, and what they hold.
struct Shown {
  explicit Shown(const OwnSubscriber& subscriber, const DeviceModel& model) {
    const Bytes sizes = model.read();
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const void* data = nullptr;
      EXPECT_EQ(sparclSubscriberTensor(subscriber.get(), i, &data), sparclSuccess);
      places.push_back(data);
      const auto* const seen = static_cast<const unsigned char*>(reachable(data));
      bytes.emplace_back(seen, seen + sizes[i].size());
    }
  }
  std::vector<const void*> places;
  Bytes bytes;
};

// What is shown stays as it is while a version is made beside it, also where the driver fails, and
// through the call that shows that.
TEST(DeviceReplica, ASecondSetOnTheDevice) {
  DeviceModel trainer(DeviceModel::kAllOnHost), replica(DeviceModel::kMixed, 9, false);
  sparclSubscriberOptions_t options = SPARCL_SUBSCRIBER_OPTIONS_INITIALIZER;
  options.double_buffer = sparclOn;
  const OwnPublisher publisher(trainer.state());
  const OwnSubscriber subscriber(replica.state(), publisher.address(), &options);
  int failed = 0;
  for (std::uint64_t version = 1; version <= 12; ++version) {
    trainer.step(version, version % 4 == 1 ? 0.5 : 0.01);
    const Shown before(subscriber, replica);
    ASSERT_EQ(sparclPublish(publisher.get(), version), sparclSuccess);
    std::uint64_t held = 0;
    fail_copies_from(static_cast<int>(version % 3));
    const sparclResult_t result = subscriber.next(&held);
    fail_copies_from(-1);
    if (result != sparclSuccess) {
      ++failed;
      EXPECT_EQ(result, sparclUnhandledCudaError);
      EXPECT_THAT(sparclGetLastError(nullptr), HasSubstr("hold what they held"));
      const Shown still(subscriber, replica);
      EXPECT_EQ(still.places, before.places);
      EXPECT_EQ(still.bytes, before.bytes);
      ASSERT_EQ(subscriber.next(&held), sparclSuccess) << sparclGetLastError(nullptr);
    }
    EXPECT_EQ(held, version);
    const Shown after(subscriber, replica);
    EXPECT_EQ(after.bytes, trainer.read());
    EXPECT_NE(after.places[1], before.places[1]);
    const auto* const earlier = static_cast<const unsigned char*>(reachable(before.places[1]));
    EXPECT_EQ(std::memcmp(earlier, before.bytes[1].data(), before.bytes[1].size()), 0);
  }
  EXPECT_GE(failed, 4);
}

TEST(DeviceReplica, WithoutRoomForASecondSet) {
  DeviceModel replica(DeviceModel::kAllOnDevice, 9, false);
  sparclSubscriberOptions_t options = SPARCL_SUBSCRIBER_OPTIONS_INITIALIZER;
  options.double_buffer = sparclOn;
  sparclSubscriber_t made = nullptr;
  fail_allocations(true);
  EXPECT_EQ(sparclSubscriberCreate(&made, replica.state(), "127.0.0.1:9", &options),
            sparclOutOfMemory);
  fail_allocations(false);
  EXPECT_THAT(sparclGetLastError(nullptr), HasSubstr("or do without options.double_buffer"));
}

// Publishing, failures of the driver on either side, replicas that are started again, steps back,
// in any order: whatever a call says that the tensors hold, they hold.
class AnyTrouble : public testing::TestWithParam<int> {};

TEST_P(AnyTrouble, LeavesAVersionOrAnError) {
  std::mt19937_64 random(static_cast<std::uint64_t>(GetParam()));
  sparclSubscriberOptions_t options = SPARCL_SUBSCRIBER_OPTIONS_INITIALIZER;
  options.double_buffer = GetParam() % 2 != 0 ? sparclOn : sparclOff;
  DeviceModel trainer(kPlaces[random() % 3]), replica(kPlaces[random() % 3], 9, false);
  const OwnPublisher publisher(trainer.state());
  auto subscriber = std::make_unique<OwnSubscriber>(replica.state(), publisher.address(), &options);
  std::vector<Bytes> published(1);
  std::uint64_t held = 0;
  const auto publish = [&] {
    constexpr double kDensities[] = {0, 0.001, 0.01, 0.3};
    trainer.step(random(), kDensities[random() % 4]);
    const sparclResult_t result = sparclPublish(publisher.get(), published.size());
    if (result == sparclSuccess) published.push_back(trainer.read());
    return result;
  };
  const auto next = [&](double seconds) {
    const Bytes before = Shown(*subscriber, replica).bytes;
    const sparclResult_t result = subscriber->next(&held, seconds);
    const Bytes now = Shown(*subscriber, replica).bytes;
    if (result == sparclSuccess) {
      EXPECT_EQ(now, published[held]);
    } else if (std::string(sparclGetLastError(nullptr)).find("no version until") ==
               std::string::npos) {
      EXPECT_EQ(now, before);
    }
    return result;
  };
  ASSERT_EQ(publish(), sparclSuccess);
  for (int step = 0; step < 40; ++step) {
    const bool fails = random() % 3 == 0;
    if (fails) fail_copies_from(static_cast<int>(random() % 5));
    switch (random() % 8) {
      case 0:
        if (!fails && options.double_buffer !=
                          sparclOn) {  // else the state's own tensors may be the other set
          subscriber = nullptr;
          subscriber =
              std::make_unique<OwnSubscriber>(replica.state(), publisher.address(), &options);
        }
        break;
      case 1:
        (void)sparclSubscriberPin(subscriber->get(),
                                  held > 1 ? held - 1 : 0);  // it says where there is no rollback
        (void)next(0.01);
        break;
      case 2:
        EXPECT_EQ(sparclSubscriberPin(subscriber->get(), 0), sparclSuccess);
        break;
      case 3:
      case 4:
        (void)publish();
        break;
      default:
        (void)next(0.01);
    }
    fail_copies_from(-1);
  }
  EXPECT_EQ(sparclSubscriberPin(subscriber->get(), 0), sparclSuccess);
  ASSERT_EQ(publish(), sparclSuccess);
  while (held + 1 < published.size())
    ASSERT_EQ(next(20), sparclSuccess) << sparclGetLastError(nullptr);
}
INSTANTIATE_TEST_SUITE_P(Seeds, AnyTrouble, testing::Range(0, 8));

// Memory of the mirror that is damaged is found, and repaired from the publisher; the tensors then
// hold the version, all of it.
TEST(DeviceReplica, AMirrorThatIsDamagedIsRepaired) {
  constexpr std::uint64_t kCount = 300'000;
  const codec::ArraySpec spec{DataType::kBfloat16, kCount};
  const codec::BlockMap map(std::span(&spec, 1));
  std::vector<std::uint16_t> source(kCount, 1);
  std::byte* own = reinterpret_cast<std::byte*>(source.data());
  const FakeDeviceMemory memory = fake_device_memory(kCount * 2);
  const auto tensors =
      model::DeviceTensors::create(map, {{nullptr}, {static_cast<std::byte*>(memory.device)}},
                                   kernels::cpu_kernels(), *api::device_kernels());
  ASSERT_TRUE((*tensors)->read(nullptr).ok());
  replication::ReplicatedState view;
  view.map = &map;
  view.schema_hash = {1, 2};
  view.arrays = std::span(&own, 1);
  view.kernels = &kernels::cpu_kernels();
  replication::PublisherOptions publishing;
  publishing.listen = "127.0.0.1:0";
  auto publisher = replication::Publisher::create(view, publishing);
  ASSERT_TRUE(publisher.ok()) << publisher.status().message();
  ASSERT_TRUE((*publisher)->publish(1).ok());
  view.arrays = (*tensors)->mirror();
  view.device = tensors->get();
  replication::SubscriberOptions options;
  options.sweep_s = 0.02;
  auto subscriber = replication::Subscriber::create(view, (*publisher)->address(), options);
  ASSERT_TRUE(subscriber.ok());
  const auto holds = [&] { return std::memcmp(memory.bytes, source.data(), kCount * 2) == 0; };
  ASSERT_TRUE((*subscriber)->next(20).ok());
  EXPECT_TRUE(holds());
  (*tensors)->mirror()[0][70'000] ^= std::byte{8};
  Result<replication::Subscriber::Swap> swap = (*subscriber)->next(20);
  ASSERT_FALSE(swap.ok());
  EXPECT_EQ(swap.status().code(), Code::kCorrupt);
  swap = (*subscriber)->next(20);
  ASSERT_TRUE(swap.ok()) << swap.status().message();
  EXPECT_TRUE(swap->by_repair);
  EXPECT_TRUE(holds());
  source[5] = 7;
  ASSERT_TRUE((*publisher)->publish(2).ok());
  ASSERT_TRUE((*subscriber)->next(20).ok());
  EXPECT_TRUE(holds());
}

}  // namespace
}  // namespace sparcl::test
