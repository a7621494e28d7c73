#pragma once
// Arguments of the launches for blocks of classes.

#include "kernels/class_counts.hpp"
#include "kernels/cuda/device_work.hpp"
#include "kernels/device_class_codec.hpp"

namespace sparcl::kernels::cuda {

struct ClassDecodeWork {
  const void* contents;
  const BlockContent* blocks;  // as decode_block() has left them
  const void* array;
  std::uint64_t count;  // elements of the array
  DeviceChanges changes;
  DeviceChangeHashes* hashes;
  BlockError* errors;
  std::uint64_t* refused;
  // The workspace.
  std::uint32_t* next_block;  // zero
  TileState* states;          // kMaxClasses words a block, zeros
  std::uint32_t* found;       // kMaxClasses a block, of which a superblock has those of its first:
                              // changes of each class
  std::uint32_t* marks;       // the next three have `capacity` entries
  std::uint32_t* ranks;       // class by class
  std::uint32_t* listed;      // changes that have a size; then the step of each change
};

// Superblocks with more changes are coded without classes. Lists of this size, and parts of them,
// fit the window that bits are written through (bit_window.cuh). Above 6 % density classes gain
// little.
constexpr std::uint32_t kMaxClassChanges = 16'384;

struct ClassEncodeWork {
  DeviceChanges changes;
  std::uint64_t capacity;  // of changes
  const void* base;
  std::uint64_t count;  // elements of the array
  ClassTable table;
  std::uint32_t table_bytes;  // of its section, charged to one superblock
  std::uint32_t first_block;  // a superblock begins here
  std::uint32_t end_block;    // after the last block of a superblock that is here
  void* contents;
  BlockContent* blocks;  // without classes, before
  DeviceChangeHashes* hashes;
  std::uint64_t* classes_end;  // end of the contents; zero before
  // The workspace.
  TileState* states;             // a word a superblock, zeros
  std::uint32_t* next_super;     // zero
  std::uint32_t* elements;       // kMaxClasses a block: its elements of each class
  std::uint32_t* section_bytes;  // a block: without classes
  std::uint32_t*
      keys;  // these have `capacity` entries. A change's class, and above it its rank in its block
  std::uint32_t* ranks;   // class by class, in the superblock
  std::uint16_t* steps;   // of these ranks
  std::uint16_t* listed;  // changes of a block, or a superblock, that have a size
};

constexpr std::uint64_t super_count(const ClassEncodeWork& work) {
  return work.end_block <= work.first_block
             ? 0
             : (work.end_block - work.first_block + kSuperBlocks - 1) / kSuperBlocks;
}

struct ClassSampleWork {
  const ClassSampleChunk* chunks;
  std::uint64_t count;
  ClassSampleCounts* counts;
};

}  // namespace sparcl::kernels::cuda
