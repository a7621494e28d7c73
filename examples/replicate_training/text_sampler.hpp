#pragma once
// Drawing characters from the model's distribution.

#include <language_model/seeded_random.hpp>
#include <language_model/transformer.hpp>
#include <span>
#include <vector>

namespace training {

// One character by the softmax of logits / temperature.
Token draw_character(std::span<const float> logits, float temperature, SeededRandom& random);

// tokens (context x batch, time-major) hold `from` positions of prompt; positions [from, to) are drawn.
void complete(Transformer& model, std::span<const float> weights, std::span<Token> tokens, int from, int to, float temperature,
              SeededRandom& random);

// `count` characters that follow `prompt`; model must have batch 1. Longer than the context: it goes on from the second half of the
// window.
std::vector<Token> write_on(Transformer& model, std::span<const float> weights, std::span<const Token> prompt, int count,
                            float temperature, SeededRandom& random);

}  // namespace training
