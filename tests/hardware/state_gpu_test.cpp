// States with tensors on a GPU: a publisher's reach a replica's, and a broadcast's root reaches the
// other ranks, bit for bit.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>

#include "sparcl/sparcl.h"
#include "tests/api/thread_ranks.hpp"
#include "tests/emulated/float_patterns.hpp"
#include "tests/hardware/gpu_arrays.hpp"

namespace sparcl::test {
namespace {

using testing::Each;

// A matrix and a table on the GPU, a bias there or on the host: then updates go by way of the host.
class GpuModel {
 public:
  static constexpr std::uint64_t kMatrix = 5'000'003, kTable = 70'001, kBias = 100;

  explicit GpuModel(bool is_all_there = false)
      : matrix_(std::vector<std::uint16_t>(kMatrix, 1)),
        table_(std::vector<std::uint64_t>(kTable, 2)),
        bias_(kBias, 3),
        bias_there_(bias_),
        is_all_there_(is_all_there) {
    must(cudaDeviceSynchronize());
    EXPECT_EQ(sparclStateCreate(&state_), sparclSuccess);
    EXPECT_EQ(sparclStateAdd(state_, "matrix", matrix_.data(), sparclBfloat16, 1, &kMatrix),
              sparclSuccess);
    EXPECT_EQ(sparclStateAdd(state_, "bias", is_all_there ? bias_there_.data() : bias_.data(),
                             sparclFloat32, 1, &kBias),
              sparclSuccess);
    EXPECT_EQ(sparclStateAdd(state_, "table", table_.data(), sparclInt64, 1, &kTable),
              sparclSuccess);
  }
  ~GpuModel() { EXPECT_EQ(sparclStateDestroy(state_), sparclSuccess); }
  GpuModel(const GpuModel&) = delete;
  GpuModel& operator=(const GpuModel&) = delete;

  sparclState_t state() const { return state_; }
  // In the default stream's order, and not waited for.
  void step(std::uint64_t seed, double density) {
    std::mt19937_64 random(seed);
    host_matrix_ = matrix_.read();
    host_table_ = table_.read();
    std::bernoulli_distribution changes(density);
    for (std::uint16_t& each : host_matrix_)
      each = changes(random) ? static_cast<std::uint16_t>(random() % 0x7f00) : each;
    for (std::uint64_t& each : host_table_) each = changes(random) ? random() : each;
    bias_[random() % kBias] += 1;
    if (is_all_there_)
      must(cudaMemcpyAsync(bias_there_.data(), bias_.data(), kBias * 4, cudaMemcpyHostToDevice,
                           nullptr));
    must(cudaMemcpyAsync(matrix_.data(), host_matrix_.data(), kMatrix * 2, cudaMemcpyHostToDevice,
                         nullptr));
    must(cudaMemcpyAsync(table_.data(), host_table_.data(), kTable * 8, cudaMemcpyHostToDevice,
                         nullptr));
  }
  bool holds(const GpuModel& other) const {
    return matrix_.read() == other.matrix_.read() && table_.read() == other.table_.read() &&
           bias() == other.bias();
  }

 private:
  std::vector<float> bias() const { return is_all_there_ ? bias_there_.read() : bias_; }

