#include "kernels/cuda/cuda_hash.hpp"

#include <fmt/format.h>

#include "kernels/cuda/cuda_status.hpp"
#include "kernels/cuda/device_checks.hpp"
#include "kernels/cuda/hash_launcher.hpp"

namespace sparcl::kernels::cuda {

Status hash_array(const void* array, std::uint64_t count, std::size_t element_bytes,
                  const HashPlace& place, DeviceHash* total, DeviceHash* block_sums, void* stream) {
  SPARCL_RETURN_IF_ERROR(check_sizes("hash", count, element_bytes, 0, {}));
  if (place.offset >= kBlockElements) {
    return Status(Code::kInvalidArgument,
                  fmt::format("CUDA: hash of an array at element {} of a block: it has {}",
                              place.offset, kBlockElements));
  }
  if (count == 0) return Status();
  const HashWork work{array, count, place, total, block_sums};
  return status_of(launch_hash(work, element_bytes, static_cast<cudaStream_t>(stream)), "hash");
}

}  // namespace sparcl::kernels::cuda
