#pragma once
// Contracts of the kernels for blocks of classes (docs/wire-format.md: Classes), which cover four blocks of 16-bit floats and are
// coded by the exponents of the old values. Memory space: device; each call enqueues on a stream, allocates nothing and waits for
// nothing; workspaces are aligned to 16 bytes. Nothing of CUDA is needed to include this.

#include <cstddef>
#include <cstdint>

#include "kernels/class_table.hpp"
#include "kernels/device_blocks.hpp"
#include "src/base/status.hpp"

namespace sparcl::kernels {

static_assert(sizeof(ClassTable) <= kClassTableBytes);

// Of elements of an array, and of changes that there is room for.
using ClassWorkspaceBytes = std::size_t(std::uint64_t count, std::uint64_t capacity);

// After decode (device_block_codec.hpp) of the same arguments, which has looked at all blocks: finds the changes of blocks of
// classes, against what the array holds. Nothing in contents is trusted but the tables.
using DecodeDeviceClassesKernel = Status(const DeviceContents& contents, const void* array, std::uint64_t count,
                                         const DecodedBlocks& out, void* workspace, std::size_t workspace_bytes, void* stream);

struct DeviceClassKernels {
  DecodeDeviceClassesKernel* decode;
  ClassWorkspaceBytes* decode_workspace_bytes;
};

}  // namespace sparcl::kernels
