#pragma once
// Block routine that codes a superblock in classes, from the class and rank of each change
// (class_ranks.cuh). It sorts the changes by class and computes their size. It writes them if that
// is smaller than without classes. The bytes are those of src/codec.

#include "kernels/cuda/class_ranks.cuh"

namespace sparcl::kernels::cuda {

constexpr unsigned kMaxHeadWords =
    3 * kMaxClasses * 2;  // numbers below 2^20 in codes of at most 41 bits

struct ClassSinkShared {
  CompactionShared scan;
  BlockSumsShared sums;
  SuperCounts counts;
  std::uint32_t elements[kMaxClasses];                    // of each class
  std::uint32_t ranks_before[kSuperBlocks][kMaxClasses];  // elements of each class in the
                                                          // superblock's blocks before
  std::uint32_t block_ends[kSuperBlocks];                 // the end of each block's changes
  std::uint32_t of_warps[kThreads / kWarp][kMaxClasses];
  std::uint32_t first[kMaxClasses + 1];         // first change of each class
  std::uint32_t first_listed[kMaxClasses + 1];  // first listed change of each class
  std::uint32_t first_size[kMaxClasses + 1];    // first size of each class
  std::uint32_t without_classes;                // bytes
  std::uint32_t head_bits;
  std::uint32_t head[kMaxHeadWords];
  std::uint32_t window[kWindowWords];
};

// The class of entry i: first[c] <= i < first[c + 1].
__device__ inline unsigned class_at(const std::uint32_t (&first)[kMaxClasses + 1],
                                    std::uint32_t i) {
  unsigned c = 0;
  while (i >= first[c + 1]) ++c;
  return c;
}

// One superblock's changes, and the arrays that they are sorted into.
struct ClassSinkLists {
  const ClassTable& table;
  std::uint32_t changes;
  const std::uint32_t* ranks;
  const std::uint16_t* steps;
  std::uint16_t* listed;

  __device__ Step step(std::uint32_t i) const {
    const bool is_negative = (steps[i] & 0x8000) != 0;
    return {is_negative ? static_cast<std::uint16_t>(0U - steps[i]) : steps[i], is_negative};
  }
};

struct RankParts {
  std::uint32_t quotient, low;
};
__device__ inline RankParts parts_of_gap(std::uint32_t gap, unsigned shift) {
  return {gap >> shift, gap & ((1U << shift) - 1)};
}

// Change i, of class c, among the ranks of its class.
__device__ inline RankParts rank_parts(const ClassSinkShared& shared, const ClassSinkLists& lists,
                                       unsigned c, std::uint32_t i) {
  const std::uint32_t gap =
      i == shared.first[c] ? lists.ranks[i] : lists.ranks[i] - lists.ranks[i - 1] - 1;
  return parts_of_gap(gap, shared.counts[c].shift);
}
// The same for a listed change, among its class's changes.
__device__ inline RankParts listed_parts(const ClassSinkShared& shared, const ClassSinkLists& lists,
                                         unsigned c, std::uint32_t i) {
  const std::uint32_t gap = i == shared.first_listed[c]
                                ? lists.listed[i] - shared.first[c]
                                : lists.listed[i] - lists.listed[i - 1] - 1U;
  return parts_of_gap(gap, rank_shift(shared.counts[c].changes, shared.counts[c].exceptions));
}

// Size i.
struct ClassSize {
  std::uint32_t size;
  unsigned exponent;

