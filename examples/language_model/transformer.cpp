#include "transformer.hpp"

#include <algorithm>
#include <cmath>

namespace training {
namespace {

ConstMatrix weight(const float* data, int out, int in) { return {data, out, in, in}; }
Matrix weight(float* data, int out, int in) { return {data, out, in, in}; }

// y = x W^T, and its backward: dx = dy W, dW += dy^T x.
void linear(ConstMatrix x, ConstMatrix w, Matrix y) { matmul(y, x, w.transposed()); }
void linear_backward(ConstMatrix x, ConstMatrix w, ConstMatrix dy, Matrix dx, Matrix dw) {
  matmul(dx, dy, w);
  matmul(dw, dy.transposed(), x, 1, Store::kAdd);
}

void add_rows(Matrix to, ConstMatrix from) {
  for (int i = 0; i < to.rows * to.cols; ++i) to.data[i] += from.data[i];
}

}  // namespace

Transformer::Transformer(const ModelShape& shape, int batch)
    : shape_(shape),
      batch_(batch),
      layout_(shape),
      layers_(static_cast<std::size_t>(shape.layers)) {
  const auto row_count = static_cast<std::size_t>(shape.context) * static_cast<std::size_t>(batch);
  const auto width = static_cast<std::size_t>(shape.width);
  const std::size_t scores = row_count * static_cast<std::size_t>(shape.heads * shape.context);
  for (LayerMemory& layer : layers_) {
    for (auto* memory : {&layer.input, &layer.norm1, &layer.mixed, &layer.middle, &layer.norm2})
      memory->resize(row_count * width);
    layer.qkv.resize(row_count * width * 3);
    layer.up.resize(row_count * width * 4);
    layer.active.resize(row_count * width * 4);
    layer.probabilities.resize(scores);
    layer.statistics1.resize(row_count);
    layer.statistics2.resize(row_count);
  }
  last_.resize(row_count * width);
  norm_.resize(row_count * width);
  statistics_.resize(row_count);
  logits_.resize(row_count * static_cast<std::size_t>(shape.vocabulary));
}

Matrix Transformer::rows(std::vector<float>& memory, int from, int to, int cols) const {
  return {memory.data() + static_cast<std::ptrdiff_t>(from) * batch_ * cols, (to - from) * batch_,
          cols, cols};
}

// One sequence's rows of one head: a strided view, `column` is where the head begins.
Matrix Transformer::head_rows(Matrix all, int sequence, int column, int from, int to) const {
  return {all.row(from * batch_ + sequence) + column, to - from, shape_.head_width(),
          all.stride * batch_};
}

Matrix Transformer::probabilities(LayerMemory& layer, int sequence, int head, int from,
                                  int to) const {
  const auto context = static_cast<std::ptrdiff_t>(shape_.context);
  return {
      layer.probabilities.data() + ((sequence * shape_.heads + head) * context + from) * context,
      to - from, to, shape_.context};
}

void Transformer::attend(LayerMemory& layer, int from, int to) {
  const Matrix qkv = rows(layer.qkv, 0, to, 3 * shape_.width);
  const Matrix mixed = rows(layer.mixed, 0, to, shape_.width);
  const float scale = 1 / std::sqrt(static_cast<float>(shape_.head_width()));
  for (int sequence = 0; sequence < batch_; ++sequence) {
    for (int head = 0; head < shape_.heads; ++head) {
      const int column = head * shape_.head_width();
      const Matrix query = head_rows(qkv, sequence, column, from, to);
      const Matrix key = head_rows(qkv, sequence, column + shape_.width, 0, to);
      const Matrix value = head_rows(qkv, sequence, column + 2 * shape_.width, 0, to);
      const Matrix scores = probabilities(layer, sequence, head, from, to);
      matmul(scores, query, key.transposed(), scale);
      causal_softmax(scores, from);
      matmul(head_rows(mixed, sequence, column, from, to), scores, value);
    }
  }
}

void Transformer::forward(std::span<const float> weights, std::span<const Token> tokens, int from,
                          int to) {
  const ModelParameters<const float> model(layout_, shape_.layers, weights.data());
  const int width = shape_.width;
  const auto part = [&](std::vector<float>& memory, int cols) {
    return rows(memory, from, to, cols);
  };
  const auto statistics_at = [&](std::vector<NormStatistics>& all) {
    return all.data() + static_cast<std::ptrdiff_t>(from) * batch_;
  };

  const Matrix stream = part(layers_.front().input, width);
  for (int i = 0; i < stream.rows; ++i) {
    const int row = from * batch_ + i;
    const float* const character = model.embedding + tokens[static_cast<std::size_t>(row)] *
                                                         static_cast<std::ptrdiff_t>(width);
    const float* const position =
        model.position + row / batch_ * static_cast<std::ptrdiff_t>(width);
    std::transform(character, character + width, position, stream.row(i),
                   [](float a, float b) { return a + b; });
  }
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    LayerMemory& layer = layers_[i];
    const LayerParameters<const float>& w = model.layers[i];
    const Matrix middle = part(layer.middle, width);
    const Matrix output = part(i + 1 < layers_.size() ? layers_[i + 1].input : last_, width);
    const Matrix up = part(layer.up, 4 * width);
    const Matrix active = part(layer.active, 4 * width);
    const auto wide = static_cast<std::size_t>(up.rows) * static_cast<std::size_t>(up.cols);

    layer_norm(part(layer.input, width), w.norm1_gain, w.norm1_bias, part(layer.norm1, width),
               statistics_at(layer.statistics1));
    linear(part(layer.norm1, width), weight(w.qkv, 3 * width, width), part(layer.qkv, 3 * width));
    attend(layer, from, to);
    linear(part(layer.mixed, width), weight(w.attention_out, width, width), middle);
    add_rows(middle, part(layer.input, width));

    layer_norm(middle, w.norm2_gain, w.norm2_bias, part(layer.norm2, width),
               statistics_at(layer.statistics2));
    linear(part(layer.norm2, width), weight(w.up, 4 * width, width), up);
    gelu({up.data, wide}, {active.data, wide});
    linear(active, weight(w.down, width, 4 * width), output);
    add_rows(output, middle);
  }
  layer_norm(part(last_, width), model.norm_gain, model.norm_bias, part(norm_, width),
             statistics_at(statistics_));
  linear(part(norm_, width), weight(model.head, shape_.vocabulary, width),
         part(logits_, shape_.vocabulary));
}

