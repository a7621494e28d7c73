#include "kernels/ref/ref_entry_sum.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "kernels/ref/ref_access.hpp"
#include "kernels/ref/ref_combine.hpp"

namespace sparcl::kernels {
namespace {

using ref::combined;
using ref::load;
using ref::store;

bool ascend(const std::uint64_t* indices, std::size_t count) {
  for (std::size_t i = 1; i < count; ++i) {
    if (indices[i - 1] >= indices[i]) return false;
  }
  return true;
}

void lower_indices(const std::uint64_t* indices, std::size_t count, std::uint16_t* positions) {
  for (std::size_t i = 0; i < count; ++i) positions[i] = static_cast<std::uint16_t>(indices[i]);
}

void mark_indices(const std::uint64_t* indices, std::size_t count, std::size_t elements,
                  std::byte* marks) {
  std::memset(marks, 0, elements / 8);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t at = indices[i] % elements;
    marks[at / 8] |= std::byte{1} << (at % 8);
  }
}

std::size_t count_marks(const std::byte* marks, std::size_t bytes) {
  std::size_t count = 0;
  for (std::size_t at = 0; at < bytes; at += 8)
    count += static_cast<std::size_t>(std::popcount(load<std::uint64_t>(marks + at, 0)));
  return count;
}

void raise_positions(const std::uint16_t* positions, std::size_t count, std::uint64_t base, Output,
                     std::uint64_t* indices) {
  for (std::size_t i = 0; i < count; ++i)
    indices[i] = base + load<std::uint16_t>(reinterpret_cast<const std::byte*>(positions), i);
}

void copy_bytes(const std::byte* from, std::size_t bytes, Output, std::byte* to) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

std::size_t mark_positions(const std::uint16_t* positions, std::size_t count, std::uint32_t first,
                           std::size_t elements, std::uint32_t* marks) {
  std::uint32_t next = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const auto at = load<std::uint16_t>(reinterpret_cast<const std::byte*>(positions), i) - first;
    if (at >= elements || at < next) return i;
    next = at + 1;
    marks[at / 32] |= std::uint32_t{1} << (at % 32);
  }
  return count;
}

std::uint32_t count_before(const std::uint32_t* marks, std::size_t words, std::uint32_t* before) {
  std::uint32_t count = 0;
  for (std::size_t word = 0; word < words; ++word) {
    before[word] = count;
    count += static_cast<std::uint32_t>(std::popcount(marks[word]));
  }
  return count;
}

void rank_positions(const std::uint16_t* positions, std::size_t count, std::uint32_t first,
                    const std::uint32_t* marks, const std::uint32_t* before, std::uint16_t* ranks) {
  for (std::size_t i = 0; i < count; ++i) {
    const auto at = load<std::uint16_t>(reinterpret_cast<const std::byte*>(positions), i) - first;
    const std::uint32_t below = (std::uint32_t{1} << (at % 32)) - 1;
    ranks[i] = static_cast<std::uint16_t>(
        before[at / 32] + static_cast<std::uint32_t>(std::popcount(marks[at / 32] & below)));
  }
}

std::size_t list_marks(const std::uint32_t* marks, std::size_t elements, std::uint32_t first,
                       std::uint16_t* positions) {
  std::size_t size = 0;
  for (std::uint32_t at = 0; at < elements; ++at) {
    if ((marks[at / 32] >> (at % 32) & 1) != 0)
      positions[size++] = static_cast<std::uint16_t>(first + at);
  }
  return size;
}

std::uint16_t position(const EntryList& list, std::size_t i) {
  return load<std::uint16_t>(reinterpret_cast<const std::byte*>(list.positions), i);
}

template <class T, ReduceOp kOp>
std::size_t merge(const EntryList& a, const EntryList& b, std::uint16_t* positions,
                  std::byte* accumulators) {
  std::size_t i = 0, j = 0, size = 0;
  while (i < a.count || j < b.count) {
    const bool from_a = i < a.count && (j == b.count || position(a, i) <= position(b, j));
    const bool from_b = j < b.count && (i == a.count || position(b, j) <= position(a, i));
    positions[size] = from_a ? position(a, i) : position(b, j);
    if (from_a && from_b) {
      store(accumulators, size,
            combined<T, kOp>(load<T>(a.accumulators, i), load<T>(b.accumulators, j)));
    } else {
      store(accumulators, size, from_a ? load<T>(a.accumulators, i) : load<T>(b.accumulators, j));
    }
    ++size;
    i += from_a ? 1 : 0;
    j += from_b ? 1 : 0;
  }
  return size;
}

