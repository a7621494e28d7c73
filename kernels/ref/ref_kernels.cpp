// Scalar bodies, written for readability. They define the results of all other bodies, bit for bit.

#include <algorithm>
#include <type_traits>

#include "kernels/kernel_set.hpp"
#include "kernels/ref/ref_access.hpp"
#include "kernels/ref/ref_accumulate.hpp"
#include "kernels/ref/ref_classes.hpp"
#include "kernels/ref/ref_entry_sum.hpp"
#include "kernels/ref/ref_rans.hpp"
#include "kernels/ref/ref_reduce.hpp"

namespace sparcl::kernels {
namespace {

using ref::load;
using ref::store;

template <class T>
std::size_t diff(const std::byte* base, const std::byte* target, std::size_t count,
                 std::uint32_t first, std::uint16_t* positions) {
  std::size_t found = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (load<T>(base, i) != load<T>(target, i))
      positions[found++] = static_cast<std::uint16_t>(first + i);
  }
  return found;
}

template <class T>
std::size_t diff_values(const std::byte* base, const std::byte* target, std::size_t count,
                        std::uint32_t first, std::uint16_t* positions, std::byte* old_values,
                        std::byte* new_values) {
  std::size_t found = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (load<T>(base, i) == load<T>(target, i)) continue;
    store(old_values, found, load<T>(base, i));
    store(new_values, found, load<T>(target, i));
    positions[found++] = static_cast<std::uint16_t>(first + i);
  }
  return found;
}

template <class T>
void gather(const std::byte* array, const std::uint16_t* positions, std::size_t count,
            std::uint32_t first, std::byte* values, const Upcoming&) {
  for (std::size_t i = 0; i < count; ++i) store(values, i, load<T>(array, positions[i] - first));
}

template <class T>
void scatter(std::byte* array, const std::uint16_t* positions, std::size_t count,
             std::uint32_t first, const std::byte* values, const Upcoming&) {
  for (std::size_t i = 0; i < count; ++i) store(array, positions[i] - first, load<T>(values, i));
}

template <class T>
void exchange(std::byte* array, const std::uint16_t* positions, std::size_t count,
              std::uint32_t first, std::byte* values, const Upcoming&) {
  for (std::size_t i = 0; i < count; ++i) {
    const T held = load<T>(array, positions[i] - first);
    store(array, positions[i] - first, load<T>(values, i));
    store(values, i, held);
  }
}

template <class T>
constexpr T kSignBit = static_cast<T>(T{1} << (8 * sizeof(T) - 1));

template <class T, bool kFloat>
T ord(T bits) {
  if constexpr (!kFloat) return bits;
  return static_cast<T>((bits & kSignBit<T>) ? ~bits : bits | kSignBit<T>);
}

template <class T, bool kFloat>
T unord(T order) {
  if constexpr (!kFloat) return order;
  return static_cast<T>((order & kSignBit<T>) ? order & ~kSignBit<T> : ~order);
}

template <class T, bool kFloat>
void split_steps(const std::byte* old_values, const std::byte* new_values, std::size_t count,
                 std::byte* magnitudes, std::uint64_t* negative) {
  for (std::size_t word = 0; word < count / 64 + 1; ++word) negative[word] = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const T step = static_cast<T>(ord<T, kFloat>(load<T>(new_values, i)) -
                                  ord<T, kFloat>(load<T>(old_values, i)));
    const bool is_negative = (step & kSignBit<T>) != 0;
    store(magnitudes, i, static_cast<T>(is_negative ? T{0} - step : step));
    negative[i / 64] |= std::uint64_t{is_negative} << (i % 64);
  }
}

template <class T, bool kFloat>
void add_steps(const std::byte* old_values, const std::byte* steps, std::size_t count,
               std::byte* new_values) {
  for (std::size_t i = 0; i < count; ++i) {
    const T order = static_cast<T>(ord<T, kFloat>(load<T>(old_values, i)) + load<T>(steps, i));
    store(new_values, i, unord<T, kFloat>(order));
  }
}

