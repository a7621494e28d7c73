#pragma once
// Drawing characters from the model's distribution.

#include <span>
#include <vector>

#include "seeded_random.hpp"
#include "transformer.hpp"

namespace training {

// One character by the softmax of logits / temperature.
Token draw_character(std::span<const float> logits, float temperature, SeededRandom& random);

// tokens (context x batch, time-major) hold `from` positions of prompt; positions [from, to) are
// drawn.
void complete(Transformer& model, std::span<const float> weights, std::span<Token> tokens, int from,
              int to, float temperature, SeededRandom& random);

// `count` characters that follow `prompt`; model must have batch 1. If the text exceeds the
// context, sampling continues from the second half of the window.
std::vector<Token> write_on(Transformer& model, std::span<const float> weights,
                            std::span<const Token> prompt, int count, float temperature,
                            SeededRandom& random);

}  // namespace training
