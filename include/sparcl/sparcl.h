/* sparcl: sparse collectives and delta weight replication. The C interface (C99).
 *
 * How it is used: make a communicator (from an MPI communicator in sparcl_mpi.h, or from threads below), then call collectives on
 * it, in the same order on every rank, as with MPI and NCCL. Every call answers with a sparclResult_t; sparclGetLastError has the
 * long text.
 *
 * Rules that hold for every call:
 *  - Counts are elements, 64 bits wide. After an error outputs are as they were; while a blocking call runs they may be neither
 *    (SPARCL_COMMIT).
 *  - Errors of a collective are agreed: sparclMismatch, sparclWrongBase, sparclCorrupt, sparclTruncated, sparclInvalidArgument,
 *    sparclInvalidUsage and sparclUnsupported come back on every rank, also where only one met or caused it, and leave the
 *    communicator usable. So do sparclOutOfMemory and sparclInternalError where an update was being coded or checked.
 *    sparclTimeout, sparclRemoteError and sparclSystemError poison it: each later call returns that error; abort and destroy work.
 *    (A call without a communicator, or without a place for its request, takes no part: its error is this rank's alone.)
 *  - A communicator is used by one thread at a time; what comes meanwhile from another one is refused with sparclInvalidUsage, but for
 *    sparclCommAbort, sparclCommGetAsyncError and sparclCommGetFailedRank. Requests move on inside sparcl calls only. Threads of
 *    the library's own: workers (SPARCL_THREADS), the heartbeat (SPARCL_HEARTBEAT), what serves a unique id, a publisher's, a subscriber's.
 *  - Arrays of calls may be in device memory (CUDA). Where GPUs do not talk to each other (sparclCommUseNccl) they are copied
 *    to the host behind what `stream` holds (NULL: the default stream), and back, so that the call has done its part when it returns; a
 *    call that fails leaves them as they were. Top-k selects on the device instead, masked all-reduces gather and scatter there, and
 *    sparclBroadcastDelta and sparclBroadcastUpdate code, check and write there, where all arrays are in one GPU's memory and this build
 *    has kernels for it
 *    (SPARCL_DEVICE_KERNELS): what was selected, gathered or coded crosses alone, and all bits are the same. out_nnz there is written
 *    where the call succeeds. stream must be NULL where all arrays are the host's. A state's tensors may be in device memory, too (sparclStateCreate).
 *    Non-blocking calls take device memory, too, always by way of the host: their inputs are copied when they start, behind what the
 *    default stream holds, and their outputs when they are over (inside sparclTest or sparclWait).
 *  - A struct that begins with its `size` may be that of a program compiled against an older or a newer sparcl.h. What an older one
 *    lacks has its default; a newer one that sets what this library does not have is refused (sparclInvalidArgument).
 *  - Handles are checked before they are used. A handle that has ended already is sparclInvalidUsage, and one of another kind, or a
 *    value that is no handle, is sparclInvalidArgument; the text says which. So objects may end in any order. Copies of a handle are
 *    one object: set them all to NULL when it ends. Destroy functions accept NULL.
 */
#ifndef SPARCL_SPARCL_H_
#define SPARCL_SPARCL_H_

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define SPARCL_API __attribute__((visibility("default")))
#else
#define SPARCL_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- results ---- */

/* 0-7 mean and number what ncclResult_t does. */
typedef enum {
  sparclSuccess = 0,
  sparclUnhandledCudaError = 1,
  sparclSystemError = 2,
  sparclInternalError = 3,
  sparclInvalidArgument = 4,
  sparclInvalidUsage = 5,
  sparclRemoteError = 6,
  sparclInProgress = 7,
  sparclTimeout = 16,     /* a peer did not answer in time */
  sparclMismatch = 17,    /* the ranks did not make the same call */
  sparclCorrupt = 18,     /* bytes failed a check */
  sparclUnsupported = 19, /* not supported here */
  sparclOutOfMemory = 20,
  sparclWrongBase = 21,    /* an update for another base than the one held */
  sparclUnauthorized = 22, /* a signature is missing, wrong or by an unknown key */
  sparclTruncated = 23,    /* the result does not fit a rank's capacity */
  sparclResultForceInt = 0x7fffffff
} sparclResult_t;

/* Numbered as ncclDataType_t up to 11. */
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
  sparclDataTypeForceInt = 0x7fffffff /* any int may arrive here and is checked */
} sparclDataType_t;

/* Numbered as ncclRedOp_t. */
typedef enum {
  sparclSum = 0,
  sparclProd = 1,
  sparclMax = 2,
  sparclMin = 3,
  sparclAvg = 4, /* the sum over the number of ranks: floats to the nearest; integers towards zero, of a sum modulo their range */
  sparclRedOpForceInt = 0x7fffffff
} sparclRedOp_t;

typedef struct sparclComm* sparclComm_t;
typedef struct sparclState* sparclState_t;
typedef struct sparclMask* sparclMask_t;
typedef struct sparclFeedback* sparclFeedback_t;
typedef struct sparclRequest* sparclRequest_t;
typedef struct sparclPublisher* sparclPublisher_t;
typedef struct sparclSubscriber* sparclSubscriber_t;
typedef struct CUstream_st* sparclStream_t; /* a cudaStream_t */

/* 10000 * major + 100 * minor + patch. */
SPARCL_API sparclResult_t sparclGetVersion(int* version);

/* One sentence for a result; never NULL. */
SPARCL_API const char* sparclGetErrorString(sparclResult_t result);

/* The long text of an error: what failed and where (rank, host), why, and what to do.
 *  comm NULL: the error that the calling thread got last, of any call, whatever handles it had.
 *  comm: the same, with one exception. If the calling thread's last error was not of comm, and a call of comm on another thread has
 *  failed since then, the text is of that call. So a watchdog thread can ask.
 * A call that succeeds does not change the text. Valid until the calling thread's next call that fails, or of this function. Never NULL; "" if
 * there was no error. */
SPARCL_API const char* sparclGetLastError(sparclComm_t comm);

/* ---- communicators ---- */

/* Which sparse sums have the same bits: whatever the algorithm, the transport and the order of arrival (canonical); on all ranks and in
 * each run of the same program (runs); fast: as runs, so far. 0: SPARCL_DETERMINISM, which is canonical. */
enum { sparclDeterminismDefault = 0, sparclDeterminismRuns = 1, sparclDeterminismCanonical = 2, sparclDeterminismFast = 3 };

enum { sparclVerifyDefault = 0, sparclVerifyOff = 1, sparclVerifyTouched = 2, sparclVerifyFull = 3 };

