/** @file
 * Collectives: sparse broadcasts, and masked, top-k and sparse all-reduce; masks, error feedback.
 *
 * Blocking: sparcl<Name>(..., options, comm, stream). Non-blocking twin: sparclI<Name>(the same,
 * request). Each collective is agreed, ordered and checked as core.h describes. `options` may be
 * NULL. Ranks that pass different algorithms, or other options that change what is sent, all get
 * sparclMismatch.
 *
 * In options, `algorithm` is a name, "auto" or NULL. NULL: the setting of the collective,
 * SPARCL_ALGO_... (docs/reference/settings.md). An unknown name is sparclInvalidArgument with the
 * names.
 */
#ifndef SPARCL_COLLECTIVES_H_
#define SPARCL_COLLECTIVES_H_

#include "sparcl/core.h"
#include "sparcl/state.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sparclMask* sparclMask_t;
typedef struct sparclFeedback* sparclFeedback_t;

/* ---- sparse broadcast ---- */

/** Options of sparclBroadcastDelta and sparclBroadcastSparse. */
typedef struct {
  size_t size;
  const char* algorithm; /**< of the fan-out: SPARCL_ALGO_BROADCAST */
  sparclVerify_t verify; /**< what ranks check of their base; default: that of the communicator */
  sparclCommit_t commit; /**< when this rank writes. sparclBroadcastSparse and arrays
                              that stay on the GPU are always staged */
} sparclBroadcastOptions_t;
#define SPARCL_BROADCAST_OPTIONS_INITIALIZER \
  { sizeof(sparclBroadcastOptions_t), NULL, sparclVerifyDefault, sparclCommitDefault }

/** Broadcasts what changed in one array.
 * Collective over comm, blocking. One call at a time may use an array.
 * @param weights count elements. Root: the new state, only read. Others: the base on entry, and the
 *   new state of the root, bit for bit, on return
 * @param base root: count elements that all ranks hold, only read; NULL: unknown, all is sent.
 *   Ignored on other ranks
 * @param options may be NULL
 *
 * All or nothing: an agreed error leaves weights unchanged. sparclWrongBase: a rank does not hold
 * the base; a call with base NULL brings the ranks together again.
 * @see sparclIBroadcastDelta, sparclBroadcastUpdate */
SPARCL_API sparclResult_t sparclBroadcastDelta(void* weights, const void* base, size_t count,
                                               sparclDataType_t datatype, int root,
                                               const sparclBroadcastOptions_t* options,
                                               sparclComm_t comm, sparclStream_t stream);

/** @copydoc sparclBroadcastDelta
 * Non-blocking. @param request written; see sparclWait */
SPARCL_API sparclResult_t sparclIBroadcastDelta(void* weights, const void* base, size_t count,
                                                sparclDataType_t datatype, int root,
                                                const sparclBroadcastOptions_t* options,
                                                sparclComm_t comm, sparclStream_t stream,
                                                sparclRequest_t* request);

/** Broadcasts what changed in a model.
 * Collective over comm, blocking. All ranks' states have the same names, types, shapes and order
 * (else sparclMismatch). The root keeps a copy of what the ranks hold. The first update of a comm
 * or of a root has no base and sends all.
 * @param version of the new state: 1 or more, and larger on each call. Other ranks pass the same,
 *   or 0 for the root's. The last version may be repeated after an error or on a new comm.
 * @param options may be NULL; see sparclUpdateOptions_t
 * @param stream of the GPU that holds tensors; NULL if no GPU or several do
 *
 * All or nothing: an agreed error leaves the tensors unchanged. If a GPU fails during the commit,
 * the tensors hold no version until an update that sends all.
 * @retval sparclUnhandledCudaError on one rank: all ranks hold the update, but this rank could not
 *   copy it to its device memory (`applied` is 0). Its next update completes the copy
 * @see sparclIBroadcastUpdate, sparclStateMarkIndices, sparclPublish */
SPARCL_API sparclResult_t sparclBroadcastUpdate(sparclState_t state, uint64_t version, int root,
                                                const sparclUpdateOptions_t* options,
                                                sparclComm_t comm, sparclStream_t stream);

