#pragma once
// Contracts of the kernels for blocks of classes (docs/reference/wire-format.md: Classes), which
// cover four blocks of 16-bit floats and are coded by the exponents of the old values. Memory
// space: device; each call enqueues on a stream, allocates nothing and waits for nothing;
// workspaces are aligned to 16 bytes. Nothing of CUDA is needed to include this.

#include <cstddef>
#include <cstdint>

#include "kernels/class_counts.hpp"
#include "kernels/device_blocks.hpp"
#include "src/base/status.hpp"

namespace sparcl::kernels {

static_assert(sizeof(ClassTable) <= kClassTableBytes);

// Of elements of an array, and of changes that there is room for.
using ClassWorkspaceBytes = std::size_t(std::uint64_t count, std::uint64_t capacity);

// A part of a sample of elements and what becomes of them, and which sample it is part of.
struct ClassSampleChunk {
  const void* base;
  const void* target;
  std::uint32_t count;  // at most kMaxSampleChunk
  std::uint32_t sample;
};
constexpr std::uint32_t kMaxSampleChunk = 2048;

// What a sample says of each key: elements; changes by floor(log2(|d| - 1)), of those that are not
// of one step, and by floor(log2(|d|)).
struct ClassSampleCounts {
  std::uint32_t elements[256];
  std::uint32_t listed[256][16];
  std::uint32_t all[256][16];
};

// Adds chunks, in device memory, to counts, which are zeros before.
using SampleDeviceClassesKernel = Status(const ClassSampleChunk* chunks, std::uint64_t count,
                                         ClassSampleCounts* counts, void* stream);

// Superblocks of an array, and the classes that they may be coded in.
struct DeviceClassSpan {
  ClassTable table;
  std::uint32_t table_bytes;  // of its section, what one superblock has to bear
  std::uint32_t first_block;  // of the array's: a superblock begins there
  std::uint32_t end_block;    // the last one ends there, and may be short
};

// Between diff and encode (device_block_codec.hpp) of the same arguments: codes superblocks in
// classes where that takes fewer bytes than what encode makes of their blocks. contents.blocks has
// them then, as decode wants it but for the table, and encode goes on from there:
// contents.classes_end, which is written here, is not nullptr.
using EncodeDeviceClassesKernel = Status(const DeviceChanges& changes, std::uint64_t capacity,
                                         const void* base, std::uint64_t count,
                                         const DeviceClassSpan& span,
                                         const DeviceContents& contents, DeviceChangeHashes* hashes,
                                         void* workspace, std::size_t workspace_bytes,
                                         void* stream);

// After decode (device_block_codec.hpp) of the same arguments, which has looked at all blocks:
// finds the changes of blocks of classes, against what the array holds. Nothing in contents is
// trusted but the tables.
using DecodeDeviceClassesKernel = Status(const DeviceContents& contents, const void* array,
                                         std::uint64_t count, const DecodedBlocks& out,
                                         void* workspace, std::size_t workspace_bytes,
                                         void* stream);

struct DeviceClassKernels {
  SampleDeviceClassesKernel* sample;
  EncodeDeviceClassesKernel* encode;
  ClassWorkspaceBytes* encode_workspace_bytes;
  DecodeDeviceClassesKernel* decode;
  ClassWorkspaceBytes* decode_workspace_bytes;
};

}  // namespace sparcl::kernels