  __device__ unsigned zeros() const { return floor_log2((size >> exponent) + 1); }
};
__device__ inline ClassSize class_size(const ClassSinkShared& shared, const ClassSinkLists& lists,
                                       std::uint32_t i) {
  const unsigned c = class_at(shared.first_size, i);
  const bool all = lists.table.rows[c].all;
  const std::uint32_t in_class = i - shared.first_size[c];
  const std::uint32_t change =
      all ? shared.first[c] + in_class : lists.listed[shared.first_listed[c] + in_class];
  return {static_cast<std::uint32_t>(lists.step(change).magnitude) - (all ? 1 : 2),
          lists.table.rows[c].exponent};
}

__device__ inline void add_up(std::uint32_t (&first)[kMaxClasses + 1], const SuperCounts& counts,
                              const ClassTable& table, bool is_listed) {
  first[0] = 0;
  for (unsigned c = 0; c < kMaxClasses; ++c)
    first[c + 1] = first[c] + (is_listed && table.rows[c].all ? 0 : counts[c].exceptions);
}

// The values that are known of each class before its changes are read: thread c has class c.
__device__ inline void begin_super(ClassSinkShared& shared, const ClassEncodeWork& work,
                                   const SuperSpan& span) {
  if (threadIdx.x < kMaxClasses) {
    std::uint32_t elements = 0;
    for (std::uint32_t b = span.first; b < span.end; ++b) {
      shared.ranks_before[b - span.first][threadIdx.x] = elements;
      elements += work.elements[b * kMaxClasses + threadIdx.x];
    }
    shared.elements[threadIdx.x] = elements;
    shared.counts[threadIdx.x] = {0, 0, 0};
  }
  if (threadIdx.x < kSuperBlocks) {
    const std::uint32_t block = span.first + threadIdx.x;
    shared.block_ends[threadIdx.x] =
        block < span.end
            ? static_cast<std::uint32_t>(work.changes.block_starts[block + 1] - span.first_change)
            : span.changes();
  }
  if (threadIdx.x == 0) {
    shared.without_classes = 0;
    for (std::uint32_t b = span.first; b < span.end; ++b)
      shared.without_classes += work.section_bytes[b];
  }
  __syncthreads();
}

// Calls visit(i, class, the warp's earlier changes of the class) for the changes of a warp, 32 at a
// time. Lane c counts class c and returns its count.
template <class Visit>
__device__ inline std::uint32_t for_each_of_class(const std::uint32_t* keys, std::uint32_t count,
                                                  unsigned classes, Visit visit) {
  const unsigned lane = threadIdx.x % kWarp;
  const WarpShare share = share_of_warp(count);
  std::uint32_t counted = 0;
  for (std::uint32_t group = share.begin; group < share.end; group += kWarp) {
    const std::uint32_t i = group + lane;
    const unsigned own = i < share.end ? keys[i] & 0xff : kMaxClasses;
    std::uint32_t before = 0;
    for (unsigned c = 0; c < classes; ++c) {
      const std::uint32_t lanes = __ballot_sync(kAllLanes, own == c),
                          so_far = __shfl_sync(kAllLanes, counted, c);
      if (own == c) before = so_far + static_cast<std::uint32_t>(__popc(lanes & lanes_below(lane)));
      if (lane == c) counted += static_cast<std::uint32_t>(__popc(lanes));
    }
    if (i < share.end) visit(i, own, before);
  }
  return counted;
}

// Sorts the changes into ranks and steps, class by class. Sets each class's count, shift and start.
__device__ inline void sort_by_class(ClassSinkShared& shared, const ClassEncodeWork& work,
                                     const SuperSpan& span) {
  const std::uint32_t* const keys = work.keys + span.first_change;
  const unsigned lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp,
                 classes = work.table.cut.count;
  const std::uint32_t counted = for_each_of_class(keys, span.changes(), classes,
                                                  [](std::uint32_t, unsigned, std::uint32_t) {});
  if (lane < kMaxClasses) shared.of_warps[warp][lane] = lane < classes ? counted : 0;
  __syncthreads();
  if (threadIdx.x < kMaxClasses) {
    std::uint32_t before = 0;
    for (unsigned w = 0; w < kThreads / kWarp; ++w) {
      const std::uint32_t own = shared.of_warps[w][threadIdx.x];
      shared.of_warps[w][threadIdx.x] = before;
      before += own;
    }
    shared.counts[threadIdx.x].changes = before;
    shared.counts[threadIdx.x].shift = rank_shift(shared.elements[threadIdx.x], before);
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    shared.first[0] = 0;
    for (unsigned c = 0; c < kMaxClasses; ++c)
      shared.first[c + 1] = shared.first[c] + shared.counts[c].changes;
  }
  __syncthreads();
  const auto* const old_values =
      static_cast<const std::uint16_t*>(work.changes.old_values) + span.first_change;
  const auto* const new_values =
      static_cast<const std::uint16_t*>(work.changes.new_values) + span.first_change;
  for_each_of_class(
      keys, span.changes(), classes, [&](std::uint32_t i, unsigned c, std::uint32_t before) {
        const std::uint32_t to = shared.first[c] + shared.of_warps[warp][c] + before;
        unsigned block = 0;
        while (i >= shared.block_ends[block]) ++block;
        work.ranks[span.first_change + to] = (keys[i] >> 8) + shared.ranks_before[block][c];
        work.steps[span.first_change + to] =
            static_cast<std::uint16_t>(ord(new_values[i], true) - ord(old_values[i], true));
      });
  __syncthreads();
}

// Lists the changes of more than one step, in classes that list them. Counts the sizes of each
// class.
__device__ inline void list_sizes(ClassSinkShared& shared, const ClassSinkLists& lists) {
  const unsigned lane = threadIdx.x % kWarp;
  for (std::uint32_t group = threadIdx.x / kWarp * kWarp; group < lists.changes;
       group += kThreads) {
    const std::uint32_t i = group + lane;
    bool is_listed = false;
    if (i < lists.changes) {
      const unsigned c = class_at(shared.first, i);
      is_listed = !lists.table.rows[c].all && lists.step(i).magnitude != 1;
      if (is_listed) atomicAdd(&shared.counts[c].exceptions, 1U);
    }
    const std::uint32_t marks = __ballot_sync(kAllLanes, is_listed);
    if (lane == 0) shared.window[group / 32] = marks;
  }
  __syncthreads();
  list_marked(shared.scan, shared.window, lists.changes, lists.listed);
  if (threadIdx.x == 0) {
    add_up(shared.first_listed, shared.counts, lists.table, true);
    for (unsigned c = 0; c < lists.table.cut.count; ++c) {
      if (lists.table.rows[c].all) shared.counts[c].exceptions = shared.counts[c].changes;
    }
    add_up(shared.first_size, shared.counts, lists.table, false);
  }
  __syncthreads();
}

// Called by one thread: the numbers before the lists.
__device__ inline void make_head(ClassSinkShared& shared, const ClassTable& table,
                                 std::uint32_t elements) {
  for (std::uint32_t& word : shared.head) word = 0;
  std::uint32_t at = 0;
  const auto put = [&](std::uint64_t bits, unsigned count) {  // at most 32
    const std::uint64_t shifted = bits << (at % 32);
    shared.head[at / 32] |= static_cast<std::uint32_t>(shifted);
    if (at % 32 + count > 32) shared.head[at / 32 + 1] |= static_cast<std::uint32_t>(shifted >> 32);
    at += count;
  };
  for_each_class_number(
      table, elements, shared.counts, [&](std::uint32_t count, const CountExpectation& expected) {
        const std::uint64_t number = expected.fold(count), v = (number >> expected.exponent) + 1;
        const unsigned zeros = floor_log2(v);
        put(std::uint64_t{1} << zeros, zeros + 1);
        put(lowest(number, expected.exponent), expected.exponent);
        put(v - (std::uint64_t{1} << zeros), zeros);
      });
  shared.head_bits = at;
}

// Checks that ranks ascend and belong to existing elements. They may not if another program writes
// to the array meanwhile.
__device__ inline bool is_rank(const ClassSinkShared& shared, const ClassSinkLists& lists,
                               unsigned c, std::uint32_t i) {
  return lists.ranks[i] < shared.elements[c] &&
         (i == shared.first[c] || lists.ranks[i] > lists.ranks[i - 1]);
}

// The content's bytes; kTooManyBytes if there are more or a rank is invalid.
constexpr std::uint32_t kTooManyBytes = 1U << 30;
__device__ inline std::uint32_t measure_super(ClassSinkShared& shared, const ClassSinkLists& lists,
                                              std::uint32_t elements) {
  if (threadIdx.x == 0) make_head(shared, lists.table, elements);
  std::uint64_t own = 0;
  for (std::uint32_t i = threadIdx.x; i < lists.changes; i += kThreads) {
    const unsigned c = class_at(shared.first, i);
    own += is_rank(shared, lists, c, i) ? rank_parts(shared, lists, c, i).quotient + 2
                                        : 8 * std::uint64_t{kTooManyBytes};  // sign
  }
  for (std::uint32_t i = threadIdx.x; i < shared.first_listed[kMaxClasses]; i += kThreads)
    own += listed_parts(shared, lists, class_at(shared.first_listed, i), i).quotient + 1;
  for (std::uint32_t i = threadIdx.x; i < shared.first_size[kMaxClasses]; i += kThreads) {
    const ClassSize size = class_size(shared, lists, i);
    own += 2 * size.zeros() + 1 + size.exponent;
  }
  std::uint64_t bits = sum_of_block(shared.sums, own);
  bits += shared.head_bits;  // after the barriers of the sum
  for (unsigned c = 0; c < lists.table.cut.count; ++c) {
    const ClassCounts& counts = shared.counts[c];
    bits += counts.shift * counts.changes;
    if (!lists.table.rows[c].all)
      bits += rank_shift(counts.changes, counts.exceptions) * counts.exceptions;
  }
  const std::uint64_t bytes = varint_of(lists.changes).bytes + (bits + 7) / 8;
  return bytes < kTooManyBytes ? static_cast<std::uint32_t>(bytes) : kTooManyBytes;
}

__device__ inline void write_super(ClassSinkShared& shared, BitSink& sink,
                                   const ClassSinkLists& lists) {
  const std::uint32_t count = lists.changes, listed = shared.first_listed[kMaxClasses],
                      sizes = shared.first_size[kMaxClasses];
  const Varint k = varint_of(count);
  sink.append_one(k.bits, 8 * k.bytes);
  for (std::uint32_t at = 0; at < shared.head_bits; at += 32)
    sink.append_one(shared.head[at / 32], shared.head_bits - at < 32 ? shared.head_bits - at : 32);
  for (unsigned c = 0; c < lists.table.cut.count; ++c) {
    sink.append_planes(shared.counts[c].shift, shared.counts[c].changes, [&](std::uint32_t i) {
      return rank_parts(shared, lists, c, shared.first[c] + i).low;
    });
  }
  sink.append_plane(count, [&](std::uint32_t i) { return lists.step(i).is_negative; });
  append_codes(
      shared.scan, sink, count, kMaxPartBits,
      [&](std::uint32_t i) {
        return rank_parts(shared, lists, class_at(shared.first, i), i).quotient + 1;
      },
      [&](std::uint32_t i, std::uint32_t place) {
        sink.put_one(place + rank_parts(shared, lists, class_at(shared.first, i), i).quotient);
      });
  for (unsigned c = 0; c < lists.table.cut.count; ++c) {
    if (lists.table.rows[c].all) continue;
    sink.append_planes(rank_shift(shared.counts[c].changes, shared.counts[c].exceptions),
                       shared.counts[c].exceptions, [&](std::uint32_t i) {
                         return listed_parts(shared, lists, c, shared.first_listed[c] + i).low;
                       });
  }
  append_codes(
      shared.scan, sink, listed, kMaxPartBits,
      [&](std::uint32_t i) {
        return listed_parts(shared, lists, class_at(shared.first_listed, i), i).quotient + 1;
      },
      [&](std::uint32_t i, std::uint32_t place) {
        sink.put_one(place +
                     listed_parts(shared, lists, class_at(shared.first_listed, i), i).quotient);
      });
  constexpr std::uint32_t kAtOnce =
      kMaxPartBits / 32;  // a size has at most 16 bits of one and 22 of the other
  append_codes(
      shared.scan, sink, sizes, kAtOnce,
      [&](std::uint32_t i) { return class_size(shared, lists, i).zeros() + 1; },
      [&](std::uint32_t i, std::uint32_t place) {
        sink.put_one(place + class_size(shared, lists, i).zeros());
      });
  append_codes(
      shared.scan, sink, sizes, kAtOnce,
      [&](std::uint32_t i) {
        const ClassSize size = class_size(shared, lists, i);
        return size.zeros() + size.exponent;
      },
      [&](std::uint32_t i, std::uint32_t place) {
        const ClassSize size = class_size(shared, lists, i);
        const unsigned length = size.zeros() + size.exponent;
        sink.put(place, size.size + (1U << size.exponent) - (1U << length), length);
      });
}

// Encodes the next superblock.
__device__ inline void encode_classes(ClassSinkShared& shared, const ClassEncodeWork& work) {
  const std::uint32_t number = take_tile(shared.scan, work.next_super);
  const SuperSpan span = super_span(work, number);
  const bool may = may_be_in_classes(span, work.capacity);
  const ClassSinkLists lists{work.table, may ? span.changes() : 0, work.ranks + span.first_change,
                             work.steps + span.first_change, work.listed + span.first_change};
  std::uint32_t bytes = 0;
  if (may) {
    begin_super(shared, work, span);
    sort_by_class(shared, work, span);
    list_sizes(shared, lists);
    const std::uint64_t left = work.count - span.first * kBlockElements;
    bytes = measure_super(shared, lists,
                          static_cast<std::uint32_t>(left < kMaxRanks ? left : kMaxRanks));
  }
  const bool is_best =
      may && section_bytes(bytes + kOldCheckBytes) + work.table_bytes < shared.without_classes;
  const auto own =
      is_best ? static_cast<std::uint32_t>(aligned_content(bytes) / kContentAlignment) : 0;
  const std::uint64_t before = sum_of_tiles_before(shared.scan, work.states, number, own);
  if (is_best) {
    BitSink sink{shared.window,
                 reinterpret_cast<std::uint32_t*>(static_cast<unsigned char*>(work.contents) +
                                                  before * kContentAlignment)};
    sink.clear();
    write_super(shared, sink, lists);
    sink.finish();
  }
  if (threadIdx.x != 0) return;
  for (std::uint32_t b = span.first; is_best && b < span.end; ++b) {
    work.blocks[b] = b == span.first
                         ? BlockContent{before * kContentAlignment, bytes, kClassesBlock}
                         : BlockContent{0, 0, kClassesRest};
  }
  if (number + 1 == super_count(work)) *work.classes_end = (before + own) * kContentAlignment;
}

}  // namespace sparcl::kernels::cuda