/** @copydoc sparclBroadcastUpdate
 * Non-blocking. @param request written; see sparclWait */
SPARCL_API sparclResult_t sparclIBroadcastUpdate(sparclState_t state, uint64_t version, int root,
                                                 const sparclUpdateOptions_t* options,
                                                 sparclComm_t comm, sparclStream_t stream,
                                                 sparclRequest_t* request);

/** Broadcasts a sparse vector.
 * Collective over comm, blocking.
 * @param values root: *nnz values, only read; others: storage for capacity values, written
 * @param indices root: *nnz indices, strictly ascending, only read; others: as values
 * @param nnz entries; read on the root, written on the others
 * @param capacity entries; ignored on the root
 * @param options may be NULL
 * @retval sparclTruncated the entries do not fit a rank: only *nnz is written, on the other ranks
 * @see sparclIBroadcastSparse */
SPARCL_API sparclResult_t sparclBroadcastSparse(void* values, uint64_t* indices, size_t* nnz,
                                                size_t capacity, sparclDataType_t datatype,
                                                int root, const sparclBroadcastOptions_t* options,
                                                sparclComm_t comm, sparclStream_t stream);

/** @copydoc sparclBroadcastSparse
 * Non-blocking. @param request written; see sparclWait */
SPARCL_API sparclResult_t sparclIBroadcastSparse(void* values, uint64_t* indices, size_t* nnz,
                                                 size_t capacity, sparclDataType_t datatype,
                                                 int root, const sparclBroadcastOptions_t* options,
                                                 sparclComm_t comm, sparclStream_t stream,
                                                 sparclRequest_t* request);

/* ---- masks ---- */

/* A mask is a set of elements of an array that every rank knows. Each rank makes the same mask in
 * the same way: by indices, or at random. A mask takes 2 bytes an element, or 8 bytes a block.
 * Threads may share a mask. Functions are local. To redraw or to destroy a mask while a call uses
 * it is sparclInvalidUsage. Arrays have up to 2^44 elements. */

/** Makes a mask of given elements.
 * @param indices nnz element numbers below count, strictly ascending; copied */
SPARCL_API sparclResult_t sparclMaskCreateIndices(sparclMask_t* mask, const uint64_t* indices,
                                                  size_t nnz, size_t count);

/** Makes a mask of exactly round(density * count) random elements.
 * The elements depend on count, density, seed and step only, on every machine.
 * @param density 0 to 1 */
SPARCL_API sparclResult_t sparclMaskCreateRandom(sparclMask_t* mask, size_t count, double density,
                                                 uint64_t seed);

/** Makes a mask of round(density * blocks) random blocks of the array.
 * @param block elements a block; the last block of the array may be shorter */
SPARCL_API sparclResult_t sparclMaskCreateBlocks(sparclMask_t* mask, size_t count, size_t block,
                                                 double density, uint64_t seed);

/** Draws a random mask again, for another step. A mask of indices does not change.
 * @param step 0 at first */
SPARCL_API sparclResult_t sparclMaskSetStep(sparclMask_t mask, uint64_t step);

/** Copies the elements of a mask.
 * @param indices storage for capacity indices, written in ascending order; NULL: nnz only
 * @param nnz written: elements of the mask
 * @retval sparclTruncated they exceed capacity */
SPARCL_API sparclResult_t sparclMaskGetIndices(sparclMask_t mask, uint64_t* indices,
                                               size_t capacity, size_t* nnz);

/** Destroys a mask. */
SPARCL_API sparclResult_t sparclMaskDestroy(sparclMask_t mask);

/* ---- error feedback ---- */

/* A feedback holds the residual: what one rank has not yet sent of its gradients. A top-k or
 * masked call adds the residual to its input and keeps the rest. A rank has one feedback an array.
 * Functions are local; while a call uses the feedback, or a stream still works on it, they return
 * sparclInvalidUsage. A second collective with it is refused, too. The residual stays on the GPU
 * between calls on device arrays. */

/** Makes a feedback with a residual of zeros.
 * @param count elements of the array, up to 2^44
 * @param datatype of the array. The residual of floats of up to 16 bits is float32, else of the
 *   type itself. Integers of 8 and 16 bits and bool: sparclUnsupported */
