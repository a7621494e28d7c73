#include "kernels/cuda/block_codec.hpp"

#include "kernels/cuda/cuda_status.hpp"
#include "kernels/cuda/device_checks.hpp"
#include "kernels/cuda/launchers.hpp"

namespace sparcl::kernels::cuda {
namespace {

// A workspace: a word for the next block, a state a block, then what changes need, each with the
// widest elements first.
struct Layout {
  TileState* words;
  void* of_changes;

  Layout(void* bytes, std::uint64_t count)
      : words(static_cast<TileState*>(bytes)),
        of_changes(words + state_bytes(count) / sizeof(TileState)) {}
  static std::size_t state_bytes(std::uint64_t count) {
    return (block_count(count) + 1) * sizeof(TileState);
  }
};

}  // namespace

std::uint64_t max_content_bytes(std::uint64_t count, std::size_t element_bytes) {
  return aligned_content(count * element_bytes);  // all blocks except the last are aligned already
}

std::size_t encode_workspace_bytes(std::uint64_t count, std::uint64_t capacity) {
  return Layout::state_bytes(count) + 3 * capacity * sizeof(std::uint16_t);
}

Status encode_blocks(const DeviceChanges& changes, std::uint64_t capacity, const void* target,
                     std::uint64_t count, DataType type, const DeviceContents& contents,
                     DeviceChangeHashes* hashes, const Workspace& workspace, cudaStream_t stream) {
  const std::size_t width = element_bytes(type), bytes = encode_workspace_bytes(count, capacity);
  SPARCL_RETURN_IF_ERROR(check_sizes("encode", count, width, bytes, workspace));
  if (count == 0)
    return status_of(cudaMemsetAsync(contents.blocks, 0, sizeof(BlockContent), stream), "encode");
  SPARCL_RETURN_IF_ERROR(
      status_of(cudaMemsetAsync(workspace.bytes, 0, Layout::state_bytes(count), stream),
                "encode: clearing its workspace"));
  const Layout layout(workspace.bytes, count);
  auto* const listed = static_cast<std::uint16_t*>(layout.of_changes);
  const EncodeWork work{changes,
                        capacity,
                        target,
                        count,
                        info(type).is_float,
                        contents.bytes,
                        contents.blocks,
                        hashes,
                        contents.classes_end,
                        layout.words + 1,
                        reinterpret_cast<std::uint32_t*>(layout.words),
                        listed,
                        listed + capacity,
                        listed + 2 * capacity};
  return status_of(launch_encode(work, width, stream), "encode");
}

std::size_t decode_workspace_bytes(std::uint64_t count, std::uint64_t capacity) {
  return Layout::state_bytes(count) +
         capacity * (sizeof(std::uint32_t) + 2 * sizeof(std::uint16_t));
}

Status decode_blocks(const DeviceContents& contents, std::uint64_t contents_bytes,
                     const void* array, std::uint64_t count, DataType type,
                     const DecodedBlocks& out, const Workspace& workspace, cudaStream_t stream) {
  const std::size_t width = element_bytes(type),
                    bytes = decode_workspace_bytes(count, out.capacity);
  SPARCL_RETURN_IF_ERROR(check_sizes("decode", count, width, bytes, workspace));
  SPARCL_RETURN_IF_ERROR(
      status_of(cudaMemsetAsync(out.refused, 0, sizeof *out.refused, stream), "decode"));
  if (count == 0)
    return status_of(cudaMemsetAsync(out.changes.block_starts, 0, sizeof(std::uint64_t), stream),
                     "decode");
  SPARCL_RETURN_IF_ERROR(
      status_of(cudaMemsetAsync(workspace.bytes, 0, Layout::state_bytes(count), stream),
                "decode: clearing its workspace"));
  const Layout layout(workspace.bytes, count);
  auto* const marks = static_cast<std::uint32_t*>(layout.of_changes);
  auto* const listed = reinterpret_cast<std::uint16_t*>(marks + out.capacity);
  const DecodeWork work{contents.bytes,
                        contents_bytes,
                        contents.blocks,
                        array,
                        count,
                        info(type).is_float,
                        out.changes,
                        out.capacity,
                        out.hashes,
                        out.errors,
                        out.refused,
                        layout.words + 1,
                        reinterpret_cast<std::uint32_t*>(layout.words),
                        marks,
                        listed,
                        listed + out.capacity};
  return status_of(launch_decode(work, width, stream), "decode");
}

Status apply_decoded(const DeviceChanges& changes, void* array, std::uint64_t count,
                     std::size_t element_bytes, std::uint64_t* refused, cudaStream_t stream) {
  SPARCL_RETURN_IF_ERROR(check_sizes("apply", count, element_bytes, 0, {}));
  if (count == 0) return Status();
  return status_of(launch_apply({changes, count, array, nullptr, refused}, element_bytes, stream),
                   "apply");
}

std::string_view text_of(BlockError error) {
  switch (error) {
    case BlockError::kNone:
      return "has nothing wrong";
    case BlockError::kCount:
      return "has an invalid change count";
    case BlockError::kHead:
      return "has invalid parameters or sizes of gaps, or more exceptions than changes";
    case BlockError::kLength:
      return "is not as long as its parts";
    case BlockError::kPosition:
      return "has positions past its end";
    case BlockError::kException:
      return "has exceptions past its changes";
    case BlockError::kMagnitude:
      return "ends inside its magnitudes, or has one past 2^63";
    case BlockError::kStep:
      return "has a step larger than its data type";
    case BlockError::kEnd:
      return "does not end where its changes do";
    case BlockError::kNotHere:
      return "is in a mode, or at a place, where it cannot be read";
    case BlockError::kNoRoom:
      return "has more changes than there is room for";
    case BlockError::kBase:
      return "has changes of elements that what is held has not";
  }
  return "has an unknown error";
}

}  // namespace sparcl::kernels::cuda
