#pragma once
// Contracts of the kernels for blocks of classes (docs/reference/wire-format.md: Classes). A block
// of classes covers four blocks of 16-bit floats and is coded by the exponents of the old values.
// Memory space: device. Each call enqueues on a stream, allocates nothing and does not wait.
// Workspaces are aligned to 16 bytes. This header needs no CUDA.

#include <cstddef>
#include <cstdint>

#include "kernels/class_counts.hpp"
#include "kernels/device_blocks.hpp"
#include "src/base/status.hpp"

namespace sparcl::kernels {

static_assert(sizeof(ClassTable) <= kClassTableBytes);

// count: elements of an array; capacity: room for changes.
using ClassWorkspaceBytes = std::size_t(std::uint64_t count, std::uint64_t capacity);

// A part of a sample of elements with their new values, and the number of its sample.
struct ClassSampleChunk {
  const void* base;
  const void* target;
  std::uint32_t count;  // at most kMaxSampleChunk
  std::uint32_t sample;
};
constexpr std::uint32_t kMaxSampleChunk = 2048;

// The counts of a sample for each key: its elements; changes by floor(log2(|d| - 1)), if they are
// of more than one step, and by floor(log2(|d|)).
struct ClassSampleCounts {
  std::uint32_t elements[256];
  std::uint32_t listed[256][16];
  std::uint32_t all[256][16];
};

// Adds chunks, in device memory, to counts, which are zeros before.
using SampleDeviceClassesKernel = Status(const ClassSampleChunk* chunks, std::uint64_t count,
                                         ClassSampleCounts* counts, void* stream);

// Superblocks of an array, and the classes in which they may be coded.
struct DeviceClassSpan {
  ClassTable table;
  std::uint32_t table_bytes;  // of its section, charged to one superblock
  std::uint32_t first_block;  // of the array: a superblock begins there
  std::uint32_t end_block;    // the last one ends there, and may be short
};

// Runs between diff and encode (device_block_codec.hpp) with the same arguments. Codes superblocks
// in classes if that takes fewer bytes than encode takes for their blocks. contents.blocks then
// describes them as decode expects, except for the table. encode continues from there:
// contents.classes_end, which this call writes, is not nullptr.
using EncodeDeviceClassesKernel = Status(const DeviceChanges& changes, std::uint64_t capacity,
                                         const void* base, std::uint64_t count,
                                         const DeviceClassSpan& span,
                                         const DeviceContents& contents, DeviceChangeHashes* hashes,
                                         void* workspace, std::size_t workspace_bytes,
                                         void* stream);

// Runs after decode (device_block_codec.hpp) with the same arguments, which has checked all blocks.
// Finds the changes of blocks of classes, against the values that the array holds. Only the tables
// of the contents are trusted.
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
