// The block codec as kernels/device_block_codec.hpp has it.
#include "kernels/cuda/block_codec.hpp"
#include "kernels/cuda/class_codec.hpp"
#include "kernels/cuda/cuda_cast.hpp"
#include "kernels/cuda/cuda_hash.hpp"

namespace sparcl::kernels::cuda {
namespace {

cudaStream_t stream_of(void* stream) { return static_cast<cudaStream_t>(stream); }

Status diff_in_table(const void* base, const void* target, std::uint64_t count,
                     std::size_t element_bytes, const DeviceChanges& changes,
                     std::uint64_t capacity, void* workspace, std::size_t workspace_bytes,
                     void* stream) {
  return diff(base, target, count, element_bytes, changes, capacity, {workspace, workspace_bytes},
              stream_of(stream));
}

Status encode_in_table(const DeviceChanges& changes, std::uint64_t capacity, const void* target,
                       std::uint64_t count, DataType type, const DeviceContents& contents,
                       DeviceChangeHashes* hashes, void* workspace, std::size_t workspace_bytes,
                       void* stream) {
  return encode_blocks(changes, capacity, target, count, type, contents, hashes,
                       {workspace, workspace_bytes}, stream_of(stream));
}

Status decode_in_table(const DeviceContents& contents, std::uint64_t contents_bytes,
                       const void* array, std::uint64_t count, DataType type,
                       const DecodedBlocks& out, void* workspace, std::size_t workspace_bytes,
                       void* stream) {
  return decode_blocks(contents, contents_bytes, array, count, type, out,
                       {workspace, workspace_bytes}, stream_of(stream));
}

Status apply_in_table(const DeviceChanges& changes, void* array, std::uint64_t count,
                      std::size_t element_bytes, std::uint64_t* refused, void* stream) {
  return apply_decoded(changes, array, count, element_bytes, refused, stream_of(stream));
}

}  // namespace

DeviceBlockKernels block_kernels() {
  return {diff_in_table,   diff_workspace_bytes,   encode_in_table, encode_workspace_bytes,
          decode_in_table, decode_workspace_bytes, apply_in_table,  hash_array,
          cast_floats,     class_kernels()};
}

}  // namespace sparcl::kernels::cuda