/* Zero (NULL) in a field means: take it from the environment (SPARCL_TIMEOUT_S, SPARCL_VERIFY ...), else its default. */
typedef struct {
  size_t size;           /* of this struct: set by SPARCL_CONFIG_INITIALIZER */
  const char* transport; /* "mpi", "ucx", "loopback" or "auto"; NULL: SPARCL_TRANSPORT */
  double timeout_s;      /* seconds that a call waits for a peer that lives but is late; 600 */
  double liveness_s;     /* a waited-for rank that is silent so long is stopped or cut off; 0: SPARCL_LIVENESS_S */
  int verify;            /* sparclVerify...: what a replica checks of its base; touched */
  int determinism;       /* sparclDeterminism...: of sparse sums; canonical */
  int threads;           /* of a rank, its own among them, that encode and apply; 0: SPARCL_THREADS, else 1 */
  int heartbeat;         /* 1 on, 2 off; 0: SPARCL_HEARTBEAT */
} sparclConfig_t;
#define SPARCL_CONFIG_INITIALIZER \
  { sizeof(sparclConfig_t), NULL, 0, 0, 0, 0, 0, 0 }

/* Ranks without MPI. One process makes an id and hands it to the others by any means (a file, an environment variable, a key-value
 * store); it serves the id from a thread of its own, so it must live until the ranks have met. One id makes one communicator.
 * id: 128 bytes, filled in; no text, zeros may stand anywhere in it. Who knows it can join: keep it from strangers. */
typedef struct { char internal[128]; } sparclUniqueId;
SPARCL_API sparclResult_t sparclGetUniqueId(sparclUniqueId* id);

/* Collective over the nranks processes (or threads) that were given the same id; rank: 0 to nranks - 1, each once. Over the transport
 * ucx. Waits for the others at most timeout_s of the config (or SPARCL_TIMEOUT_S). config may be NULL.
 * Errors, on every rank: sparclTimeout (names the ranks that did not come), sparclMismatch (different nranks), sparclInvalidUsage (a
 * rank that was given twice, an id that was used before), sparclRemoteError (the process that made the id, or a rank, has ended). */
SPARCL_API sparclResult_t sparclCommInitRank(sparclComm_t* comm, int nranks, sparclUniqueId id, int rank,
                                             const sparclConfig_t* config);

/* Makes nranks communicators whose ranks are threads of this process: comms[r] is rank r's, to be used by one thread at a time.
 * comms: room for nranks handles, owned by the caller, destroyed one by one. */
SPARCL_API sparclResult_t sparclCommInitLocal(sparclComm_t* comms, int nranks);

SPARCL_API sparclResult_t sparclCommCount(sparclComm_t comm, int* count);
SPARCL_API sparclResult_t sparclCommUserRank(sparclComm_t comm, int* rank);

/* sparclSuccess in *error while the communicator is usable, else the error that poisoned it. From any thread, also while another
 * one is in a call: so a watchdog asks. Any but the thread of the last call is told what that one has learnt. */
SPARCL_API sparclResult_t sparclCommGetAsyncError(sparclComm_t comm, sparclResult_t* error);

/* The rank of this communicator whose end or silence is the error above, as told on every rank: it died, did not answer in time, left,
 * or called sparclCommAbort (on that rank, too; a late rank that the others gave up in a sparclTimeout is told its own number, where their
 * word still reaches it; one that was stopped for so long that heartbeats gave it up, the number of the rank that says so). -1 while
 * the communicator is usable, and where no rank is to blame. Where several fail it is the first that this rank learned of;
 * sparclCommShrink leaves out all that are dead. After a sparclTimeout ranks may differ: who waits for one that waits itself names that
 * one. From any thread. */
SPARCL_API sparclResult_t sparclCommGetFailedRank(sparclComm_t comm, int* rank);

/* Ends all pending calls on this rank with sparclRemoteError and tells the peers, without needing them. Later calls return that
 * error. From any thread: a call that another one is in is ended by it, some 50 ms later if it waits, when it next waits if not (but not
 * sparclCommShrink, which has its own deadlines). Over mpi, where another thread is in no call, by its next one. */
SPARCL_API sparclResult_t sparclCommAbort(sparclComm_t comm);

/* Takes part in the call that the other ranks make next with a refusal of this rank's own: they get sparclInvalidArgument, and
 * "rank r refused: " and `why`; so does this one. For interfaces over this one, which find out before they call that they cannot: else
 * the others would wait. why: text, NULL for none. */
SPARCL_API sparclResult_t sparclCommRefuse(sparclComm_t comm, const char* why);

/* After a failure: a new communicator of the ranks that live, in their old order, with the old one's config. Collective over these:
 * each calls it once on the failed communicator (after sparclCommAbort, too), which is then only good for sparclCommDestroy. All of them
 * get the same ranks, whoever dies meanwhile; a rank that dies right after it is the next call's failure.
 * On a communicator that is sound it is as sparclCommAbort for the others' calls.
 * What the ranks hold may differ after a failed call (sparclCommLastReport's `applied`): the first sparclBroadcastUpdate on the new
 * communicator sends all.
 * Requests of the failed communicator end with its error: wait for them before or after its sparclCommDestroy.
 * Errors: Unsupported, where the transport does not survive a death (mpi, loopback) or its heartbeats are off; InvalidUsage with
 * requests in flight on a communicator that is sound; Timeout, naming who lives and did not call (end its process before this, or
 * meanwhile: it is called once); RemoteError, where the others have given
 * this rank up, or may have: of ranks that do not answer nobody knows whether they go on, so only the larger part does, and of two alike
 * that of the lowest rank. */
SPARCL_API sparclResult_t sparclCommShrink(sparclComm_t comm, sparclComm_t* survivors);

/* Not collective. Requests still pending are ended as by sparclCommAbort: on other ranks a call before them that is not over yet may
 * fail with them. Their handles stay valid: sparclWait and sparclTest give the result, which is sparclRemoteError unless the call was
 * over before, and free the request.
 * sparclInvalidUsage while another thread is in a call: sparclCommAbort ends that one. Over ucx it takes up to a second while others
 * still use theirs, so that what they were sent arrives.
 * In a child of fork() it does nothing: the communicator stays its parent's, and the child's calls on it are sparclInvalidUsage. */
SPARCL_API sparclResult_t sparclCommDestroy(sparclComm_t comm);

