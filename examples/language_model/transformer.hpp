#pragma once
// A decoder-only transformer over characters: pre-norm, causal attention, GELU, learned positions,
// untied head. fp32 maths.

#include <span>
#include <vector>

#include "layer_maths.hpp"
#include "parameter_layout.hpp"

namespace training {

// The memory of one forward and backward pass over `batch` sequences, and the passes. Everything is
// time-major: row (position * batch + sequence), so that a range of positions is a range of rows.
class Transformer {
 public:
  Transformer(const ModelShape& shape, int batch);

  int batch() const { return batch_; }
  const ModelShape& shape() const { return shape_; }
  const ParameterLayout& layout() const { return layout_; }

  // Computes positions [from, to) of tokens (context x batch). Positions before `from` are taken as
  // the last calls left them: with from > 0 this is decoding with a key-value cache.
  void forward(std::span<const float> weights, std::span<const Token> tokens, int from, int to);

  // Logits of a position that the last forward computed: batch x vocabulary.
  std::span<float> logits(int position);

  // After forward(weights, tokens, 0, length), with the logits replaced by the loss's gradient:
  // adds the gradient of each weight.
  void backward(std::span<const float> weights, std::span<const Token> tokens, int length,
                std::span<float> gradients);

 private:
  struct LayerMemory {
    std::vector<float> input, norm1, qkv, probabilities, mixed, middle, norm2, up, active;
    std::vector<NormStatistics> statistics1, statistics2;
  };

  void attend(LayerMemory& layer, int from, int to);
  void attend_backward(LayerMemory& layer, int length, ConstMatrix dmixed, Matrix dqkv);
  void layer_backward(LayerMemory& layer, const LayerParameters<const float>& weights,
                      const LayerParameters<float>& gradients, int length);
  Matrix rows(std::vector<float>& memory, int from, int to, int cols) const;
  Matrix head_rows(Matrix all, int sequence, int column, int from, int to) const;
  Matrix probabilities(LayerMemory& layer, int sequence, int head, int from, int to) const;

  ModelShape shape_;
  int batch_;
  ParameterLayout layout_;
  std::vector<LayerMemory> layers_;
  std::vector<float> last_, norm_, logits_;
  std::vector<NormStatistics> statistics_;
  // Scratch of the backward pass.
  std::vector<float> dstream_, dwide_, dqkv_, dnorm_, dscores_;
};

}  // namespace training
