/** @file
 * Versions, results, types, communicators, errors, reports, requests and NCCL (C99).
 *
 * Rules for every call of sparcl:
 *  - Counts are elements, 64 bits wide. Inputs are never modified.
 *  - All ranks of a communicator make the same collective calls in the same order.
 *  - Errors of a collective are agreed: every rank returns the same code. The agreed errors are
 *    sparclMismatch, sparclWrongBase, sparclCorrupt, sparclTruncated, sparclInvalidArgument,
 *    sparclInvalidUsage and sparclUnsupported. While an update is encoded or checked,
 *    sparclOutOfMemory and sparclInternalError are agreed, too. An agreed error leaves all outputs
 *    unchanged and the communicator usable.
 *  - One rank alone may get sparclUnhandledCudaError, if its output did not reach its GPU.
 *    `applied` of the report is then 0, and the communicator stays usable.
 *  - Poisoning errors: sparclTimeout, sparclRemoteError and sparclSystemError poison the
 *    communicator. Every later call on it returns that error; abort and destroy still work.
 *  - While a blocking broadcast runs, weights may hold neither the old nor the new state; see
 *    sparclCommit_t.
 *  - A call without a communicator, or without storage for its request, fails on this rank alone.
 *  - One thread at a time uses a communicator. A call of a second thread is sparclInvalidUsage,
 *    except sparclCommAbort, sparclCommGetAsyncError and sparclCommGetFailedRank.
 *  - Arrays of calls may be in device memory (CUDA). The call is ordered on `stream`; NULL is the
 *    default stream. With host arrays `stream` must be NULL.
 *  - A struct begins with its size in bytes. A program may be compiled against an older header:
 *    fields that it does not have take their defaults. If a newer program sets a field that this
 *    library does not have, the call is sparclInvalidArgument. Zero means the default.
 *  - Every handle is checked. A destroyed handle is sparclInvalidUsage. A handle of another kind,
 *    or another value, is sparclInvalidArgument. Objects may be destroyed in any order.
 *    Destroy functions accept NULL.
 */
#ifndef SPARCL_CORE_H_
#define SPARCL_CORE_H_

#include <stddef.h>
#include <stdint.h>

#define SPARCL_VERSION_MAJOR 0
#define SPARCL_VERSION_MINOR 1
#define SPARCL_VERSION_PATCH 0
/** The number of version a.b.c. */
#define SPARCL_MAKE_VERSION(a, b, c) ((a)*10000 + (b)*100 + (c))
#define SPARCL_VERSION \
  SPARCL_MAKE_VERSION(SPARCL_VERSION_MAJOR, SPARCL_VERSION_MINOR, SPARCL_VERSION_PATCH)
/** Whether this header is of version a.b.c or later; also for the preprocessor. */
#define SPARCL_VERSION_AT_LEAST(a, b, c) (SPARCL_VERSION >= SPARCL_MAKE_VERSION(a, b, c))

#if defined(__GNUC__)
#define SPARCL_API __attribute__((visibility("default")))
#else
#define SPARCL_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/** The result of a call. Values 0 to 7 have the numbers and meanings of ncclResult_t. */
typedef enum {
  sparclSuccess = 0,
  sparclUnhandledCudaError = 1,
  sparclSystemError = 2,
  sparclInternalError = 3,
  sparclInvalidArgument = 4,
  sparclInvalidUsage = 5,
  sparclRemoteError = 6, /**< a rank died, left or aborted; the publisher is not there */
  sparclInProgress = 7,
  sparclTimeout = 16,     /**< a peer did not answer in time */
  sparclMismatch = 17,    /**< the ranks did not make the same call */
  sparclCorrupt = 18,     /**< bytes failed a check */
  sparclUnsupported = 19, /**< not supported here */
  sparclOutOfMemory = 20,
  sparclWrongBase = 21,    /**< the update is for another base than this rank holds */
  sparclUnauthorized = 22, /**< the signature is missing, wrong or by an unknown key */
  sparclTruncated = 23,    /**< the result does not fit the capacity of a rank */
  sparclStale = 24,        /**< a replica's version may be older than max_age_s */
  sparclResultForceInt = 0x7fffffff
} sparclResult_t;

