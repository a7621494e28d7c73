/** @file
 * Elastic aggregation: workers that come and go, an aggregator, and rounds without a communicator.
 *
 * A worker gets a version of the model, trains, and contributes what has changed. The aggregator
 * sums the contributions of a round, steps its outer optimiser, and publishes the next version
 * (docs/guides/elastic.md). Workers connect over TCP; they may join, die and come back.
 *
 * Each contribution counts once, by its worker and its round, or is refused by name. A late one
 * counts in a later round. Sums follow one tree over the workers' slots, so that they have the same
 * bits whatever the order of arrival.
 *
 * Functions are local. One thread at a time uses an aggregator or a worker. Each owns threads of
 * the library. After fork() only the parent may use them.
 */
#ifndef SPARCL_ELASTIC_H_
#define SPARCL_ELASTIC_H_

#include "sparcl/aggregate.h"
#include "sparcl/state.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- aggregator ---- */

/** When a round ends. */
typedef enum {
  sparclRoundSynchronous = 0,  /**< with all workers that were there at its first contribution, or
                                    at its deadline without the others */
  sparclRoundQuorum = 1,       /**< with `quorum` of them, after a grace window (Decoupled DiLoCo,
                                    arXiv 2604.21428) */
  sparclRoundAsynchronous = 2, /**< with any `quorum` contributions that are not too late */
  sparclRoundForceInt = 0x7fffffff
} sparclRound_t;

/** Options of sparclAggregatorServe. Zero means the default. */
typedef struct {
  size_t size;
  const char* listen;   /**< "HOST:PORT" for workers; NULL: a free port of the loopback interface.
                             Other interfaces need secret_path, certificates_path or insecure */
  const char* publish;  /**< "HOST:PORT" for results, also for replicas that only follow the model
                             (sparclSubscriberCreate); NULL: a free loopback port */
  const char* model_id; /**< workers must pass the same; NULL: "" */
  const char* folder;   /**< keeps the rounds, so that another process goes on where this one ends;
                             NULL: the state ends with the process */
  const char* parent;   /**< "HOST:PORT" of an aggregator that decides what counts, or several with
                             commas between them: the next one is tried if one fails. NULL: this
                             aggregator is the root. With a parent, only secret_path,
                             certificates_path, deadline_s and insecure of the options that follow
                             are used. publish, folder, key_path and contributors_path must be
                             NULL */
  const char* key_path; /**< Ed25519 keys (`sparcl keygen`) that sign results; NULL: the secret's
                             key, else none */
  const char* contributors_path; /**< file of public keys, read again when it changes: contributions
                                      need a signature by one of them; NULL: they need none */
  const char* secret_path;       /**< secret of role publish; NULL: SPARCL_SECRET */
  const char* certificates_path; /**< in place of a secret; NULL: SPARCL_CERTIFICATES */
  double deadline_s;             /**< seconds from a round's first contribution to its end; also the
                                      limit for the sums of branches, and for a contribution's bytes
                                      while others wait for memory; default 600 */
  double grace_min_s, grace_max_s; /**< bounds of the grace window, which follows how late workers
                                        usually come; default 0 */
  double late_factor;              /**< of a late contribution's weight, for each round; 0 to 1,
                                        default 1 */
  uint64_t max_rounds_late;        /**< later contributions are refused; default 1,024 */
  uint64_t quorum;                 /**< contributions; default 1 */
  sparclRound_t round;
  sparclToggle_t insecure; /**< on: without a secret, listen on any interface: whoever reaches the
                                port reads the weights, and contributes */
} sparclServeOptions_t;
#define SPARCL_SERVE_OPTIONS_INITIALIZER                                                         \
  {                                                                                              \
    sizeof(sparclServeOptions_t), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, 0, \
        0, 0, 0, sparclRoundSynchronous, sparclDefault                                           \
  }

