#pragma once
// Bits from an untrusted sender, read by a block of threads. No read is out of bounds: bits after
// the words of a content read as zeros. The caller uses `at` and `limit` to check whether bits
// belong to the content.

#include "kernels/bit_list.hpp"
#include "kernels/cuda/bit_window.cuh"
#include "kernels/cuda/rice_list.cuh"

namespace sparcl::kernels::cuda {

// All threads hold one, with the same numbers. Contents have fewer than 2^28 bytes, so that 32 bits
// count their bits.
struct BitSource {
  const std::uint32_t* words;  // its last one may have bytes of what comes after
  std::uint32_t word_count;
  std::uint32_t at;     // the next bit
  std::uint32_t limit;  // the first that does not belong to it

  __device__ std::uint32_t left() const { return limit - at; }
  __device__ std::uint32_t word(std::uint32_t i) const { return i < word_count ? words[i] : 0; }
  // 32, or 64, bits from any place on.
  __device__ std::uint32_t load32(std::uint32_t bit) const {
    const std::uint64_t both = word(bit / 32) | static_cast<std::uint64_t>(word(bit / 32 + 1))
                                                    << 32;
    return static_cast<std::uint32_t>(both >> (bit % 32));
  }
  __device__ std::uint64_t load64(std::uint32_t bit) const {
    return load32(bit) | static_cast<std::uint64_t>(load32(bit + 32)) << 32;
  }
  __device__ bool bit(std::uint32_t place) const {
    return (word(place / 32) >> (place % 32) & 1) != 0;
  }

  __device__ bool take(std::uint32_t bits) {
    if (left() < bits) return false;
    at += bits;
    return true;
  }
  // Fewer than eight bits, and zeros.
  __device__ bool ends_cleanly() const { return left() < 8 && lowest(load32(at), left()) == 0; }
};

// How many of `count` bits from `place` on are 1.
__device__ inline std::uint32_t count_ones(BlockSumsShared& shared, const BitSource& bits,
                                           std::uint32_t place, std::uint32_t count) {
  std::uint32_t own = 0;
  for (std::uint32_t i = 32 * threadIdx.x; i < count; i += 32 * kThreads)
    own += static_cast<std::uint32_t>(
        __popc(static_cast<std::uint32_t>(lowest(bits.load32(place + i), count - i))));
  return static_cast<std::uint32_t>(sum_of_block(shared, own));
}

// Reads a unary part: marks[i] = the distance of the i-th 1 from bits.at, for `count` ones among
// the next `limit` bits. Moves past the last one. False if there are fewer.
__device__ inline bool find_marks(CompactionShared& shared, BitSource& bits, std::uint32_t limit,
                                  std::uint32_t count, std::uint32_t* marks) {
  std::uint32_t found = 0;
  for (std::uint32_t first = 0; first < limit && found < count; first += 32 * kThreads) {
    const std::uint32_t place = first + 32 * threadIdx.x;
    std::uint32_t own =
        place < limit
            ? static_cast<std::uint32_t>(lowest(bits.load32(bits.at + place), limit - place))
            : 0;
    std::uint32_t total = 0;
    std::uint32_t number =
        found + sum_before(shared, static_cast<std::uint32_t>(__popc(own)), &total);
    for (; own != 0 && number < count; own &= own - 1)
      marks[number++] = place + static_cast<std::uint32_t>(__ffs(static_cast<int>(own)) - 1);
    found += total;
  }
  __syncthreads();
  if (found < count) return false;
  if (count > 0) bits.at += marks[count - 1] + 1;
  return true;
}

// The locations of the parts of a list of positions that is being read.
struct RiceSource {
  std::uint32_t span, count;
  GapDivisor by;
  std::uint32_t planes = 0, trits = 0, twos = 0;  // the first bit of each

  // Moves past the planes and trits. False if there are too few bits.
  __device__ bool open(BlockSumsShared& shared, BitSource& bits) {
    planes = bits.at;
    if (!bits.take(by.shift * count)) return false;
    trits = bits.at;
    if (!by.thirds) return true;
    if (!bits.take(count)) return false;
    twos = bits.at;
    return bits.take(count_ones(shared, bits, trits, count));
  }

  // before: how many trits before this entry's are not 0.
  __device__ std::uint32_t remainder(const BitSource& bits, std::uint32_t i,
                                     std::uint32_t before) const {
    std::uint32_t low = 0;
    for (unsigned j = 0; j < by.shift; ++j)
      low |= (bits.bit(planes + j * count + i) ? 1U : 0U) << j;
    if (!by.thirds || !bits.bit(trits + i)) return low;
    return low + ((bits.bit(twos + before) ? 2U : 1U) << by.shift);
  }
};

// visit(i, active, remainder of entry i) for the entries of a warp, 32 at a time; all lanes come.
// trits: those before its share that are not 0.
template <class Visit>
__device__ inline void for_each_remainder(const RiceSource& list, const BitSource& bits,
                                          const WarpShare& share, std::uint32_t trits,
                                          Visit visit) {
  const unsigned lane = threadIdx.x % kWarp;
  for (std::uint32_t group = share.begin; group < share.end; group += kWarp) {
    const std::uint32_t i = group + lane;
    const std::uint32_t of_group = list.by.thirds
                                       ? static_cast<std::uint32_t>(lowest(
                                             bits.load32(list.trits + group), list.count - group))
                                       : 0;
    const auto before = trits + static_cast<std::uint32_t>(__popc(of_group & lanes_below(lane)));
    visit(i, i < share.end, i < share.end ? list.remainder(bits, i, before) : 0);
    trits += static_cast<std::uint32_t>(__popc(of_group));
  }
}

// Reads the unary part, and calls emit(i, position) for each if all are below the span. Otherwise
// returns false without a call. marks has room for `count`.
template <class Emit>
__device__ inline bool read_positions(CompactionShared& shared, const RiceSource& list,
                                      BitSource& bits, std::uint32_t* marks, Emit emit) {
  if (list.count == 0) return true;
  if (!find_marks(shared, bits, bits.left() < kMaxPartBits ? bits.left() : kMaxPartBits, list.count,
                  marks))
    return false;
  const unsigned lane = threadIdx.x % kWarp;
  const WarpShare share = share_of_warp(list.count);
  std::uint32_t own_trits = 0, unused = 0;
  if (list.by.thirds) {
    for (std::uint32_t i = share.begin + lane; i < share.end; i += kWarp)
      own_trits += bits.bit(list.trits + i) ? 1 : 0;
    own_trits = __shfl_sync(kAllLanes, sum_before(shared, own_trits, &unused), 0);
  }
  std::uint32_t own = 0, sum = 0;
  for_each_remainder(list, bits, share, own_trits,
                     [&](std::uint32_t, bool, std::uint32_t remainder) { own += remainder; });
  std::uint32_t before = __shfl_sync(kAllLanes, sum_before(shared, own, &sum), 0);
  const std::uint32_t last = list.count - 1;
  const std::uint64_t end = std::uint64_t{marks[last] - last} * list.by.value() + sum + last;
  if (end >= list.span) return false;  // those before it are smaller
  for_each_remainder(
      list, bits, share, own_trits, [&](std::uint32_t i, bool active, std::uint32_t remainder) {
        std::uint32_t of_group = 0;
        const std::uint32_t so_far = before + sum_of_lanes_before(remainder, &of_group) + remainder;
        if (active) emit(i, (marks[i] - i) * list.by.value() + so_far + i);
        before += of_group;
      });
  __syncthreads();
  return true;
}

}  // namespace sparcl::kernels::cuda