/** Types of elements, numbered as ncclDataType_t up to 11. */
typedef enum {
  sparclInt8 = 0,
  sparclUint8 = 1,
  sparclInt32 = 2,
  sparclUint32 = 3,
  sparclInt64 = 4,
  sparclUint64 = 5,
  sparclFloat16 = 6,
  sparclFloat32 = 7,
  sparclFloat64 = 8,
  sparclBfloat16 = 9,
  sparclFloat8e4m3 = 10,
  sparclFloat8e5m2 = 11,
  sparclInt16 = 32,
  sparclUint16 = 33,
  sparclBool = 34,
  sparclDataTypeForceInt = 0x7fffffff
} sparclDataType_t;

/** Reductions, numbered as ncclRedOp_t. */
typedef enum {
  sparclSum = 0,
  sparclProd = 1,
  sparclMax = 2,
  sparclMin = 3,
  sparclAvg = 4, /**< sum / ranks: floats to nearest, integers towards zero */
  sparclRedOpForceInt = 0x7fffffff
} sparclRedOp_t;

/** An option that is on, off, or the default of its field. */
typedef enum {
  sparclDefault = 0,
  sparclOn = 1,
  sparclOff = 2,
  sparclToggleForceInt = 0x7fffffff
} sparclToggle_t;

/** Reproducibility of sums. */
typedef enum {
  sparclDeterminismDefault = 0,   /**< SPARCL_DETERMINISM; if that is not set, canonical, except
                                       that NCCL's order holds in masked sums over NCCL */
  sparclDeterminismRuns = 1,      /**< run-to-run reproducible with the same number of ranks */
  sparclDeterminismCanonical = 2, /**< also reproducible across algorithms and transports */
  sparclDeterminismFast = 3,      /**< today the same as sparclDeterminismRuns */
  sparclDeterminismForceInt = 0x7fffffff
} sparclDeterminism_t;

/** Checks of the base that an update is for. */
typedef enum {
  sparclVerifyDefault = 0, /**< SPARCL_VERIFY; touched if that is not set */
  sparclVerifyOff = 1,     /**< nothing */
  sparclVerifyTouched = 2, /**< the old values at the changed positions, before the first write */
  sparclVerifyFull = 3,    /**< a hash of the whole state, before and after */
  sparclVerifyForceInt = 0x7fffffff
} sparclVerify_t;

/** When a rank writes an update. */
typedef enum {
  sparclCommitDefault = 0, /**< SPARCL_COMMIT; by default early in blocking calls, else staged */
  sparclCommitStaged = 1,  /**< after all ranks have voted */
  sparclCommitEarly = 2,   /**< block by block once checked; restored on an error */
  sparclCommitForceInt = 0x7fffffff
} sparclCommit_t;

/** The type that the values of a sum are rounded to before they are sent. Scaled types are for
 * floats of up to 32 bits. */
typedef enum {
  sparclWireSame = 0,     /**< not rounded */
  sparclWireBfloat16 = 1, /**< bfloat16, for floats of up to 32 bits */
  sparclWireInt8 = 2,     /**< 8 bits and one power of two for 128 values (MXINT8) */
  sparclWireInt4 = 3,     /**< 4 bits and one bfloat16 scale for 128 values */
  sparclWireInt2 = 4,     /**< 2 bits, likewise; for selected values, with feedback */
  sparclWireForceInt = 0x7fffffff
} sparclWire_t;

typedef struct sparclComm* sparclComm_t;
typedef struct sparclRequest* sparclRequest_t;
typedef struct CUstream_st* sparclStream_t; /**< a cudaStream_t */

/** Tells the version of the library. @param version written: as SPARCL_VERSION */
SPARCL_API sparclResult_t sparclGetVersion(int* version);

