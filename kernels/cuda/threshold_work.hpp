#pragma once
// What launches are given that take what is large enough.

#include "kernels/cuda/device_work.hpp"
#include "src/base/data_type.hpp"

namespace sparcl::kernels::cuda {

struct LargeWork {
  const void* values;
  void* residual;  // accumulators; nullptr: no error feedback
  std::uint64_t count;
  std::uint64_t least;     // key, 1 or more
  bool clear_sent;         // residual[i] = 0 for those taken
  std::uint64_t capacity;  // of what is taken
  std::uint64_t* indices;
  void* taken;           // accumulators; nullptr: none wanted
  std::uint64_t* found;  // also where there is room for fewer
  // The workspace: zeros.
  TileState* states;
  std::uint32_t* next_tile;
};

struct LargeDiffWork {
  DiffWork diff;
  double threshold;
};

}  // namespace sparcl::kernels::cuda
