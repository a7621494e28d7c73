/** @file
 * Models as ordered lists of named tensors, marks of what changed, and options of updates (C99).
 *
 * sparclBroadcastUpdate (collectives.h) and publishers and subscribers (replication.h) take states.
 * All functions of this header are local. One thread at a time uses a state. While a broadcast of
 * the state is in flight, marks, hash and destroy are sparclInvalidUsage.
 */
#ifndef SPARCL_STATE_H_
#define SPARCL_STATE_H_

#include "sparcl/core.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sparclState* sparclState_t;

/* ---- tensors ---- */

/** Makes an empty state.
 * The caller owns the tensors; they must outlive the state, and must not share memory.
 * @param state written; see sparclStateDestroy */
SPARCL_API sparclResult_t sparclStateCreate(sparclState_t* state);

/** Appends a tensor. Add tied weights once.
 * @param name unique, UTF-8, not empty; copied
 * @param data product(shape) elements, row-major, in host or device memory. Calls read and write
 *   device memory in the order of their stream, or of the default stream; docs/guides/gpus.md
 * @param ndim dimensions; 0: a scalar
 * @param shape ndim dimensions; copied
 * @retval sparclInvalidUsage the state was used before */
SPARCL_API sparclResult_t sparclStateAdd(sparclState_t state, const char* name, void* data,
                                         sparclDataType_t datatype, int ndim,
                                         const uint64_t* shape);

/** Appends a slice of a tensor: a rank's part of a sharded model.
 * Several slices of a tensor may be added, each once; they may overlap in the tensor, but not in
 * memory. A tensor is added whole or in slices. Other calls treat a slice as a tensor of the shape
 * `extent`. A subscriber whose state has slices needs a publisher of whole tensors.
 * @param name of the tensor
 * @param data the slice alone: product(extent) elements, row-major
 * @param shape ndim dimensions of the tensor; copied
 * @param begin first index of the slice in each dimension; copied
 * @param extent indices of the slice in each dimension, 0 allowed; copied
 * @retval sparclInvalidArgument the slice reaches out of the tensor
 * @see sparclStateAdd */
SPARCL_API sparclResult_t sparclStateAddSlice(sparclState_t state, const char* name, void* data,
                                              sparclDataType_t datatype, int ndim,
                                              const uint64_t* shape, const uint64_t* begin,
                                              const uint64_t* extent);

/** Appends a tensor that is rounded from a float32 master at each sparclPublish.
 * For publishers: the optimiser steps the master, replicas get the rounded tensor and add it by
 * sparclStateAdd. Rounding is to nearest, ties to even. A NaN becomes the quiet NaN of the type.
 * Values out of range become infinity; in float8e4m3 the largest number.
 * @param master product(shape) elements in host or device memory; may be added several times,
 *   under other names or types
 * @param datatype a float type of 16 or 8 bits
 *
 * Calls that need the tensor in memory return sparclUnsupported. @see sparclStateAdd */
SPARCL_API sparclResult_t sparclStateAddMaster(sparclState_t state, const char* name,
                                               const float* master, sparclDataType_t datatype,
                                               int ndim, const uint64_t* shape);

/* ---- what changed, and what is sent ---- */

/** Names the elements that changed since the last update. For the root or the publisher; optional.
 * The next update reads and sends marked elements only: unmarked changes are not sent.
 * @param name a tensor that is whole or has one slice; else sparclInvalidUsage
 * @param indices nnz element numbers of the tensor or its slice, strictly ascending; copied */
SPARCL_API sparclResult_t sparclStateMarkIndices(sparclState_t state, const char* name,
                                                 const uint64_t* indices, size_t nnz);

/** Names the blocks that may have changed, as sparclStateMarkIndices does for elements.
 * @param bitmap bit i % 64 of word i / 64, from the low end, stands for block i of the tensor; as
 *   many words as there are blocks / 64; copied
 * @param block elements a bit */
SPARCL_API sparclResult_t sparclStateMarkBlocks(sparclState_t state, const char* name,
                                                const uint64_t* bitmap, size_t block);

/** Says whether a tensor trains. On the root: updates with a base neither read nor send others.
 * @param name all slices of the tensor
 * @param trainable 0 or 1 (default) */
SPARCL_API sparclResult_t sparclStateSetTrainable(sparclState_t state, const char* name,
                                                  int trainable);

