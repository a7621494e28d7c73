#pragma once
// The text to learn, as characters (bytes), numbered in the order of their values.

#include <array>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "layer_maths.hpp"
#include "seeded_random.hpp"

namespace training {

// The bytes of all files, one after the other; without files: the licences that every Debian
// machine carries. Throws if a file cannot be read.
std::string read_text(std::vector<std::filesystem::path> files);

// Sequences of inputs and the characters that follow, time-major: [position * batch + sequence].
struct Batch {
  std::vector<Token> tokens, targets;
};

class CharText {
 public:
  explicit CharText(const std::string& text);

  int vocabulary() const { return static_cast<int>(characters_.size()); }
  char character(Token token) const { return characters_[token]; }

  // The last tenth is held out from training.
  std::span<const Token> training() const { return std::span(tokens_).first(training_size_); }
  std::span<const Token> held_out() const { return std::span(tokens_).subspan(training_size_); }

 private:
  std::string characters_;
  std::vector<Token> tokens_;
  std::size_t training_size_;
};

// `batch` sequences of `length` characters, each from a random place of `text`.
Batch draw_batch(std::span<const Token> text, int batch, int length, SeededRandom& random);

}  // namespace training
