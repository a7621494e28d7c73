#include "text_sampler.hpp"

#include <algorithm>
#include <cmath>

namespace training {

Token draw_character(std::span<const float> logits, float temperature, SeededRandom& random) {
  const float largest = *std::max_element(logits.begin(), logits.end());
  const auto chance = [&](float logit) {
    return std::exp(static_cast<double>(logit - largest) / temperature);
  };
  double sum = 0;
  for (const float logit : logits) sum += chance(logit);
  double left = random.uniform() * sum;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    left -= chance(logits[i]);
    if (left < 0) return static_cast<Token>(i);
  }
  return static_cast<Token>(std::max_element(logits.begin(), logits.end()) -
                            logits.begin());  // rounding ate the last one's share
}

void complete(Transformer& model, std::span<const float> weights, std::span<Token> tokens, int from,
              int to, float temperature, SeededRandom& random) {
  const auto vocabulary = static_cast<std::size_t>(model.shape().vocabulary);
  const auto batch = static_cast<std::size_t>(model.batch());
  for (int position = from; position < to; ++position) {
    model.forward(weights, tokens, position == from ? 0 : position - 1, position);
    const std::span<const float> logits = model.logits(position - 1);
    for (std::size_t i = 0; i < batch; ++i) {
      tokens[static_cast<std::size_t>(position) * batch + i] =
          draw_character(logits.subspan(i * vocabulary, vocabulary), temperature, random);
    }
  }
}

std::vector<Token> write_on(Transformer& model, std::span<const float> weights,
                            std::span<const Token> prompt, int count, float temperature,
                            SeededRandom& random) {
  const auto context = static_cast<std::size_t>(model.shape().context);
  std::vector<Token> all(prompt.begin(), prompt.end());
  std::vector<Token> window(context);
  const std::size_t wanted = all.size() + static_cast<std::size_t>(count);
  while (all.size() < wanted) {
    const std::size_t known = std::min(all.size(), context / 2);
    const std::size_t end = std::min(context, known + wanted - all.size());
    std::copy(all.end() - static_cast<std::ptrdiff_t>(known), all.end(), window.begin());
    complete(model, weights, window, static_cast<int>(known), static_cast<int>(end), temperature,
             random);
    all.insert(all.end(), window.begin() + static_cast<std::ptrdiff_t>(known),
               window.begin() + static_cast<std::ptrdiff_t>(end));
  }
  return {all.begin() + static_cast<std::ptrdiff_t>(prompt.size()), all.end()};
}

}  // namespace training
