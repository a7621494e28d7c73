#include "char_text.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>
#include <stdexcept>

namespace training {
namespace {

constexpr const char* kDefaultFolder = "/usr/share/common-licenses";

std::vector<std::filesystem::path> default_files() {
  std::vector<std::filesystem::path> files;
  if (std::filesystem::is_directory(kDefaultFolder)) {
    for (const auto& entry : std::filesystem::directory_iterator(kDefaultFolder)) {
      if (entry.is_regular_file() && !entry.is_symlink()) files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  if (files.empty())
    throw std::runtime_error(std::string("no text files in ") + kDefaultFolder +
                             "; name some with --text");
  return files;
}

}  // namespace

std::string read_text(std::vector<std::filesystem::path> files) {
  if (files.empty()) files = default_files();
  std::string text;
  for (const auto& path : files) {
    std::ifstream file(path, std::ios::binary);
    text.append(std::istreambuf_iterator<char>(file), {});
    if (!file) throw std::runtime_error("cannot read " + path.string());
  }
  return text;
}

CharText::CharText(const std::string& text) {
  const std::set<char> used(text.begin(), text.end());
  characters_.assign(used.begin(), used.end());
  for (const char character : text)
    tokens_.push_back(static_cast<Token>(characters_.find(character)));
  training_size_ = tokens_.size() - tokens_.size() / 10;
}

Batch draw_batch(std::span<const Token> text, int batch, int length, SeededRandom& random) {
  const auto size = static_cast<std::size_t>(length);
  const auto count = static_cast<std::size_t>(batch);
  if (text.size() <= size)
    throw std::runtime_error("the text is too short: " + std::to_string(text.size()) +
                             " characters to draw from");
  Batch drawn{std::vector<Token>(size * count), std::vector<Token>(size * count)};
  for (std::size_t sequence = 0; sequence < count; ++sequence) {
    const std::size_t start = random.below(text.size() - size);
    for (std::size_t i = 0; i < size; ++i) {
      drawn.tokens[i * count + sequence] = text[start + i];
      drawn.targets[i * count + sequence] = text[start + i + 1];
    }
  }
  return drawn;
}

}  // namespace training
