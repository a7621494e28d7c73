#pragma once
// Block routine that decodes a content from an untrusted sender into changes against the held
// values. It refuses the same contents as src/codec. The changes of a block with an error are
// undefined, but every position in them is inside its array.

#include "kernels/cuda/bit_source.cuh"
#include "kernels/cuda/block_head.cuh"
#include "kernels/cuda/change_list.cuh"
#include "kernels/cuda/step_codes.cuh"
#include "kernels/cuda/two_level_source.cuh"

namespace sparcl::kernels::cuda {

constexpr std::uint32_t kMaxContentBytes = 1U << 28;

struct DecodeShared {
  CompactionShared scan;
  BlockSumsShared sums;
  StripeKeys stripe_keys;
  unsigned char head_bytes[kHeadBytes];
  BlockHead head;
  std::uint32_t errors;  // of sizes: bit e for error e
};

// The destination of a block's changes.
template <class Word>
struct DecodedBlock {
  std::uint32_t elements;
  const Word* array;
  std::uint16_t* positions;
  Word* old_values;
  Word* new_values;
  std::uint32_t* marks;
  std::uint16_t* listed;
  std::uint16_t* gaps;
  bool is_float;

  __device__ PositionSource source(const BlockHead& head) const {
    return {elements, head, marks, positions, gaps};
  }
  __device__ void add_step(std::uint32_t change, Word step) const {
    new_values[change] =
        from_ord(static_cast<Word>(ord(old_values[change], is_float) + step), is_float);
  }
};

template <class Word>
__device__ inline BlockError decode_dense(const BitSource& bits, const DecodedBlock<Word>& block) {
  for (std::uint32_t i = threadIdx.x; i < block.elements; i += kThreads) {
    block.positions[i] = static_cast<std::uint16_t>(i);
    block.old_values[i] = block.array[i];
    block.new_values[i] = reinterpret_cast<const Word*>(bits.words)[i];
  }
  return BlockError::kNone;
}

template <class Word>
__device__ inline BlockError decode_values(DecodeShared& shared, BitSource bits,
                                           const BlockHead& head, const DecodedBlock<Word>& block) {
  constexpr std::uint32_t kBits = 8 * sizeof(Word);
  const std::uint32_t values = bits.at;
  if (!bits.take(head.count * kBits)) return BlockError::kLength;
  PositionSource source = block.source(head);
  const BlockError wrong = source.open(shared.scan, shared.sums, bits);
  if (wrong != BlockError::kNone) return wrong;
  const bool is_inside =
      source.read(shared.scan, bits, [&](std::uint32_t i, std::uint32_t position) {
        block.positions[i] = static_cast<std::uint16_t>(position);
        block.old_values[i] = block.array[position];
        block.new_values[i] = static_cast<Word>(kBits <= 32 ? bits.load32(values + i * kBits)
                                                            : bits.load64(values + i * kBits));
      });
  if (!is_inside) return BlockError::kPosition;
  return bits.ends_cleanly() ? BlockError::kNone : BlockError::kEnd;
}

// Reads the sizes of steps, which are +1 or -1 before: their unary part, then their suffixes.
template <class Word>
__device__ inline BlockError read_sizes(DecodeShared& shared, BitSource& bits,
                                        const BlockHead& head, std::uint32_t signs,
                                        const DecodedBlock<Word>& block) {
  const unsigned exponent = head.exponent, least = head.all ? 1 : 2;
  if (!find_marks(shared.scan, bits, bits.left(), head.sizes, block.marks))
    return BlockError::kMagnitude;
  const std::uint32_t suffixes = bits.at;
  const std::uint64_t zeros = head.sizes == 0 ? 0 : block.marks[head.sizes - 1] - (head.sizes - 1);
  const std::uint64_t suffix_bits = zeros + std::uint64_t{head.sizes} * exponent;
  if (bits.left() < suffix_bits) return BlockError::kMagnitude;
  constexpr std::uint64_t kMaxSteps = std::uint64_t{1} << (8 * sizeof(Word) - 1);
  const auto refuse = [&](BlockError error) {
    atomicOr(&shared.errors, 1U << static_cast<std::uint32_t>(error));
  };
  for (std::uint32_t i = threadIdx.x; i < head.sizes; i += kThreads) {
    const std::uint32_t before = i == 0 ? 0 : block.marks[i - 1] + 1;
    const std::uint32_t length = block.marks[i] - before;  // L
    if (length + exponent > 63) {
      refuse(BlockError::kMagnitude);
      continue;
    }
    const std::uint64_t suffix =
        lowest(bits.load64(suffixes + (before - i) + i * exponent), length + exponent);
    const std::uint64_t v = (std::uint64_t{1} << length) + (suffix >> exponent);
    const std::uint64_t size = ((v - 1) << exponent) + lowest(suffix, exponent);
    const std::uint32_t change = head.all ? i : block.listed[i];
    const bool is_negative = bits.bit(signs + change);
    if (size > kMaxSteps - least - (is_negative ? 0 : 1)) {
      refuse(BlockError::kStep);
      continue;
    }
    const Word step = static_cast<Word>(size + least);
    block.add_step(change, is_negative ? static_cast<Word>(Word{0} - step) : step);
  }
  bits.at += static_cast<std::uint32_t>(suffix_bits);
  __syncthreads();
  // Returns the first of several errors in the order of src/codec, not in the order in time.
  return shared.errors == 0 ? BlockError::kNone
                            : static_cast<BlockError>(__ffs(static_cast<int>(shared.errors)) - 1);
}

template <class Word>
__device__ inline BlockError decode_steps(DecodeShared& shared, BitSource bits,
                                          const BlockHead& head, const DecodedBlock<Word>& block) {
  PositionSource source = block.source(head);
  BlockError wrong = source.open(shared.scan, shared.sums, bits);
  if (wrong != BlockError::kNone) return wrong;
  const std::uint32_t signs = bits.at;
  if (!bits.take(head.count)) return BlockError::kLength;
  const std::uint32_t listed = head.all ? 0 : head.sizes;
  RiceSource exceptions{head.count, listed, gap_divisor(head.count, listed)};
  if (!exceptions.open(shared.sums, bits)) return BlockError::kLength;
  const bool is_inside =
      source.read(shared.scan, bits, [&](std::uint32_t i, std::uint32_t position) {
        block.positions[i] = static_cast<std::uint16_t>(position);
        block.old_values[i] = block.array[position];
        block.add_step(i, bits.bit(signs + i) ? static_cast<Word>(~Word{0}) : Word{1});
      });
  if (!is_inside) return BlockError::kPosition;
  if (!read_positions(shared.scan, exceptions, bits, block.marks,
                      [&](std::uint32_t i, std::uint32_t change) {
                        block.listed[i] = static_cast<std::uint16_t>(change);
                      })) {
    return BlockError::kException;
  }
  wrong = read_sizes(shared, bits, head, signs, block);
  if (wrong != BlockError::kNone) return wrong;
  return bits.ends_cleanly() ? BlockError::kNone : BlockError::kEnd;
}

// Thread n < 4 has word n of the hashes.
template <class Word>
__device__ inline std::uint64_t hash_decoded(DecodeShared& shared, const DecodedBlock<Word>& block,
                                             std::uint32_t count) {
  shared.stripe_keys.make();
  __syncthreads();  // all changes are written
  ChangeSums sums;
  for_each_change<Word>({block.positions, block.old_values, block.new_values, nullptr}, 0, count,
                        [&](std::uint16_t position, Word old_value, Word new_value) {
                          sums.add(shared.stripe_keys, position, old_value, new_value);
                        });
  return sums.of_block(shared.sums);
}

// Is the content inside the buffer, and in a supported mode?
__device__ inline bool is_here(const BlockContent& content, std::uint64_t contents_bytes) {
  const bool is_known = content.mode == kDenseBlock || content.mode == kVerbatimBlock ||
                        content.mode == kClassesBlock || has_steps(content.mode) ||
                        is_on_two_levels(content.mode);
  const std::uint32_t before = content.mode == kClassesBlock ? kClassTableBytes : 0;
  return is_known && content.offset % kContentAlignment == 0 && content.bytes < kMaxContentBytes &&
         content.offset <= contents_bytes &&
         before + aligned_content(content.bytes) <= contents_bytes - content.offset;
}

// For a block of classes: is it a superblock whose other blocks are present?
template <class Word>
__device__ inline bool is_superblock(const DecodeWork& work, std::uint32_t number) {
  const std::uint64_t blocks = block_count(work.count);
  bool is_whole = sizeof(Word) == 2 && work.is_float;
  for (std::uint32_t i = 1; i < kSuperBlocks && number + i < blocks; ++i)
    is_whole = is_whole && work.blocks[number + i].mode == kClassesRest;
  return is_whole;
}

template <class Word>
__device__ inline BlockHead begin_block(DecodeShared& shared, std::uint32_t number,
                                        const DecodeWork& work, std::uint32_t elements) {
  const BlockContent content = work.blocks[number];
  if (threadIdx.x == 0) shared.errors = 0;
  const bool is_rest = content.mode == kClassesRest && superblock_of(work.blocks, number).is_there;
  if (content.mode == kNoBlock || is_rest) return {BlockError::kNone, 0, 0, 0, 0, false};
  const bool is_known = content.mode != kClassesBlock || is_superblock<Word>(work, number);
  if (!is_known || !is_here(content, work.contents_bytes))
    return {BlockError::kNotHere, 0, 0, 0, 0, false};
  const auto* bytes = static_cast<const unsigned char*>(work.contents) + content.offset;
  if (content.mode == kClassesBlock) {
    bytes += kClassTableBytes;
    elements = superblock_elements(work.count, number);
  }
  const std::uint32_t head_bytes = content.bytes < kHeadBytes ? content.bytes : kHeadBytes;
  if (threadIdx.x < head_bytes) shared.head_bytes[threadIdx.x] = bytes[threadIdx.x];
  __syncthreads();
  if (threadIdx.x == 0)
    shared.head = read_head({shared.head_bytes, head_bytes}, content.mode, content.bytes, elements,
                            sizeof(Word));
  __syncthreads();
  return shared.head;
}

template <class Word>
__device__ inline void decode_block(DecodeShared& shared, const DecodeWork& work) {
  const std::uint32_t number = take_tile(shared.scan, work.next_block);
  const std::uint64_t blocks = block_count(work.count), left = work.count - number * kBlockElements;
  const std::uint32_t elements = left < kBlockElements ? static_cast<std::uint32_t>(left)
                                                       : static_cast<std::uint32_t>(kBlockElements);
  const BlockContent content = work.blocks[number];
  const BlockHead head = begin_block<Word>(shared, number, work, elements);
  const std::uint32_t count = head.error == BlockError::kNone ? head.count : 0;
  const std::uint64_t before = sum_of_tiles_before(shared.scan, work.states, number, count);
  if (threadIdx.x == 0) {
    work.changes.block_starts[number] = before;
    if (number + 1 == blocks) work.changes.block_starts[blocks] = before + count;
  }
  BlockError error = head.error;
  std::uint64_t hash = 0;
  if (count > 0 && before + count > work.capacity) {
    error = BlockError::kNoRoom;
  } else if (count > 0 &&
             content.mode !=
                 kClassesBlock) {  // these are read by class_source.cuh, and counted here
    const auto* const words = reinterpret_cast<const std::uint32_t*>(
        static_cast<const unsigned char*>(work.contents) + content.offset);
    const BitSource bits{words, (content.bytes + 3) / 4, 8 * head.bytes, 8 * content.bytes};
    const DecodedBlock<Word> block{elements,
                                   static_cast<const Word*>(work.array) + number * kBlockElements,
                                   work.changes.positions + before,
                                   static_cast<Word*>(work.changes.old_values) + before,
                                   static_cast<Word*>(work.changes.new_values) + before,
                                   work.marks + before,
                                   work.listed + before,
                                   work.gaps + before,
                                   work.is_float};
    error = content.mode == kDenseBlock ? decode_dense(bits, block)
            : has_steps(content.mode)   ? decode_steps(shared, bits, head, block)
                                        : decode_values(shared, bits, head, block);
    if (error == BlockError::kNone) hash = hash_decoded(shared, block, count);
  }
  if (threadIdx.x < 4) words_of(work.hashes[number])[threadIdx.x] = hash;
  if (threadIdx.x != 0) return;
  work.errors[number] = error;
  if (error != BlockError::kNone)
    atomicAdd(reinterpret_cast<unsigned long long*>(work.refused), 1ULL);
}

}  // namespace sparcl::kernels::cuda
