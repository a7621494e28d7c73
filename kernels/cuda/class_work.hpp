#pragma once
// What the launches for blocks of classes are given.

#include "kernels/class_counts.hpp"
#include "kernels/cuda/device_work.hpp"
#include "kernels/device_class_codec.hpp"

namespace sparcl::kernels::cuda {

struct ClassDecodeWork {
  const void* contents;
  const BlockContent* blocks;  // as decode_block() has looked at them
  const void* array;
  std::uint64_t count;  // of its elements
  DeviceChanges changes;
  DeviceChangeHashes* hashes;
  BlockError* errors;
  std::uint64_t* refused;
  // The workspace.
  std::uint32_t* next_block;  // zero
  TileState* states;          // kMaxClasses words a block, zeros
  std::uint32_t* found;       // kMaxClasses a block, of which a superblock has those of its first:
                              // changes of each class
  std::uint32_t* marks;       // these three of capacity
  std::uint32_t* ranks;       // class by class
  std::uint32_t* listed;      // changes that have a size; then the step of each change
};

// Superblocks with more changes stay what they are without classes: lists of so many, and parts of
// them, fit the window that bits are written through (bit_window.cuh), and beyond 6 % classes gain
// little.
constexpr std::uint32_t kMaxClassChanges = 16'384;

struct ClassEncodeWork {
  DeviceChanges changes;
  std::uint64_t capacity;  // of changes
  const void* base;
  std::uint64_t count;  // of its elements
  ClassTable table;
  std::uint32_t table_bytes;  // of its section, for one superblock
  std::uint32_t first_block;  // at which a superblock begins
  std::uint32_t end_block;    // after the last one of a superblock that is here
  void* contents;
  BlockContent* blocks;  // of no classes, before
  DeviceChangeHashes* hashes;
  std::uint64_t* classes_end;  // of contents; zero before
  // The workspace.
  TileState* states;             // a word a superblock, zeros
  std::uint32_t* next_super;     // zero
  std::uint32_t* elements;       // kMaxClasses a block: its elements of each class
  std::uint32_t* section_bytes;  // a block: without classes
  std::uint32_t* keys;    // these of capacity. A change's class, and above it its rank in its block
  std::uint32_t* ranks;   // class by class, in the superblock
  std::uint16_t* steps;   // of these
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
