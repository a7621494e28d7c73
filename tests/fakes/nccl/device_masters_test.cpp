// A publisher of float32 masters in device memory: what travels is what masters on the host are
// rounded to, bit for bit.

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <deque>
#include <string>

#include "tests/fakes/nccl/device_model.hpp"

namespace sparcl::test {
namespace {

// A trainer whose tensors are rounded from float32: on the device, on the host, or here and there;
// beside a tensor as it is.
class Masters {
 public:
  static constexpr std::size_t kTensors = 6,
                               kCounts[kTensors] = {200'003, 100, 0, 70'001, 5, 66'000};
  static constexpr sparclDataType_t kTypes[kTensors] = {sparclBfloat16, sparclBfloat16,
                                                        sparclBfloat16, sparclFloat8e4m3,
                                                        sparclFloat16,  sparclFloat8e5m2};
  explicit Masters(unsigned on_device) {
    EXPECT_EQ(sparclStateCreate(&state_), sparclSuccess);
    for (std::size_t i = 0; i < kTensors; ++i) {
      const std::uint64_t shape = kCounts[i];
      seen_[i] = static_cast<float*>(place(shape * sizeof(float), on_device >> i & 1));
      const std::string name = "rounded" + std::to_string(i);
      EXPECT_EQ(sparclStateAddMaster(state_, name.c_str(), static_cast<const float*>(given_),
                                     kTypes[i], 1, &shape),
                sparclSuccess)
          << sparclGetLastError(nullptr);
    }
    constexpr std::uint64_t kPlain = 1000;
    plain_ = static_cast<std::uint64_t*>(place(kPlain * 8, (on_device & 1) != 0));
    EXPECT_EQ(sparclStateAdd(state_, "plain", given_, sparclInt64, 1, &kPlain), sparclSuccess);
  }
  ~Masters() { (void)sparclStateDestroy(state_); }
  Masters(const Masters&) = delete;
  Masters& operator=(const Masters&) = delete;

  sparclState_t state() const { return state_; }
  int copies_out() const { return copies_out_of(first_); }
  // Any pattern of bits, some of them not what the type has.
  void step(std::uint64_t seed, double density) const {
    std::mt19937_64 random(seed);
    for (std::size_t i = 0; i < kTensors; ++i) {
      for (std::size_t n = 0;
           n < static_cast<std::size_t>(density * static_cast<double>(kCounts[i])); ++n) {
        const auto bits = static_cast<std::uint32_t>(random());
        seen_[i][random() % kCounts[i]] =
            std::bit_cast<float>(n % 3 == 0 ? bits : (bits & 0x807fffff) | 0x3f000000);
      }
    }
    plain_[random() % 1000] = random();
  }

 private:
  void* place(std::size_t bytes, bool is_on_device) {
    if (is_on_device) {
      const FakeDeviceMemory memory = fake_device_memory(bytes + 1);
      given_ = memory.device;
      std::memset(memory.bytes, 0, bytes);
      first_ = first_ == nullptr ? given_ : first_;
      return memory.bytes;
    }
    host_.emplace_back(bytes / 8 + 1);
    return given_ = host_.back().data();
  }
  sparclState_t state_ = nullptr;
  void* given_ = nullptr;        // of the last one
  const void* first_ = nullptr;  // on the device
  std::array<float*, kTensors> seen_{};
  std::uint64_t* plain_ = nullptr;
  std::deque<std::vector<std::uint64_t>> host_;
};

// A replica of it.
class Rounded {
 public:
  Rounded() {
    EXPECT_EQ(sparclStateCreate(&state_), sparclSuccess);
    for (std::size_t i = 0; i < Masters::kTensors; ++i) {
      const std::uint64_t shape = Masters::kCounts[i];
      bytes_[i].resize(2 * shape + 1, 9);
      const std::string name = "rounded" + std::to_string(i);
      EXPECT_EQ(
          sparclStateAdd(state_, name.c_str(), bytes_[i].data(), Masters::kTypes[i], 1, &shape),
          sparclSuccess);
    }
    constexpr std::uint64_t kPlain = 1000;
    EXPECT_EQ(sparclStateAdd(state_, "plain", plain_.data(), sparclInt64, 1, &kPlain),
              sparclSuccess);
  }
  ~Rounded() { (void)sparclStateDestroy(state_); }
  Rounded(const Rounded&) = delete;
  Rounded& operator=(const Rounded&) = delete;
  sparclState_t state() const { return state_; }
  bool holds(const Rounded& other) const {
    return bytes_ == other.bytes_ && plain_ == other.plain_;
  }

