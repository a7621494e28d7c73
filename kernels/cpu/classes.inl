// Part of cpu_kernels.cpp, compiled once for each instruction set: elements by their exponent
// classes. Branches on what a row of 64 elements holds were the cost of all other ways: at 1 %
// changes, half of the rows have one.

struct ClassOutput {
  std::uint16_t* positions;
  std::byte* old_values;
  std::byte* new_values;
};

// Both lines of a row.
HWY_INLINE void prefetch_row(const std::byte* at) {
  __builtin_prefetch(at + kPrefetchBytes);
  __builtin_prefetch(at + kPrefetchBytes + 64);
}

#if HWY_TARGET == HWY_AVX3_DL
#include "kernels/cpu/class_rows_vbmi2.inl"
#else
#include "kernels/cpu/class_rows.inl"
#endif

// Bodies for a few counts: the classes that a cut has less have no elements.
#define SPARCL_FOR_CLASS_COUNT(count, call) \
  do {                                      \
    if ((count) <= 4) return call<4>;       \
    if ((count) <= 5) return call<5>;       \
    if ((count) <= 6) return call<6>;       \
    if ((count) <= 7) return call<7>;       \
    if ((count) <= 8) return call<8>;       \
    return call<kMaxClasses>;               \
  } while (false)

std::size_t diff_classes(const std::byte* base, const std::byte* target, std::size_t count,
                         std::uint32_t first, const ClassCut& cut, ClassRanks& ranks,
                         std::int8_t* steps, std::uint16_t* positions, std::byte* old_values,
                         std::byte* new_values) {
  const auto body = [&] { SPARCL_FOR_CLASS_COUNT(cut.count, diff_in_classes); }();
  return body(base, target, count, first, cut, ranks, steps, {positions, old_values, new_values});
}

std::size_t find_class_steps(const std::byte* held, std::size_t count, std::uint32_t first,
                             const ClassCut& cut, ClassRanks& ranks, const std::int8_t* steps,
                             std::uint16_t* positions, std::int8_t* found_steps) {
  const auto body = [&] { SPARCL_FOR_CLASS_COUNT(cut.count, find_in_classes); }();
  return body(held, count, first, cut, ranks, steps, positions, found_steps);
}

AddedSteps add_class_steps(std::byte* held, std::size_t count, std::uint32_t first,
                           const ClassCut& cut, ClassRanks& ranks, const std::int8_t* steps,
                           std::uint16_t* far_places) {
  const auto body = [&] { SPARCL_FOR_CLASS_COUNT(cut.count, add_in_classes); }();
  return body(held, count, first, cut, ranks, steps, far_places);
}

#undef SPARCL_FOR_CLASS_COUNT
