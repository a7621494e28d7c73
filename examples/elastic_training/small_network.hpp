#pragma once
// A network with one hidden layer that learns another network of the same shape (the teacher), by
// plain gradient descent. All data is drawn from seeds.

#include <cstdint>
#include <random>
#include <vector>

class SmallNetwork {
 public:
  static constexpr int kInputs = 32, kHidden = 64;
  static constexpr std::size_t kWeights = kInputs * kHidden + 2 * kHidden + 1;

  // The weights are the caller's.
  explicit SmallNetwork(std::vector<float>& weights) : weights_(weights) {}
  static std::vector<float> random_weights(std::uint64_t seed);

  double predict(const std::vector<float>& input) const;
  // A step on `samples` of the teacher's answers; returns their mean squared error.
  double step(const SmallNetwork& teacher, std::mt19937_64& random, int samples, double rate);
  // The mean squared error on data that no worker trains on.
  double validate(const SmallNetwork& teacher) const;

 private:
  std::vector<float>& weights_;
};
