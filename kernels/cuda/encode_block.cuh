#pragma once
// Block routine that codes a block of the codec. A block of threads computes the size of each mode,
// and finds the offset of its content from the blocks before it. It writes the content in the mode
// with the fewest bytes. The bytes are those of src/codec.

#include "kernels/cuda/step_form.cuh"

namespace sparcl::kernels::cuda {

constexpr std::uint32_t kOldCheckBytes =
    2;  // after contents that list positions: they count when modes are compared

// A varint of at most three bytes, as bits.
struct Varint {
  std::uint32_t bits, bytes;
};
__device__ inline Varint varint_of(std::uint32_t value) {
  if (value < 0x80) return {value, 1};
  if (value < 0x4000) return {(value & 0x7f) | 0x80 | (value >> 7) << 8, 2};
  return {(value & 0x7f) | 0x80 | ((value >> 7 & 0x7f) | 0x80) << 8 | (value >> 14) << 16, 3};
}

// The numbers before steps or values. two: nullptr on one level.
__device__ inline void append_counts(BitSink& sink, std::uint32_t count, const TwoLevelForm* two) {
  const Varint k = varint_of(count);
  sink.append_one(k.bits, 8 * k.bytes);
  if (two == nullptr) return;
  const Varint s = varint_of(two->longs.count);
  sink.append_one(two->long_shift | two->shorts.by.shift << 4 | s.bits << 8, 8 + 8 * s.bytes);
}

template <class Word>
__device__ inline void write_steps(EncodeShared& shared, BitSink& sink,
                                   const BlockOfChanges<Word>& changes, const TwoLevelForm* two) {
  const StepForm& form = shared.form;
  const std::uint32_t count = changes.list.count;
  const Varint x = varint_of(form.exceptions.count);
  append_counts(sink, count, two);
  sink.append_one(form.exponent | (form.all ? 0x40U : 0U), 8);
  if (!form.all) sink.append_one(x.bits, 8 * x.bytes);
  if (two != nullptr) append_long_gaps(shared.scan, sink, *two);
  const RiceGaps list = two != nullptr ? two->shorts : changes.list;
  append_planes(shared.scan, sink, list);
  sink.append_plane(count, [&](std::uint32_t i) { return changes.step(i).is_negative; });
  if (!form.all) append_planes(shared.scan, sink, form.exceptions);
  append_unary(shared.scan, sink, list);
  if (!form.all) append_unary(shared.scan, sink, form.exceptions);
  constexpr std::uint32_t kAtOnce = kMaxPartBits / 64;
  const auto zeros = [&](std::uint64_t size) { return floor_log2((size >> form.exponent) + 1); };
  const auto size_of = [&](std::uint32_t i) {
    return coded_size(changes.step(form.change(i)).magnitude, form.less());
  };
  append_codes(
      shared.scan, sink, form.sizes(count), kAtOnce,
      [&](std::uint32_t i) { return zeros(size_of(i)) + 1; },
      [&](std::uint32_t i, std::uint32_t place) { sink.put_one(place + zeros(size_of(i))); });
  append_codes(
      shared.scan, sink, form.sizes(count), kAtOnce,
      [&](std::uint32_t i) { return zeros(size_of(i)) + form.exponent; },
      [&](std::uint32_t i, std::uint32_t place) {
        const std::uint64_t size = size_of(i), v = (size >> form.exponent) + 1;
        const unsigned high = floor_log2(v);
        sink.put(place,
                 lowest(size, form.exponent) | (v - (std::uint64_t{1} << high)) << form.exponent,
                 high + form.exponent);
      });
}

template <class Word>
__device__ inline void write_values(EncodeShared& shared, BitSink& sink,
                                    const BlockOfChanges<Word>& changes, const TwoLevelForm* two) {
  constexpr std::uint32_t kBits = 8 * sizeof(Word);
  append_counts(sink, changes.list.count, two);
  for (std::uint32_t first = 0; first < changes.list.count; first += kMaxPartBits / kBits) {
    const std::uint32_t left = changes.list.count - first,
                        some = left < kMaxPartBits / kBits ? left : kMaxPartBits / kBits;
    sink.need(some * kBits);
    for (std::uint32_t i = threadIdx.x; i < some; i += kThreads)
      sink.put(sink.at + i * kBits, changes.new_values[first + i], kBits);
    sink.at += some * kBits;
  }
  if (two != nullptr) append_long_gaps(shared.scan, sink, *two);
  const RiceGaps list = two != nullptr ? two->shorts : changes.list;
  append_planes(shared.scan, sink, list);
  append_unary(shared.scan, sink, list);
}

// The block as it is. The hashes then cover all its elements: the unchanged ones have equal old and
// new values.
template <class Word>
__device__ inline void write_dense(EncodeShared& shared, std::uint32_t* out, const Word* target,
                                   std::uint32_t elements) {
  const std::uint32_t bytes = elements * static_cast<std::uint32_t>(sizeof(Word));
  Word* const to = reinterpret_cast<Word*>(out);
  const std::uint32_t room = static_cast<std::uint32_t>(aligned_content(bytes) / sizeof(Word));
  for (std::uint32_t i = threadIdx.x; i < room; i += kThreads)
    to[i] = i < elements ? target[i] : Word{0};
  __syncthreads();
  Sums own;
  for (std::uint32_t w = threadIdx.x; w < (bytes + 3) / 4; w += kThreads)
    own.add(out[w], key_of(shared.stripe_keys, w));
  const std::uint64_t sum = sums_of_block(shared.sums, {own.low, own.high});
  if (threadIdx.x < 2) {
    std::uint64_t* const old_values = words_of(shared.hashes) + threadIdx.x;
    std::uint64_t* const new_values = old_values + 2;
    *old_values += sum - *new_values;
    *new_values = sum;
  }
  __syncthreads();
}

// The mode of these five that src/codec takes, and its bytes.
template <class Word>
__device__ inline BlockContent choose_mode(const EncodeShared& shared, std::uint32_t count,
                                           std::uint32_t elements) {
  const StepForm& form = shared.form;
  const TwoLevelForm& two = shared.two_level.form;
  const std::uint32_t count_bytes = varint_of(count).bytes,
                      value_bytes = count * static_cast<std::uint32_t>(sizeof(Word));
  const std::uint32_t step_bytes = 1 + (form.all ? 0 : varint_of(form.exceptions.count).bytes);
  const std::uint32_t step_bits = count + form.size_bits + (form.all ? 0 : form.list.bits());
  const std::uint32_t dense = elements * static_cast<std::uint32_t>(sizeof(Word));
  BlockContent best{0, dense, kDenseBlock};
  std::uint32_t least = dense;
  const auto consider = [&](std::uint32_t mode, std::uint32_t bytes, std::uint32_t bits) {
    bytes += count_bytes + (bits + 7) / 8;
    if (bytes + kOldCheckBytes >= least) return;
    best = {0, bytes, mode};
    least = bytes + kOldCheckBytes;
  };
  consider(kVerbatimBlock, value_bytes, shared.list.bits());
  consider(kFlatBlock, step_bytes, shared.list.bits() + step_bits);
  if (!shared.two_level.is_there) return best;
  const std::uint32_t level_bytes = 1 + varint_of(two.longs.count).bytes;
  consider(kTwoLevelBlock, level_bytes + step_bytes, two.bits + step_bits);
  consider(kTwoLevelVerbatimBlock, level_bytes + value_bytes, two.bits);
  return best;
}

// Each has room for as many entries as a block has changes: EncodeWork owns them.
struct PlanRoom {
  std::uint16_t *listed, *places, *longs;
};

// Plans the content of a block's changes, without its offset. Afterwards `shared` holds their
// hashes and everything that writing needs.
template <class Word>
__device__ inline BlockContent plan_block(EncodeShared& shared, const BlockOfChanges<Word>& changes,
                                          std::uint32_t elements, const PlanRoom& room) {
  shared.stripe_keys.make();
  if (threadIdx.x < 128) shared.widths[threadIdx.x / 64][threadIdx.x % 64] = 0;
  shared.two_level.clear();
  __syncthreads();
  sample_gaps(shared.two_level, changes.list);
  look_at_changes(shared, changes);
  if (threadIdx.x / kWarp == 1)
    judge_sample(shared.two_level, changes.list, elements, shared.list.bits());
  const StepForm form = choose_form(shared, changes, room.listed);
  if (threadIdx.x == 0) shared.form = form;
  __syncthreads();
  if (shared.two_level.is_there) {
    prepare_two_levels(shared.two_level, shared.scan, shared.sums, changes.list, elements,
                       shared.list.bits(), room.places, room.longs);
  }
  return choose_mode<Word>(shared, changes.list.count, elements);
}

// Leaves blocks that are already coded in classes (class_sink.cuh) unchanged.
template <class Word>
__device__ inline void encode_block(EncodeShared& shared, const EncodeWork& work) {
  const std::uint32_t number = take_tile(shared.scan, work.next_block);
  const std::uint64_t blocks = block_count(work.count), left = work.count - number * kBlockElements;
  const std::uint32_t elements = left < kBlockElements ? static_cast<std::uint32_t>(left)
                                                       : static_cast<std::uint32_t>(kBlockElements);
  const std::uint64_t first = work.changes.block_starts[number],
                      end = work.changes.block_starts[number + 1];
  const bool is_lost = end > work.capacity;
  const bool is_coded = work.classes_end != nullptr && is_of_classes(work.blocks[number]);
  const std::uint32_t count = is_lost || is_coded ? 0 : static_cast<std::uint32_t>(end - first);
  const BlockOfChanges<Word> changes{
      {work.changes.positions + first, count, gap_divisor(elements, count)},
      static_cast<const Word*>(work.changes.old_values) + first,
      static_cast<const Word*>(work.changes.new_values) + first,
      work.is_float};
  BlockContent content{0, 0, is_lost ? kLostBlock : kNoBlock};
  if (count > 0)
    content = plan_block(shared, changes, elements,
                         {work.listed + first, work.places + first, work.longs + first});
  const auto own = static_cast<std::uint32_t>(aligned_content(content.bytes) / kContentAlignment);
  const std::uint64_t classes_end = work.classes_end != nullptr ? *work.classes_end : 0;
  const std::uint64_t before =
      sum_of_tiles_before(shared.scan, work.states, number, own) + classes_end / kContentAlignment;
  content.offset = before * kContentAlignment;
  if (count > 0) {
    auto* const out = reinterpret_cast<std::uint32_t*>(static_cast<unsigned char*>(work.contents) +
                                                       content.offset);
    if (content.mode == kDenseBlock) {
      write_dense(shared, out, static_cast<const Word*>(work.target) + number * kBlockElements,
                  elements);
    } else {
      BitSink sink{shared.window, out};
      sink.clear();
      const bool is_two_level =
          content.mode == kTwoLevelBlock || content.mode == kTwoLevelVerbatimBlock;
      const TwoLevelForm* const two = is_two_level ? &shared.two_level.form : nullptr;
      if (content.mode == kFlatBlock || content.mode == kTwoLevelBlock)
        write_steps(shared, sink, changes, two);
      else
        write_values(shared, sink, changes, two);
      sink.finish();
    }
  }
  if (threadIdx.x != 0) return;
  if (!is_coded) {
    work.blocks[number] = content;
    work.hashes[number] = count > 0 ? shared.hashes : DeviceChangeHashes{};
  }
  if (number + 1 == blocks) work.blocks[blocks] = {(before + own) * kContentAlignment, 0, kNoBlock};
}

}  // namespace sparcl::kernels::cuda