std::span<float> Transformer::logits(int position) {
  const auto size = static_cast<std::size_t>(batch_ * shape_.vocabulary);
  return {logits_.data() + static_cast<std::size_t>(position) * size, size};
}

void Transformer::attend_backward(LayerMemory& layer, int length, ConstMatrix dmixed, Matrix dqkv) {
  const Matrix qkv = rows(layer.qkv, 0, length, 3 * shape_.width);
  const float scale = 1 / std::sqrt(static_cast<float>(shape_.head_width()));
  const Matrix dscores{dscores_.data(), length, length, length};
  for (int sequence = 0; sequence < batch_; ++sequence) {
    for (int head = 0; head < shape_.heads; ++head) {
      const int column = head * shape_.head_width();
      const auto part = [&](Matrix all, int which) {
        return head_rows(all, sequence, column + which * shape_.width, 0, length);
      };
      const ConstMatrix dout{
          dmixed.data + static_cast<std::ptrdiff_t>(sequence) * dmixed.stride + column, length,
          shape_.head_width(), dmixed.stride * batch_};
      const Matrix p = probabilities(layer, sequence, head, 0, length);
      matmul(part(dqkv, 2), p.transposed(), dout);
      matmul(dscores, dout, part(qkv, 2).transposed());
      softmax_backward(p, dscores);
      matmul(part(dqkv, 0), dscores, part(qkv, 1), scale);
      matmul(part(dqkv, 1), dscores.transposed(), part(qkv, 0), scale);
    }
  }
}

