#pragma once
// A block of threads reads positions on two levels from an untrusted sender
// (docs/reference/wire-format.md). It refuses the same contents as src/codec (two_level_list.cpp).

#include "kernels/cuda/bit_source.cuh"
#include "kernels/cuda/block_head.cuh"

namespace sparcl::kernels::cuda {

// The positions of a block's changes, on one level or on two: first open(), then read(). Other
// reads may come between the two.
struct PositionSource {
  std::uint32_t elements, count;
  LevelHead levels;
  RiceSource list;  // on two levels: the list of the short gaps
  // Each has room for one number a change.
  std::uint32_t* marks;
  std::uint16_t* positions;  // before they are read: 1 if the gap before a change is long
  std::uint16_t* gaps;       // the list of the short gaps, followed by that of the long ones

  __device__ PositionSource(std::uint32_t block_elements, const BlockHead& head,
                            std::uint32_t* mark_room, std::uint16_t* position_room,
                            std::uint16_t* gap_room)
      : elements(block_elements),
        count(head.count),
        levels(head.levels),
        list{block_elements, head.count, gap_divisor(block_elements, head.count)},
        marks(mark_room),
        positions(position_room),
        gaps(gap_room) {
    if (!levels.are_two) return;
    list.count = levels.long_shift == 0 ? 0 : short_count();
    list.by = {levels.short_shift, false};
  }

  __device__ std::uint32_t short_count() const { return count - levels.long_count; }

  // Moves past the planes of the list, and on two levels past the lists before it.
  __device__ BlockError open(CompactionShared& scan, BlockSumsShared& sums, BitSource& bits) {
    if (levels.are_two) {
      const BlockError wrong = read_long_gaps(scan, sums, bits);
      if (wrong != BlockError::kNone) return wrong;
    }
    return list.open(sums, bits) ? BlockError::kNone : BlockError::kLength;
  }

  // Calls emit(i, position) for each change if all are inside the block; otherwise returns false.
  template <class Emit>
  __device__ bool read(CompactionShared& scan, BitSource& bits, Emit emit) {
    if (!levels.are_two) return read_positions(scan, list, bits, marks, emit);
    std::uint16_t* const shorts = gaps;
    const auto keep = [=](std::uint32_t i, std::uint32_t position) {
      shorts[i] = static_cast<std::uint16_t>(position);
    };
    if (!read_positions(scan, list, bits, marks, keep)) return false;
    const std::uint32_t after_shorts = short_count() == 0 ? 0 : short_at(short_count() - 1) + 1;
    if (std::uint64_t{after_shorts} + long_at(levels.long_count) > elements) return false;
    join(scan, emit);
    return true;
  }

 private:
  // Gap i of the list of short gaps. If long gaps begin at 1 element there is no list, because all
  // short gaps are 0.
  __device__ std::uint32_t short_at(std::uint32_t i) const {
    return levels.long_shift == 0 ? i : gaps[i];
  }
  // The sum that the first m long gaps, and the changes after them, add to a position. At most
  // 2^17, because the head has been checked.
  __device__ std::uint32_t long_at(std::uint32_t m) const {
    return m == 0 ? 0 : gaps[short_count() + m - 1] + 1U + (m << levels.long_shift);
  }

  __device__ BlockError read_long_gaps(CompactionShared& scan, BlockSumsShared& sums,
                                       BitSource& bits) {
    const std::uint32_t long_count = levels.long_count;
    std::uint16_t* const is_long = positions;
    for (std::uint32_t i = threadIdx.x; i < count; i += kThreads) is_long[i] = 0;
    __syncthreads();
    RiceSource places{count, long_count, gap_divisor(count, long_count)};
    if (!places.open(sums, bits)) return BlockError::kLength;
    if (!read_positions(scan, places, bits, marks,
                        [=](std::uint32_t, std::uint32_t place) { is_long[place] = 1; }))
      return BlockError::kPosition;
    const std::uint32_t span = elements - count - (long_count << levels.long_shift) + long_count;
    RiceSource long_list{span, long_count, gap_divisor(span, long_count)};
    if (!long_list.open(sums, bits)) return BlockError::kLength;
    std::uint16_t* const longs = gaps + short_count();
    const auto keep = [=](std::uint32_t i, std::uint32_t position) {
      longs[i] = static_cast<std::uint16_t>(position);
    };
    return read_positions(scan, long_list, bits, marks, keep) ? BlockError::kNone
                                                              : BlockError::kPosition;
  }

  // The position of a change is the sum of both kinds of gaps before it. Positions ascend and the
  // last is inside, so all are.
  template <class Emit>
  __device__ void join(CompactionShared& scan, Emit emit) const {
    const unsigned lane = threadIdx.x % kWarp;
    const WarpShare share = share_of_warp(count);
    std::uint32_t own = 0, total = 0;
    for (std::uint32_t i = share.begin + lane; i < share.end; i += kWarp) own += positions[i];
    std::uint32_t longs = __shfl_sync(kAllLanes, sum_before(scan, own, &total), 0);
    for (std::uint32_t group = share.begin; group < share.end; group += kWarp) {
      const std::uint32_t i = group + lane;
      const bool is_long = i < share.end && positions[i] != 0;
      const std::uint32_t of_group = __ballot_sync(kAllLanes, is_long);
      const std::uint32_t m =
          longs +
          static_cast<std::uint32_t>(__popc(of_group & lanes_below(lane)));  // long gaps before it
      const std::uint32_t n = i - m;                                         // short gaps
      if (is_long) {
        const std::uint32_t after_shorts = n == 0 ? 0 : short_at(n - 1) + 1;
        emit(i, after_shorts + long_at(m + 1) - 1);
      } else if (i < share.end) {
        emit(i, short_at(n) + long_at(m));
      }
      longs += static_cast<std::uint32_t>(__popc(of_group));
    }
    __syncthreads();
  }
};

}  // namespace sparcl::kernels::cuda
