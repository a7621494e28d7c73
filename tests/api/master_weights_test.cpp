// Float32 masters that are published as what is served: each replica holds each element rounded by
// itself.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <random>
#include <vector>

#include "sparcl/sparcl.hpp"

namespace sparcl {
namespace {

constexpr std::uint64_t kRows = 2000, kColumns = 101;

// What a trainer holds, and a state of what of it travels.
struct MasterTrainer {
  MasterTrainer() : weights(kRows * kColumns), head(kColumns) {
    std::mt19937_64 random(3);
    std::normal_distribution<float> normal(0.0F, 0.02F);
    for (float& each : weights) each = normal(random);
    for (float& each : head) each = normal(random);
    weights[5] = std::numeric_limits<float>::quiet_NaN();
    weights[6] = -0.0F;
    weights[7] = 1e30F;
    weights[8] = 1e-40F;
  }
  void step(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::normal_distribution<float> normal(0.0F, 1e-5F);
    for (float& each : weights) each += normal(random);
    ++steps;
  }
  State state() {
    State made;
    made.add("steps", &steps, sparclInt64, {});
    made.add_master("weights", weights.data(), sparclBfloat16, {kRows, kColumns});
    made.add_master("weights.fp8", weights.data(), sparclFloat8e4m3, {kRows, kColumns});
    made.add("head", head.data(), sparclFloat32, {kColumns});
    made.add_master("head.half", head.data(), sparclFloat16, {kColumns});
    return made;
  }
  std::vector<float> weights, head;
  std::int64_t steps = 0;
};

struct MasterWorker {
  MasterWorker()
      : weights(kRows * kColumns * 2), small(kRows * kColumns), head(kColumns), half(kColumns * 2) {
    state.add("steps", &steps, sparclInt64, {});
    state.add("weights", weights.data(), sparclBfloat16, {kRows, kColumns});
    state.add("weights.fp8", small.data(), sparclFloat8e4m3, {kRows, kColumns});
    state.add("head", head.data(), sparclFloat32, {kColumns});
    state.add("head.half", half.data(), sparclFloat16, {kColumns});
  }
  State state;
  std::int64_t steps = -1;
  std::vector<std::byte> weights, small;
  std::vector<float> head;
  std::vector<std::byte> half;
};

// The nearest float of this format, ties to even, by its definition.
struct Format {
  int exponent_bits, mantissa_bits;
  bool has_infinity;