/** Sets the order of tensors in updates: higher priority first, then the order of adding.
 * Before the first use of the state, the same on all ranks; else sparclMismatch.
 * @param name all slices of the tensor
 * @param priority default 0 */
SPARCL_API sparclResult_t sparclStateSetPriority(sparclState_t state, const char* name,
                                                 int priority);

/* ---- what a state holds ---- */

/** Tells the version of the last successful update. @param version written; 0 before the first */
SPARCL_API sparclResult_t sparclStateVersion(sparclState_t state, uint64_t* version);

/** Hashes names, types, shapes, order and bytes; reads all tensors.
 * The hash finds accidents. It does not resist an attacker, who can make another state with the
 * same hash (docs/explanation/trust.md).
 * @param hash 16 bytes, written: the same on ranks with equal states */
SPARCL_API sparclResult_t sparclStateHash(sparclState_t state, uint8_t hash[16]);

/** Destroys a state; the tensors are left as they are.
 * @retval sparclInvalidUsage a call, a publisher or a subscriber uses the state */
SPARCL_API sparclResult_t sparclStateDestroy(sparclState_t state);

/* ---- options of updates ---- */

/** Which changes an update carries; the size of a change is |new - old|.
 * Changes that are not selected are sent later: replicas keep the old value, and the next update
 * includes the difference again. */
typedef enum {
  sparclSelectAll = 0,       /**< every element whose bits changed */
  sparclSelectThreshold = 1, /**< changes larger than `threshold` */
  sparclSelectTopK = 2,      /**< the `count` largest changes of the model; ties to the first */
  sparclSelectGrid = 3,      /**< changes that are visible after rounding to the type `grid` */
  sparclSelectBytes = 4,     /**< the largest changes that fit an update of `bytes` bytes */
  sparclSelectForceInt = 0x7fffffff
} sparclSelect_t;

/** How changes of floats of 16 bits and more are sent.
 * Codes have 8 bits and one scale for 65,536 elements. Every replica gets old + scale * code,
 * rounded to the type. The next update includes the quantisation error. Blocks with NaN or
 * infinity and all other types are sent exactly. A change from +0 to -0 counts as none. */
typedef enum {
  sparclValuesExact = 0,
  sparclValuesInt8 = 1,   /**< integer codes */
  sparclValuesFloat8 = 2, /**< E4M3 codes */
  sparclValuesForceInt = 0x7fffffff
} sparclValues_t;

/** How values are rounded to codes. */
typedef enum {
  sparclRoundNearest = 0,
  sparclRoundStochastic = 1, /**< unbiased; a function of seed, version and position */
  sparclRoundingForceInt = 0x7fffffff
} sparclRounding_t;

/** Options of sparclBroadcastUpdate. The root's fields count; `algorithm` and `verify` must be the
 * same on all ranks (else sparclMismatch). An update without a base sends all, exactly.
 * If an update leaves changes out or is not exact, sparclStateHash differs between the root and the
 * other ranks afterwards, and marks stay set. With `adopt` the states are equal again. */
typedef struct {
  size_t size;
  const char* algorithm; /**< as in sparclBroadcastOptions_t; NULL: SPARCL_ALGO_BROADCAST */
  sparclSelect_t select;
  sparclDataType_t grid; /**< a float type, or sparclInt8: steps of max|x| of the tensor / 127 */
  double threshold;
  uint64_t count; /**< elements */
  uint64_t bytes; /**< that each replica receives at most, headers included */
  uint64_t seed;  /**< of sparclRoundStochastic */
  sparclValues_t values;
  sparclRounding_t rounding;
  sparclToggle_t adopt;  /**< on: the root's tensors become what the replicas hold; default off */
  sparclVerify_t verify; /**< default: that of the communicator */
} sparclUpdateOptions_t;
#define SPARCL_UPDATE_OPTIONS_INITIALIZER                                             \
  {                                                                                   \
    sizeof(sparclUpdateOptions_t), NULL, sparclSelectAll, sparclBfloat16, 0, 0, 0, 0, \
        sparclValuesExact, sparclRoundNearest, sparclDefault, sparclVerifyDefault     \
  }

#ifdef __cplusplus
}
#endif

#endif /* SPARCL_STATE_H_ */