SPARCL_API sparclResult_t sparclFeedbackCreate(sparclFeedback_t* feedback, size_t count,
                                               sparclDataType_t datatype);

/** Saves the residual to a safetensors file with a hash. The file appears, or is replaced, when it
 * is complete on the disk; after an error the path is unchanged. */
SPARCL_API sparclResult_t sparclFeedbackSave(sparclFeedback_t feedback, const char* path);

/** Makes a feedback from a file of sparclFeedbackSave, bit for bit; statistics start again.
 * @retval sparclSystemError the file is not readable
 * @retval sparclInvalidArgument the path is a folder, or the file has other tensors
 * @retval sparclCorrupt a check failed
 * @retval sparclUnsupported the file is of a later version */
SPARCL_API sparclResult_t sparclFeedbackLoad(sparclFeedback_t* feedback, const char* path);

/** Sets the residual to zeros and resets the statistics. */
SPARCL_API sparclResult_t sparclFeedbackReset(sparclFeedback_t feedback);

/** Statistics of the last call with a feedback. After a call over NCCL only calls, residual_l2 and
 * dropped_l2 are known, and dropped_l2 equals residual_l2. */
typedef struct {
  size_t size;
  uint64_t calls;         /**< since the feedback was made, loaded or reset */
  uint64_t selected;      /**< elements that this rank selected, or elements of the mask */
  uint64_t sent;          /**< elements of this rank in the result: `selected`; mode union: of any
                               rank; mode global: those that were kept */
  uint64_t passes;        /**< over the array; more than 1: the first threshold was too high */
  double sent_mass;       /**< sum of |value| over the `sent` elements */
  double dropped_l2;      /**< L2 norm of input + residual without the selected elements; of any
                               rank in mode union; without the result with sparclResidualMean */
  double residual_l2;     /**< L2 norm of the residual now */
  double threshold;       /**< smallest magnitude that was selected */
  double threshold_drift; /**< threshold / threshold of the call before; 0: there was none */
} sparclFeedbackStats_t;
#define SPARCL_FEEDBACK_STATS_INITIALIZER \
  { sizeof(sparclFeedbackStats_t), 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/** Reports the last call with the feedback; reads the residual once.
 * @param stats its size must be set; fields within that size are written */
SPARCL_API sparclResult_t sparclFeedbackStats(sparclFeedback_t feedback,
                                              sparclFeedbackStats_t* stats);

/** Gives a view of the residual.
 * @param residual written: count elements, valid until the next call with the feedback
 * @param count written; may be NULL
 * @param datatype written: of the residual; may be NULL */
SPARCL_API sparclResult_t sparclFeedbackGetResidual(sparclFeedback_t feedback,
                                                    const void** residual, size_t* count,
                                                    sparclDataType_t* datatype);

/** Destroys a feedback. */
SPARCL_API sparclResult_t sparclFeedbackDestroy(sparclFeedback_t feedback);

/* ---- masked all-reduce ---- */

/** The elements of recvbuff outside the mask of a masked all-reduce. */
typedef enum {
  sparclOutsideKeep = 0, /**< leaves it */
  sparclOutsideZero = 1, /**< writes +0 */
  sparclOutsideForceInt = 0x7fffffff
} sparclOutside_t;

/** Options of sparclAllReduceMasked. */
typedef struct {
  size_t size;
  const char* algorithm;           /**< of the dense sum: SPARCL_ALGO_ALLREDUCE. Sums over NCCL
                                        in NCCL's order ignore it */
  sparclOutside_t outside;         /**< of this rank's recvbuff; ranks may differ */
  sparclDeterminism_t determinism; /**< over NCCL; the host path is always canonical */
} sparclMaskedOptions_t;
#define SPARCL_MASKED_OPTIONS_INITIALIZER \
  { sizeof(sparclMaskedOptions_t), NULL, sparclOutsideKeep, sparclDeterminismDefault }

/** Reduces the elements of a mask over all ranks.
 * Collective over comm, blocking.
 * @param sendbuff count elements, only read
 * @param recvbuff count elements; elements of the mask are written; may be sendbuff. By default
 *   the other elements keep this rank's values. If an optimiser steps with the whole array in
 *   place, the ranks' weights diverge: use options.outside = sparclOutsideZero
 * @param count of the mask
 * @param feedback of this rank, with the same count and datatype, for sparclSum and sparclAvg. The
 *   call sums sendbuff + residual. The residual keeps everything outside the mask, and the
 *   rounding error inside. NULL: the rest is discarded
 * @param options may be NULL
 *
 * The result has the same bits on every rank, in every run and for every algorithm. Over NCCL this
 * takes sparclDeterminismCanonical. After a poisoning error recvbuff may be partially written, and
 * the residual may hold sendbuff + residual.
 * @see sparclIAllReduceMasked, sparclCommUseNccl */
SPARCL_API sparclResult_t sparclAllReduceMasked(const void* sendbuff, void* recvbuff, size_t count,
                                                sparclDataType_t datatype, sparclRedOp_t op,
                                                sparclMask_t mask, sparclFeedback_t feedback,
                                                const sparclMaskedOptions_t* options,
                                                sparclComm_t comm, sparclStream_t stream);

/** @copydoc sparclAllReduceMasked
 * Non-blocking. @param request written; see sparclWait */
SPARCL_API sparclResult_t sparclIAllReduceMasked(const void* sendbuff, void* recvbuff, size_t count,
                                                 sparclDataType_t datatype, sparclRedOp_t op,
                                                 sparclMask_t mask, sparclFeedback_t feedback,
                                                 const sparclMaskedOptions_t* options,
                                                 sparclComm_t comm, sparclStream_t stream,
                                                 sparclRequest_t* request);

/* ---- top-k all-reduce ---- */

/** Which ranks contribute at which elements. */
typedef enum {
  sparclTopKUnion = 0,    /**< all ranks, at every element that any rank selected */
  sparclTopKSelected = 1, /**< each rank at the elements that it selected */
  sparclTopKGlobal = 2,   /**< as selected; only the k largest sums are kept */
  sparclTopKModeForceInt = 0x7fffffff
} sparclTopKMode_t;

/** The residual after a top-k call. */
typedef enum {
  sparclResidualSent = 0, /**< what this rank did not send */
  sparclResidualMean = 1, /**< of floats: acc - mean at the elements of the result, else acc */
  sparclResidualForceInt = 0x7fffffff
} sparclResidual_t;

/** Options of sparclAllReduceTopK. Mode, wire, determinism and algorithm: the same on all ranks. */
typedef struct {
  size_t size;
  const char* algorithm; /**< of the sparse sum: SPARCL_ALGO_ALLREDUCE_SPARSE; mode union takes a
                              name of the dense sum, SPARCL_ALGO_ALLREDUCE, and ignores others.
                              Sums over NCCL ignore it */
  sparclTopKMode_t mode;
  sparclWire_t wire;               /**< in mode union values are sent as float32 */
  sparclDeterminism_t determinism; /**< default: that of the communicator */
  sparclResidual_t residual;
  sparclToggle_t reuse_threshold; /**< on: start from the last call's threshold, not from a sample;
                                       faster if thresholds are steady; default off */
  sparclToggle_t device_kernels;  /**< select on the GPU; default: SPARCL_DEVICE_KERNELS.
                                       After sparclCommUseNccl GPUs always select */
  const uint64_t* tensors;        /**< NULL: the k largest of the array. Else the lengths of its
                                       tensors, count in sum: each gets its share of k; copied */
  size_t tensor_count;            /**< lengths in `tensors` */
} sparclTopKOptions_t;
#define SPARCL_TOPK_OPTIONS_INITIALIZER                                                           \
  {                                                                                               \
    sizeof(sparclTopKOptions_t), NULL, sparclTopKUnion, sparclWireSame, sparclDeterminismDefault, \
        sparclResidualSent, sparclDefault, sparclDefault, NULL, 0                                 \
  }

/** Reduces the k largest elements of each rank.
 * Collective over comm, blocking. acc = sendbuff + residual. Each rank selects the min(k,
 * non-zeros) elements of acc with the largest magnitude: NaN > infinity > finite, ties to the lower
 * index. Results plus residuals equal the inputs, up to rounding.
 * @param sendbuff count elements, only read
 * @param recvbuff count elements, all written: the sums (sparclAvg: / ranks), +0 elsewhere; may be
 *   sendbuff
 * @param k the same on all ranks, at most count. If k is 0, the result is +0
 * @param datatype a float type, or an integer type of 32 or 64 bits
 * @param op sparclSum or sparclAvg
 * @param feedback of this rank, with the same count and datatype; NULL: the rest is discarded
 * @param options may be NULL
 *
 * An agreed error leaves recvbuff and residual unchanged. After a poisoning error recvbuff may be
 * partially written, and the residual holds acc, without what was sent if anything was sent.
 * @see sparclIAllReduceTopK, sparclFeedbackCreate */
SPARCL_API sparclResult_t sparclAllReduceTopK(const void* sendbuff, void* recvbuff, size_t count,
                                              size_t k, sparclDataType_t datatype, sparclRedOp_t op,
                                              sparclFeedback_t feedback,
                                              const sparclTopKOptions_t* options, sparclComm_t comm,
                                              sparclStream_t stream);

/** @copydoc sparclAllReduceTopK
 * Non-blocking. @param request written; see sparclWait */
SPARCL_API sparclResult_t sparclIAllReduceTopK(const void* sendbuff, void* recvbuff, size_t count,
                                               size_t k, sparclDataType_t datatype,
                                               sparclRedOp_t op, sparclFeedback_t feedback,
                                               const sparclTopKOptions_t* options,
                                               sparclComm_t comm, sparclStream_t stream,
                                               sparclRequest_t* request);

/* ---- sparse all-reduce ---- */

/** Options of sparclAllReduceSparse; the same on all ranks. */
typedef struct {
  size_t size;
  const char* algorithm;           /**< of the sparse sum: SPARCL_ALGO_ALLREDUCE_SPARSE */
  sparclDeterminism_t determinism; /**< default: that of the communicator */
  sparclWire_t wire; /**< each rank's combined values are rounded to it; sums are float32 */
} sparclSparseOptions_t;
#define SPARCL_SPARSE_OPTIONS_INITIALIZER \
  { sizeof(sparclSparseOptions_t), NULL, sparclDeterminismDefault, sparclWireSame }

/** Reduces sparse vectors with any supports; every rank gets the union.
 * Collective over comm, blocking. An index that a rank does not have contributes zero; sparclAvg
 * divides by the number of ranks.
 * @param values nnz values of this rank, only read
 * @param indices nnz indices below count, only read; in any order, with duplicates. Duplicates
 *   combine in input order. Strictly ascending indices save a sorted copy
 * @param count length of the vectors, the same on all ranks, at most 2^63
 * @param out_values storage for out_capacity values, apart from the inputs; written
 * @param out_indices likewise; written in ascending order. Explicit zeros are kept
 * @param out_nnz written: entries of the union
 * @param out_capacity entries
 * @param options may be NULL
 * @retval sparclTruncated the union does not fit a rank: *out_nnz is what is needed, and nothing
 *   else is written
 *
 * After a poisoning error outputs may be partially written.
 * The bits are the same on every rank; see sparclDeterminism_t.
 * @see sparclIAllReduceSparse */
SPARCL_API sparclResult_t sparclAllReduceSparse(const void* values, const uint64_t* indices,
                                                size_t nnz, size_t count, void* out_values,
                                                uint64_t* out_indices, size_t* out_nnz,
                                                size_t out_capacity, sparclDataType_t datatype,
                                                sparclRedOp_t op,
                                                const sparclSparseOptions_t* options,
                                                sparclComm_t comm, sparclStream_t stream);

/** @copydoc sparclAllReduceSparse
 * Non-blocking. @param request written; see sparclWait */
SPARCL_API sparclResult_t sparclIAllReduceSparse(
    const void* values, const uint64_t* indices, size_t nnz, size_t count, void* out_values,
    uint64_t* out_indices, size_t* out_nnz, size_t out_capacity, sparclDataType_t datatype,
    sparclRedOp_t op, const sparclSparseOptions_t* options, sparclComm_t comm,
    sparclStream_t stream, sparclRequest_t* request);

#ifdef __cplusplus
}
#endif

#endif /* SPARCL_COLLECTIVES_H_ */
