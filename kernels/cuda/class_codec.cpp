#include "kernels/cuda/class_codec.hpp"

#include "kernels/cuda/class_launchers.hpp"
#include "kernels/cuda/cuda_status.hpp"
#include "kernels/cuda/device_checks.hpp"

namespace sparcl::kernels::cuda {
namespace {

// The workspace: a word for the next block and the states, all zeros; a number for each class of a
// block; three words for each change.
struct ClassLayout {
  TileState* words;
  std::uint32_t* found;
  std::uint32_t* of_changes;

  ClassLayout(void* bytes, std::uint64_t count)
      : words(static_cast<TileState*>(bytes)),
        found(reinterpret_cast<std::uint32_t*>(words + state_words(count))),
        of_changes(found + block_count(count) * kMaxClasses) {}
  static std::uint64_t state_words(std::uint64_t count) {
    return 1 + block_count(count) * kMaxClasses;
  }
};

std::size_t decode_classes_workspace_bytes(std::uint64_t count, std::uint64_t capacity) {
  return ClassLayout::state_words(count) * sizeof(TileState) +
         (block_count(count) * kMaxClasses + 3 * capacity) * sizeof(std::uint32_t);
}

Status decode_classes(const DeviceContents& contents, const void* array, std::uint64_t count,
                      const DecodedBlocks& out, void* workspace, std::size_t workspace_bytes,
                      void* stream) {
  const std::size_t bytes = decode_classes_workspace_bytes(count, out.capacity);
  SPARCL_RETURN_IF_ERROR(
      check_sizes("decode", count, sizeof(std::uint16_t), bytes, {workspace, workspace_bytes}));
  if (count == 0) return Status();
  auto* const cuda_stream = static_cast<cudaStream_t>(stream);
  SPARCL_RETURN_IF_ERROR(
      status_of(cudaMemsetAsync(workspace, 0, ClassLayout::state_words(count) * sizeof(TileState),
                                cuda_stream),
                "decode: clearing its workspace for classes"));
  const ClassLayout layout(workspace, count);
  const ClassDecodeWork work{contents.bytes,
                             contents.blocks,
                             array,
                             count,
                             out.changes,
                             out.hashes,
                             out.errors,
                             out.refused,
                             reinterpret_cast<std::uint32_t*>(layout.words),
                             layout.words + 1,
                             layout.found,
                             layout.of_changes,
                             layout.of_changes + out.capacity,
                             layout.of_changes + 2 * out.capacity};
  return status_of(launch_decode_classes(work, cuda_stream), "decode of classes");
}

// The workspace: a word for the next superblock and the states, all zeros. For each block, a number
// for each class and one more. For each change, two words and two 16-bit halves.
struct ClassEncodeLayout {
  TileState* words;
  std::uint32_t* of_blocks;
  std::uint32_t* of_changes;

  ClassEncodeLayout(void* bytes, std::uint64_t count)
      : words(static_cast<TileState*>(bytes)),
        of_blocks(reinterpret_cast<std::uint32_t*>(words + state_words(count))),
        of_changes(of_blocks + block_count(count) * (kMaxClasses + 1)) {}
  static std::uint64_t state_words(std::uint64_t count) { return 1 + block_count(count); }
};

std::size_t encode_classes_workspace_bytes(std::uint64_t count, std::uint64_t capacity) {
  return ClassEncodeLayout::state_words(count) * sizeof(TileState) +
         (block_count(count) * (kMaxClasses + 1) + 3 * capacity) * sizeof(std::uint32_t);
}

Status encode_classes(const DeviceChanges& changes, std::uint64_t capacity, const void* base,
                      std::uint64_t count, const DeviceClassSpan& span,
                      const DeviceContents& contents, DeviceChangeHashes* hashes, void* workspace,
                      std::size_t workspace_bytes, void* stream) {
  const std::size_t bytes = encode_classes_workspace_bytes(count, capacity);
  SPARCL_RETURN_IF_ERROR(
      check_sizes("encode", count, sizeof(std::uint16_t), bytes, {workspace, workspace_bytes}));
  if (contents.classes_end == nullptr || span.end_block > block_count(count))
    return Status(
        Code::kInvalidArgument,
        "CUDA: encode of classes: superblocks that are not there, or no place for where they end");
  auto* const cuda_stream = static_cast<cudaStream_t>(stream);
  const auto clear = [&](void* memory, int byte, std::size_t size) {
    return status_of(cudaMemsetAsync(memory, byte, size, cuda_stream),
                     "encode: clearing its workspace for classes");
  };
  SPARCL_RETURN_IF_ERROR(clear(contents.classes_end, 0, sizeof *contents.classes_end));
  SPARCL_RETURN_IF_ERROR(
      clear(contents.blocks, 0xff, (block_count(count) + 1) * sizeof(BlockContent)));
  SPARCL_RETURN_IF_ERROR(
      clear(workspace, 0, ClassEncodeLayout::state_words(count) * sizeof(TileState)));
  const ClassEncodeLayout layout(workspace, count);
  auto* const halves = reinterpret_cast<std::uint16_t*>(layout.of_changes + 2 * capacity);
  const ClassEncodeWork work{changes,
                             capacity,
                             base,
                             count,
                             span.table,
                             span.table_bytes,
                             span.first_block,
                             span.end_block,
                             contents.bytes,
                             contents.blocks,
                             hashes,
                             contents.classes_end,
                             layout.words + 1,
                             reinterpret_cast<std::uint32_t*>(layout.words),
                             layout.of_blocks,
                             layout.of_blocks + block_count(count) * kMaxClasses,
                             layout.of_changes,
                             layout.of_changes + capacity,
                             halves,
                             halves + capacity};
  if (super_count(work) == 0) return Status();
  return status_of(launch_encode_classes(work, cuda_stream), "encode of classes");
}

Status sample_classes(const ClassSampleChunk* chunks, std::uint64_t count,
                      ClassSampleCounts* counts, void* stream) {
  if (count > 0x7fffffff)
    return Status(Code::kInvalidArgument, "CUDA: a sample of more than 2^31 chunks");
  if (count == 0) return Status();
  return status_of(
      launch_sample_classes({chunks, count, counts}, static_cast<cudaStream_t>(stream)),
      "sample of classes");
}

}  // namespace

DeviceClassKernels class_kernels() {
  return {sample_classes, encode_classes, encode_classes_workspace_bytes, decode_classes,
          decode_classes_workspace_bytes};
}

}  // namespace sparcl::kernels::cuda