  DeviceArray<std::uint16_t> matrix_;
  DeviceArray<std::uint64_t> table_;
  std::vector<float> bias_;
  DeviceArray<float> bias_there_;
  bool is_all_there_;
  std::vector<std::uint16_t> host_matrix_;
  std::vector<std::uint64_t> host_table_;
  sparclState_t state_ = nullptr;
};

constexpr double kDensities[] = {0.01, 0.001, 0.5, 0, 0.05};

void publish(bool is_all_there) {
  GpuModel trainer(is_all_there), replica(is_all_there);
  sparclPublisherOptions_t options = SPARCL_PUBLISHER_OPTIONS_INITIALIZER;
  options.listen = "127.0.0.1:0";
  sparclPublisher_t publisher = nullptr;
  sparclSubscriber_t subscriber = nullptr;
  char address[128];
  ASSERT_EQ(sparclPublisherCreate(&publisher, trainer.state(), &options), sparclSuccess)
      << sparclGetLastError(nullptr);
  ASSERT_EQ(sparclPublisherAddress(publisher, address, sizeof address), sparclSuccess);
  ASSERT_EQ(sparclSubscriberCreate(&subscriber, replica.state(), address, nullptr), sparclSuccess)
      << sparclGetLastError(nullptr);
  std::uint64_t version = 0, held = 0;
  for (const double density : kDensities) {
    trainer.step(++version, density);
    ASSERT_EQ(sparclPublish(publisher, version), sparclSuccess) << sparclGetLastError(nullptr);
    while (held < version)
      ASSERT_EQ(sparclSubscriberNext(subscriber, 60, &held), sparclSuccess)
          << sparclGetLastError(nullptr);
    EXPECT_TRUE(replica.holds(trainer)) << "version " << version;
  }
  ASSERT_EQ(sparclSubscriberPin(subscriber, version - 1), sparclSuccess)
      << sparclGetLastError(nullptr);
  ASSERT_EQ(sparclSubscriberNext(subscriber, 60, &held), sparclSuccess)
      << sparclGetLastError(nullptr);
  EXPECT_EQ(held, version - 1);
  EXPECT_FALSE(replica.holds(trainer));
  EXPECT_EQ(sparclSubscriberDestroy(subscriber), sparclSuccess);
  EXPECT_EQ(sparclPublisherDestroy(publisher), sparclSuccess);
}

TEST(StatesOnAGpu, APublishersReachAReplicas) {
  if (const std::string why = why_no_gpu(); !why.empty()) GTEST_SKIP() << "skipped: " << why;
  must(cudaSetDevice(0));
  for (const bool is_all_there : {true, false}) {
    SCOPED_TRACE(is_all_there ? "compared on the GPU" : "compared on the host");
    publish(is_all_there);
  }
}

// A float32 matrix on the GPU, which is published as bfloat16, beside the same on the host.
TEST(StatesOnAGpu, MastersAreRoundedAsTheHosts) {
  if (const std::string why = why_no_gpu(); !why.empty()) GTEST_SKIP() << "skipped: " << why;
  must(cudaSetDevice(0));
  constexpr std::uint64_t kCount = 5'000'003;
  std::vector<float> host = float_patterns(kCount, 1);
  const DeviceArray<float> device(host);
  std::vector<std::uint16_t> served[2]{std::vector<std::uint16_t>(kCount),
                                       std::vector<std::uint16_t>(kCount)};
  sparclState_t trainers[2], replicas[2];
  sparclPublisher_t publishers[2];
  sparclSubscriber_t subscribers[2];
  const float* const masters[2] = {device.data(), host.data()};
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(sparclStateCreate(&trainers[i]), sparclSuccess);
    ASSERT_EQ(sparclStateCreate(&replicas[i]), sparclSuccess);
    ASSERT_EQ(sparclStateAddMaster(trainers[i], "matrix", masters[i], sparclBfloat16, 1, &kCount),
              sparclSuccess);
    ASSERT_EQ(sparclStateAdd(replicas[i], "matrix", served[i].data(), sparclBfloat16, 1, &kCount),
              sparclSuccess);
    sparclPublisherOptions_t options = SPARCL_PUBLISHER_OPTIONS_INITIALIZER;
    options.listen = "127.0.0.1:0";
    char address[128];
    ASSERT_EQ(sparclPublisherCreate(&publishers[i], trainers[i], &options), sparclSuccess)
        << sparclGetLastError(nullptr);
    ASSERT_EQ(sparclPublisherAddress(publishers[i], address, sizeof address), sparclSuccess);
    ASSERT_EQ(sparclSubscriberCreate(&subscribers[i], replicas[i], address, nullptr), sparclSuccess)
        << sparclGetLastError(nullptr);
  }
  for (std::uint64_t version = 1; version <= 3; ++version) {
    const std::vector<float> changed = float_patterns(kCount / 100, version);
    for (std::size_t i = 0; i < changed.size(); ++i) host[i * 100 + version] = changed[i];
    must(cudaMemcpy(device.data(), host.data(), kCount * sizeof(float), cudaMemcpyHostToDevice));
    for (int i = 0; i < 2; ++i) {
      ASSERT_EQ(sparclPublish(publishers[i], version), sparclSuccess)
          << sparclGetLastError(nullptr);
      for (std::uint64_t held = 0; held < version;)
        ASSERT_EQ(sparclSubscriberNext(subscribers[i], 60, &held), sparclSuccess)
            << sparclGetLastError(nullptr);
    }
    EXPECT_TRUE(served[0] == served[1]) << "version " << version;
  }
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(sparclSubscriberDestroy(subscribers[i]), sparclSuccess);
    EXPECT_EQ(sparclPublisherDestroy(publishers[i]), sparclSuccess);
    EXPECT_EQ(sparclStateDestroy(trainers[i]), sparclSuccess);
    EXPECT_EQ(sparclStateDestroy(replicas[i]), sparclSuccess);
  }
}

void broadcast_updates(bool is_all_there) {
  ThreadRanks party(3);
  std::vector<std::unique_ptr<GpuModel>> models;
  for (int rank = 0; rank < party.size(); ++rank)
    models.push_back(std::make_unique<GpuModel>(is_all_there));
  std::uint64_t version = 0;
  for (const double density : kDensities) {
    ++version;
    models[1]->step(version, density);
    EXPECT_THAT(party.run([&](int rank, sparclComm_t comm) {
      must(cudaSetDevice(0));
      return sparclBroadcastUpdate(models[static_cast<std::size_t>(rank)]->state(), version, 1,
                                   nullptr, comm, nullptr);
    }),
                Each(sparclSuccess))
        << sparclGetLastError(party.comm(0));
    for (const auto& model : models) EXPECT_TRUE(model->holds(*models[1])) << "version " << version;
  }
  std::uint8_t hashes[2][16];
  for (int i = 0; i < 2; ++i)
    ASSERT_EQ(sparclStateHash(models[static_cast<std::size_t>(i)]->state(), hashes[i]),
              sparclSuccess);
  EXPECT_EQ(std::memcmp(hashes[0], hashes[1], sizeof hashes[0]), 0);
}

TEST(StatesOnAGpu, ABroadcastsRootReachesAllRanks) {
  if (const std::string why = why_no_gpu(); !why.empty()) GTEST_SKIP() << "skipped: " << why;
  must(cudaSetDevice(0));
  for (const bool is_all_there : {true, false}) {
    SCOPED_TRACE(is_all_there ? "coded on the GPU" : "by way of the host");
    broadcast_updates(is_all_there);
  }
}

}  // namespace
}  // namespace sparcl::test
