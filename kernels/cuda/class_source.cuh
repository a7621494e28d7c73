#pragma once
// Block routine that reads a block of classes from an untrusted sender
// (docs/reference/wire-format.md: Classes). It does the part that does not depend on the held
// values: the ranks of the changes and their steps, class by class. It refuses the same contents as
// src/codec.

#include "kernels/cuda/bit_source.cuh"
#include "kernels/cuda/block_head.cuh"
#include "kernels/cuda/class_work.hpp"

namespace sparcl::kernels::cuda {

struct WideScanShared {
  std::uint64_t warp_sums[kThreads / kWarp];
};

struct ClassListShared {
  CompactionShared scan;
  WideScanShared wide_scan;
  ClassTable table;
  SuperCounts counts;
  std::uint32_t changes;  // of all classes
  std::uint32_t bits_at;  // the first bit after the head
  bool is_read;           // the head was read
  std::uint32_t is_wrong;
};

// Reads the number at `bits.at`, below 2^32, in the code of sizes.
__device__ inline bool read_number(BitSource& bits, unsigned exponent, std::uint64_t& number) {
  const std::uint32_t word = static_cast<std::uint32_t>(lowest(bits.load32(bits.at), bits.left()));
  const unsigned zeros = word == 0 ? 32 : static_cast<unsigned>(__ffs(static_cast<int>(word)) - 1);
  if (zeros + exponent > 31 || bits.left() < 2 * zeros + 1 + exponent) return false;
  const std::uint64_t suffix = lowest(bits.load64(bits.at + zeros + 1), zeros + exponent);
  number = (((std::uint64_t{1} << zeros) - 1) << exponent) + suffix;
  bits.at += 2 * zeros + 1 + exponent;
  return true;
}

// Called by one thread: the numbers before the lists.
__device__ inline void read_class_head(ClassListShared& shared, BitSource bits,
                                       const unsigned char* bytes, std::uint32_t elements) {
  HeadReader reader{bytes, bits.limit / 8};
  std::uint64_t changes = 0;
  shared.is_read = reader.read_varint(changes) && changes > 0 && changes <= elements;
  if (!shared.is_read) return;
  bits.at = 8 * reader.at;
  shared.changes = static_cast<std::uint32_t>(changes);
  shared.is_read = read_class_numbers(
      shared.table, elements, shared.changes,
      [&](unsigned exponent, std::uint64_t& number) { return read_number(bits, exponent, number); },
      shared.counts);
  shared.bits_at = bits.at;
}

// Part of a list whose marks are all known: `count` positions, with marks from mark_base on.
struct MarkedList {
  std::uint32_t count;
  unsigned shift;
  std::uint32_t planes;  // the first bit of its remainders
  const std::uint32_t* marks;
  std::uint32_t mark_base;