/** Serves workers with an aggregator until it is destroyed. Publishes the state as a version.
 * Without a folder that has rounds, that is version 1 with the state's weights. With one, weights
 * and the aggregator's state are those of the last round in it; an earlier process that still
 * writes there ends with sparclInvalidUsage.
 * @param aggregator of as many elements as the state has of types float32, bfloat16 and float16;
 *   not used by another call
 * @param state host memory; must outlive the aggregator, which writes the weights. Tensors of other
 *   types stay as they are. Weights of 16 bits are summed in float32
 * @param options may be NULL
 * @retval sparclMismatch the folder's rounds are of another model, or of other options */
SPARCL_API sparclResult_t sparclAggregatorServe(sparclAggregator_t aggregator, sparclState_t state,
                                                const sparclServeOptions_t* options);

/** Tells the addresses of a serving aggregator.
 * @param workers storage for capacity bytes, written: where workers connect
 * @param results likewise: where versions are published, "" with a parent; may be NULL
 * @retval sparclTruncated an address does not fit */
SPARCL_API sparclResult_t sparclAggregatorAddress(sparclAggregator_t aggregator, char* workers,
                                                  char* results, size_t capacity);

/** A round that has ended. */
typedef struct {
  size_t size;
  uint64_t version; /**< the round's number + 1. The state holds this version, unless the
                         aggregator has a parent */
  uint64_t listed;  /**< contributions that count; 0 if the round failed */
  uint64_t late;    /**< of these, made for earlier rounds */
  uint64_t missing; /**< workers that did not contribute by the deadline */
  uint64_t changed; /**< elements of the result */
  uint64_t bytes;   /**< of contributions, and of sums of branches, as they came */
  double weight;    /**< of all that count */
  double seconds;   /**< from the round's end until its result was published */
} sparclRoundReport_t;
#define SPARCL_ROUND_REPORT_INITIALIZER \
  { sizeof(sparclRoundReport_t), 0, 0, 0, 0, 0, 0, 0, 0 }

/** Waits for the end of a round, and publishes its result. An aggregator with a parent sends the
 * round's sums to its parent instead. Blocking. A round fails if it has too few contributions, only
 * zero weights, or a value that is not finite. It also fails if all its contributions were refused,
 * or lost with a branch. It then has a version, too, with the same weights; its contributions are
 * refused.
 * @param seconds until sparclTimeout: the round goes on, call again
 * @param report its size must be set; written; may be NULL
 * @retval sparclInvalidUsage another process has taken over the folder */
SPARCL_API sparclResult_t sparclAggregatorNext(sparclAggregator_t aggregator, double seconds,
                                               sparclRoundReport_t* report);

/* ---- worker ---- */

typedef struct sparclWorker* sparclWorker_t;

/** Options of a worker. Zero means the default. */
typedef struct {
  size_t size;
  const char* model_id;    /**< of the aggregator; NULL: "" */
  const char* secret_path; /**< secret of role replicate: the aggregator must have the key that it
                                names; NULL: SPARCL_SECRET, else none */
  const char* certificates_path; /**< in place of a secret; NULL: SPARCL_CERTIFICATES */
  const char* key_path;   /**< Ed25519 keys that sign contributions, read again for each connection
                               when they have changed; NULL: none */
  const char* trust_path; /**< file of public keys: one of them must have signed a version, as for
                               sparclSubscriberCreate. Needs model_id. NULL: the key of secret_path,
                               else none */
  uint64_t keep;     /**< elements of a contribution at most, those that changed most; the rest is
                          kept for later ones. 0: all */
  uint64_t number;   /**< of this worker, from 1 on, such as its rank + 1; no other worker has it.
                          Sums have the same bits in every run, and through any aggregators, if each
                          worker has the same number again. 0: the aggregator chooses one */
  sparclWire_t wire; /**< of values; the rounding error is kept, too */
  sparclToggle_t relay; /**< pass versions on to other workers; default: SPARCL_RELAY */
} sparclWorkerOptions_t;
#define SPARCL_WORKER_OPTIONS_INITIALIZER                                              \
  {                                                                                    \
    sizeof(sparclWorkerOptions_t), NULL, NULL, NULL, NULL, NULL, 0, 0, sparclWireSame, \
        sparclDefault                                                                  \
  }

