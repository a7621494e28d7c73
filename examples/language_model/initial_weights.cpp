#include "initial_weights.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#include "seeded_random.hpp"

namespace training {
namespace {

constexpr std::uint64_t kStream = 1;

// The layers' contributions to the stream begin small, so that depth does not amplify them (GPT-2's
// rule). So does the head, so that all characters begin about equally likely. The other deviations
// are heuristics from a few trials with one seed, not an optimum.
float initial_deviation(const TensorPlace& tensor, int layers) {
  if (tensor.name.ends_with("o.weight") || tensor.name.ends_with("down.weight"))
    return 0.02F / std::sqrt(2.0F * static_cast<float>(layers));
  if (tensor.name == "lm_head.weight") return 0.02F;
  return tensor.name.starts_with("layers.") ? 0.05F : 0.1F;
}

}  // namespace

std::vector<float> initial_weights(const ParameterLayout& layout, int layers, std::uint64_t seed) {
  SeededRandom random(seed, kStream);
  std::vector<float> weights(layout.count());
  for (const TensorPlace& tensor : layout.tensors()) {
    const std::span<float> values = std::span(weights).subspan(tensor.offset, tensor.count);
    if (tensor.shape.size() > 1) {
      const float deviation = initial_deviation(tensor, layers);
      for (float& value : values) value = deviation * static_cast<float>(random.normal());
    } else if (tensor.name.ends_with(".weight")) {
      std::fill(values.begin(), values.end(), 1.0F);
    }
  }
  return weights;
}

}  // namespace training