/* ---- GPUs that talk over NCCL ----
 * After this call the arrays of a blocking sparclAllReduceMasked that are in device memory (both of them, of types that NCCL sums: not
 * of 8-bit floats, 16-bit integers, bool; without a feedback) are summed between the GPUs: gathered, ncclAllReduce, scattered, three
 * things in the order of `stream`, of sizes that the mask alone decides. With canonical sums (below) all types are. The call agrees with
 * the other ranks, enqueues, and returns: sums are there when the stream is through, late errors come by sparclCommGetAsyncError and sparclCommStreamSynchronize. It may be captured
 * into a CUDA graph, which then holds the mask as it was: what a later launch of the graph does nobody agrees on, so all ranks launch theirs,
 * and destroy the graph before the communicator. All other calls but top-k and broadcasts go as before, by way of the host; on all ranks
 * the arrays are of one kind (sparclMismatch).
 * So do blocking top-k calls, with a feedback or without: each rank's k entries, and room for those that it has fewer, are gathered
 * (ncclAllGather), and each GPU sums them in the host's tree over ranks: the bits are those of the host's way. In mode union the
 * values at the union are gathered, too, where that is no more than twice the array; with sparclDeterminismRuns or Fast NCCL sums them,
 * in an order of its own. What wires round is rounded, and travels as float32. By way of the host go options.tensors, uint64 in mode
 * global, and canonical sums of larger unions: on all ranks alike. k decides all sizes, so that a graph may hold such a call; a feedback
 * that a graph holds stays on its GPU, and calls by way of the host refuse it (sparclInvalidUsage).
 * Blocking broadcasts (Delta, Update, Sparse) whose dense arrays take 16 MiB and more, or whose size only the root knows, send their coded
 * bytes by ncclBroadcast, from GPU to GPU, wherever the ranks' arrays are; SPARCL_ALGO_BROADCAST=nccl has smaller ones do so, any other
 * value none. What arrives is checked and applied as ever; such a call waits for its end, and cannot be captured. On all ranks it is the
 * blocking call, then, or on all the non-blocking one, which keeps to messages (sparclMismatch).
 * Masked sums of floats are the same bits on every rank, but not those of the host's way (its tree over ranks, in float32 for types of 16 bits): their
 * order and rounding, and what -0 and NaN become, are NCCL's, and may change with its version, its settings and the machines. With
 * sparclDeterminismCanonical (in the config, or SPARCL_DETERMINISM=canonical in the environment, on all ranks) they have the bits of the
 * host's way, for every type and operation: each rank combines its piece of all ranks' values in that tree (up to 1,024 ranks; arrays are
 * aligned to their elements, else, as with more ranks, calls go by way of the host). */
typedef struct {
  size_t size;           /* of this struct: set by SPARCL_NCCL_OPTIONS_INITIALIZER */
  const void* unique_id; /* an ncclUniqueId, the same on all ranks; NULL: rank 0 makes one, and the communicator carries it */
  void* comm;            /* an ncclComm_t of the same ranks in the same order, to be used: it stays the caller's, outlives this communicator,
                            and is never aborted; NULL: one is made */
} sparclNcclOptions_t;
#define SPARCL_NCCL_OPTIONS_INITIALIZER \
  { sizeof(sparclNcclOptions_t), NULL, NULL }

/* Collective over comm, with this thread's GPU (cudaSetDevice); each rank has another one. Loads NCCL 2.14 or later
 * (SPARCL_NCCL_LIBRARY). options may be NULL.
 * Errors, on every rank, that leave comm as it was: sparclUnsupported (a rank has no driver, or an old one; a GPU for which there are no
 * kernels; no NCCL, or an old one; a build without CUDA), sparclInvalidUsage (a thread without a GPU; two ranks with one; a second time),
 * sparclMismatch (different ways, ids or versions). Where NCCL itself fails to connect the ranks, comm is over. */
SPARCL_API sparclResult_t sparclCommUseNccl(sparclComm_t comm, const sparclNcclOptions_t* options);

/* After sparclCommUseNccl: waits until the stream is through, as cudaStreamSynchronize does, but looks after the other ranks meanwhile: a
 * rank that has died, an error of NCCL's and the communicator's timeout end it, and what the stream holds (by ncclCommAbort). */
SPARCL_API sparclResult_t sparclCommStreamSynchronize(sparclComm_t comm, sparclStream_t stream);

