#pragma once
// Contracts of the kernels that find what changes in arrays, code it in the codec's blocks, and
// read and apply these (device_blocks.hpp). Memory space: device; each call enqueues on a stream,
// allocates nothing and waits for nothing; workspaces are aligned to 16 bytes, and arrays to their
// elements. Nothing of CUDA is needed to include this.

#include <cstddef>
#include <cstdint>

#include "kernels/device_blocks.hpp"
#include "kernels/device_cast.hpp"
#include "kernels/device_class_codec.hpp"
#include "kernels/device_hash.hpp"
#include "src/base/data_type.hpp"
#include "src/base/status.hpp"

namespace sparcl::kernels {

// Where base and target differ, bit for bit. The first `capacity` changes are written;
// changes.block_starts tells how many there are.
using DiffDeviceArraysKernel = Status(const void* base, const void* target, std::uint64_t count,
                                      std::size_t element_bytes, const DeviceChanges& changes,
                                      std::uint64_t capacity, void* workspace,
                                      std::size_t workspace_bytes, void* stream);
using DiffDeviceWorkspaceBytes = std::size_t(std::uint64_t count);

// Codes each changed block in one of the modes dense, verbatim, flat, two_level and
// two_level_verbatim. It takes the mode with the fewest bytes, on a tie the lower number. Blocks
// without room in `capacity` become kLostBlock, and are the last ones. hashes: of each block; for a
// dense block, over all its elements.
using EncodeDeviceBlocksKernel = Status(const DeviceChanges& changes, std::uint64_t capacity,
                                        const void* target, std::uint64_t count, DataType type,
                                        const DeviceContents& contents, DeviceChangeHashes* hashes,
                                        void* workspace, std::size_t workspace_bytes, void* stream);
using CodedWorkspaceBytes = std::size_t(std::uint64_t count, std::uint64_t capacity);

// contents.blocks: one for each block, kNoBlock if nothing changes. Neither they nor contents are
// trusted. If *out.refused is not 0 the changes are undefined.
using DecodeDeviceBlocksKernel = Status(const DeviceContents& contents,
                                        std::uint64_t contents_bytes, const void* array,
                                        std::uint64_t count, DataType type,
                                        const DecodedBlocks& out, void* workspace,
                                        std::size_t workspace_bytes, void* stream);

// Writes the new values, if *refused is 0. The old ones are not looked at again.
using ApplyDecodedKernel = Status(const DeviceChanges& changes, void* array, std::uint64_t count,
                                  std::size_t element_bytes, std::uint64_t* refused, void* stream);

struct DeviceBlockKernels {
  DiffDeviceArraysKernel* diff;
  DiffDeviceWorkspaceBytes* diff_workspace_bytes;
  EncodeDeviceBlocksKernel* encode;
  CodedWorkspaceBytes* encode_workspace_bytes;
  DecodeDeviceBlocksKernel* decode;
  CodedWorkspaceBytes* decode_workspace_bytes;
  ApplyDecodedKernel* apply;
  HashDeviceArrayKernel* hash;
  CastDeviceFloatsKernel* cast;
  DeviceClassKernels classes;
};

}  // namespace sparcl::kernels