  std::uint32_t round(float value) const {
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const std::uint32_t sign_bit = 1U << (exponent_bits + mantissa_bits);
    const std::uint32_t infinity = ((1U << exponent_bits) - 1) << mantissa_bits;
    if (std::isnan(value))
      return has_infinity ? infinity | 1U << (mantissa_bits - 1) : sign_bit - 1;
    const std::uint32_t sign = std::signbit(value) ? sign_bit : 0;
    const std::uint32_t too_large = has_infinity ? infinity : sign_bit - 2;
    const double size = std::fabs(static_cast<double>(value));
    if (size == 0) return sign;
    const int exponent = std::max(std::ilogb(size), 1 - bias);
    const double units = std::nearbyint(std::ldexp(size, mantissa_bits - exponent));
    const double bits = units + std::ldexp(exponent + bias - 1, mantissa_bits);
    return sign | (bits > too_large ? too_large : static_cast<std::uint32_t>(bits));
  }
};

template <class Bits>
bool is_rounded(const std::vector<std::byte>& held, const std::vector<float>& masters,
                const Format& format) {
  for (std::size_t i = 0; i < masters.size(); ++i) {
    Bits bits = 0;
    std::memcpy(&bits, held.data() + i * sizeof bits, sizeof bits);
    if (bits != format.round(masters[i])) return false;
  }
  return true;
}

void expect_served(const MasterWorker& worker, const MasterTrainer& trainer) {
  EXPECT_EQ(worker.steps, trainer.steps);
  EXPECT_TRUE(is_rounded<std::uint16_t>(worker.weights, trainer.weights, {8, 7, true}));
  EXPECT_TRUE(is_rounded<std::uint8_t>(worker.small, trainer.weights, {4, 3, false}));
  EXPECT_TRUE(is_rounded<std::uint16_t>(worker.half, trainer.head, {5, 10, true}));
  EXPECT_EQ(std::memcmp(worker.head.data(), trainer.head.data(), kColumns * sizeof(float)), 0);
}

void follow(Subscriber& subscriber, std::uint64_t version) {
  for (std::optional<std::uint64_t> held; held != version;) {
    held = subscriber.next(20);
    ASSERT_TRUE(held.has_value()) << "version " << version << " has not come";
  }
}

TEST(MasterWeights, AreServedRounded) {
  MasterTrainer trainer;
  State published = trainer.state();
  Publisher publisher(published, {.listen = "127.0.0.1:0"});
  MasterWorker worker, late;
  Subscriber subscriber(worker.state, publisher.address());
  for (std::uint64_t version = 1; version <= 5; ++version) {
    trainer.step(version);
    publisher.publish(version);
    follow(subscriber, version);
    expect_served(worker, trainer);
    const Report report = publisher.last_report();
    // By far not every master's step is seen through the rounding.
    if (version == 1) continue;
    EXPECT_LT(report.nnz_in, kRows * kColumns);
    EXPECT_GT(report.nnz_in, 100U);
  }
  Subscriber other(late.state, publisher.address());  // by an anchor
  follow(other, 5);
  expect_served(late, trainer);
}

TEST(MasterWeights, WithMarksAndPriorities) {
  MasterTrainer trainer;
  State published = trainer.state();
  published.set_priority("head.half", 1);
  Publisher publisher(published, {.listen = "127.0.0.1:0"});
  MasterWorker worker;
  worker.state.set_priority("head.half", 1);
  Subscriber subscriber(worker.state, publisher.address());
  publisher.publish(1);
  follow(subscriber, 1);
  trainer.weights[70000] = 3.0F;
  trainer.head[3] = 0.5F;
  const std::uint64_t place[] = {70000}, third[] = {3};
  for (const char* name : {"weights", "weights.fp8"}) published.mark_indices(name, place);
  for (const char* name : {"head", "head.half"}) published.mark_indices(name, third);
  publisher.publish(2);
  follow(subscriber, 2);
  EXPECT_EQ(publisher.last_report().nnz_in, 4U);
  expect_served(worker, trainer);
}

TEST(MasterWeights, BelongToPublishersAlone) {
  MasterTrainer trainer;
  State published = trainer.state();
  std::uint8_t hash[16];
  EXPECT_EQ(sparclStateHash(published.get(), hash), sparclUnsupported);
  EXPECT_NE(std::string(sparclGetLastError(nullptr)).find("'weights'"), std::string::npos)
      << sparclGetLastError(nullptr);
  sparclSubscriber_t subscriber = nullptr;
  EXPECT_EQ(sparclSubscriberCreate(&subscriber, published.get(), "127.0.0.1:1", nullptr),
            sparclUnsupported);
  sparclState_t state = nullptr;
  ASSERT_EQ(sparclStateCreate(&state), sparclSuccess);
  const std::uint64_t shape[] = {4}, wide[] = {1ULL << 62};
  const float four[4] = {};
  EXPECT_EQ(sparclStateAddMaster(state, "a", nullptr, sparclBfloat16, 1, shape),
            sparclInvalidArgument);
  EXPECT_NE(std::string(sparclGetLastError(nullptr)).find("master of 'a' is NULL"),
            std::string::npos)
      << sparclGetLastError(nullptr);
  EXPECT_EQ(sparclStateAddMaster(state, "a", four, sparclFloat32, 1, shape), sparclInvalidArgument);
  EXPECT_EQ(sparclStateAddMaster(state, "a", four, sparclInt8, 1, shape), sparclInvalidArgument);
  EXPECT_EQ(sparclStateAddMaster(state, "a", four, sparclBfloat16, -1, shape),
            sparclInvalidArgument);
  EXPECT_EQ(sparclStateAddMaster(state, "a", four, sparclBfloat16, 1, nullptr),
            sparclInvalidArgument);
  EXPECT_EQ(sparclStateAddMaster(state, nullptr, four, sparclBfloat16, 1, shape),
            sparclInvalidArgument);
  EXPECT_EQ(sparclStateAddMaster(nullptr, "a", four, sparclBfloat16, 1, shape),
            sparclInvalidArgument);
  EXPECT_EQ(sparclStateAddMaster(state, "a", four, sparclBfloat16, 1, wide), sparclInvalidArgument);
  EXPECT_EQ(sparclStateAddMaster(state, "a", four, sparclBfloat16, 1, shape), sparclSuccess);
  EXPECT_EQ(sparclStateAddMaster(state, "a", four, sparclBfloat16, 1, shape),
            sparclInvalidArgument);
  EXPECT_EQ(sparclStateDestroy(state), sparclSuccess);
}

}  // namespace
}  // namespace sparcl
