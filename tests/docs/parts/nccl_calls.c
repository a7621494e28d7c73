#include <nccl.h>
#include <sparcl/sparcl.h>

void step(const float* gradient, float* sum, size_t count, int ranks, sparclUniqueId id, int rank, ncclComm_t nccl, cudaStream_t stream,
          sparclFeedback_t feedback);

void step(const float* gradient, float* sum, size_t count, int ranks, sparclUniqueId id, int rank, ncclComm_t nccl, cudaStream_t stream,
          sparclFeedback_t feedback) {
  sparclComm_t comm = NULL;
  sparclNcclOptions_t options = SPARCL_NCCL_OPTIONS_INITIALIZER;
  options.comm = nccl;
  (void)ranks, (void)id, (void)rank, (void)comm, (void)feedback, (void)options;
  HERE
}
