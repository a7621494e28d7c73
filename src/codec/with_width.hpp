#pragma once
// Loops over elements of any width, compiled for each.

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace sparcl::codec {

// Calls visit with a zero of the unsigned type of `bytes`.
template <class Visit>
auto with_width(std::size_t bytes, Visit visit) {
  switch (bytes) {
    case 1:
      return visit(std::uint8_t{0});
    case 2:
      return visit(std::uint16_t{0});
    case 4:
      return visit(std::uint32_t{0});
    default:
      return visit(std::uint64_t{0});
  }
}

template <class T>
T load(const std::byte* array, std::size_t i) {
  T value;
  std::memcpy(&value, array + i * sizeof value, sizeof value);
  return value;
}

}  // namespace sparcl::codec