template <class T, bool kFloat>
void add_steps_at(std::byte* array, const std::uint16_t* positions, std::size_t count,
                  std::uint32_t first, const std::byte* steps, const Upcoming&) {
  for (std::size_t i = 0; i < count; ++i) {
    std::byte* at = array + (positions[i] - first) * sizeof(T);
    add_steps<T, kFloat>(at, steps + i * sizeof(T), 1, at);
  }
}

template <class T>
std::size_t find_not_one(const std::byte* magnitudes, std::size_t count, std::uint16_t* indices) {
  std::size_t found = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (load<T>(magnitudes, i) != 1) indices[found++] = static_cast<std::uint16_t>(i);
  }
  return found;
}

bool bit_at(const std::byte* bits, std::uint64_t bit) {
  return ((static_cast<unsigned>(bits[bit / 8]) >> (bit % 8)) & 1) != 0;
}

template <class T>
void unit_steps(const std::byte* bits, std::uint64_t bit, std::size_t count, std::byte* steps) {
  for (std::size_t i = 0; i < count; ++i)
    store(steps, i, static_cast<T>(bit_at(bits, bit + i) ? -1 : 1));
}

template <class Position>
std::size_t split_gaps(const Position* positions, std::size_t count, GapDivisor divisor,
                       std::uint16_t* remainders, std::uint16_t* marks) {
  std::uint32_t next = 0;       // the smallest position that the next entry can have
  std::uint32_t quotients = 0;  // the sum of the quotients read
  std::size_t trits = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t gap = positions[i] - next;
    const std::uint32_t remainder = gap % divisor.value();
    remainders[i] = static_cast<std::uint16_t>(remainder);
    trits += remainder >> divisor.shift != 0;
    quotients += gap / divisor.value();
    marks[i] = static_cast<std::uint16_t>(i + quotients);
    next = positions[i] + 1u;
  }
  return trits;
}

template <class Position>
std::uint64_t join_gaps(const std::uint16_t* remainders, const std::uint16_t* marks,
                        std::size_t count, GapDivisor divisor, Position* positions) {
  std::uint64_t position = 0;
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < count; ++i) {
    sum += remainders[i];
    position = (marks[i] - std::uint64_t{i}) * divisor.value() + sum + i;
    positions[i] = static_cast<Position>(position);
  }
  return position;
}

void pack_planes(const std::uint16_t* values, std::size_t count, unsigned planes, BitWriter& out) {
  for (unsigned j = 0; j < planes; ++j) {
    for (std::size_t i = 0; i < count; ++i) out.put((values[i] >> j) & 1u, 1);
  }
}

void unpack_planes(const std::byte* bits, std::uint64_t bit, std::size_t count, unsigned planes,
                   std::uint16_t* values) {
  for (std::size_t i = 0; i < count; ++i) {
    unsigned value = 0;
    for (unsigned j = 0; j < planes; ++j) value |= unsigned{bit_at(bits, bit + j * count + i)} << j;
    values[i] = static_cast<std::uint16_t>(value);
  }
}

void pack_trits(const std::uint16_t* values, std::size_t count, unsigned shift, BitWriter& out) {
  for (std::size_t i = 0; i < count; ++i) out.put(values[i] >> shift != 0 ? 1 : 0, 1);
  for (std::size_t i = 0; i < count; ++i) {
    if (values[i] >> shift != 0) out.put(values[i] >> shift == 2 ? 1 : 0, 1);
  }
}

std::uint64_t unpack_trits(const std::byte* bits, std::uint64_t bit, std::uint64_t limit,
                           std::size_t count, unsigned shift, std::uint16_t* values) {
  if (limit < count) return kNoTrits;
  std::uint64_t used = count;
  for (std::size_t i = 0; i < count; ++i) used += bit_at(bits, bit + i);
  if (limit < used) return kNoTrits;
  std::uint64_t next = bit + count;  // the second bit of the next trit that is not 0
  for (std::size_t i = 0; i < count; ++i) {
    if (bit_at(bits, bit + i))
      values[i] =
          static_cast<std::uint16_t>(values[i] + ((bit_at(bits, next++) ? 2u : 1u) << shift));
  }
  return used;
}