bool holds(const Window& window, std::size_t i) {
  return (window.present[i / 64] >> (i % 64) & 1) != 0;
}

void clear(Window& window) { window.present.fill(0); }

template <class T, ReduceOp kOp>
void put(Window& window, std::size_t i, T value) {
  std::byte* const own = window.accumulators.data();
  store(own, i, holds(window, i) ? combined<T, kOp>(load<T>(own, i), value) : value);
  window.present[i / 64] |= std::uint64_t{1} << (i % 64);
}

template <class T, ReduceOp kOp>
std::size_t add(const EntryList& entries, std::uint32_t first, std::size_t elements,
                Window& window) {
  std::size_t i = 0;
  for (; i < entries.count && position(entries, i) < first + elements; ++i) {
    put<T, kOp>(window, (position(entries, i) - first) % (kWindowBytes / sizeof(T)),
                load<T>(entries.accumulators, i));
  }
  return i;
}

bool is_marked(const std::byte* marks, std::size_t i) {
  return (marks[i / 8] >> (i % 8) & std::byte{1}) != std::byte{0};
}

template <class T, ReduceOp kOp>
std::size_t add_marked(const EntryList& entries, std::size_t elements, Window& window) {
  std::size_t size = 0;
  for (std::size_t i = 0; i < elements; ++i) {
    if (is_marked(entries.marks, i)) put<T, kOp>(window, i, load<T>(entries.accumulators, size++));
  }
  return size;
}

template <class T, ReduceOp kOp>
void fold(Window& into, Window& other, std::size_t elements) {
  for (std::size_t i = 0; i < elements; ++i) {
    if (holds(other, i)) put<T, kOp>(into, i, load<T>(other.accumulators.data(), i));
  }
  clear(other);
}

template <class T>
std::size_t take(Window& window, std::uint32_t first, std::size_t elements,
                 std::uint16_t* positions, std::byte* accumulators) {
  std::size_t size = 0;
  for (std::size_t i = 0; i < elements; ++i) {
    if (!holds(window, i)) continue;
    positions[size] = static_cast<std::uint16_t>(first + i);
    store(accumulators, size++, load<T>(window.accumulators.data(), i));
  }
  clear(window);
  return size;
}

template <class T>
std::size_t take_marked(Window& window, std::size_t elements, std::byte* marks,
                        std::byte* accumulators) {
  std::size_t size = 0;
  std::memcpy(marks, window.present.data(), elements / 8);
  for (std::size_t i = 0; i < elements; ++i) {
    if (holds(window, i)) store(accumulators, size++, load<T>(window.accumulators.data(), i));
  }
  clear(window);
  return size;
}

template <class T, ReduceOp kOp>
constexpr SparseSumKernels kSum{merge<T, kOp>, clear,   add<T, kOp>,    add_marked<T, kOp>,
                                fold<T, kOp>,  take<T>, take_marked<T>, false};

template <class T>
constexpr std::array<SparseSumKernels, kReduceOps> kSums{
    kSum<T, ReduceOp::kSum>, kSum<T, ReduceOp::kProd>, kSum<T, ReduceOp::kMax>,
    kSum<T, ReduceOp::kMin>};

}  // namespace

EntryKernels reference_entries() {
  EntryKernels kernels{ascend,     lower_indices,  mark_indices, count_marks,    raise_positions,
                       copy_bytes, mark_positions, count_before, rank_positions, list_marks,
                       {}};
  const auto set = [&](DataType type, const auto& sums) {
    kernels.sums[static_cast<std::size_t>(type)] = sums;
  };
  set(DataType::kInt8, kSums<std::int8_t>);
  set(DataType::kUint8, kSums<std::uint8_t>);
  set(DataType::kInt16, kSums<std::int16_t>);
  set(DataType::kUint16, kSums<std::uint16_t>);
  set(DataType::kInt32, kSums<std::int32_t>);
  set(DataType::kUint32, kSums<std::uint32_t>);
  set(DataType::kInt64, kSums<std::int64_t>);
  set(DataType::kUint64, kSums<std::uint64_t>);
  for (const DataType type : {DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16,
                              DataType::kFloat8e4m3, DataType::kFloat8e5m2})
    set(type, kSums<float>);
  set(DataType::kFloat64, kSums<double>);
  using Truth = std::uint8_t;  // sum and max are "or", prod and min are "and"
  set(DataType::kBool, std::array{kSum<Truth, ReduceOp::kMax>, kSum<Truth, ReduceOp::kMin>,
                                  kSum<Truth, ReduceOp::kMax>, kSum<Truth, ReduceOp::kMin>});
  return kernels;
}

}  // namespace sparcl::kernels