 private:
  sparclState_t state_ = nullptr;
  std::array<std::vector<unsigned char>, Masters::kTensors> bytes_;
  std::vector<std::uint64_t> plain_ = std::vector<std::uint64_t>(1000, 7);
};

TEST(DeviceMasters, AreRoundedAsTheHosts) {
  for (const unsigned places : {0xffU, 0b101010U}) {
    const Masters device(places), host(0);
    Rounded replica, host_replica;
    const OwnPublisher publisher(device.state()), host_publisher(host.state());
    const OwnSubscriber subscriber(replica.state(), publisher.address()),
        host_subscriber(host_replica.state(), host_publisher.address());
    int read = 0;
    for (std::uint64_t version = 1; version <= 6; ++version) {
      SCOPED_TRACE(testing::Message() << "places " << places << ", version " << version);
      device.step(version, version == 4 ? 0.9 : 0.01);
      host.step(version, version == 4 ? 0.9 : 0.01);
      const int before = device.copies_out();
      ASSERT_EQ(sparclPublish(publisher.get(), version), sparclSuccess)
          << sparclGetLastError(nullptr);
      read += device.copies_out() > before ? 1 : 0;
      ASSERT_EQ(sparclPublish(host_publisher.get(), version), sparclSuccess)
          << sparclGetLastError(nullptr);
      EXPECT_EQ(bytes_published(publisher.get()), bytes_published(host_publisher.get()));
      ASSERT_EQ(subscriber.reach(version), sparclSuccess) << sparclGetLastError(nullptr);
      ASSERT_EQ(host_subscriber.reach(version), sparclSuccess) << sparclGetLastError(nullptr);
      EXPECT_TRUE(replica.holds(host_replica));
    }
    EXPECT_EQ(read, places == 0xffU ? 2 : 6)
        << "where all are there: the first, and where most changes";
  }
}

TEST(DeviceMasters, WhereTheDriverFails) {
  const Masters device(0xff), host(0);
  Rounded replica, host_replica;
  const OwnPublisher publisher(device.state()), host_publisher(host.state());
  const OwnSubscriber subscriber(replica.state(), publisher.address()),
      host_subscriber(host_replica.state(), host_publisher.address());
  std::uint64_t version = 0;
  for (const auto fail_from : {fail_copies_from, fail_launches_from}) {
    for (int failing = 0; failing < 10; ++failing) {
      ++version;
      device.step(version, 0.01);
      host.step(version, 0.01);
      fail_from(failing);
      const sparclResult_t result = sparclPublish(publisher.get(), version);
      fail_from(-1);
      if (result != sparclSuccess) {
        EXPECT_EQ(result, sparclUnhandledCudaError);
        ASSERT_EQ(sparclPublish(publisher.get(), version), sparclSuccess)
            << sparclGetLastError(nullptr);
      }
      ASSERT_EQ(sparclPublish(host_publisher.get(), version), sparclSuccess);
      ASSERT_EQ(subscriber.reach(version), sparclSuccess) << sparclGetLastError(nullptr);
      ASSERT_EQ(host_subscriber.reach(version), sparclSuccess);
      EXPECT_TRUE(replica.holds(host_replica)) << "from " << failing;
    }
  }
}

}  // namespace
}  // namespace sparcl::test