/** Describes a result in one sentence. @return a constant text, never NULL */
SPARCL_API const char* sparclGetErrorString(sparclResult_t result);

/** Returns the full text of the last error: what failed and where, why, and what to do.
 * Local. A call that succeeds does not change the text.
 * @param comm NULL: the last error of the calling thread. Else the same; but a later error of
 *   `comm` on another thread replaces an error that was not of `comm`. A watchdog uses this.
 * @return "" if there was no error; valid until this thread's next failing call or next call of
 *   this function */
SPARCL_API const char* sparclGetLastError(sparclComm_t comm);

/* ---- communicators ---- */

/** Options of a communicator. NULL and zero: the environment, else the default. */
typedef struct {
  size_t size;
  const char* transport; /**< "mpi", "ucx", "loopback" or "auto"; NULL: SPARCL_TRANSPORT */
  double timeout_s;      /**< seconds to wait for a live but late peer; 0: SPARCL_TIMEOUT_S (600) */
  double liveness_s;     /**< a silent peer counts as stopped after so many s; SPARCL_LIVENESS_S */
  sparclVerify_t verify;
  sparclDeterminism_t determinism; /**< of sums */
  int threads;              /**< that encode and apply, with the caller's; 0: SPARCL_THREADS or 1 */
  sparclToggle_t heartbeat; /**< default: SPARCL_HEARTBEAT */
} sparclConfig_t;
#define SPARCL_CONFIG_INITIALIZER                                                         \
  {                                                                                       \
    sizeof(sparclConfig_t), NULL, 0, 0, sparclVerifyDefault, sparclDeterminismDefault, 0, \
        sparclDefault                                                                     \
  }

/** Identifies a communicator that is started without MPI. Binary: zeros may be anywhere in it.
 * Every process that knows the id can join: keep it secret. */
typedef struct {
  char internal[128];
} sparclUniqueId;

/** Makes an id for one communicator; pass it to the other ranks by any means.
 * Local. A thread of this process serves the id: the process must live until all ranks joined. */
SPARCL_API sparclResult_t sparclGetUniqueId(sparclUniqueId* id);

/** Makes a communicator of nranks processes or threads over UCX.
 * Collective over the ranks that pass the same id; blocks until all have called.
 * @param comm written on success; owned by the caller; see sparclCommDestroy
 * @param rank 0 to nranks - 1, each once
 * @param config may be NULL; timeout_s limits the wait for the other ranks
 * @retval sparclTimeout on every rank: a rank did not call; the text names the missing ranks
 * @retval sparclMismatch on every rank: nranks differ
 * @retval sparclInvalidUsage on every rank: a rank or an id was used twice
 * @retval sparclRemoteError on every rank: a process ended */
SPARCL_API sparclResult_t sparclCommInitRank(sparclComm_t* comm, int nranks, sparclUniqueId id,
                                             int rank, const sparclConfig_t* config);

/** Makes a communicator whose ranks are threads of this process. Local.
 * @param comms array of nranks handles, written; comms[r] is for the thread of rank r. Destroy
 *   each of them. */
SPARCL_API sparclResult_t sparclCommInitLocal(sparclComm_t* comms, int nranks);

/** Tells the number of ranks. Local, from any thread. */
SPARCL_API sparclResult_t sparclCommCount(sparclComm_t comm, int* count);

/** Tells the rank of the caller. Local, from any thread. */
SPARCL_API sparclResult_t sparclCommUserRank(sparclComm_t comm, int* rank);

/** Tells whether the communicator is poisoned. Local, from any thread, also during a call.
 * @param error written: sparclSuccess, or the error that poisoned comm. A thread that did not make
 *   the last call learns what that thread has noticed. */
SPARCL_API sparclResult_t sparclCommGetAsyncError(sparclComm_t comm, sparclResult_t* error);

