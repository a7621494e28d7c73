#pragma once
// A block of threads lists and writes positions on two levels (docs/reference/wire-format.md) if
// they are likely to take fewer bits. The decision is that of src/codec (two_level_list.cpp): first
// from a sample of the gaps.

#include "kernels/cuda/rice_list.cuh"
#include "kernels/list_estimate.hpp"

namespace sparcl::kernels::cuda {

// One block's changes on two levels.
struct TwoLevelForm {
  RiceGaps places;  // the changes after long gaps, by their number among all changes
  RiceGaps longs;
  RiceGaps shorts;
  unsigned long_shift;  // a gap of 2^long_shift elements is long
  std::uint32_t bits;   // of all three
};

constexpr unsigned kGapWidths =
    17;  // of gaps in a block; gaps of 0 have no width and are not counted

struct TwoLevelShared {
  // Examined gaps by their number of bits: how many there are, and their sum.
  std::uint32_t counts[kGapWidths], sums[kGapWidths];
  bool is_there;  // it is likely to pay: all threads agree
  TwoLevelForm form;

  // A barrier comes after it.
  __device__ void clear() {
    if (threadIdx.x < kGapWidths) counts[threadIdx.x] = sums[threadIdx.x] = 0;
  }
  __device__ void add(std::uint32_t gap) {
    if (gap == 0) return;
    const unsigned width = floor_log2(gap) + 1;
    atomicAdd(&counts[width], 1U);
    atomicAdd(&sums[width], gap);
  }
};

struct LongShift {
  std::uint64_t bits;  // estimated
  unsigned shift;
};
// By all lanes of a warp. Each lane evaluates one size from which gaps may be long. Returns the
// size with the fewest bits, on a tie the smallest.
__device__ inline LongShift choose_long_shift(const TwoLevelShared& shared, const GapsSeen& seen) {
  const unsigned lane = threadIdx.x % kWarp, shift = lane < kMaxLongShift ? lane : kMaxLongShift;
  std::uint32_t longs_seen = 0, short_sum = 0;
  for (unsigned width = 1; width < kGapWidths; ++width) {
    if (width > shift)
      longs_seen += shared.counts[width];
    else
      short_sum += shared.sums[width];
  }
  const std::uint64_t longs = seen.longs(longs_seen),
                      longs_before = __shfl_up_sync(kAllLanes, longs, 1);
  const std::uint64_t bits = seen.bits(shift, longs, short_sum);
  const bool is_one =
      lane == 0 || (lane <= kMaxLongShift &&
                    longs_before != 0);  // if none are long, none are for larger shifts either
  std::uint64_t best =
      is_one && bits != ~std::uint64_t{0} ? bits * kWarp + lane : ~std::uint64_t{0};
  for (unsigned step = kWarp / 2; step > 0; step /= 2) {
    const std::uint64_t other = __shfl_down_sync(kAllLanes, best, step);
    best = other < best ? other : best;
  }
  best = __shfl_sync(kAllLanes, best, 0);
  return {best / kWarp, static_cast<unsigned>(best % kWarp)};
}

// Adds a few gaps to shared.counts, which are clear before. Contains no barrier.
__device__ inline void sample_gaps(TwoLevelShared& shared, const RiceGaps& list) {
  const GapSample sample = gap_sample(list.count);
  const auto taken = static_cast<std::uint32_t>(sample.taken()),
             each = static_cast<std::uint32_t>(sample.each);
  for (std::uint32_t i = threadIdx.x; i < taken; i += kThreads)
    shared.add(list.gap(static_cast<std::uint32_t>(sample.first(i / each)) + i % each + 1));
}

// By one warp, a barrier after all threads have sampled. Sets shared.is_there if the changes seem
// to come in clusters. flat_bits: of the list on one level.
__device__ inline void judge_sample(TwoLevelShared& shared, const RiceGaps& list,
                                    std::uint32_t elements, std::uint32_t flat_bits) {
  const auto taken = static_cast<std::uint32_t>(gap_sample(list.count).taken());
  bool is_likely = taken != 0 && enough_two_level_bits(flat_bits) != 0;
  if (is_likely) {
    const GapsSeen seen{elements, list.count, 16 * list.count / taken};
    is_likely = choose_long_shift(shared, seen).bits < clustered_bits(elements, list.count);
  }
  if (threadIdx.x % kWarp == 0) shared.is_there = is_likely;
}

// Sets the lists of shared.form, for its long_shift. places and longs: room for all changes.
__device__ inline void list_gaps(TwoLevelShared& shared, CompactionShared& scan,
                                 const RiceGaps& list, std::uint32_t elements,
                                 std::uint16_t* places, std::uint16_t* longs) {
  const unsigned shift = shared.form.long_shift, lane = threadIdx.x % kWarp;
  const WarpShare share = share_of_warp(list.count);
  // The addend of a long gap: its length, above a count of 1. Gaps have a sum below 65,536, and at
  // most 32,768 of them are not 0.
  constexpr unsigned kCountBits = 16;
  constexpr std::uint32_t kCountMask = (1U << kCountBits) - 1;
  const auto of_long = [&](std::uint32_t gap) {
    return gap >> shift != 0 ? gap << kCountBits | 1 : 0;
  };
  std::uint32_t own = 0, total = 0;
  for (std::uint32_t i = share.begin + lane; i < share.end; i += kWarp) own += of_long(list.gap(i));
  std::uint32_t before = __shfl_sync(kAllLanes, sum_before(scan, own, &total), 0);
  const std::uint32_t long_count = total & kCountMask, short_count = list.count - long_count;
  std::uint16_t* const shorts = places + long_count;
  for (std::uint32_t group = share.begin; group < share.end; group += kWarp) {
    const std::uint32_t i = group + lane;
    const std::uint32_t gap = i < share.end ? list.gap(i) : 0, mine = of_long(gap);
    std::uint32_t of_group = 0;
    const std::uint32_t so_far = before + sum_of_lanes_before(mine, &of_group);
    const std::uint32_t m = so_far & kCountMask,
                        sum = so_far >> kCountBits;  // sum of the long gaps before this one
    if (mine != 0) {
      places[m] = static_cast<std::uint16_t>(i);
      longs[m] = static_cast<std::uint16_t>(sum + gap + m - ((m + 1) << shift));
    } else if (i < share.end) {
      shorts[i - m] = static_cast<std::uint16_t>(list.positions[i] - sum - m);
    }
    before += of_group;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    const std::uint32_t gaps = list.positions[list.count - 1] + 1U - list.count,
                        short_sum = gaps - (total >> kCountBits);
    const std::uint32_t long_span = elements - list.count - (long_count << shift) + long_count;
    shared.form.places = {places, long_count, gap_divisor(list.count, long_count)};
    shared.form.longs = {longs, long_count, gap_divisor(long_span, long_count)};
    shared.form.shorts = {
        shorts, shift == 0 ? 0 : short_count, {short_shift(shift, short_count, short_sum), false}};
  }
  __syncthreads();
}

// If the sample promises enough, examines all gaps. Sets shared.is_there and the form if all gaps
// promise enough, too.
__device__ inline void prepare_two_levels(TwoLevelShared& shared, CompactionShared& scan,
                                          BlockSumsShared& sums, const RiceGaps& list,
                                          std::uint32_t elements, std::uint32_t flat_bits,
                                          std::uint16_t* places, std::uint16_t* longs) {
  shared.clear();
  __syncthreads();
  for (std::uint32_t i = threadIdx.x; i < list.count; i += kThreads) shared.add(list.gap(i));
  __syncthreads();
  if (threadIdx.x < kWarp) {
    const LongShift choice = choose_long_shift(shared, {elements, list.count});
    if (threadIdx.x == 0) {
      shared.is_there = choice.bits < enough_two_level_bits(flat_bits);
      shared.form.long_shift = choice.shift;
    }
  }
  __syncthreads();
  if (!shared.is_there) return;
  list_gaps(shared, scan, list, elements, places, longs);
  std::uint32_t bits = 0;
  for (unsigned part = 0; part < 3; ++part) {
    const RiceGaps& gaps = part == 0   ? shared.form.places
                           : part == 1 ? shared.form.longs
                                       : shared.form.shorts;
    bits += measure_list(sums, gaps).bits();
  }
  if (threadIdx.x == 0) shared.form.bits = bits;
  __syncthreads();
}

// Appends the part before the list of short gaps.
__device__ inline void append_long_gaps(CompactionShared& scan, BitSink& sink,
                                        const TwoLevelForm& form) {
  append_planes(scan, sink, form.places);
  append_unary(scan, sink, form.places);
  append_planes(scan, sink, form.longs);
  append_unary(scan, sink, form.longs);
}

}  // namespace sparcl::kernels::cuda
