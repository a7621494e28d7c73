#pragma once
// Steps between values, and the codes of their sizes (docs/reference/wire-format.md), for device
// code.

#include "kernels/cuda/device_work.hpp"
#include "kernels/gamma.hpp"

namespace sparcl::kernels::cuda {

template <class Word>
constexpr Word kSignOf = static_cast<Word>(Word{1} << (8 * sizeof(Word) - 1));

template <class Word>
__device__ inline Word ord(Word bits, bool is_float) {
  if (!is_float) return bits;
  return static_cast<Word>((bits & kSignOf<Word>) != 0 ? ~bits : bits | kSignOf<Word>);
}
template <class Word>
__device__ inline Word from_ord(Word order, bool is_float) {
  if (!is_float) return order;
  return static_cast<Word>((order & kSignOf<Word>) != 0 ? order & static_cast<Word>(~kSignOf<Word>)
                                                        : ~order);
}

struct Step {
  std::uint64_t magnitude;
  bool is_negative;
};
template <class Word>
__device__ inline Step step_between(Word old_value, Word new_value, bool is_float) {
  const Word step = static_cast<Word>(ord(new_value, is_float) - ord(old_value, is_float));
  const bool is_negative = (step & kSignOf<Word>) != 0;
  return {is_negative ? static_cast<Word>(Word{0} - step) : step, is_negative};
}

// m, from |d|: `less` is 1 if all sizes are coded, otherwise 2.
__device__ inline std::uint64_t coded_size(std::uint64_t magnitude, unsigned less) {
  return (magnitude - less) & (~std::uint64_t{0} >> 1);  // below 2^63 by definition, for any values
}

}  // namespace sparcl::kernels::cuda