void write_marks(const std::uint16_t* marks, std::size_t count, BitWriter& out) {
  std::uint32_t next = 0;
  for (std::size_t i = 0; i < count; ++i) {
    for (; next < marks[i]; ++next) out.put(0, 1);
    out.put(1, 1);
    next = marks[i] + 1u;
  }
}

std::size_t find_marks(const std::byte* bits, std::uint64_t bit, std::uint64_t limit,
                       std::size_t count, std::uint16_t* marks) {
  std::size_t found = 0;
  for (std::uint64_t i = 0; i < limit && found < count; ++i) {
    if (bit_at(bits, bit + i)) marks[found++] = static_cast<std::uint16_t>(i);
  }
  return found;
}

unsigned floor_log2(std::uint64_t value) {
  return static_cast<unsigned>(std::bit_width(value)) - 1;
}

void gamma_widths(const std::uint64_t* values, std::size_t count, std::uint64_t more,
                  std::uint32_t* widths) {
  for (std::size_t b = 0; b < 64; ++b) widths[b] = 0;
  for (std::size_t i = 0; i < count; ++i) ++widths[floor_log2(values[i] + 1 + more)];
}

std::uint64_t gamma_lengths(const std::uint64_t* values, std::size_t count, unsigned exponent,
                            std::uint8_t* lengths) {
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const unsigned zeros = floor_log2((values[i] >> exponent) + 1);
    lengths[i] = static_cast<std::uint8_t>(zeros + exponent);
    bits += zeros + 1 + lengths[i];
  }
  return bits;
}

void write_gammas(const std::uint64_t* values, const std::uint8_t* lengths, std::size_t count,
                  unsigned exponent, BitWriter& out) {
  for (std::size_t i = 0; i < count; ++i) {
    for (unsigned zeros = lengths[i] - exponent; zeros > 0; --zeros) out.put(0, 1);
    out.put(1, 1);
  }
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t v = (values[i] >> exponent) + 1;
    out.put(low_bits(values[i], exponent), exponent);
    out.put(v - (std::uint64_t{1} << floor_log2(v)), lengths[i] - exponent);
  }
}

std::uint64_t read_gammas(const std::byte* bits, std::uint64_t bit, std::uint64_t limit,
                          std::size_t count, unsigned exponent, std::uint8_t* lengths,
                          std::uint64_t* values) {
  std::uint64_t at = 0;
  for (std::size_t i = 0; i < count; ++i) {
    unsigned zeros = 0;
    for (; at < limit && !bit_at(bits, bit + at); ++at) ++zeros;
    if (at == limit || zeros + exponent > 63) return kNoGammas;
    ++at;
    lengths[i] = static_cast<std::uint8_t>(zeros + exponent);
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (limit - at < lengths[i]) return kNoGammas;
    std::uint64_t suffix = 0;
    for (unsigned j = 0; j < lengths[i]; ++j, ++at)
      suffix |= std::uint64_t{bit_at(bits, bit + at)} << j;
    const std::uint64_t v = (std::uint64_t{1} << (lengths[i] - exponent)) + (suffix >> exponent);
    values[i] = ((v - 1) << exponent) + low_bits(suffix, exponent);
  }
  return at;
}

template <class T, Numbers kNumbers>
T magnitude(T bits) {
  if constexpr (kNumbers == Numbers::kUnsigned) return bits;
  if constexpr (kNumbers == Numbers::kFloat) return static_cast<T>(bits & ~kSignBit<T>);
  return static_cast<T>((bits & kSignBit<T>) != 0 ? T{0} - bits : bits);
}

template <class T, Numbers kNumbers>
std::size_t find_at_least(const std::byte* array, std::size_t count, std::uint32_t first,
                          std::uint64_t least, std::uint16_t* positions) {
  std::size_t found = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (magnitude<T, kNumbers>(load<T>(array, i)) >= least)
      positions[found++] = static_cast<std::uint16_t>(first + i);
  }
  return found;
}

template <class T, Numbers kNumbers>
void magnitude_keys(const std::byte* array, const std::uint16_t* positions, std::size_t count,
                    std::uint32_t first, std::uint64_t cap, std::uint64_t* keys) {
  for (std::size_t i = 0; i < count; ++i) {
    keys[i] =
        std::min<std::uint64_t>(cap, magnitude<T, kNumbers>(load<T>(array, positions[i] - first)));
  }
}

