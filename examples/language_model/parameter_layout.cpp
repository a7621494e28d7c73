#include "parameter_layout.hpp"

#include <utility>

namespace training {

// The order is that of ModelParameters.
ParameterLayout::ParameterLayout(const ModelShape& shape) {
  const int width = shape.width;
  add("embed.weight", {shape.vocabulary, width});
  add("pos.weight", {shape.context, width});
  for (int i = 0; i < shape.layers; ++i) {
    const std::string layer = "layers." + std::to_string(i) + ".";
    add(layer + "input_layernorm.weight", {width});
    add(layer + "input_layernorm.bias", {width});
    add(layer + "qkv.weight", {3 * width, width});
    add(layer + "o.weight", {width, width});
    add(layer + "post_layernorm.weight", {width});
    add(layer + "post_layernorm.bias", {width});
    add(layer + "up.weight", {4 * width, width});
    add(layer + "down.weight", {width, 4 * width});
  }
  add("norm.weight", {width});
  add("norm.bias", {width});
  add("lm_head.weight", {shape.vocabulary, width});
}

void ParameterLayout::add(std::string name, std::vector<int> dimensions) {
  TensorPlace tensor{std::move(name), {}, count_, 1};
  for (const int dimension : dimensions) {
    tensor.shape.push_back(static_cast<std::uint64_t>(dimension));
    tensor.count *= static_cast<std::size_t>(dimension);
  }
  count_ += tensor.count;
  tensors_.push_back(std::move(tensor));
}

}  // namespace training
