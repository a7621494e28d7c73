#include "src/sparse/selection/candidates.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "kernels/kernel_set.hpp"

namespace sparcl::sparse {
namespace {

using kernels::Numbers;

// Bits: the accumulator's bits.
template <Numbers kNumbers, class Bits>
Bits key_of(Bits bits) {
  constexpr Bits kSign = Bits{1} << (8 * sizeof(Bits) - 1);
  if constexpr (kNumbers == Numbers::kFloat) return bits & ~kSign;
  if constexpr (kNumbers == Numbers::kSigned) return (bits & kSign) != 0 ? Bits{0} - bits : bits;
  return bits;
}

template <class Bits, Numbers kNumbers>
Bits key_of(const std::byte* accumulator) {
  Bits bits;
  std::memcpy(&bits, accumulator, sizeof bits);
  return key_of<kNumbers>(bits);
}

// The k-th largest key, 0 < k <= count, and how many keys equal to it are among the k. Counts keys
// in 4,096 ranges and continues in the range that contains it: 2 or 3 rounds for float32.
template <class Bits, Numbers kNumbers>
Bits kth_key(const std::byte* accumulators, std::uint64_t count, std::uint64_t k,
             std::uint64_t& ties) {
  Bits low = std::numeric_limits<Bits>::max(), high = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const Bits key = key_of<Bits, kNumbers>(accumulators + i * sizeof(Bits));
    low = std::min(low, key);
    high = std::max(high, key);
  }
  while (low < high && k < count) {
    const int width = std::bit_width(static_cast<Bits>(high - low));
    const int shift = width > 12 ? width - 12 : 0;
    std::array<std::uint64_t, 4096> counts{};
    for (std::uint64_t i = 0; i < count; ++i) {
      const Bits key = key_of<Bits, kNumbers>(accumulators + i * sizeof(Bits));
      if (key >= low && key <= high) ++counts[(key - low) >> shift];
    }
    Bits range = (high - low) >> shift;
    for (; counts[range] < k; --range) k -= counts[range];
    low += range << shift;
    high =
        low + std::min<Bits>(high - low, (Bits{1} << shift) - 1);  // low + this could exceed Bits
  }
  ties = k;
  return low;
}

template <class Bits, Numbers kNumbers>
std::uint64_t cut_to(std::uint64_t* indices, std::byte* accumulators, std::uint64_t count,
                     std::uint64_t k) {
  std::uint64_t ties = 0;
  const Bits last = kth_key<Bits, kNumbers>(accumulators, count, std::min(k, count), ties);
  if (k >= count) return last;
  std::uint64_t kept = 0;
  for (std::uint64_t i = 0; i < count;
       ++i) {  // without branches: most are kept, but which ones is not predictable
    Bits accumulator;
    std::memcpy(&accumulator, accumulators + i * sizeof(Bits), sizeof(Bits));
    const Bits key = key_of<kNumbers>(accumulator);
    const bool is_tie = key == last && ties > 0;
    ties -= is_tie;
    indices[kept] = indices[i];
    std::memcpy(accumulators + kept * sizeof(Bits), &accumulator, sizeof(Bits));
    kept += key > last || is_tie;
  }
  return last;
}

template <class Bits, class Visit>
auto with_numbers(DataType type, const Visit& visit) {
  switch (kernels::numbers_of(type)) {
    case Numbers::kFloat:
      return visit.template operator()<Bits, Numbers::kFloat>();
    case Numbers::kSigned:
      return visit.template operator()<Bits, Numbers::kSigned>();
    default:
      return visit.template operator()<Bits, Numbers::kUnsigned>();
  }
}

// visit.operator()<Bits, kNumbers>() for an accumulator's type.
template <class Visit>
auto with_accumulator(DataType type, const Visit& visit) {
  return element_bytes(type) == 8 ? with_numbers<std::uint64_t>(type, visit)
                                  : with_numbers<std::uint32_t>(type, visit);
}

}  // namespace

Candidates::Candidates(DataType accumulator)
    : type_(accumulator), bytes_(element_bytes(accumulator)) {}

void Candidates::reserve(std::uint64_t capacity) {
  if (capacity <= capacity_) return;
  capacity_ = size_ = 0;
  indices_.reset();  // frees the old ones before the new ones are allocated
  accumulators_.reset();
  indices_ = std::make_unique_for_overwrite<std::uint64_t[]>(capacity);
  accumulators_ = std::make_unique_for_overwrite<std::byte[]>(capacity * bytes_);
  capacity_ = capacity;
}

void Candidates::add(std::uint64_t first, const std::uint16_t* positions, std::size_t count) {
  std::uint64_t* indices = indices_.get() + size_;
  for (std::size_t i = 0; i < count; ++i) indices[i] = first + positions[i];
  size_ += count;
}

std::uint64_t Candidates::cut(std::uint64_t begin, std::uint64_t k) {
  const std::uint64_t count = size_ - begin;
  size_ = begin + std::min(count, k);
  if (size_ == begin) return 0;
  return with_accumulator(type_, [&]<class Bits, Numbers kNumbers>() -> std::uint64_t {
    return cut_to<Bits, kNumbers>(indices_.get() + begin, accumulators_.get() + begin * bytes_,
                                  count, k);
  });
}

std::uint64_t Candidates::key(const std::byte* accumulator) const {
  return with_accumulator(type_, [&]<class Bits, Numbers kNumbers>() -> std::uint64_t {
    return key_of<Bits, kNumbers>(accumulator);
  });
}

}  // namespace sparcl::sparse