/** Tells which rank poisoned the communicator. Local, from any thread, also during a call.
 * After sparclTimeout, ranks may report different culprits: each names the peer that it waited for.
 * @param rank written: the rank that died, left, was silent or aborted; -1 if comm is usable or no
 *   rank is to blame. If several ranks fail, the first that this rank noticed. A late rank that
 *   the others gave up gets its own number. */
SPARCL_API sparclResult_t sparclCommGetFailedRank(sparclComm_t comm, int* rank);

/** Ends all pending calls with sparclRemoteError, here and on the peers, and poisons comm.
 * Local, from any thread. A call in another thread ends at its next wait, or about 50 ms later.
 * sparclCommShrink is not ended. Over MPI, a thread that is in no call notices at its next one. */
SPARCL_API sparclResult_t sparclCommAbort(sparclComm_t comm);

/** Takes part in the next collective of the other ranks with a refusal.
 * Blocking. For layers above sparcl that find out that they cannot make the call.
 * @param why text for the error, or NULL
 *
 * All ranks, this one included, get sparclInvalidArgument with "rank r refused: " and `why`. */
SPARCL_API sparclResult_t sparclCommRefuse(sparclComm_t comm, const char* why);

/** Makes a communicator of the live ranks after a failure, in their old order.
 * Collective over the live ranks; blocking. Each rank calls it once on the poisoned comm, after
 * which comm is good for sparclCommDestroy only. If comm is not poisoned, its calls are aborted.
 * Ranks may hold different states after a failure: the first sparclBroadcastUpdate sends all.
 * @param survivors written on success, with the config of comm; the same ranks everywhere
 * @retval sparclUnsupported the transport is mpi or loopback, or heartbeats are off
 * @retval sparclInvalidUsage requests are in flight on a comm that is not poisoned
 * @retval sparclTimeout a live rank did not call; the text names it
 * @retval sparclRemoteError this rank was given up: only the majority of ranks continues */
SPARCL_API sparclResult_t sparclCommShrink(sparclComm_t comm, sparclComm_t* survivors);

/** Destroys a communicator. Local. Over UCX up to 1 s, while other ranks still use theirs.
 * Pending requests end with sparclRemoteError and stay valid for sparclWait and sparclTest.
 * In a child of fork() the function does nothing: the communicator belongs to the parent.
 * @retval sparclInvalidUsage another thread is in a call; sparclCommAbort ends that call */
SPARCL_API sparclResult_t sparclCommDestroy(sparclComm_t comm);

/* ---- reports ---- */