/* What the last collective on this communicator did. bytes_*: of this rank, on the wire. */
typedef struct {
  size_t size;           /* of this struct: set by SPARCL_REPORT_INITIALIZER */
  const char* algorithm; /* a constant string: "chain", ... */
  uint64_t nnz_in;       /* changed elements (entries) that the root sent */
  uint64_t nnz_out;      /* changed elements (entries) that this rank holds as the result */
  uint64_t bytes_sent, bytes_received;
  uint64_t bytes_dense;     /* what a dense broadcast would have delivered to this rank */
  uint64_t bytes_bound;     /* the least that an exact broadcast delivers to each rank: the encoded update */
  double seconds;           /* of the whole call */
  double seconds_predicted; /* the same, as this rank expected it before the call: by its last calls of this kind and about this size on
                               this communicator. Within a factor of 2 once there are some; before, by a model, which is rough */
  double seconds_select;    /* encoding */
  double seconds_exchange;  /* from the first fragment to the vote */
  double dropped_l2;        /* on the root of a lossy update: the norm of what the codes lack of the selected changes; else 0 */
  int applied;              /* 1: this rank holds the new state, 0: the old */
  int wire_datatype;        /* of sums: the sparclDataType_t in which this rank's values travelled; with sparclInt8 for floats: 8 bits
                               with scales. float32 where options.wire could not be used: mode union, GPUs over NCCL, and ranks that read
                               each other's memory (SPARCL_NODE_WINDOW). -1: other calls */
} sparclReport_t;
#define SPARCL_REPORT_INITIALIZER \
  { sizeof(sparclReport_t), NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/* report->size must be set: only the fields inside it are written. */
SPARCL_API sparclResult_t sparclCommLastReport(sparclComm_t comm, sparclReport_t* report);

/* ---- sparse broadcast ---- */

/* Sparse broadcast of one array; collective over comm.
 *  weights: count elements. On the root the new state (only read). On the others the base on entry; bit for bit the root's on
 *  return.
 *  base: on the root the state that all ranks hold (only read); ignored on the others. NULL: unknown, so everything is sent, and what
 *  the others hold on entry does not matter. So ranks are brought together again (at the start, after a sparclCommShrink, after
 *  sparclWrongBase): one call in which the root's base is NULL, then deltas as before.
 * One call in flight an array. Whole or not at all: on an agreed error weights are as they were. The root's arrays must not change
 * until the call returns. */
SPARCL_API sparclResult_t sparclBroadcastDelta(void* weights, const void* base, size_t count, sparclDataType_t datatype, int root,
                                               sparclComm_t comm, sparclStream_t stream);

/* A model: an ordered list of named tensors. The tensors stay the caller's and must outlive the state.
 * A state that a call in flight, a publisher or a subscriber uses cannot be destroyed (sparclInvalidUsage).
 * Any of them may be in device memory (CUDA), of one GPU or several, the others in the host's. All bits are the same. They are read, and
 * written, behind what the default stream of their GPU (CUDA's legacy one) holds, and that is done when the call returns:
 *  - sparclPublish and sparclStateHash read them piece by piece through pinned memory (up to 16 MiB). Where all of them are in one GPU's
 *    memory, and a copy of them leaves a sixteenth of that free, a publisher keeps one there (SPARCL_DEVICE_SNAPSHOT=off: never): what
 *    has changed since the last version is then found by the GPU, and up to an eighth of the elements cross as positions and values.
 *  - A subscriber keeps a mirror of the whole state in the host's memory, which is what others are given and what is looked at every
 *    SPARCL_SWEEP_S: the tensors themselves are not read again. sparclSubscriberNext brings the mirror to the version, and then the
 *    tensors: what changed is copied to the GPU, and scattered there once all of it is there (2 bytes and an element each, for up to an
 *    eighth of the elements, where this build has kernels for the GPU, and it the memory); else whole blocks or tensors are copied.
 *  - sparclBroadcastUpdate, blocking, of tensors that are all in one GPU's memory: codes, checks and writes them there, in the order of
 *    `stream`; coded bytes cross alone. A root's snapshot is there, too: one more copy of the model, where that leaves a sixteenth of
 *    the GPU's memory free (SPARCL_DEVICE_SNAPSHOT=off: never). Where it does not, where the root gives options that select, round or
 *    adopt, and in other calls and states, a rank works on such a mirror as a subscriber's, which the state keeps: the tensors (but
 *    those that kernels on the GPU find to hold what they held after the last one) are copied to it when the call begins, and what
 *    changed is copied back when it has succeeded.
 * Where the driver fails (sparclUnhandledCudaError) nothing is published; the tensors are what they were, or the error says that some of
 * them are no version, and the next sparclSubscriberNext (or update of which this rank is not the root: until then it may not be one) writes
 * what they lack. */
SPARCL_API sparclResult_t sparclStateCreate(sparclState_t* state);

/* Appends a tensor. name: unique, UTF-8, not empty, copied. data: row-major, product(shape) elements. shape: ndim dimensions,
 * copied; ndim 0 is a scalar. Not allowed once the state has been broadcast or hashed (sparclInvalidUsage). Tensors must not share
 * memory: add tied weights once. */
SPARCL_API sparclResult_t sparclStateAdd(sparclState_t state, const char* name, void* data, sparclDataType_t datatype, int ndim,
                                         const uint64_t* shape);

/* Appends a slice of a tensor: of the tensor `name` of this shape, in each dimension d the indices begin[d] to begin[d] + extent[d] - 1
 * (0 of them are allowed, too). data: the slice alone, row-major, product(extent) elements. Several slices of one tensor may be added, each
 * once, and overlapping in the tensor if need be, but not in memory; a tensor is added whole or in slices. In all calls a slice is a tensor
 * of the shape `extent`. A state with slices is a rank's part of a model: a replica of it (sparclSubscriberCreate) gets its slices only from a
 * publisher of whole tensors. Begin 0 and extent = shape is sparclStateAdd. Errors as sparclStateAdd's; a slice that reaches out of the
 * tensor is sparclInvalidArgument. */
SPARCL_API sparclResult_t sparclStateAddSlice(sparclState_t state, const char* name, void* data, sparclDataType_t datatype, int ndim,
                                              const uint64_t* shape, const uint64_t* begin, const uint64_t* extent);

/* Appends a tensor of a float type of 16 or 8 bits that is a float32 master, rounded: what a mixed-precision optimiser steps, while what
 * travels is what is served. For publishers: each sparclPublish rounds on the way (to nearest, ties to even; a NaN is the type's quiet
 * NaN; what is too large is infinite, in float8e4m3 the largest number), and no second copy is made of the rounded tensor but the
 * publisher's own. Marks (sparclStateMark..., sparclStateSetTrainable) save the comparison of a master, not its rounding. Replicas add it by
 * sparclStateAdd. master: product(shape) elements, on the host or in device memory, where the GPU rounds them if it finds what changes
 * (sparclStateCreate), and else the host; may be added under several names and types. Errors as sparclStateAdd's; calls that need the tensor in memory refuse the state (sparclUnsupported). */
SPARCL_API sparclResult_t sparclStateAddMaster(sparclState_t state, const char* name, const float* master, sparclDataType_t datatype,
                                               int ndim, const uint64_t* shape);

/* Optional, on the root, before sparclBroadcastUpdate: what changed since the last one, so that nothing else is read. A promise of
 * the caller's: a change that is not named is not sent. indices: nnz element numbers of the tensor, strictly ascending, copied.
 * Holds for the next update only. Of a slice, its own elements are meant; a tensor with several slices has no marks (sparclInvalidUsage). */
SPARCL_API sparclResult_t sparclStateMarkIndices(sparclState_t state, const char* name, const uint64_t* indices, size_t nnz);

/* The same as a dirty bitmap: bit i (of word i/64, low bit first) says that elements [i*block, (i+1)*block) may have changed.
 * bitmap: as many words as that needs, copied. */
SPARCL_API sparclResult_t sparclStateMarkBlocks(sparclState_t state, const char* name, const uint64_t* bitmap, size_t block);

/* Sparse broadcast of a model; collective over comm. All ranks' states have the same names, types, shapes and order (else
 * sparclMismatch). The root keeps a snapshot of what the ranks of this comm confirmed (one copy of the model); the first call, and
 * the first with another root or comm, sends all. version: the new state's; on the others the same, or 0 for "whatever the root
 * says". Versions ascend on every rank: a smaller version, or the last one again, is sparclInvalidArgument. The last one may be
 * repeated on a new communicator, or after an error. stream: of the GPU that the state has tensors on; NULL where it has none, or several. Where all ranks hold the update and it
 * cannot be copied from a mirror to this rank's tensors in device memory, the error is this rank's alone, and says so;
 * sparclCommLastReport's `applied` is then 0, and the tensors may hold anything until this rank's next update has succeeded. Where the
 * GPU fails while it writes an update itself, the communicator is over (sparclRemoteError), and the tensors are no version until an
 * update has come that sends all, as the first one of another communicator does; before that this rank can be no root
 * (sparclInvalidUsage). */
SPARCL_API sparclResult_t sparclBroadcastUpdate(sparclState_t state, uint64_t version, int root, sparclComm_t comm,
                                                sparclStream_t stream);

/* Which changes an update carries. What is left out is not lost: the replicas keep the old value, and the difference is a change
 * again in the next update. Sizes of changes are |new - old|. */
enum {
  sparclSelectAll = 0,       /* every element whose bits changed */
  sparclSelectThreshold = 1, /* changes larger than `threshold` */
  sparclSelectTopK = 2,      /* the `count` largest changes of the whole model; ties to the first element */
  sparclSelectGrid = 3,      /* changes that show when old and new value are rounded to the type `grid`: a float type, or sparclInt8:
                                steps of (largest |x| of the tensor) / 127 */
  sparclSelectBytes = 4      /* the largest changes, as many as an update of `bytes` bytes holds */
};

/* How the changes of floats of 16 bits and more travel: as they are, or as codes of 8 bits (integers, or numbers of E4M3) with one
 * scale for 65,536 elements. The others then hold old + scale * code, rounded to the type, bit for bit the same on all of them; what
 * that lacks of the root's value is a change again in the next update (rounded to nearest, updates converge to it). Exact as before:
 * all else, and elements among which one is or becomes NaN or infinite. A change from +0 to -0 is none. */
enum { sparclValuesExact = 0, sparclValuesInt8 = 1, sparclValuesFloat8 = 2 };

/* Codes are the nearest, or (stochastic) one of the two next to the value by chance, so that they are right on the average: a function
 * of seed, version and place. */
enum { sparclRoundNearest = 0, sparclRoundStochastic = 1 };

typedef struct {
  size_t size; /* of this struct: set by SPARCL_UPDATE_OPTIONS_INITIALIZER */
  int select;  /* sparclSelect... */
  double threshold;
  uint64_t count;
  uint64_t bytes;        /* what each replica receives at most, headers included */
  sparclDataType_t grid;
  uint64_t seed; /* of sparclRoundStochastic */
  int values;    /* sparclValues... */
  int rounding;  /* sparclRound... */
  int adopt;     /* 1: once the others hold the update the root's tensors become what they hold: what was not sent is gone */
  int reserved;  /* 0 */
} sparclUpdateOptions_t;
#define SPARCL_UPDATE_OPTIONS_INITIALIZER \
  { sizeof(sparclUpdateOptions_t), 0, 0, 0, 0, sparclBfloat16, 0, 0, 0, 0, 0 }

/* sparclBroadcastUpdate with options, which only the root's count (NULL: none). The first update of a comm, which has no base, sends
 * all, exactly, whatever they say. After an update that left changes out or was lossy (and without `adopt`), sparclStateHash differs between the root and the others, and marks
 * hold on: what they name has not all been sent. TopK and Bytes read the model once more; Bytes encodes it several times. */
SPARCL_API sparclResult_t sparclBroadcastUpdateEx(sparclState_t state, uint64_t version, int root, sparclComm_t comm,
                                                  sparclStream_t stream, const sparclUpdateOptions_t* options);

/* On the root: a tensor that does not train (trainable 0) is neither read nor sent by updates that have a base. Here and
 * below a name means all slices of the tensor. */
SPARCL_API sparclResult_t sparclStateSetTrainable(sparclState_t state, const char* name, int trainable);

/* Tensors of higher priority (default 0) come first in an update, of equals the one that was added first. Before the state's first
 * use, the same on all ranks (else sparclMismatch). */
SPARCL_API sparclResult_t sparclStateSetPriority(sparclState_t state, const char* name, int priority);

/* The version that the last successful update brought; 0 before the first. */
SPARCL_API sparclResult_t sparclStateVersion(sparclState_t state, uint64_t* version);

/* A hash of names, types, shapes, order and bytes: equal on two ranks if and only if their states are. Reads everything. */
SPARCL_API sparclResult_t sparclStateHash(sparclState_t state, uint8_t hash[16]);

SPARCL_API sparclResult_t sparclStateDestroy(sparclState_t state);

/* Broadcast of a sparse vector; collective over comm.
 *  values, indices: on the root *nnz entries, indices strictly ascending (only read); on the others room for `capacity` entries.
 *  nnz: in on the root, out on the others. If it exceeds any other rank's capacity: sparclTruncated on every rank, nothing is
 *  written but *nnz = the root's count. */
SPARCL_API sparclResult_t sparclBroadcastSparse(void* values, uint64_t* indices, size_t* nnz, size_t capacity,
                                                sparclDataType_t datatype, int root, sparclComm_t comm, sparclStream_t stream);

/* ---- shared masks ----
 * Elements of an array that all ranks know, so that nothing about them is sent: each rank makes the same mask in the same way (one
 * of indices is another than a random one, whatever they hold). It takes 2 bytes an element that it has and 16 for each 64 Ki
 * elements of the array that have some (a mask of blocks: 8 bytes a block). Ranks that are threads may share one. To change or to
 * destroy it while a call with it is in flight is sparclInvalidUsage, and changes nothing. count: up to 2^44. */

/*  indices: nnz element numbers, strictly ascending, below count; they are copied. */
SPARCL_API sparclResult_t sparclMaskCreateIndices(sparclMask_t* mask, const uint64_t* indices, size_t nnz, size_t count);

/* Exactly round(density * count) random elements; 0 <= density <= 1. A pure function of count, density, seed and step on every
 * machine: each 64 Ki elements have their share, rounded by one random offset, chosen by a Feistel permutation with keys by
 * Philox4x32-10. */
SPARCL_API sparclResult_t sparclMaskCreateRandom(sparclMask_t* mask, size_t count, double density, uint64_t seed);

/* The same of the blocks of `block` elements, of which the array's last may be shorter. */
SPARCL_API sparclResult_t sparclMaskCreateBlocks(sparclMask_t* mask, size_t count, size_t block, double density, uint64_t seed);

/* Draws a random mask anew, for a step's number; 0 at creation. A mask of indices stays as it is. */
SPARCL_API sparclResult_t sparclMaskSetStep(sparclMask_t mask, uint64_t step);

/* nnz: how many elements it has. indices: NULL, or room for `capacity` of them, ascending (sparclTruncated if they are more). */
SPARCL_API sparclResult_t sparclMaskGetIndices(sparclMask_t mask, uint64_t* indices, size_t capacity, size_t* nnz);

SPARCL_API sparclResult_t sparclMaskDestroy(sparclMask_t mask);

/* All-reduce of the elements that the mask has; collective over comm.
 *  sendbuff: count elements, only read. recvbuff: as many, of which those in the mask are written with the sum (or what op says) over
 *  all ranks; it may be sendbuff. count: that of the mask.
 *  **Elements outside the mask are left as they were.** In place (recvbuff == sendbuff) these are this rank's own values, which differ
 *  between ranks. An optimiser that steps with the whole array then makes the ranks' weights DIVERGE, without an error. Give another
 *  recvbuff that is zero outside the mask, or clear those elements after the call, or step the mask's elements only.
 * The same bits on every rank and in every run (over NCCL: see sparclCommUseNccl): ranks are combined in one tree, whatever the algorithm (SPARCL_ALGO_ALLREDUCE) and
 * the order of arrival; -0 counts as +0, a NaN has one pattern, floats of 8 and 16 bits are summed in float32 and rounded once.
 * After an error that ends the communicator recvbuff may hold some of the result. */
SPARCL_API sparclResult_t sparclAllReduceMasked(const void* sendbuff, void* recvbuff, size_t count, sparclDataType_t datatype,
                                                sparclRedOp_t op, sparclMask_t mask, sparclComm_t comm, sparclStream_t stream);

/* Sum of sparse vectors with any support; collective over comm. Every rank gets the union of all ranks' entries.
 *  values, indices: nnz entries of this rank, only read; indices below count, in any order and also several times: entries of one index
 *  are combined in the order in which they come. Ascending ones without doubles are taken as they are; others are sorted in a copy.
 *  count: elements of the index space, the same on all ranks, at most 2^63.
 *  out_values, out_indices: room for out_capacity entries, apart from the inputs; on success the union, ascending, with explicit zeros
 *  kept. *out_nnz: how many; with sparclTruncated, which all ranks get where the union exceeds any rank's capacity and nothing is
 *  written, how many there would be.
 * Elements that a rank lacks contribute nothing; sparclAvg divides by the number of ranks.
 * The same bits on every rank and in every run; by default (sparclDeterminismCanonical) also for every algorithm
 * (SPARCL_ALGO_ALLREDUCE_SPARSE) and transport: ranks are combined in one tree, -0 counts as +0, a NaN has one pattern, floats of 8 and 16
 * bits are summed in float32 and rounded once.
 * After an error that ends the communicator the outputs may hold some of the result. */
SPARCL_API sparclResult_t sparclAllReduceSparse(const void* values, const uint64_t* indices, size_t nnz, size_t count, void* out_values,
                                                uint64_t* out_indices, size_t* out_nnz, size_t out_capacity,
                                                sparclDataType_t datatype, sparclRedOp_t op, sparclComm_t comm, sparclStream_t stream);

/* ---- error feedback ----
 * What one rank has not sent yet of its gradients: the residual, which a top-k call adds to its input and keeps the rest of. A rank has
 * one for each array; a call in flight with it: sparclInvalidUsage from these functions.
 * The residual is where the last call had its arrays: calls on a GPU keep it there. Save, Stats and GetResidual copy it to the host; while a
 * stream is not through with a call between GPUs they answer sparclInvalidUsage. */

/* A residual of zeros. count: that of the array, up to 2^44. datatype: that of the array; the residual of floats of 16 bits and less is
 * float32, of others the type itself. Integers of 8 and 16 bits and bool: sparclUnsupported. */
SPARCL_API sparclResult_t sparclFeedbackCreate(sparclFeedback_t* feedback, size_t count, sparclDataType_t datatype);

/* As a safetensors file (tensor "residual"), with a hash over all that it holds. It appears, or replaces what is there, when all of it
 * is on the disk; after an error what stood at path is as it was. */
SPARCL_API sparclResult_t sparclFeedbackSave(sparclFeedback_t feedback, const char* path);

/* Makes a feedback from such a file, bit for bit as it was saved; statistics begin anew. Errors name the path and what is wrong:
 * sparclSystemError (it cannot be read), sparclInvalidArgument (a folder, or a safetensors file of something else), sparclCorrupt (no
 * safetensors file, or a check failed), sparclUnsupported (of a later version). */
SPARCL_API sparclResult_t sparclFeedbackLoad(sparclFeedback_t* feedback, const char* path);

/* The residual to zeros, and statistics as at the beginning. */
SPARCL_API sparclResult_t sparclFeedbackReset(sparclFeedback_t feedback);

/* Of the last call with this feedback. After one between GPUs (sparclCommUseNccl) the host knows calls and residual_l2 alone: the rest is
 * 0, and dropped_l2 is residual_l2. passes of a call that selects on the device is 1. */
typedef struct {
  size_t size;            /* of this struct: set by SPARCL_FEEDBACK_STATS_INITIALIZER */
  uint64_t calls;         /* since it was made, loaded or reset */
  uint64_t selected;      /* elements that this rank selected; of a masked call: those of the mask */
  double sent_mass;       /* the sum of |what it sent|, of `sent` elements */
  double dropped_l2;      /* the norm of input + residual without the elements that it selected; in mode union without those that
                             any rank selected, with sparclResidualMean without those of the result */
  double residual_l2;     /* the norm of the residual now: that, and what rounding on the wire, mode global and means gave back */
  double threshold;       /* the least magnitude that it selected */
  double threshold_drift; /* that over the call's before: 1.02 is 2 % more; 0: there was none */
  int passes;             /* over the array: more than 1 where the guess of the threshold was too high */
  int reserved;           /* 0 */
  uint64_t sent;          /* elements of this rank that are in the result: `selected`, but in mode union all that any rank selected,
                             in mode global those that were kept */
} sparclFeedbackStats_t;
#define SPARCL_FEEDBACK_STATS_INITIALIZER \
  { sizeof(sparclFeedbackStats_t), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/* stats->size must be set: only the fields inside it are written. Reads the residual once, for its norm. */
SPARCL_API sparclResult_t sparclFeedbackStats(sparclFeedback_t feedback, sparclFeedbackStats_t* stats);

/* A view of the residual, good until the next call with this feedback. count, datatype (the residual's): may be NULL. */
SPARCL_API sparclResult_t sparclFeedbackGetResidual(sparclFeedback_t feedback, const void** residual, size_t* count,
                                                    sparclDataType_t* datatype);

SPARCL_API sparclResult_t sparclFeedbackDestroy(sparclFeedback_t feedback);

/* ---- top-k ----
 * All-reduce of the largest elements of each rank; collective over comm. acc = sendbuff + residual. Each rank selects the min(k,
 * non-zeros) elements of acc with the largest magnitude (NaN > infinity > finite, ties to the lower index) and sends what the mode says;
 * what it did not send stays in the residual, so that results and residuals together are the inputs.
 *  sendbuff: count elements, only read. recvbuff: as many, all of them written: the sums, or with sparclAvg the sums over the number of
 *  ranks, and +0 elsewhere; it may be sendbuff. k: the same on all ranks, at most count (more is sparclInvalidArgument). With k 0 nothing is
 *  selected: the result is +0, and all of sendbuff goes to the feedback. op: sparclSum or sparclAvg.
 *  datatype: float64, float32, float16, bfloat16, float8, int32, uint32, int64, uint64.
 *  feedback: of this rank, of the same count and datatype; NULL: the rest is discarded. One call at a time may use it.
 * After an error that all ranks are told of (arguments, sparclMismatch) outputs and residuals are as before. After one that ends the
 * communicator recvbuff may hold some of the result, and the residual sendbuff + residual without what was sent, if anything was. */
SPARCL_API sparclResult_t sparclAllReduceTopK(const void* sendbuff, void* recvbuff, size_t count, size_t k, sparclDataType_t datatype,
                                              sparclRedOp_t op, sparclFeedback_t feedback, sparclComm_t comm, sparclStream_t stream);

/* union: every rank gives its acc at all elements that any rank selected. selected: only the ranks that selected an element give theirs.
 * global: as selected, but the k largest sums alone are kept, and the others' elements stay in the residuals. */
typedef enum { sparclTopKUnion = 0, sparclTopKSelected = 1, sparclTopKGlobal = 2 } sparclTopKMode_t;

/* What stays of acc in the residual. sent: what this rank has not sent. mean: acc - the mean, at all elements of the result, for floats;
 * what the ranks differ by then comes back in the next call (0 where that is no number). */
typedef enum { sparclResidualSent = 0, sparclResidualMean = 1 } sparclResidual_t;

typedef struct {
  size_t size;           /* of this struct: set by SPARCL_TOPK_OPTIONS_INITIALIZER */
  int mode;              /* a sparclTopKMode_t */
  const char* algorithm; /* of selected and global: "auto", "gather", "doubling", "split" or "two_level"; NULL: the setting. Mode union
                            takes SPARCL_ALGO_ALLREDUCE; the report says which was taken */
  int wire;              /* what values are rounded to before they are sent: 0 the datatype; of floats of up to 32 bits 1 bfloat16, or
                            2 int8 with scales: 128 values of a rank in turn share a power of two (as MXINT8, OCP Microscaling Formats),
                            and those among which one is no number are not rounded. What is rounded off stays in the residual. Mode
                            union sends float32 with 1 and 2; the report's wire_datatype says what was sent. Other types
                            travel as they are */
  int determinism;       /* sparclDeterminism...; 0: the communicator's */
  int residual;          /* a sparclResidual_t */
  int reserved;          /* 0 */
  int reuse_threshold;   /* 1: the guess of the threshold is that of the call before with this feedback, not a sample: the selection is
                            exact all the same, and faster only where thresholds are steady (sparclFeedbackStats: threshold_drift
                            from 0.99 to 1.02 or so); calls that select on a GPU always sample */
  int reserved2;         /* 0 */
  const uint64_t* tensors; /* NULL: this rank selects the k largest of the array. Else the lengths of the tensors (layers, blocks) that
                              it is made of, count in sum: of each its largest, as many as its share of k, which are k in all (fewer
                              where a tensor has fewer that are not zero). Copied */
  size_t tensor_count;     /* 0 where tensors is NULL */
} sparclTopKOptions_t;
#define SPARCL_TOPK_OPTIONS_INITIALIZER \
  { sizeof(sparclTopKOptions_t), 0, NULL, 0, 0, 0, 0, 0, 0, NULL, 0 }

/* options may be NULL. */
SPARCL_API sparclResult_t sparclAllReduceTopKEx(const void* sendbuff, void* recvbuff, size_t count, size_t k, sparclDataType_t datatype,
                                                sparclRedOp_t op, sparclFeedback_t feedback, const sparclTopKOptions_t* options,
                                                sparclComm_t comm, sparclStream_t stream);

typedef struct {
  size_t size;                 /* of this struct: set by SPARCL_MASKED_OPTIONS_INITIALIZER */
  sparclFeedback_t feedback;   /* of this rank, of the same count and datatype, for sparclSum and sparclAvg; NULL: none. What is summed at
                                  the mask's elements is acc = sendbuff + residual; of these the residual then holds what rounding to the
                                  datatype left (floats of 16 bits and less), of all others acc. An error that ends the communicator
                                  leaves acc in it. One call at a time may use it */
} sparclMaskedOptions_t;
#define SPARCL_MASKED_OPTIONS_INITIALIZER \
  { sizeof(sparclMaskedOptions_t), NULL }

/* sparclAllReduceMasked with options, which may be NULL. */
SPARCL_API sparclResult_t sparclAllReduceMaskedEx(const void* sendbuff, void* recvbuff, size_t count, sparclDataType_t datatype,
                                                  sparclRedOp_t op, sparclMask_t mask, const sparclMaskedOptions_t* options,
                                                  sparclComm_t comm, sparclStream_t stream);

/* ---- requests: the non-blocking twins ----
 * Arguments must stay valid until the request is done. Several may be in flight on one communicator; all ranks start them in the
 * same order. They move on inside sparclTest, sparclWait and the blocking calls of the same communicator. A request may outlive its
 * communicator (sparclCommDestroy), and ends by sparclWait or sparclTest all the same. The state, mask and feedback of a request cannot
 * be destroyed before the request is done or its communicator is destroyed (sparclInvalidUsage). */

SPARCL_API sparclResult_t sparclIBroadcastDelta(void* weights, const void* base, size_t count, sparclDataType_t datatype, int root,
                                                sparclComm_t comm, sparclRequest_t* request);
SPARCL_API sparclResult_t sparclIBroadcastUpdate(sparclState_t state, uint64_t version, int root, sparclComm_t comm,
                                                 sparclRequest_t* request);
/* As all non-blocking twins it ends in (..., comm, request): the options come before them, where the blocking call, which has no request,
 * takes them last. */
SPARCL_API sparclResult_t sparclIBroadcastUpdateEx(sparclState_t state, uint64_t version, int root,
                                                   const sparclUpdateOptions_t* options, sparclComm_t comm, sparclRequest_t* request);
SPARCL_API sparclResult_t sparclIBroadcastSparse(void* values, uint64_t* indices, size_t* nnz, size_t capacity,
                                                 sparclDataType_t datatype, int root, sparclComm_t comm, sparclRequest_t* request);

SPARCL_API sparclResult_t sparclIAllReduceMaskedEx(const void* sendbuff, void* recvbuff, size_t count, sparclDataType_t datatype,
                                                   sparclRedOp_t op, sparclMask_t mask, const sparclMaskedOptions_t* options,
                                                   sparclComm_t comm, sparclRequest_t* request);
SPARCL_API sparclResult_t sparclIAllReduceMasked(const void* sendbuff, void* recvbuff, size_t count, sparclDataType_t datatype,
                                                 sparclRedOp_t op, sparclMask_t mask, sparclComm_t comm, sparclRequest_t* request);

SPARCL_API sparclResult_t sparclIAllReduceSparse(const void* values, const uint64_t* indices, size_t nnz, size_t count, void* out_values,
                                                 uint64_t* out_indices, size_t* out_nnz, size_t out_capacity,
                                                 sparclDataType_t datatype, sparclRedOp_t op, sparclComm_t comm,
                                                 sparclRequest_t* request);

SPARCL_API sparclResult_t sparclIAllReduceTopK(const void* sendbuff, void* recvbuff, size_t count, size_t k, sparclDataType_t datatype,
                                               sparclRedOp_t op, sparclFeedback_t feedback, sparclComm_t comm,
                                               sparclRequest_t* request);
SPARCL_API sparclResult_t sparclIAllReduceTopKEx(const void* sendbuff, void* recvbuff, size_t count, size_t k,
                                                 sparclDataType_t datatype, sparclRedOp_t op, sparclFeedback_t feedback,
                                                 const sparclTopKOptions_t* options, sparclComm_t comm, sparclRequest_t* request);

/* Moves things on without blocking. *done = 1: the call is over, its result is returned, and *request is set to NULL. report may be
 * NULL. */
SPARCL_API sparclResult_t sparclTest(sparclRequest_t* request, int* done, sparclReport_t* report);

/* Blocks until the call is over, returns its result and sets *request to NULL. report may be NULL. A NULL *request is done. */
SPARCL_API sparclResult_t sparclWait(sparclRequest_t* request, sparclReport_t* report);

/* ---- replication service ----
 * One publisher, and replicas that come, go and die, and always hold exactly one published version. No communicator: they meet over TCP
 * (docs/protocol.md, docs/replication.md), and a replica that is killed, stopped or slow costs nobody anything. Publisher and
 * subscriber own a thread each; the functions of one handle are called by one thread at a time but where it is said. A state has one
 * of them at a time, and outlives it. After fork() only the parent may use them. */

typedef struct {
  size_t size;          /* of this struct: set by SPARCL_PUBLISHER_OPTIONS_INITIALIZER */
  const char* listen;   /* "HOST:PORT"; NULL: a free port of all interfaces */
  const char* model_id; /* replicas must name the same: UTF-8 without control characters, at most 4,096 bytes; NULL: "" */
  const char* key_path; /* an Ed25519 key (`sparcl keygen`) that signs what is published; NULL: it is not signed */
  int queue;            /* versions kept for replicas that are behind, up to the bytes of the model; 0: 64 */
  int reserved;         /* 0 */
  const char* state_path; /* a small file that keeps the publisher's epoch for its next life, which may start with an earlier clock.
                             NULL: none; the next life then learns the epoch from replicas */
  uint64_t peer_bytes; /* memory that peers may cause beside what is kept for all of them. 0: SPARCL_PEER_BYTES; if that is 0, twice the
                          model's bytes, 64 MiB at least */
} sparclPublisherOptions_t;
#define SPARCL_PUBLISHER_OPTIONS_INITIALIZER \
  { sizeof(sparclPublisherOptions_t), 0, 0, 0, 0, 0, 0, 0 }

/* Takes a port and serves replicas until it is destroyed. Keeps one copy of the state's bytes, as they travel, and what it has coded for
 * replicas: at most as much again of updates, and all bytes once where some came without a version, until the updates since then are
 * longer; and up to 64 MiB for what is coded next. Beside that peers cause up to peer_bytes. options may be NULL. */
SPARCL_API sparclResult_t sparclPublisherCreate(sparclPublisher_t* publisher, sparclState_t state,
                                                const sparclPublisherOptions_t* options);

/* "10.0.0.7:4711": for replicas, also on other hosts where there is an interface for them (SPARCL_INTERFACE). sparclTruncated where
 * capacity bytes do not hold it with its end. */
SPARCL_API sparclResult_t sparclPublisherAddress(sparclPublisher_t publisher, char* address, size_t capacity);

/* What the tensors hold now becomes `version`: larger than all before, 1 or more. On return the tensors may change. Costs a comparison
 * with the last version (what sparclStateMark... named, where it was used), and waits for no replica. */
SPARCL_API sparclResult_t sparclPublish(sparclPublisher_t publisher, uint64_t version);

/* Until `acks` replicas hold `version` or a later one, or held it when they ended by sparclSubscriberDestroy; sparclTimeout after so many
 * seconds. One that was lost does not count, and one that comes back counts by what it then holds. The count is advisory: replicas are not
 * authenticated. A replica counts by its own word once the publisher, or a parent that was given it, has sent it the version. From any
 * thread. */
SPARCL_API sparclResult_t sparclPublisherWait(sparclPublisher_t publisher, uint64_t version, int acks, double seconds);

/* How many replicas are connected, and how many of them hold `version` or a later one: advisory, as in sparclPublisherWait. Either may be
 * NULL. From any thread. */
SPARCL_API sparclResult_t sparclPublisherCount(sparclPublisher_t publisher, uint64_t version, int* connected, int* holding);

/* What the last sparclPublish did: nnz_in, the changed elements; bytes_sent, of the update as it is sent to each replica that holds the
 * version before (0 for the first version: who lacks it gets all bytes); bytes_dense, of the state; seconds, of the call. Zeros before
 * the first, and in the other fields, but for wire_datatype, which is -1. report->size must be set. From any thread. */
SPARCL_API sparclResult_t sparclPublisherLastReport(sparclPublisher_t publisher, sparclReport_t* report);

/* Ends the publisher; replicas go on with what they hold. If another thread is in a call of this publisher, waits for that call up to
 * 2 s. If the call is not over then, returns sparclInvalidUsage: the publisher is unchanged, and its tensors must stay. */
SPARCL_API sparclResult_t sparclPublisherDestroy(sparclPublisher_t publisher);

typedef struct {
  size_t size;            /* of this struct: set by SPARCL_SUBSCRIBER_OPTIONS_INITIALIZER */
  const char* trust_path; /* public keys; then only what one of them signed is applied, and model_id must be given. NULL: anything
                             that is sound */
  int double_buffer;      /* not 0: a second set of the tensors is kept, for sparclSubscriberTensor */
  void (*on_swap)(uint64_t version, void* arg); /* inside sparclSubscriberNext, which it must not call, once the tensors hold it; or NULL */
  void* arg;
  const char* model_id; /* the publisher's; NULL: "" */
  const char* record_path; /* with trust_path: a small file that keeps the last version that was applied, so that the next life of
                              this replica refuses older ones (docs/keys.md). NULL: none */
} sparclSubscriberOptions_t;
#define SPARCL_SUBSCRIBER_OPTIONS_INITIALIZER \
  { sizeof(sparclSubscriberOptions_t), 0, 0, 0, 0, 0, 0 }

/* Looks for the publisher at "HOST:PORT" until it comes, and again whenever it goes. What the tensors hold may be anything; where it is
 * a version that the publisher still keeps, only what has changed since then travels. The state's tensors are the publisher's: names,
 * types, shapes and order. options may be NULL. */
SPARCL_API sparclResult_t sparclSubscriberCreate(sparclSubscriber_t* subscriber, sparclState_t state, const char* address,
                                                 const sparclSubscriberOptions_t* options);

/* The newest version that has come whole and passed every check: the tensors hold it on return. Only here they are written; after an
 * error they hold what they held. sparclTimeout: none has come within so many seconds. Other errors say why none comes
 * (sparclRemoteError: the publisher is not there, sparclSystemError: nor is its host's address known, sparclUnauthorized: what comes is
 * not signed by a trusted key, sparclMismatch: it is another model, sparclCorrupt: the tensors do not hold any more what was applied, and
 * the blocks that are damaged are asked for; all that is held is looked at every SPARCL_SWEEP_S, 300 s by default; sparclWrongBase: an
 * update was of something else, and another one is asked for; sparclOutOfMemory; sparclUnhandledCudaError: of tensors in device memory,
 * see sparclStateCreate): the subscriber goes on trying, so call again. Errors
 * that waiting does not cure (sparclMismatch, sparclUnauthorized, sparclUnsupported) are said at once, after each try: 1 s to 16 s apart.
 * version may be NULL. */
SPARCL_API sparclResult_t sparclSubscriberNext(sparclSubscriber_t subscriber, double seconds, uint64_t* version);

/* Where the i-th tensor of the state (from 0, in the order of adding) lies as the version that is held; to be read only. With
 * options.double_buffer a version is made beside the one that is read, at the cost of a second set of the tensors in memory, and
 * sparclSubscriberNext then shows it at once: what was given before stays as it is through one such call that gives a version, until the
 * next one begins, so that others may read during it. Which of the two sets that is changes each time: ask after each call. The state's
 * own tensors are one of them, and state calls that read them see one version or the other. Without the option: the state's own tensor,
 * always. Of tensors in device memory the second set is there, too, and an error leaves what is shown as it was. data: valid until the subscriber is destroyed. From any thread. */
SPARCL_API sparclResult_t sparclSubscriberTensor(sparclSubscriber_t subscriber, size_t i, const void** data);

/* held: 0 before the first; newest: as far as the publisher has said. Either may be NULL. From any thread. */
SPARCL_API sparclResult_t sparclSubscriberVersion(sparclSubscriber_t subscriber, uint64_t* held, uint64_t* newest);

/* sparclSubscriberNext goes up to this version and no further; 0: as far as it can. Where several steps may come as one update, set it
 * before they come: right after sparclSubscriberCreate. The version before, where what the updates since then have replaced is still
 * there: the next sparclSubscriberNext goes back to it, without the network. Any other before the held one: sparclInvalidUsage, which
 * says why. From any thread. */
SPARCL_API sparclResult_t sparclSubscriberPin(sparclSubscriber_t subscriber, uint64_t version);

/* Ends the subscriber; the tensors keep what they hold. If another thread is in a call of it: as sparclPublisherDestroy. */
SPARCL_API sparclResult_t sparclSubscriberDestroy(sparclSubscriber_t subscriber);

#ifdef __cplusplus
}
#endif

#endif /* SPARCL_SPARCL_H_ */