template <class T, Numbers kNumbers>
constexpr SelectKernels select_of() {
  return {find_at_least<T, kNumbers>, magnitude_keys<T, kNumbers>};
}

void add_word(Hash128& sum, std::size_t place, std::uint32_t word) {
  const auto& word_keys = kHashKeys.words[place % kStripeWords];
  const auto& stripe_keys = kHashKeys.stripes[place / kStripeWords];
  sum.low += word * word_keys[0] * stripe_keys[0];
  sum.high += word * word_keys[1] * stripe_keys[1];
}

Hash128 hash_words(const std::byte* bytes, std::size_t byte_count) {
  Hash128 sum;
  for (std::size_t at = 0; at < byte_count; at += 4) {
    std::uint32_t word = 0;
    std::memcpy(&word, bytes + at, byte_count - at < 4 ? byte_count - at : 4);
    add_word(sum, at / 4, word);
  }
  return sum;
}

std::uint64_t copy_sum(const std::byte* from, std::size_t bytes, std::byte* to) {
  SumColumns a{}, b{};
  for (std::size_t row = 0; row < bytes; row += 8 * kSumColumns) {
    for (std::size_t i = 0; i < kSumColumns; ++i) {
      const std::size_t at = row + 8 * i;
      std::uint64_t word = 0;
      if (at < bytes) std::memcpy(&word, from + at, std::min<std::size_t>(8, bytes - at));
      a[i] += word;
      b[i] += a[i];
    }
  }
  if (to != from) std::memcpy(to, from, bytes);
  return sum_of(a, b);
}

// One element, in the one or two words that contain it.
template <class T>
void add_element(Hash128& sum, std::size_t position, T value) {
  const std::size_t at = position * sizeof(T);
  if constexpr (sizeof(T) == 8) {
    add_word(sum, at / 4, static_cast<std::uint32_t>(value));
    add_word(sum, at / 4 + 1, static_cast<std::uint32_t>(value >> 32));
  } else {
    add_word(sum, at / 4, std::uint32_t{value} << (8 * (at % 4)));
  }
}

template <class T>
ChangeHashes hash_changes(const std::uint16_t* positions, std::size_t count,
                          const std::byte* old_values, const std::byte* new_values) {
  ChangeHashes sums;
  for (std::size_t i = 0; i < count; ++i) {
    add_element(sums.old_values, positions[i], load<T>(old_values, i));
    add_element(sums.new_values, positions[i], load<T>(new_values, i));
  }
  return sums;
}

template <class T>
constexpr ElementKernels elements_of() {
  return {diff<T>,
          diff_values<T>,
          gather<T>,
          scatter<T>,
          exchange<T>,
          find_not_one<T>,
          unit_steps<T>,
          hash_changes<T>,
          {split_steps<T, false>, add_steps<T, false>, add_steps_at<T, false>},
          {split_steps<T, true>, add_steps<T, true>, add_steps_at<T, true>},
          {select_of<T, Numbers::kUnsigned>(), select_of<T, Numbers::kSigned>(),
           select_of<T, Numbers::kFloat>()}};
}

}  // namespace

const KernelSet& reference_kernels() {
  static const KernelSet set{"ref",
                             MemorySpace::kHost,
                             {elements_of<std::uint8_t>(), elements_of<std::uint16_t>(),
                              elements_of<std::uint32_t>(), elements_of<std::uint64_t>()},
                             {split_gaps<std::uint16_t>, join_gaps<std::uint16_t>,
                              split_gaps<std::uint32_t>, join_gaps<std::uint32_t>, pack_planes,
                              unpack_planes, pack_trits, unpack_trits, write_marks, find_marks},
                             {gamma_widths, gamma_lengths, write_gammas, read_gammas},
                             kReferenceClassKernels,
                             {ref::rans_encode, ref::rans_decode},
                             hash_words,
                             copy_sum,
                             reference_reduces(),
                             reference_accumulates(),
                             reference_entries()};
  return set;
}

}  // namespace sparcl::kernels
