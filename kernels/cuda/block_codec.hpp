#pragma once
// The codec's blocks on arrays in device memory: what kernels/cuda/device_kernels.hpp says of its
// calls holds for these, too.

#include <cuda_runtime_api.h>

#include <string_view>

#include "kernels/cuda/device_kernels.hpp"
#include "kernels/device_block_codec.hpp"

namespace sparcl::kernels::cuda {

using kernels::DecodedBlocks;
using kernels::DeviceContents;

// At most the bytes of all contents of an array: those of the array, each block's aligned.
std::uint64_t max_content_bytes(std::uint64_t count, std::size_t element_bytes);

std::size_t encode_workspace_bytes(std::uint64_t count, std::uint64_t capacity);

// Codes each block that changes in the one of modes dense, verbatim, flat, two_level and
// two_level_verbatim that takes the fewest bytes, of equals in that with the lower number: the
// bytes of src/codec's encoder. changes: from base to target, as diff finds them, with room for
// `capacity`; blocks that had no room come out as kLostBlock. hashes: of block_count(); of a dense
// block, of all its elements.
Status encode_blocks(const DeviceChanges& changes, std::uint64_t capacity, const void* target,
                     std::uint64_t count, DataType type, const DeviceContents& contents,
                     DeviceChangeHashes* hashes, const Workspace& workspace, cudaStream_t stream);

std::size_t decode_workspace_bytes(std::uint64_t count, std::uint64_t capacity);

// Decodes contents of `contents_bytes` (contents.blocks of block_count(): no sum at their end is
// needed), against what the array holds. Neither contents nor blocks are trusted; each error is one
// that src/codec's decoder has, too. Where *refused is not 0 the changes are rubbish.
Status decode_blocks(const DeviceContents& contents, std::uint64_t contents_bytes,
                     const void* array, std::uint64_t count, DataType type,
                     const DecodedBlocks& out, const Workspace& workspace, cudaStream_t stream);

// Writes the new values, if *refused (device memory) is 0. The old ones are not looked at again.
Status apply_decoded(const DeviceChanges& changes, void* array, std::uint64_t count,
                     std::size_t element_bytes, std::uint64_t* refused, cudaStream_t stream);

// What is wrong with the block: "has ...".
std::string_view text_of(BlockError error);

// For the table of kernels.
DeviceBlockKernels block_kernels();

}  // namespace sparcl::kernels::cuda
