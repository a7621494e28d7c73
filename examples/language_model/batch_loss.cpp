#include "batch_loss.hpp"

namespace training {

double loss_of(Transformer& model, std::span<const float> weights, const Batch& batch,
               std::span<float> gradients) {
  const auto vocabulary = static_cast<std::size_t>(model.shape().vocabulary);
  const auto sequences = static_cast<std::size_t>(model.batch());
  const int length = static_cast<int>(batch.tokens.size() / sequences);
  const auto count = static_cast<double>(batch.tokens.size());
  model.forward(weights, batch.tokens, 0, length);
  double loss = 0;
  for (std::size_t i = 0; i < batch.tokens.size(); ++i) {
    const std::span<float> logits = model.logits(static_cast<int>(i / sequences))
                                        .subspan(i % sequences * vocabulary, vocabulary);
    loss += cross_entropy(logits, batch.targets[i], static_cast<float>(1 / count)) / count;
  }
  if (!gradients.empty()) model.backward(weights, batch.tokens, length, gradients);
  return loss;
}

}  // namespace training
