#pragma once
// The codec's blocks on arrays in device memory. The calls follow the rules of
// kernels/cuda/device_kernels.hpp.

#include <cuda_runtime_api.h>

#include <string_view>

#include "kernels/cuda/device_kernels.hpp"
#include "kernels/device_block_codec.hpp"

namespace sparcl::kernels::cuda {

using kernels::DecodedBlocks;
using kernels::DeviceContents;

// An upper bound for the bytes of all contents of an array: the array's bytes, each block aligned.
std::uint64_t max_content_bytes(std::uint64_t count, std::size_t element_bytes);

std::size_t encode_workspace_bytes(std::uint64_t count, std::uint64_t capacity);

// Codes each changed block in one of the modes dense, verbatim, flat, two_level and
// two_level_verbatim. It takes the mode with the fewest bytes, on a tie the lower number. The bytes
// are those of src/codec's encoder. changes: from base to target, as diff finds them, with room for
// `capacity`; blocks without room become kLostBlock. hashes: of block_count() blocks; for a dense
// block, over all its elements.
Status encode_blocks(const DeviceChanges& changes, std::uint64_t capacity, const void* target,
                     std::uint64_t count, DataType type, const DeviceContents& contents,
                     DeviceChangeHashes* hashes, const Workspace& workspace, cudaStream_t stream);

std::size_t decode_workspace_bytes(std::uint64_t count, std::uint64_t capacity);

// Decodes contents of `contents_bytes` against the values that the array holds. contents.blocks has
// block_count() entries; no total at their end is needed. Neither contents nor blocks are trusted;
// each error is one that src/codec's decoder has, too. If *refused is not 0 the changes are
// undefined.
Status decode_blocks(const DeviceContents& contents, std::uint64_t contents_bytes,
                     const void* array, std::uint64_t count, DataType type,
                     const DecodedBlocks& out, const Workspace& workspace, cudaStream_t stream);

// Writes the new values if *refused (device memory) is 0. Does not check the old values again.
Status apply_decoded(const DeviceChanges& changes, void* array, std::uint64_t count,
                     std::size_t element_bytes, std::uint64_t* refused, cudaStream_t stream);

// Describes the error of a block: "has ...".
std::string_view text_of(BlockError error);

// For the table of kernels.
DeviceBlockKernels block_kernels();

}  // namespace sparcl::kernels::cuda