/** Figures of the last collective on this rank. Bytes are those on the wire. */
typedef struct {
  size_t size;
  const char* algorithm; /**< a constant text: "chain", ... */
  uint64_t nnz_in;       /**< changed elements, or entries, that were sent */
  uint64_t nnz_out;      /**< changed elements, or entries, of the result */
  uint64_t bytes_sent;
  uint64_t bytes_received;
  uint64_t bytes_dense;     /**< bytes that the dense call would deliver to this rank */
  uint64_t bytes_bound;     /**< lower bound of an exact call: the encoded update */
  double seconds;           /**< of the whole call */
  double seconds_predicted; /**< of the whole call, as expected before it began */
  double seconds_select;    /**< encoding, or selection */
  double seconds_exchange;  /**< from the first message to the vote */
  double dropped_l2;        /**< L2 norm of the quantisation error of the selected changes; root */
  int applied;              /**< 1: this rank holds the new state; 0: the old state */
  int wire_datatype;        /**< sums: the sparclDataType_t that was sent, sparclInt8: the 8, 4 or
                                 2 bits of options.wire with scales; other calls: -1 */
} sparclReport_t;
#define SPARCL_REPORT_INITIALIZER \
  { sizeof(sparclReport_t), NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/** Reports the last blocking call, or the last request that was waited for. Local.
 * @param report its size must be set; fields within that size are written */
SPARCL_API sparclResult_t sparclCommLastReport(sparclComm_t comm, sparclReport_t* report);

/* ---- requests ---- */

/* Non-blocking collectives: sparclI<Name> takes the arguments of sparcl<Name>, then a request.
 * Arguments stay valid, and inputs unchanged, until the request is done. Several requests may be
 * in flight; all ranks start them in the same order. Requests progress inside sparclTest,
 * sparclWait, sparclWaitAll and blocking calls of the same communicator.
 * With device arrays the call waits, before it returns, for the work that `stream` holds, and
 * copies the inputs. Outputs are visible in the order of `stream` once the request is done.
 * The result of the call, errors of its arguments included, is that of sparclTest, sparclWait or
 * sparclWaitAll. A start fails only if comm or request is wrong, or if memory runs out, which
 * poisons comm. */

/** Tests a request without blocking. Local. With device arrays the last copy of a call waits for
 * the work that the stream of the call holds.
 * @param request set to NULL if the call is over, which is then its result
 * @param done written: 1 if the call is over, else 0
 * @param report written if the call is over; may be NULL */
SPARCL_API sparclResult_t sparclTest(sparclRequest_t* request, int* done, sparclReport_t* report);

/** Waits for a request and returns the result of its call. Blocking.
 * @param request set to NULL; NULL counts as done
 * @param report written; may be NULL */
SPARCL_API sparclResult_t sparclWait(sparclRequest_t* request, sparclReport_t* report);

/** Waits for all requests, which may be of several communicators. Blocking. For the report of a
 * call use sparclWait.
 * @param requests array of count requests, each set to NULL; NULL elements count as done
 * @param results array of count results, written; or NULL
 * @return sparclSuccess, or the result of the first element that failed. All requests are waited
 *   for, also after an error. An element that is no request, or whose communicator another thread
 *   uses, is not waited for and stays as it is. */
SPARCL_API sparclResult_t sparclWaitAll(size_t count, sparclRequest_t* requests,
                                        sparclResult_t* results);

/* ---- NCCL ---- */

/** Options of sparclCommUseNccl. */
typedef struct {
  size_t size;
  const void* unique_id; /**< an ncclUniqueId, the same on all ranks; NULL: rank 0 makes one */
  void* comm; /**< an ncclComm_t of the same ranks in the same order, which stays the caller's and
                   outlives this communicator; NULL: one is made */
} sparclNcclOptions_t;
#define SPARCL_NCCL_OPTIONS_INITIALIZER \
  { sizeof(sparclNcclOptions_t), NULL, NULL }

/** Lets blocking calls of comm send from GPU to GPU by NCCL 2.14 or later.
 * Collective over comm; blocking. Each rank has another GPU: the current one of its thread.
 * Afterwards blocking sparclAllReduceMasked and sparclAllReduceTopK calls on device arrays agree,
 * enqueue their work on `stream`, and return. Late errors come by sparclCommGetAsyncError and
 * sparclCommStreamSynchronize. Large blocking broadcasts send coded bytes by NCCL, too.
 * docs/guides/gpus.md tells which calls do so, and which bits they give.
 * @param options may be NULL
 * @retval sparclUnsupported on every rank: driver or NCCL are missing or too old, or there are no
 *   kernels for a GPU
 * @retval sparclInvalidUsage on every rank: no GPU, a shared GPU, or a second call
 * @retval sparclMismatch on every rank: options differ
 *
 * comm is usable after these errors. If NCCL fails to connect the ranks, comm is poisoned. */
SPARCL_API sparclResult_t sparclCommUseNccl(sparclComm_t comm, const sparclNcclOptions_t* options);

/** Waits for a stream, as cudaStreamSynchronize does, and watches the other ranks meanwhile.
 * Blocking; after sparclCommUseNccl. A dead rank, an NCCL error and the timeout of comm end the
 * wait and abort the work of the stream. */
SPARCL_API sparclResult_t sparclCommStreamSynchronize(sparclComm_t comm, sparclStream_t stream);

#ifdef __cplusplus
}
#endif

#endif /* SPARCL_CORE_H_ */
