#include "kernels/cuda/cuda_cast.hpp"

#include <fmt/format.h>

#include "kernels/cuda/cast_launcher.hpp"
#include "kernels/cuda/cuda_status.hpp"

namespace sparcl::kernels::cuda {

Status cast_floats(const float* values, std::uint64_t count, DataType type, void* out,
                   void* stream) {
  constexpr std::uint64_t kMost = 0x7fffffff * kCastTile;
  if (count > kMost)
    return Status(
        Code::kInvalidArgument,
        fmt::format("CUDA: cast of {} elements: at most {} are taken at a time", count, kMost));
  if (count == 0) return Status();
  return status_of(launch_cast({values, count, out}, type, static_cast<cudaStream_t>(stream)),
                   "cast");
}

}  // namespace sparcl::kernels::cuda
