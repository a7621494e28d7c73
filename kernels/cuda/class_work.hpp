#pragma once
// What the launches for blocks of classes are given.

#include "kernels/class_table.hpp"
#include "kernels/cuda/device_work.hpp"

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
  std::uint32_t* found;       // kMaxClasses a block, of which a superblock has those of its first: changes of each class
  std::uint32_t* marks;       // these three of capacity
  std::uint32_t* ranks;       // class by class
  std::uint32_t* listed;      // changes that have a size; then the step of each change
};

}  // namespace sparcl::kernels::cuda
