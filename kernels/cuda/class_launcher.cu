#include "kernels/cuda/class_launchers.hpp"
#include "kernels/cuda/class_places.cuh"

namespace sparcl::kernels::cuda {
namespace {

__global__ void __launch_bounds__(kThreads, kResident) read_classes_kernel(ClassDecodeWork work) {
  __shared__ ClassListShared shared;
  read_classes(shared, work);
}

__global__ void __launch_bounds__(kThreads, kResident) place_classes_kernel(ClassDecodeWork work) {
  __shared__ ClassPlaceShared shared;
  place_classes(shared, work);
}

}  // namespace

cudaError_t launch_decode_classes(const ClassDecodeWork& work, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(block_count(work.count));
  read_classes_kernel<<<blocks, kThreads, 0, stream>>>(work);
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess) return error;
  place_classes_kernel<<<blocks, kThreads, 0, stream>>>(work);
  return cudaGetLastError();
}

}  // namespace sparcl::kernels::cuda
