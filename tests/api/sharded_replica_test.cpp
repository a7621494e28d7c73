// Workers of a sharded model, through the public interface: each holds its slices of what a trainer
// publishes.

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "sparcl/sparcl.hpp"

namespace sparcl {
namespace {

constexpr std::uint64_t kOut = 96, kIn = 640, kParts = 4;

// float32 masters, served as bfloat16, and a bias that is served as it is.
struct ShardedTrainer {
  ShardedTrainer() : weights(kOut * kIn), bias(kOut) {
    state.add_master("weights", weights.data(), sparclBfloat16, {kOut, kIn});
    state.add("bias", std::span(bias), {kOut});
  }
  void step(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::normal_distribution<float> normal;
    for (int i = 0; i < 2000; ++i) weights[random() % weights.size()] += normal(random);
    bias[random() % kOut] += normal(random);
  }
  std::uint16_t served(std::uint64_t row, std::uint64_t column) const {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &weights[row * kIn + column], sizeof bits);
    return static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
  }
  std::vector<float> weights, bias;
  State state;
};

// Of part `part`: columns of the weights, rows of the bias.
struct ShardedWorker {
  ShardedWorker(const std::string& address, std::uint64_t first)
      : part(first),
        columns(kOut * kIn / kParts),
        rows(kOut / kParts),
        state(make_state()),
        subscriber(state, address) {}
  State make_state() {
    State made;
    const std::uint64_t width = kIn / kParts, height = kOut / kParts;
    made.add_slice("weights", columns.data(), sparclBfloat16, {kOut, kIn}, {0, part * width},
                   {kOut, width});
    made.add_slice("bias", std::span(rows), {kOut}, {part * height}, {height});
    return made;
  }
  void follow(std::uint64_t version, const ShardedTrainer& trainer) {
    std::uint64_t held = 0;
    while (held < version) {
      const auto next = subscriber.next(20.0);
      ASSERT_TRUE(next.has_value());
      held = *next;
    }
    const std::uint64_t width = kIn / kParts, height = kOut / kParts;
    for (std::uint64_t row = 0; row < kOut; ++row) {
      for (std::uint64_t i = 0; i < width; ++i) {
        ASSERT_EQ(columns[row * width + i], trainer.served(row, part * width + i))
            << row << " " << i;
      }
    }
    ASSERT_EQ(std::memcmp(rows.data(), &trainer.bias[part * height], height * sizeof(float)), 0);
  }

  std::uint64_t part;
  std::vector<std::uint16_t> columns;
  std::vector<float> rows;
  State state;
  Subscriber subscriber;
};

TEST(ShardedReplica, HoldsItsSlicesOfWhatIsPublished) {
  ShardedTrainer trainer;
  Publisher publisher(trainer.state, {.listen = "127.0.0.1:0"});
  std::vector<std::unique_ptr<ShardedWorker>> workers;
  for (std::uint64_t part = 0; part < kParts; ++part)
    workers.push_back(std::make_unique<ShardedWorker>(publisher.address(), part));
  for (std::uint64_t version = 1; version <= 6; ++version) {
    trainer.step(version);
    publisher.publish(version);
    for (const auto& each : workers) {
      each->follow(version, trainer);
      if (HasFatalFailure()) return;
    }
  }
  publisher.wait(6, kParts, 20.0);
}

TEST(ShardedReplica, ATensorThatIsNotTheTrainersIsNamed) {
  ShardedTrainer trainer;
  Publisher publisher(trainer.state, {.listen = "127.0.0.1:0"});
  publisher.publish(1);
  std::vector<float> rows(10);
  State state;
  state.add_slice("bias", std::span(rows), {kOut + 1}, {0}, {10});
  Subscriber subscriber(state, publisher.address());
  std::string text;
  for (int i = 0; i < 100 && text.empty(); ++i) {
    try {
      (void)subscriber.next(0.1);
    } catch (const Error& error) {
      EXPECT_EQ(error.result(), sparclMismatch);
      text = error.what();
    }
  }
  EXPECT_NE(text.find("tensor 'bias' is float32 [96], wanted is float32 [10] at [0] of [97]"),
            std::string::npos)
      << text;
}

}  // namespace
}  // namespace sparcl