/** Starts a worker, which connects to an aggregator and connects again after each failure.
 * Takes memory for a copy of the state, and a residual of float32.
 * @param worker written; see sparclWorkerDestroy
 * @param state host memory: tensors with the aggregator's names, types, shapes and order; must
 *   outlive the worker
 * @param address "HOST:PORT", or several with commas between them, of aggregators that take over
 *   from each other
 * @param options may be NULL */
SPARCL_API sparclResult_t sparclWorkerCreate(sparclWorker_t* worker, sparclState_t state,
                                             const char* address,
                                             const sparclWorkerOptions_t* options);

/** Waits for a newer version and writes it to the tensors, over what was trained. Blocking.
 * An aggregator that has lost its rounds begins again with version 1, which is then taken.
 * The first call gets the version that is open. After an error the tensors are unchanged.
 * @param seconds until sparclTimeout
 * @param version written; may be NULL
 * @retval sparclTimeout no newer version came in time: the text says why
 * @retval sparclRemoteError the aggregator is not there; the worker goes on trying
 * @retval sparclMismatch the aggregator has another model id, or other tensors
 * @retval sparclUnsupported the aggregator's version of the protocol is another one
 * @retval sparclUnauthorized the aggregator lists no key of this worker, or no trusted key signed
 *   the version; the worker goes on trying */
SPARCL_API sparclResult_t sparclWorkerNext(sparclWorker_t worker, double seconds,
                                           uint64_t* version);

/** Contributes what has changed in the tensors since the version that they started from.
 * Once for each version. Does not wait for the network; the tensors may change when it returns. The
 * library keeps the contribution, and sends it again where it must, until it is in a committed
 * round. If it is refused, or 8 contributions are on their way, it is added to the next one.
 * @param weight such as the tokens behind it; 0 or more
 * @retval sparclInvalidUsage no version is held yet, or the worker has contributed to it already */
SPARCL_API sparclResult_t sparclWorkerContribute(sparclWorker_t worker, double weight);

/** Waits until no contribution is on its way: all are in committed rounds, or were refused.
 * @param seconds until sparclTimeout */
SPARCL_API sparclResult_t sparclWorkerFlush(sparclWorker_t worker, double seconds);

/** Facts of a worker, since it was created. */
typedef struct {
  size_t size;
  uint64_t version;     /**< that the tensors started from */
  uint64_t contributed; /**< contributions */
  uint64_t committed;   /**< of these, in committed rounds */
  uint64_t late;        /**< of these, in later rounds than their own */
  uint64_t refused;     /**< contributions that were refused */
  uint64_t deferred;    /**< calls that sent nothing, because 8 contributions were on their way */
  uint64_t entries;     /**< of the last contribution */
  uint64_t bytes;       /**< of the last contribution */
  uint64_t connections; /**< to an aggregator */
  double residual_l2;   /**< L2 norm of what is kept for later */
} sparclWorkerStats_t;
#define SPARCL_WORKER_STATS_INITIALIZER \
  { sizeof(sparclWorkerStats_t), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/** Reads the facts of a worker.
 * @param stats its size must be set; fields within that size are written */
SPARCL_API sparclResult_t sparclWorkerStats(sparclWorker_t worker, sparclWorkerStats_t* stats);

/** Ends a worker. Contributions on their way are lost: see sparclWorkerFlush. The tensors keep what
 * they hold. NULL is allowed. */
SPARCL_API sparclResult_t sparclWorkerDestroy(sparclWorker_t worker);

#ifdef __cplusplus
}
#endif

#endif /* SPARCL_ELASTIC_H_ */
