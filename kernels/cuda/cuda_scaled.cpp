#include "kernels/cuda/cuda_scaled.hpp"

#include <fmt/format.h>

#include "kernels/cuda/cuda_status.hpp"
#include "kernels/cuda/scaled_launchers.hpp"

namespace sparcl::kernels::cuda {
namespace {

Status check_scaled(const char* call, std::uint64_t capacity, const DeviceScaledValues& scaled) {
  constexpr std::uint64_t kMost =
      0x7fffffffULL * (kThreads / 32) * kDeviceScaledGroup;  // of a launch
  if (capacity > kMost) {
    return Status(Code::kInvalidArgument,
                  fmt::format("CUDA: {} of {} scaled values: at most {} are taken at a time", call,
                              capacity, kMost));
  }
  if (scaled.exact_capacity > 0xffffffffU) {
    return Status(Code::kInvalidArgument,
                  fmt::format("CUDA: {}: room for {} exact groups: at most 2^32 - 1 have a number",
                              call, scaled.exact_capacity));
  }
  return Status();
}

}  // namespace

Status encode_scaled(const float* values, const std::uint64_t* count, std::uint64_t capacity,
                     const DeviceScaledValues& scaled, float* rounded, void* stream) {
  SPARCL_RETURN_IF_ERROR(check_scaled("encode", capacity, scaled));
  auto* const order = static_cast<cudaStream_t>(stream);
  SPARCL_RETURN_IF_ERROR(status_of(
      cudaMemsetAsync(scaled.exact_count, 0, sizeof *scaled.exact_count, order), "encode"));
  if (capacity == 0) return Status();
  return status_of(launch_encode_scaled({scaled, count, capacity, values, rounded}, order),
                   "encode of scaled values");
}

Status decode_scaled(const DeviceScaledValues& scaled, const std::uint64_t* count,
                     std::uint64_t capacity, float* values, void* stream) {
  SPARCL_RETURN_IF_ERROR(check_scaled("decode", capacity, scaled));
  if (capacity == 0) return Status();
  return status_of(launch_decode_scaled({scaled, count, capacity, nullptr, values},
                                        static_cast<cudaStream_t>(stream)),
                   "decode of scaled values");
}

Status round_groups(const float* values, const std::uint64_t* count, std::uint64_t capacity,
                    unsigned bits, float* rounded, void* stream) {
  SPARCL_RETURN_IF_ERROR(check_scaled("rounding", capacity, {}));
  if (capacity == 0) return Status();
  return status_of(launch_round_groups({{}, count, capacity, values, rounded}, bits,
                                       static_cast<cudaStream_t>(stream)),
                   "rounding to few bits");
}

}  // namespace sparcl::kernels::cuda