// dstream_ comes in as the gradient of the layer's output and leaves as that of its input.
void Transformer::layer_backward(LayerMemory& layer, const LayerParameters<const float>& w,
                                 const LayerParameters<float>& g, int length) {
  const int width = shape_.width;
  const auto all = [&](std::vector<float>& memory, int cols) {
    return rows(memory, 0, length, cols);
  };
  const Matrix dstream = all(dstream_, width);
  const Matrix dwide = all(dwide_, 4 * width);
  const Matrix dqkv = all(dqkv_, 3 * width);
  const Matrix dnorm = all(dnorm_, width);
  const auto wide = static_cast<std::size_t>(dwide.rows) * static_cast<std::size_t>(dwide.cols);

  linear_backward(all(layer.active, 4 * width), weight(w.down, width, 4 * width), dstream, dwide,
                  weight(g.down, width, 4 * width));
  gelu_backward({layer.up.data(), wide}, {dwide.data, wide});
  linear_backward(all(layer.norm2, width), weight(w.up, 4 * width, width), dwide, dnorm,
                  weight(g.up, 4 * width, width));
  layer_norm_backward(all(layer.middle, width), layer.statistics2.data(), w.norm2_gain, dnorm,
                      dstream, g.norm2_gain, g.norm2_bias);

  linear_backward(all(layer.mixed, width), weight(w.attention_out, width, width), dstream, dnorm,
                  weight(g.attention_out, width, width));
  attend_backward(layer, length, dnorm, dqkv);
  linear_backward(all(layer.norm1, width), weight(w.qkv, 3 * width, width), dqkv, dnorm,
                  weight(g.qkv, 3 * width, width));
  layer_norm_backward(all(layer.input, width), layer.statistics1.data(), w.norm1_gain, dnorm,
                      dstream, g.norm1_gain, g.norm1_bias);
}

void Transformer::backward(std::span<const float> weights, std::span<const Token> tokens,
                           int length, std::span<float> gradients) {
  const ModelParameters<const float> model(layout_, shape_.layers, weights.data());
  const ModelParameters<float> grads(layout_, shape_.layers, gradients.data());
  const int width = shape_.width;
  const std::size_t stream = last_.size();
  dstream_.resize(stream);
  dnorm_.resize(stream);
  dqkv_.resize(3 * stream);
  dwide_.resize(4 * stream);
  dscores_.resize(static_cast<std::size_t>(shape_.context) *
                  static_cast<std::size_t>(shape_.context));

  const Matrix dstream = rows(dstream_, 0, length, width);
  const Matrix dnorm = rows(dnorm_, 0, length, width);
  linear_backward(rows(norm_, 0, length, width), weight(model.head, shape_.vocabulary, width),
                  rows(logits_, 0, length, shape_.vocabulary), dnorm,
                  weight(grads.head, shape_.vocabulary, width));
  std::fill(dstream_.begin(), dstream_.end(), 0.0F);
  layer_norm_backward(rows(last_, 0, length, width), statistics_.data(), model.norm_gain, dnorm,
                      dstream, grads.norm_gain, grads.norm_bias);
  for (std::size_t i = layers_.size(); i-- > 0;)
    layer_backward(layers_[i], model.layers[i], grads.layers[i], length);
  for (int i = 0; i < dstream.rows; ++i) {
    float* const dcharacter =
        grads.embedding + tokens[static_cast<std::size_t>(i)] * static_cast<std::ptrdiff_t>(width);
    float* const dposition = grads.position + i / batch_ * static_cast<std::ptrdiff_t>(width);
    for (int j = 0; j < width; ++j) {
      dcharacter[j] += dstream.row(i)[j];
      dposition[j] += dstream.row(i)[j];
    }
  }
}

}  // namespace training
