#include "small_network.hpp"

#include <cmath>

namespace {

constexpr int kValidation = 512;  // samples

std::vector<float> draw_input(std::mt19937_64& random) {
  std::normal_distribution<float> normal;
  std::vector<float> input(SmallNetwork::kInputs);
  for (float& each : input) each = normal(random);
  return input;
}

// In the order of the weights: hidden layer, its offsets, output layer, its offset.
constexpr int kOffsets = SmallNetwork::kInputs * SmallNetwork::kHidden;
constexpr int kOutput = kOffsets + SmallNetwork::kHidden;
constexpr int kLast = kOutput + SmallNetwork::kHidden;

double hidden(const std::vector<float>& weights, const std::vector<float>& input, int unit) {
  double sum = weights[static_cast<std::size_t>(kOffsets + unit)];
  for (int i = 0; i < SmallNetwork::kInputs; ++i)
    sum +=
        static_cast<double>(weights[static_cast<std::size_t>(unit * SmallNetwork::kInputs + i)]) *
        static_cast<double>(input[static_cast<std::size_t>(i)]);
  return std::tanh(sum);
}

}  // namespace

std::vector<float> SmallNetwork::random_weights(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, 0.2f);
  std::vector<float> weights(kWeights);
  for (float& each : weights) each = normal(random);
  return weights;
}

double SmallNetwork::predict(const std::vector<float>& input) const {
  double sum = weights_[kLast];
  for (int unit = 0; unit < kHidden; ++unit)
    sum += static_cast<double>(weights_[static_cast<std::size_t>(kOutput + unit)]) *
           hidden(weights_, input, unit);
  return sum;
}

double SmallNetwork::step(const SmallNetwork& teacher, std::mt19937_64& random, int samples,
                          double rate) {
  std::vector<double> gradient(kWeights);
  double squares = 0;
  for (int sample = 0; sample < samples; ++sample) {
    const std::vector<float> input = draw_input(random);
    const double error = predict(input) - teacher.predict(input);
    squares += error * error;
    gradient[kLast] += error;
    for (int unit = 0; unit < kHidden; ++unit) {
      const double active = hidden(weights_, input, unit);
      const auto out = static_cast<std::size_t>(kOutput + unit);
      const double back = error * static_cast<double>(weights_[out]) * (1 - active * active);
      gradient[out] += error * active;
      gradient[static_cast<std::size_t>(kOffsets + unit)] += back;
      for (int i = 0; i < kInputs; ++i)
        gradient[static_cast<std::size_t>(unit * kInputs + i)] +=
            back * static_cast<double>(input[static_cast<std::size_t>(i)]);
    }
  }
  for (std::size_t i = 0; i < kWeights; ++i)
    weights_[i] -= static_cast<float>(rate * gradient[i] / samples);
  return squares / samples;
}

double SmallNetwork::validate(const SmallNetwork& teacher) const {
  std::mt19937_64 random(4711);
  double squares = 0;
  for (int sample = 0; sample < kValidation; ++sample) {
    const std::vector<float> input = draw_input(random);
    const double error = predict(input) - teacher.predict(input);
    squares += error * error;
  }
  return squares / kValidation;
}
