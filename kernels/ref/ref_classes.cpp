// Scalar bodies of the kernels for exponent classes, written to be read.

#include "kernels/ref/ref_classes.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace sparcl::kernels {
namespace {

std::uint16_t load(const std::byte* array, std::size_t i) {
  std::uint16_t value;
  std::memcpy(&value, array + i * sizeof value, sizeof value);
  return value;
}

void store(std::byte* array, std::size_t i, std::uint16_t value) {
  std::memcpy(array + i * sizeof value, &value, sizeof value);
}

std::array<std::uint8_t, 256> classes_of_keys(const ClassCut& cut) {
  std::array<std::uint8_t, 256> classes{};
  for (unsigned key = 0; key < 256; ++key) {
    while (key < cut.lowest[classes[key]]) ++classes[key];
  }
  return classes;
}

std::uint8_t key_of(std::uint16_t value) {
  return static_cast<std::uint8_t>(static_cast<std::uint16_t>(value + value) >> 8);
}

int ord(std::uint16_t bits) {
  return (bits & 0x8000) ? static_cast<std::uint16_t>(~bits) : bits | 0x8000;
}

std::uint16_t unord(std::uint16_t order) {
  return static_cast<std::uint16_t>((order & 0x8000) ? order & 0x7fff : ~order);
}

std::size_t diff_classes(const std::byte* base, const std::byte* target, std::size_t count,
                         std::uint32_t first, const ClassCut& cut, ClassRanks& ranks,
                         std::int8_t* steps, std::uint16_t* positions, std::byte* old_values,
                         std::byte* new_values) {
  const auto classes = classes_of_keys(cut);
  std::size_t found = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint16_t old_value = load(base, i);
    const std::uint16_t new_value = load(target, i);
    const unsigned c = classes[key_of(old_value)];
    const std::uint32_t rank = ranks[c]++;
    if (old_value == new_value) continue;
    const int step = static_cast<std::int16_t>(ord(new_value) - ord(old_value));
    steps[c * kClassStride + rank] = static_cast<std::int8_t>(std::clamp(step, -128, 127));
    store(old_values, found, old_value);
    store(new_values, found, new_value);
    positions[found++] = static_cast<std::uint16_t>(first + i);
  }
  return found;
}

std::size_t find_steps(const std::byte* held, std::size_t count, std::uint32_t first,
                       const ClassCut& cut, ClassRanks& ranks, const std::int8_t* steps,
                       std::uint16_t* positions, std::int8_t* found_steps) {
  const auto classes = classes_of_keys(cut);
  std::size_t found = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const unsigned c = classes[key_of(load(held, i))];
    const std::int8_t step = steps[c * kClassStride + ranks[c]++];
    positions[found] = static_cast<std::uint16_t>(first + i);
    found_steps[found] = step;
    found += step != 0;
  }
  return found;
}

AddedSteps add_steps(std::byte* held, std::size_t count, std::uint32_t first, const ClassCut& cut,
                     ClassRanks& ranks, const std::int8_t* steps, std::uint16_t* far_places) {
  const auto classes = classes_of_keys(cut);
  AddedSteps added;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint16_t value = load(held, i);
    const unsigned c = classes[key_of(value)];
    const int step = steps[c * kClassStride + ranks[c]++];
    if (step == 0) continue;
    ++added.found;
    if (std::abs(step) >= kFarStep) {
      far_places[added.far++] = static_cast<std::uint16_t>(first + i);
    } else {
      store(held, i, unord(static_cast<std::uint16_t>(ord(value) + step)));
    }
  }
  return added;
}

std::size_t take_nonzero(std::int8_t* bytes, std::size_t count, std::uint32_t* places,
                         std::int8_t* values) {
  std::size_t found = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (bytes[i] == 0) continue;
    places[found] = static_cast<std::uint32_t>(i);
    values[found++] = bytes[i];
    bytes[i] = 0;
  }
  return found;
}

void split_steps(const std::int8_t* steps, std::size_t count, std::int8_t* beyond,
                 std::uint64_t* negative) {
  for (std::size_t word = 0; word < count / 64 + 1; ++word) negative[word] = 0;
  for (std::size_t i = 0; i < count; ++i) {
    beyond[i] = static_cast<std::int8_t>(std::abs(int{steps[i]}) - 1);
    negative[i / 64] |= std::uint64_t{steps[i] < 0} << (i % 64);
  }
}

std::uint32_t split_ranks(const std::uint32_t* ranks, std::size_t count, unsigned shift,
                          std::uint32_t mark_base, std::uint16_t* remainders,
                          std::uint32_t* marks) {
  std::uint32_t next = 0;  // the smallest rank that the next entry can have
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t gap = ranks[i] - next;
    remainders[i] = static_cast<std::uint16_t>(gap & ((1u << shift) - 1));
    marks[i] = mark_base + (gap >> shift);
    mark_base = marks[i] + 1;
    next = ranks[i] + 1;
  }
  return mark_base;
}

std::uint64_t join_ranks(const std::uint16_t* remainders, const std::uint32_t* marks,
                         std::size_t count, unsigned shift, std::uint32_t mark_base,
                         std::uint32_t* ranks) {
  std::uint64_t rank = 0;
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < count; ++i) {
    sum += remainders[i];
    rank = ((marks[i] - mark_base - std::uint64_t{i}) << shift) + sum + i;
    ranks[i] = static_cast<std::uint32_t>(rank);
  }
  return rank;
}

void write_marks(const std::uint32_t* marks, std::size_t count, BitWriter& out) {
  std::uint32_t next = 0;
  for (std::size_t i = 0; i < count; ++i) {
    for (; next < marks[i]; ++next) out.put(0, 1);
    out.put(1, 1);
    next = marks[i] + 1;
  }
}

std::size_t find_marks(const std::byte* bits, std::uint64_t bit, std::uint64_t limit,
                       std::size_t count, std::uint32_t* marks) {
  std::size_t found = 0;
  for (std::uint64_t i = 0; i < limit && found < count; ++i) {
    if ((load_bits(bits, bit + i) & 1) != 0) marks[found++] = static_cast<std::uint32_t>(i);
  }
  return found;
}

bool read_sizes(const std::byte* bits, std::uint64_t bit, const std::uint32_t* marks,
                std::size_t count, std::uint32_t mark_base, unsigned exponent,
                std::uint32_t* sizes) {
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t zeros = marks[i] - mark_base;
    mark_base = marks[i] + 1;
    if (zeros > kMaxSizeZeros) return false;
    const unsigned length = zeros + exponent;
    const auto suffix = static_cast<std::uint32_t>(low_bits(load_bits(bits, bit), length));
    bit += length;
    sizes[i] = suffix + (1u << length) - (1u << exponent);
  }
  return true;
}

}  // namespace

const ClassKernels kReferenceClassKernels{diff_classes, find_steps,  add_steps,  take_nonzero,
                                          split_steps,  split_ranks, join_ranks, write_marks,
                                          find_marks,   read_sizes};

}  // namespace sparcl::kernels
