#include "model_size.hpp"

#include <algorithm>
#include <cstdio>
#include <stdexcept>

namespace training {
namespace {

constexpr int kContext = 64;
constexpr int kHeadWidth = 32;

struct NamedSize {
  const char* name;
  ModelSize size;
};
constexpr NamedSize kSizes[] = {{"tiny", {32, 2}}, {"small", {128, 5}}, {"medium", {256, 6}}};

}  // namespace

ModelSize parse_model_size(const std::string& text) {
  for (const NamedSize& named : kSizes) {
    if (text == named.name) return named.size;
  }
  ModelSize size{};
  char more = '\0';
  if (std::sscanf(text.c_str(), "%dx%d%c", &size.width, &size.layers, &more) != 2) {
    throw std::invalid_argument(text + " is none of tiny, small, medium, WIDTHxLAYERS");
  }
  const bool is_usable = size.width >= 32 && size.width <= 4096 && size.width % kHeadWidth == 0 &&
                         size.layers >= 1 && size.layers <= 100;
  if (!is_usable)
    throw std::invalid_argument(
        "the width must be a multiple of 32 up to 4096, with 1 to 100 layers");
  return size;
}

ModelShape shape_of(const ModelSize& size, int vocabulary) {
  return {vocabulary, size.width, size.layers, std::max(1, size.width / kHeadWidth), kContext};
}

}  // namespace training
