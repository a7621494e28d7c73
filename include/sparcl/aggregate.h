/** @file
 * Aggregation: the ranks' sparse updates become one, by a mean, an outer optimiser and a cut.
 *
 * An all-reduce sums what the ranks give. An aggregator does more (parameter server; Li et al.,
 * OSDI 2014). It weighs contributions by the data behind them, and refuses or clips bad ones. It
 * keeps the momentum of an outer optimiser, and sends back only the largest elements.
 *
 * The order of steps in a round: check, non-finite values, clip, weight, sum, mean, outer
 * optimiser, residual, cut, wire type. The sum follows the canonical tree over ranks
 * (sparclDeterminismCanonical): the same contributions give the same bits in every run. A mean is
 * divided in double precision, and rounded once.
 */
#ifndef SPARCL_AGGREGATE_H_
#define SPARCL_AGGREGATE_H_

#include "sparcl/core.h"

#ifdef __cplusplus
extern "C" {
#endif

/** An aggregator's state on one rank: its options, the round number, and of this rank's share of
 * the elements the moments of the outer optimiser and the residual. */
typedef struct sparclAggregator* sparclAggregator_t;

typedef enum {
  sparclMeanByWeight = 0,         /**< divided by the sum of the weights */
  sparclMeanOverWorkers = 1,      /**< divided by the number of ranks */
  sparclMeanOverContributors = 2, /**< each element by the weights of the ranks that have it */
  sparclMeanNone = 3,             /**< the weighted sum */
  sparclMeanForceInt = 0x7fffffff
} sparclMean_t;

/** Outer optimisers. Contributions are updates (new weights - old weights), and results are added
 * to the weights. g: the mean; m: the momentum, at first 0. */
typedef enum {
  sparclOuterNone = 0,     /**< g */
  sparclOuterSgd = 1,      /**< m = momentum m + g; learning_rate m */
  sparclOuterNesterov = 2, /**< m likewise; learning_rate (g + momentum m), as in DiLoCo */
  /** Nesterov's momentum once in `delay` rounds (Liu et al., arXiv 2401.09135) */
  sparclOuterDelayedNesterov = 3,
  sparclOuterAdam = 4, /**< Adam (Kingma, Ba 2015), with momentum as its beta1 */
  sparclOuterForceInt = 0x7fffffff
} sparclOuter_t;

/** One decision for the whole round, the same on all ranks. */
typedef enum {
  sparclNonFiniteFail = 0,   /**< the call is sparclInvalidArgument and names the rank */
  sparclNonFiniteRefuse = 1, /**< the rank's contribution does not count; see `own_refused` */
  sparclNonFiniteZero = 2,   /**< these values count as 0 */
  sparclNonFiniteForceInt = 0x7fffffff
} sparclNonFinite_t;

/** Options of an aggregator; the same on all ranks. Zero means the default. */
typedef struct {
  size_t size;
  sparclMean_t mean;
  sparclOuter_t outer;
  double learning_rate; /**< default 1 */
  double momentum;      /**< 0 up to below 1; of Adam beta1 */
  double beta2;         /**< of Adam: default 0.999 */
  double epsilon;       /**< of Adam: default 1e-8 */
  double activation;    /**< of delayed Nesterov: share of the momentum between its rounds, at most
                             1 / delay */
  double clip_l2;       /**< a contribution with a larger L2 norm is scaled down to it. 0: off */
  double clip_median;   /**< likewise, to so many times the round's median norm. 0: off */
  size_t keep;          /**< elements of a result at most, those with the largest magnitude; the
                             rest is kept for later rounds. 0: all */
  size_t delay;         /**< of delayed Nesterov: rounds, default 1 */
  sparclNonFinite_t non_finite;
  sparclWire_t wire; /**< of results; the rounding error is kept for later rounds */
} sparclAggregatorOptions_t;
#define SPARCL_AGGREGATOR_OPTIONS_INITIALIZER                                                    \
  {                                                                                              \
    sizeof(sparclAggregatorOptions_t), sparclMeanByWeight, sparclOuterNone, 0, 0, 0, 0, 0, 0, 0, \
        0, 0, sparclNonFiniteFail, sparclWireSame                                                \
  }

/** Creates an aggregator for vectors of `count` elements. Local. Memory is allocated in its first
 * call: up to 4 arrays of float32, of count / ranks elements each.
 * @param options may be NULL: a mean by weight, without a state */
SPARCL_API sparclResult_t sparclAggregatorCreate(sparclAggregator_t* aggregator, size_t count,
                                                 const sparclAggregatorOptions_t* options);

/** Writes this rank's part of the aggregator to a file. Local, of an idle aggregator. All ranks
 * together save the whole state. The file replaces the old one once it is whole.
 * @see sparclAggregatorLoad */
SPARCL_API sparclResult_t sparclAggregatorSave(sparclAggregator_t aggregator, const char* path);

/** Creates an aggregator from a file of sparclAggregatorSave, bit for bit, with its options. Local.
 * It works in a communicator with as many ranks, on the rank that saved it.
 * @retval sparclCorrupt the file is damaged */
SPARCL_API sparclResult_t sparclAggregatorLoad(sparclAggregator_t* aggregator, const char* path);

/** Facts of an aggregator, of its last round where that is not said. */
typedef struct {
  size_t size;
  uint64_t rounds;     /**< all rounds, those before a save included */
  uint64_t listed;     /**< contributions that counted */
  uint64_t refused;    /**< contributions that did not */
  double total_weight; /**< of those that counted */
  double residual_l2;  /**< L2 norm of what this rank keeps for later rounds */
  int own_refused;     /**< 1: this rank's contribution did not count */
  int own_clipped;     /**< 1: this rank's contribution was scaled down */
} sparclAggregatorStats_t;
#define SPARCL_AGGREGATOR_STATS_INITIALIZER \
  { sizeof(sparclAggregatorStats_t), 0, 0, 0, 0, 0, 0, 0 }

/** Reads the facts of an idle aggregator. Local.
 * @param stats its size must be set; fields within that size are written */
SPARCL_API sparclResult_t sparclAggregatorStats(sparclAggregator_t aggregator,
                                                sparclAggregatorStats_t* stats);

/** Destroys an aggregator. Local. sparclInvalidUsage while a call with it is in flight. NULL is
 * allowed. */
SPARCL_API sparclResult_t sparclAggregatorDestroy(sparclAggregator_t aggregator);

/** Options of sparclAggregate. */
typedef struct {
  size_t size;
  sparclAggregator_t aggregator; /**< of `count` elements, at the same round on all ranks; NULL: a
                                      mean by weight, without a state */
  const int* ranks;  /**< ranks that aggregate, ascending, the same on all ranks and in all rounds;
                          NULL: all. Leave out those with slow links */
  size_t rank_count; /**< of `ranks` */
} sparclAggregateOptions_t;
#define SPARCL_AGGREGATE_OPTIONS_INITIALIZER \
  { sizeof(sparclAggregateOptions_t), NULL, NULL, 0 }

/** One round of an aggregator: each rank contributes a sparse update, and all get the result.
 * Collective over comm, blocking. The ranks' results have the same bits.
 * @param values nnz values of this rank, only read
 * @param indices nnz indices below count, only read; in any order, with duplicates. Duplicates
 *   combine in input order. Strictly ascending indices save a sorted copy
 * @param count length of the vectors, the same on all ranks, at most 2^63
 * @param weight of this rank's contribution, such as the tokens behind it; 0 or more. The product
 *   with a value is rounded to float32
 * @param out_values storage for out_capacity values, apart from the inputs; written
 * @param out_indices likewise; written in ascending order
 * @param out_nnz written: entries of the result
 * @param out_capacity entries. An aggregator with a state needs room for the largest result: the
 *   smaller of count and `keep` (count, if keep is 0)
 * @param datatype a float of at most 32 bits. Sums and state are float32
 * @param options may be NULL
 * @retval sparclTruncated the result does not fit a rank: *out_nnz is what is needed, and nothing
 *   else is written
 * @retval sparclInvalidArgument also: all weights are 0, or a value is not finite
 * @retval sparclMismatch also: the ranks' aggregators differ, in options or in their round
 *
 * An agreed error leaves the aggregator as it was. After an error that poisons comm its state may
 * differ between ranks: load a saved one.
 * @see sparclIAggregate, sparclAllReduceSparse */
SPARCL_API sparclResult_t sparclAggregate(const void* values, const uint64_t* indices, size_t nnz,
                                          size_t count, double weight, void* out_values,
                                          uint64_t* out_indices, size_t* out_nnz,
                                          size_t out_capacity, sparclDataType_t datatype,
                                          const sparclAggregateOptions_t* options,
                                          sparclComm_t comm, sparclStream_t stream);

/** @copydoc sparclAggregate
 * Non-blocking. @param request written; see sparclWait */
SPARCL_API sparclResult_t sparclIAggregate(const void* values, const uint64_t* indices, size_t nnz,
                                           size_t count, double weight, void* out_values,
                                           uint64_t* out_indices, size_t* out_nnz,
                                           size_t out_capacity, sparclDataType_t datatype,
                                           const sparclAggregateOptions_t* options,
                                           sparclComm_t comm, sparclStream_t stream,
                                           sparclRequest_t* request);

#ifdef __cplusplus
}
#endif

#endif /* SPARCL_AGGREGATE_H_ */
