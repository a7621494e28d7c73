#pragma once
// The reward, which needs no model: the share of a text's sampled characters that are of a given
// set.

#include <language_model/char_text.hpp>
#include <span>
#include <string>
#include <vector>

namespace training {

// tokens: time-major, of `sequences` texts; those of the last kNewCharacters positions count.
std::vector<double> letter_rewards(const CharText& text, const std::string& letters,
                                   std::span<const Token> tokens, int sequences);

// (reward - mean) / (deviation + 1e-4): the mean over all texts of a step is the baseline.
std::vector<double> advantages_of(std::span<const double> rewards);

}  // namespace training
