#pragma once
// The tensors of the model, and their offsets in one flat array: fp32 master, gradients and bf16
// weights all use the same offsets.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace training {

struct ModelShape {
  int vocabulary;
  int width;
  int layers;
  int heads;
  int context;

  int head_width() const { return width / heads; }
};

struct TensorPlace {
  std::string name;
  std::vector<std::uint64_t> shape;
  std::size_t offset;
  std::size_t count;
};

class ParameterLayout {
 public:
  explicit ParameterLayout(const ModelShape& shape);

  const std::vector<TensorPlace>& tensors() const { return tensors_; }
  std::size_t count() const { return count_; }

 private:
  void add(std::string name, std::vector<int> dimensions);

  std::vector<TensorPlace> tensors_;
  std::size_t count_ = 0;
};

// The same places as pointers: Float is float or const float. Linear weights are [out, in], as
// checkpoints have them.
template <class Float>
struct LayerParameters {
  Float *norm1_gain, *norm1_bias, *qkv, *attention_out, *norm2_gain, *norm2_bias, *up, *down;
};

template <class Float>
struct ModelParameters {
  Float *embedding, *position;
  std::vector<LayerParameters<Float>> layers;
  Float *norm_gain, *norm_bias, *head;

  ModelParameters(const ParameterLayout& layout, int layer_count, Float* flat) {
    auto next = layout.tensors().begin();
    const auto take = [&] { return flat + (next++)->offset; };
    embedding = take();
    position = take();
    for (int i = 0; i < layer_count; ++i) {
      LayerParameters<Float>& layer = layers.emplace_back();
      for (Float** place : {&layer.norm1_gain, &layer.norm1_bias, &layer.qkv, &layer.attention_out,
                            &layer.norm2_gain, &layer.norm2_bias, &layer.up, &layer.down}) {
        *place = take();
      }
    }
    norm_gain = take();
    norm_bias = take();
    head = take();
  }
};

}  // namespace training