  __device__ std::uint32_t remainder(const BitSource& bits, std::uint32_t i) const {
    std::uint32_t low = 0;
    for (unsigned j = 0; j < shift; ++j) low |= (bits.bit(planes + j * count + i) ? 1U : 0U) << j;
    return low;
  }
};

// Calls emit(i, position) for each if all are below the span. Otherwise returns false without a
// call.
template <class Emit>
__device__ inline bool join_positions(WideScanShared& shared, const MarkedList& list,
                                      const BitSource& bits, std::uint32_t span, Emit emit) {
  if (list.count == 0) return true;
  const unsigned lane = threadIdx.x % kWarp;
  const WarpShare share = share_of_warp(list.count);
  std::uint64_t own = 0, sum = 0;
  for (std::uint32_t i = share.begin + lane; i < share.end; i += kWarp)
    own += list.remainder(bits, i);
  const std::uint64_t before = __shfl_sync(kAllLanes, sum_before(shared, own, &sum), 0);
  const std::uint32_t last = list.count - 1;
  const std::uint64_t end =
      (std::uint64_t{list.marks[last] - list.mark_base - last} << list.shift) + sum + last;
  if (end >= span) return false;  // earlier positions are smaller
  auto so_far = static_cast<std::uint32_t>(before);
  for (std::uint32_t group = share.begin; group < share.end; group += kWarp) {
    const std::uint32_t i = group + lane;
    const std::uint32_t remainder = i < share.end ? list.remainder(bits, i) : 0;
    std::uint32_t of_group = 0;
    const std::uint32_t sum_here = so_far + sum_of_lanes_before(remainder, &of_group) + remainder;
    if (i < share.end) emit(i, ((list.marks[i] - list.mark_base - i) << list.shift) + sum_here + i);
    so_far += of_group;
  }
  return true;
}

// The arrays for a superblock's changes, class by class.
struct ClassLists {
  std::uint32_t* marks;
  std::uint32_t* ranks;
  std::uint32_t* listed;
  std::uint16_t* steps;
};

__device__ inline BlockError read_ranks(ClassListShared& shared, BitSource& bits,
                                        std::uint32_t elements, std::uint32_t* signs,
                                        const ClassLists& lists) {
  const std::uint32_t planes = bits.at;
  std::uint32_t plane_bits = 0;
  for (unsigned c = 0; c < shared.table.cut.count; ++c)
    plane_bits += shared.counts[c].shift * shared.counts[c].changes;
  if (!bits.take(plane_bits)) return BlockError::kLength;
  *signs = bits.at;
  if (!bits.take(shared.changes)) return BlockError::kLength;
  if (!find_marks(shared.scan, bits, bits.left(), shared.changes, lists.marks))
    return BlockError::kLength;
  std::uint32_t first = 0, plane = planes, mark_base = 0;
  for (unsigned c = 0; c < shared.table.cut.count; ++c) {
    const ClassCounts own = shared.counts[c];
    const bool is_inside = join_positions(
        shared.wide_scan, {own.changes, own.shift, plane, lists.marks + first, mark_base}, bits,
        elements, [&](std::uint32_t i, std::uint32_t rank) {
          lists.ranks[first + i] = rank;
          lists.steps[first + i] = bits.bit(*signs + first + i) ? 0xffff : 1;
        });
    if (!is_inside) return BlockError::kPosition;
    first += own.changes;
    plane += own.shift * own.changes;
    if (own.changes > 0) mark_base = lists.marks[first - 1] + 1;
  }
  __syncthreads();
  return BlockError::kNone;
}

// The changes with a listed size, at the index of their size.
__device__ inline BlockError read_exceptions(ClassListShared& shared, BitSource& bits,
                                             const ClassLists& lists) {
  const std::uint32_t planes = bits.at;
  std::uint32_t plane_bits = 0, count = 0;
  for (unsigned c = 0; c < shared.table.cut.count; ++c) {
    if (shared.table.rows[c].all) continue;
    plane_bits += rank_shift(shared.counts[c].changes, shared.counts[c].exceptions) *
                  shared.counts[c].exceptions;
    count += shared.counts[c].exceptions;
  }
  if (!bits.take(plane_bits)) return BlockError::kLength;
  if (!find_marks(shared.scan, bits, bits.left(), count, lists.marks)) return BlockError::kLength;
  std::uint32_t first = 0, size = 0, number = 0, plane = planes, mark_base = 0;
  for (unsigned c = 0; c < shared.table.cut.count; ++c) {
    const ClassCounts own = shared.counts[c];
    if (!shared.table.rows[c].all) {
      const unsigned shift = rank_shift(own.changes, own.exceptions);
      if (!join_positions(shared.wide_scan,
                          {own.exceptions, shift, plane, lists.marks + number, mark_base}, bits,
                          own.changes, [&](std::uint32_t i, std::uint32_t change) {
                            lists.listed[size + i] = first + change;
                          })) {
        return BlockError::kException;
      }
      plane += shift * own.exceptions;
      number += own.exceptions;
      if (own.exceptions > 0) mark_base = lists.marks[number - 1] + 1;
    }
    first += own.changes;
    size += own.exceptions;
  }
  __syncthreads();
  return BlockError::kNone;
}

__device__ inline BlockError read_class_sizes(ClassListShared& shared, BitSource& bits,
                                              std::uint32_t signs, const ClassLists& lists) {
  std::uint32_t count = 0, exponent_bits = 0;
  for (unsigned c = 0; c < shared.table.cut.count; ++c) {
    count += shared.counts[c].exceptions;
    exponent_bits += shared.table.rows[c].exponent * shared.counts[c].exceptions;
  }
  if (!find_marks(shared.scan, bits, bits.left(), count, lists.marks))
    return BlockError::kMagnitude;
  const std::uint32_t suffixes = bits.at;
  const std::uint32_t zeros = count == 0 ? 0 : lists.marks[count - 1] - (count - 1);
  if (bits.left() < std::uint64_t{zeros} + exponent_bits) return BlockError::kMagnitude;
  std::uint32_t first = 0, begin = 0,
                before_class = 0;  // the last one: the bits of exponents of the classes before
  for (unsigned c = 0; c < shared.table.cut.count; ++c) {
    const ClassCounts own = shared.counts[c];
    const unsigned exponent = shared.table.rows[c].exponent,
                   least = shared.table.rows[c].all ? 1 : 2;
    for (std::uint32_t i = begin + threadIdx.x; i < begin + own.exceptions; i += kThreads) {
      const std::uint32_t before = i == 0 ? 0 : lists.marks[i - 1] + 1,
                          own_zeros = lists.marks[i] - before;
      const std::uint32_t change = shared.table.rows[c].all ? first + (i - begin) : lists.listed[i];
      const bool is_negative = bits.bit(signs + change);
      const unsigned length = own_zeros + exponent;
      const std::uint32_t place = suffixes + (before - i) + before_class + (i - begin) * exponent;
      const std::uint32_t magnitude =
          own_zeros > kMaxSizeZeros
              ? ~0U
              : static_cast<std::uint32_t>(lowest(bits.load32(place), length)) + (1U << length) -
                    (1U << exponent) + least;
      if (magnitude > 32'768U - (is_negative ? 0 : 1)) {
        atomicOr(&shared.is_wrong, 1U);
      } else {
        lists.steps[change] = static_cast<std::uint16_t>(is_negative ? 0U - magnitude : magnitude);
      }
    }
    first += own.changes;
    begin += own.exceptions;
    before_class += exponent * own.exceptions;
  }
  bits.at += zeros + exponent_bits;
  __syncthreads();
  return shared.is_wrong != 0 ? BlockError::kStep : BlockError::kNone;
}

__device__ inline BlockError read_class_lists(ClassListShared& shared, BitSource bits,
                                              std::uint32_t elements, const ClassLists& lists) {
  std::uint32_t signs = 0;
  BlockError wrong = read_ranks(shared, bits, elements, &signs, lists);
  if (wrong == BlockError::kNone) wrong = read_exceptions(shared, bits, lists);
  if (wrong == BlockError::kNone) wrong = read_class_sizes(shared, bits, signs, lists);
  if (wrong != BlockError::kNone) return wrong;
  for (std::uint32_t i = threadIdx.x; i < shared.changes; i += kThreads)
    lists.listed[i] = lists.steps[i];
  return bits.ends_cleanly() ? BlockError::kNone : BlockError::kEnd;
}

// Runs for block blockIdx.x, if a block of classes begins there.
__device__ inline void read_classes(ClassListShared& shared, const ClassDecodeWork& work) {
  const std::uint32_t number = blockIdx.x;
  const BlockContent content = work.blocks[number];
  if (content.mode != kClassesBlock || work.errors[number] != BlockError::kNone) return;
  const auto* const table = static_cast<const unsigned char*>(work.contents) + content.offset;
  const std::uint32_t elements = superblock_elements(work.count, number);
  const auto* const words = reinterpret_cast<const std::uint32_t*>(table + kClassTableBytes);
  BitSource bits{words, (content.bytes + 3) / 4, 0, 8 * content.bytes};
  for (unsigned i = threadIdx.x; i < sizeof shared.table; i += kThreads)
    reinterpret_cast<unsigned char*>(&shared.table)[i] = table[i];
  __syncthreads();
  if (threadIdx.x == 0) {
    shared.is_wrong = 0;
    read_class_head(shared, bits, table + kClassTableBytes, elements);
  }
  __syncthreads();
  BlockError error = BlockError::kHead;
  if (shared.is_read) {
    const std::uint64_t before = work.changes.block_starts[number];
    bits.at = shared.bits_at;
    error = read_class_lists(shared, bits, elements,
                             {work.marks + before, work.ranks + before, work.listed + before,
                              static_cast<std::uint16_t*>(work.changes.new_values) + before});
    if (threadIdx.x < kMaxClasses)
      work.found[number * kMaxClasses + threadIdx.x] =
          threadIdx.x < shared.table.cut.count ? shared.counts[threadIdx.x].changes : 0;
  }
  if (threadIdx.x != 0 || error == BlockError::kNone) return;
  work.errors[number] = error;
  atomicAdd(reinterpret_cast<unsigned long long*>(work.refused), 1ULL);
}

}  // namespace sparcl::kernels::cuda
