#include "kernels/cuda/class_codec.hpp"

#include "kernels/cuda/class_launchers.hpp"
#include "kernels/cuda/cuda_status.hpp"
#include "kernels/cuda/device_checks.hpp"

namespace sparcl::kernels::cuda {
namespace {

// A workspace: a word for the next block and the states, all zeros; a number for each class of a block; three words a change.
struct ClassLayout {
  TileState* words;
  std::uint32_t* found;
  std::uint32_t* of_changes;

  ClassLayout(void* bytes, std::uint64_t count)
      : words(static_cast<TileState*>(bytes)),
        found(reinterpret_cast<std::uint32_t*>(words + state_words(count))),
        of_changes(found + block_count(count) * kMaxClasses) {}
  static std::uint64_t state_words(std::uint64_t count) { return 1 + block_count(count) * kMaxClasses; }
};

std::size_t decode_classes_workspace_bytes(std::uint64_t count, std::uint64_t capacity) {
  return ClassLayout::state_words(count) * sizeof(TileState) +
         (block_count(count) * kMaxClasses + 3 * capacity) * sizeof(std::uint32_t);
}

Status decode_classes(const DeviceContents& contents, const void* array, std::uint64_t count, const DecodedBlocks& out,
                      void* workspace, std::size_t workspace_bytes, void* stream) {
  const std::size_t bytes = decode_classes_workspace_bytes(count, out.capacity);
  SPARCL_RETURN_IF_ERROR(check_sizes("decode", count, sizeof(std::uint16_t), bytes, {workspace, workspace_bytes}));
  if (count == 0) return Status();
  auto* const cuda_stream = static_cast<cudaStream_t>(stream);
  SPARCL_RETURN_IF_ERROR(status_of(cudaMemsetAsync(workspace, 0, ClassLayout::state_words(count) * sizeof(TileState), cuda_stream),
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

}  // namespace

DeviceClassKernels class_kernels() { return {decode_classes, decode_classes_workspace_bytes}; }

}  // namespace sparcl::kernels::cuda
