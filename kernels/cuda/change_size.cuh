#pragma once
// Which changes are larger than a threshold (src/codec/change_rule.hpp): |new - old| of both as
// float64; what involves a NaN is.

#include <type_traits>

#include "kernels/cuda/small_float.cuh"

namespace sparcl::kernels::cuda {

template <unsigned kBytes>
using Bits = std::conditional_t<
    kBytes == 8, std::uint64_t,
    std::conditional_t<kBytes == 4, std::uint32_t,
                       std::conditional_t<kBytes == 2, std::uint16_t, std::uint8_t>>>;

// Element types: how their bits are read as a number.
template <class Number>
struct NativeElement {
  using Word = Bits<sizeof(Number)>;
  __device__ static double number(Word word) { return static_cast<double>(bits_as<Number>(word)); }
};
template <class Format, class WordType>
struct SmallElement {
  using Word = WordType;
  __device__ static double number(Word word) { return static_cast<double>(Format::widen(word)); }
};

// A predicate for diff_tile().
template <class Element>
struct IsLargerThan {
  using Word = typename Element::Word;
  double threshold;

  __device__ bool operator()(Word old_value, Word new_value) const {
    const double change = Element::number(new_value) - Element::number(old_value);
    return !(change <= threshold && -change <= threshold);
  }
};

}  // namespace sparcl::kernels::cuda
