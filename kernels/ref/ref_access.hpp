#pragma once
// Elements of arrays that may lie anywhere.

#include <cstddef>
#include <cstring>

namespace sparcl::kernels::ref {

template <class T>
T load(const std::byte* array, std::size_t i) {
  T value;
  std::memcpy(&value, array + i * sizeof value, sizeof value);
  return value;
}

template <class T>
void store(std::byte* array, std::size_t i, T value) {
  std::memcpy(array + i * sizeof value, &value, sizeof value);
}

}  // namespace sparcl::kernels::ref
