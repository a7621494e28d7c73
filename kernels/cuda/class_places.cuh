#pragma once
// Block routine that finds the elements of a block of classes from the held values. It numbers the
// block's elements within their classes, takes the changes in this block from the superblock's
// lists, and sorts them by position.

#include "kernels/cuda/change_list.cuh"
#include "kernels/cuda/class_source.cuh"
#include "kernels/cuda/class_strips.cuh"
#include "kernels/cuda/step_codes.cuh"

namespace sparcl::kernels::cuda {

struct ClassPlaceShared {
  ScanShared scan;
  WideScanShared wide_scan;
  BlockSumsShared sums;
  StripeKeys stripe_keys;
  ClassStrips strips;
  ClassTable table;
  std::uint32_t base[kMaxClasses];  // elements of each class in the blocks before
  std::uint32_t
      first[kMaxClasses];  // the first change of the superblock in this block, for each class,
  std::uint32_t end[kMaxClasses];            // and the end of these changes
  std::uint32_t class_end[kMaxClasses];      // and the end in the whole superblock
  std::uint32_t marks[kBlockElements / 32];  // changed elements
  std::uint32_t marks_before[kThreads];      // marks before each group of eight words
};

constexpr unsigned kMarksOfThread = kBlockElements / 32 / kThreads;

// Publishes this block's number of elements of each class. Reads those of the superblock's earlier
// blocks.
__device__ inline void exchange_counts(ClassPlaceShared& shared, TileState* states,
                                       std::uint32_t number, std::uint32_t first) {
  if (threadIdx.x >= kMaxClasses) return;
  volatile TileState* const seen = states;
  seen[number * kMaxClasses + threadIdx.x] = tile_state(shared.strips.total[threadIdx.x], kOwnSum);
  std::uint32_t base = 0;
  for (std::uint32_t before = first; before < number; ++before) {
    TileState state = 0;
    do state = seen[before * kMaxClasses + threadIdx.x];
    while (__builtin_expect((state & 3) == kNothing, 0) && wait_a_little());
    base += static_cast<std::uint32_t>(state >> 2);
  }
  shared.base[threadIdx.x] = base;
}

// The number of ascending ranks below a rank.
__device__ inline std::uint32_t ranks_below(const std::uint32_t* ranks, std::uint32_t count,
                                            std::uint32_t rank) {
  std::uint32_t low = 0;
  while (count > 0) {
    const std::uint32_t half = count / 2;
    if (ranks[low + half] < rank) {
      low += half + 1;
      count -= half + 1;
    } else {
      count = half;
    }
  }
  return low;
}

// Finds the superblock's changes in this block: thread c handles class c.
__device__ inline void find_share(ClassPlaceShared& shared, const std::uint32_t* found,
                                  const std::uint32_t* ranks) {
  if (threadIdx.x >= kMaxClasses) return;
  const unsigned c = threadIdx.x;
  std::uint32_t first = 0;
  for (unsigned before = 0; before < c; ++before) first += found[before];
  const std::uint32_t* const own = ranks + first;
  shared.first[c] = first + ranks_below(own, found[c], shared.base[c]);
  shared.end[c] = first + ranks_below(own, found[c], shared.base[c] + shared.strips.total[c]);
  shared.class_end[c] = first + found[c];
}

struct ClassChange {
  unsigned c;
  std::uint32_t number;  // in the superblock
};
// Change i of the block, class by class.
__device__ inline ClassChange class_change(const ClassPlaceShared& shared, std::uint32_t i) {
  unsigned c = 0;
  while (i >= shared.end[c] - shared.first[c]) {
    i -= shared.end[c] - shared.first[c];
    ++c;
  }
  return {c, shared.first[c] + i};
}

__device__ inline std::uint32_t marks_below(const ClassPlaceShared& shared, std::uint32_t place) {
  const std::uint32_t word = place / 32, first = word / kMarksOfThread * kMarksOfThread;
  std::uint32_t below = shared.marks_before[word / kMarksOfThread];
  for (std::uint32_t w = first; w < word; ++w)
    below += static_cast<std::uint32_t>(__popc(shared.marks[w]));
  return below + static_cast<std::uint32_t>(__popc(shared.marks[word] & lanes_below(place % 32)));
}

// Marks the positions of the block's changes, and stores each position at its change's number.
// Returns the number of positions. It is smaller than the number of changes if another program
// wrote to the array meanwhile.
__device__ inline std::uint32_t mark_places(ClassPlaceShared& shared, const StripElements& elements,
                                            std::uint32_t count, const std::uint32_t* ranks,
                                            std::uint32_t* places) {
  for (unsigned w = threadIdx.x; w < kBlockElements / 32; w += kThreads) shared.marks[w] = 0;
  __syncthreads();
  for (std::uint32_t i = threadIdx.x; i < count; i += kThreads) {
    const ClassChange change = class_change(shared, i);
    const std::uint32_t place = place_of_rank(shared.strips, elements, change.c,
                                              ranks[change.number] - shared.base[change.c]);
    atomicOr(&shared.marks[place / 32], 1U << (place % 32));
    places[change.number] = place;
  }
  __syncthreads();
  std::uint32_t own = 0, total = 0;
  for (unsigned w = 0; w < kMarksOfThread; ++w)
    own += static_cast<std::uint32_t>(__popc(shared.marks[kMarksOfThread * threadIdx.x + w]));
  shared.marks_before[threadIdx.x] = sum_before(shared.scan, own, &total);
  __syncthreads();
  return total;
}

// Runs for the next block, if it is part of a block of classes.
__device__ inline void place_classes(ClassPlaceShared& shared, const ClassDecodeWork& work) {
  const std::uint32_t number = take_tile(shared.scan, work.next_block);
  const SuperPlace super = superblock_of(work.blocks, number);
  if (!super.is_there || work.errors[super.first] != BlockError::kNone) return;
  const auto* const table =
      static_cast<const unsigned char*>(work.contents) + work.blocks[super.first].offset;
  for (unsigned i = threadIdx.x; i < sizeof shared.table; i += kThreads)
    reinterpret_cast<unsigned char*>(&shared.table)[i] = table[i];
  shared.stripe_keys.make();
  __syncthreads();
  const auto* const array = static_cast<const std::uint16_t*>(work.array) + number * kBlockElements;
  const std::uint64_t left = work.count - number * kBlockElements;
  const StripElements elements{
      array, static_cast<std::uint32_t>(left < kBlockElements ? left : kBlockElements),
      is_aligned16(array)};
  number_elements(shared.strips, shared.wide_scan, shared.table.cut, elements);
  exchange_counts(shared, work.states, number, super.first);
  const std::uint64_t before =
      work.changes.block_starts[super.first];  // no block of threads writes these
  std::uint32_t* const ranks = work.ranks + before;
  find_share(shared, work.found + super.first * kMaxClasses, ranks);
  __syncthreads();
  std::uint32_t count = 0, in_blocks_before = 0;
  bool is_all = true;
  for (unsigned c = 0; c < kMaxClasses; ++c) {
    count += shared.end[c] - shared.first[c];
    in_blocks_before += shared.first[c] - (c == 0 ? 0 : shared.class_end[c - 1]);
    is_all = is_all && shared.end[c] == shared.class_end[c];
  }
  const bool has_all_places =
      mark_places(shared, elements, count, ranks, work.marks + before) == count;
  const std::uint64_t start = before + in_blocks_before;
  auto* const positions = work.changes.positions + start;
  auto* const old_values = static_cast<std::uint16_t*>(work.changes.old_values) + start;
  auto* const new_values = static_cast<std::uint16_t*>(work.changes.new_values) + start;
  ChangeSums sums;
  for (std::uint32_t i = threadIdx.x; i < count; i += kThreads) {
    const std::uint32_t change = class_change(shared, i).number,
                        place = work.marks[before + change];
    const std::uint32_t to = marks_below(shared, place);
    const std::uint16_t old_value = array[place];
    const auto order =
        static_cast<std::uint16_t>(ord(old_value, true) + work.listed[before + change]);
    const std::uint16_t new_value = from_ord(order, true);
    positions[to] = static_cast<std::uint16_t>(place);
    old_values[to] = old_value;
    new_values[to] = new_value;
    sums.add(shared.stripe_keys, place, old_value, new_value);
  }
  const std::uint64_t hash = sums.of_block(shared.sums);
  if (threadIdx.x < 4) words_of(work.hashes[number])[threadIdx.x] = hash;
  if (threadIdx.x != 0) return;
  if (number != super.first) work.changes.block_starts[number] = start;
  const std::uint64_t whole = std::uint64_t{super.first} + kSuperBlocks,
                      blocks = block_count(work.count);
  const std::uint64_t last = (whole < blocks ? whole : blocks) - 1;
  if (has_all_places && (is_all || number != last)) return;
  work.errors[last] =
      BlockError::kBase;  // blocks of threads that begin later check the first one's
  atomicAdd(reinterpret_cast<unsigned long long*>(work.refused), 1ULL);
}

}  // namespace sparcl::kernels::cuda
