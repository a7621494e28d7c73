#include "kernels/cuda/class_launchers.hpp"
#include "kernels/cuda/class_places.cuh"
#include "kernels/cuda/class_sample.cuh"
#include "kernels/cuda/class_sink.cuh"

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

__global__ void __launch_bounds__(kThreads, kResident) rank_changes_kernel(ClassEncodeWork work) {
  __shared__ ClassRankShared shared;
  rank_changes(shared, work);
}

__global__ void __launch_bounds__(kThreads, kResident) encode_classes_kernel(ClassEncodeWork work) {
  __shared__ ClassSinkShared shared;
  encode_classes(shared, work);
}

__global__ void __launch_bounds__(kThreads, kResident) sample_classes_kernel(ClassSampleWork work) {
  __shared__ ClassSampleShared shared;
  sample_classes(shared, work);
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

cudaError_t launch_encode_classes(const ClassEncodeWork& work, cudaStream_t stream) {
  rank_changes_kernel<<<work.end_block - work.first_block, kThreads, 0, stream>>>(work);
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess) return error;
  encode_classes_kernel<<<static_cast<unsigned>(super_count(work)), kThreads, 0, stream>>>(work);
  return cudaGetLastError();
}

cudaError_t launch_sample_classes(const ClassSampleWork& work, cudaStream_t stream) {
  sample_classes_kernel<<<static_cast<unsigned>(work.count), kThreads, 0, stream>>>(work);
  return cudaGetLastError();
}

}  // namespace sparcl::kernels::cuda
