#include <cuda_runtime_api.h>
#include <sparcl/sparcl.h>

void capture(const float* gradient, float* mean, size_t count, sparclMask_t mask, sparclComm_t comm, cudaStream_t stream);

void capture(const float* gradient, float* mean, size_t count, sparclMask_t mask, sparclComm_t comm, cudaStream_t stream) {
  cudaGraph_t graph;
  HERE
}
