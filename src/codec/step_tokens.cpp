#include "src/codec/step_tokens.hpp"

#include <algorithm>
#include <cstring>

#include "src/codec/with_width.hpp"

namespace sparcl::codec {
namespace {

// fp64's exponents are cut to the range of fp32's: eight bits must do.
constexpr int kFirstExponent = 896;

template <class T>
std::uint8_t key_of(T bits) {
  constexpr unsigned kWidth = 8 * sizeof(T);
  if constexpr (sizeof(T) == 8) {
    return static_cast<std::uint8_t>(
        std::clamp(static_cast<int>(bits << 1 >> 53) - kFirstExponent, 0, 255));
  } else {
    return static_cast<std::uint8_t>(static_cast<T>(bits << 1) >> (kWidth - 8));
  }
}

template <class T>
void keys_of(const std::byte* elements, std::size_t count, std::uint8_t* keys) {
  for (std::size_t i = 0; i < count; ++i) {
    T bits;
    std::memcpy(&bits, elements + i * sizeof bits, sizeof bits);
    keys[i] = key_of(bits);
  }
}

}  // namespace

void element_keys(DataType type, const std::byte* elements, std::size_t count, std::uint8_t* keys) {
  if (!info(type).is_float) {
    std::fill_n(keys, count, std::uint8_t{0});
    return;
  }
  with_width(element_bytes(type),
             [&](auto zero) { keys_of<decltype(zero)>(elements, count, keys); });
}

}  // namespace sparcl::codec
