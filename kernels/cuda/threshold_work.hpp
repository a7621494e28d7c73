#pragma once
// Arguments of launches that take large elements.

#include "kernels/cuda/device_work.hpp"
#include "src/base/data_type.hpp"

namespace sparcl::kernels::cuda {

struct LargeWork {
  const void* values;
  void* residual;  // accumulators; nullptr: no error feedback
  std::uint64_t count;
  std::uint64_t least;     // key, at least 1
  bool clear_sent;         // residual[i] = 0 for taken elements
  std::uint64_t capacity;  // room for taken elements
  std::uint64_t* indices;
  void* taken;           // accumulators; nullptr: not wanted
  std::uint64_t* found;  // even if there is room for fewer
  // The workspace: zeros.
  TileState* states;
  std::uint32_t* next_tile;
};

struct LargeDiffWork {
  DiffWork diff;
  double threshold;
};

}  // namespace sparcl::kernels::cuda
