/** @file
 * Replication: one publisher, and subscribers that hold its newest version (C99).
 *
 * Publisher and subscribers connect over TCP, without a communicator (docs/guides/replication.md).
 * Subscribers may come, crash or fall behind without slowing others. A replica always holds exactly
 * one published version.
 *
 * Functions are local, except sparclSubscriberNextGroup. One thread at a time uses a publisher or
 * subscriber, unless a comment says otherwise. Each owns a thread. A state has one of them at a
 * time, and must outlive it. After fork() only the parent may use them.
 */
#ifndef SPARCL_REPLICATION_H_
#define SPARCL_REPLICATION_H_

#include "sparcl/core.h"
#include "sparcl/state.h"
#include "sparcl/store.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sparclPublisher* sparclPublisher_t;
typedef struct sparclSubscriber* sparclSubscriber_t;

/* ---- publisher ---- */

/** Options of a publisher. */
typedef struct {
  size_t size;
  const char* listen;     /**< "HOST:PORT"; NULL: a free port of the loopback interface. Other
                               interfaces need secret_path, certificates_path or insecure */
  const char* model_id;   /**< subscribers must pass the same; UTF-8 without control characters, at
                               most 4,096 bytes; NULL: "" */
  const char* key_path;   /**< Ed25519 keys (`sparcl keygen`) that sign versions, read again when
                               they change; NULL: the secret's key signs; without a secret, none */
  const char* state_path; /**< file that keeps the publisher's epoch over restarts, so that a clock
                               may go back; NULL: the epoch is learned from subscribers */
  uint64_t queue;         /**< versions that are kept for late subscribers, up to the model's bytes;
                               0: 64 */
  uint64_t peer_bytes; /**< memory that connections may take beside that; 0: SPARCL_PEER_BYTES, else
                            twice the model's bytes, at least 64 MiB */
  const char* secret_path;      /**< secret of role publish (`sparcl secret`), read again when it
                                     changes: connections are encrypted, and peers need a secret;
                                     NULL: SPARCL_SECRET, else none */
  sparclToggle_t insecure;      /**< on: without a secret or certificates, listen on any interface:
                                     whoever reaches the port reads the weights */
  sparclToggle_t shared_memory; /**< to replicas of this machine; default: SPARCL_SHARED_MEMORY */
  const char* witness_path; /**< file that all publishers of the model use, on a file system that
                                 they share: each takes the next term there, and one that comes back
                                 after another has taken over publishes nothing. Instead of
                                 state_path; NULL: none */
  const char* certificates_path; /**< folder with ca.crt, tls.crt of role publish, and tls.key, in
                                      place of a secret (docs/reference/certificates.md); NULL:
                                      SPARCL_CERTIFICATES, else none */
  sparclStore_t
      store; /**< a thread also writes versions there (docs/guides/stores.md). It may be closed, and
                has model_id and key_path from above if it has none. NULL: none */
} sparclPublisherOptions_t;
#define SPARCL_PUBLISHER_OPTIONS_INITIALIZER                                             \
  {                                                                                      \
    sizeof(sparclPublisherOptions_t), NULL, NULL, NULL, NULL, 0, 0, NULL, sparclDefault, \
        sparclDefault, NULL, NULL, NULL                                                  \
  }

/** Starts a publisher: takes a port and serves subscribers until it is destroyed.
 * Memory: one copy of the state, kept updates of at most the same size, and peer_bytes.
 * @param publisher written; see sparclPublisherDestroy
 * @param options may be NULL */
SPARCL_API sparclResult_t sparclPublisherCreate(sparclPublisher_t* publisher, sparclState_t state,
                                                const sparclPublisherOptions_t* options);

/** Tells the address for subscribers, also on other hosts (SPARCL_INTERFACE).
 * @param address storage for capacity bytes, written: "10.0.0.7:4711"
 * @retval sparclTruncated the address does not fit */
SPARCL_API sparclResult_t sparclPublisherAddress(sparclPublisher_t publisher, char* address,
                                                 size_t capacity);

/** Publishes the tensors as a version. Compares with the last one, or reads what sparclStateMark...
 * named. Does not wait for subscribers. The tensors may change when the call returns.
 * @param version 1 or more, and larger than all versions before
 * @retval sparclInvalidUsage another publisher has taken over (witness_path)
 * @retval sparclTimeout the file system of witness_path has not answered for 10 s: nothing is
 * published; publish the version again */
SPARCL_API sparclResult_t sparclPublish(sparclPublisher_t publisher, uint64_t version);

/** Waits until replicas hold a version, or a later one. Blocking, from any thread.
 * The count is the replicas' own word. A lost replica does not count, one that was destroyed does.
 * @param acks replicas
 * @param seconds until sparclTimeout */
SPARCL_API sparclResult_t sparclPublisherWait(sparclPublisher_t publisher, uint64_t version,
                                              int acks, double seconds);

/** Counts replicas that are connected; advisory. One that has ended does not count. Any thread.
 * @param connected written: connected replicas; may be NULL
 * @param holding written: those that hold `version` or a later one; may be NULL */
SPARCL_API sparclResult_t sparclPublisherCount(sparclPublisher_t publisher, uint64_t version,
                                               int* connected, int* holding);

/** Reports the last sparclPublish. From any thread.
 * @param report its size must be set. Written: nnz_in, the changed elements; bytes_sent, the update
 *   as each replica of the version before receives it (0 for the first version); bytes_dense;
 *   seconds. Other fields are 0, wire_datatype is -1 */
SPARCL_API sparclResult_t sparclPublisherLastReport(sparclPublisher_t publisher,
                                                    sparclReport_t* report);

/** Waits until the options' store has a version, or a later one. Blocking, from any thread.
 * sparclPublish waits for the store only if 64 versions, or the model's bytes, wait to be written.
 * After a failure the next version is written with all changes since the last written one.
 * @param seconds until sparclTimeout
 * @retval sparclInvalidUsage the publisher has no store
 * @return errors as of sparclStorePublish: why the last version could not be written */
SPARCL_API sparclResult_t sparclPublisherWaitStored(sparclPublisher_t publisher, uint64_t version,
                                                    double seconds);

/** Ends a publisher. Replicas keep what they hold. Versions for its store are written first.
 * Waits up to 2 s for a call of another thread. If that call goes on, the result is
 * sparclInvalidUsage and the publisher is unchanged. */
SPARCL_API sparclResult_t sparclPublisherDestroy(sparclPublisher_t publisher);

/* ---- subscriber ---- */

/** Options of a subscriber. */
typedef struct {
  size_t size;
  const char* model_id;    /**< of the publisher; NULL: "" */
  const char* trust_path;  /**< file of public keys, read again when it changes: trust_threshold of
                              them must have signed a version of model_id, which is required.
                              NULL: the key of secret_path, or none */
  const char* record_path; /**< with trust_path or secret_path: keeps the last version, so that the
                              next subscriber refuses older ones; NULL: none */
  void (*on_swap)(uint64_t version, void* arg); /**< called inside the call that shows a
                                                     version, when the tensors hold it; must not
                                                     call this subscriber; NULL: none */
  void* arg;
  sparclToggle_t double_buffer; /**< on: a second set of the tensors; see sparclSubscriberTensor */
  sparclToggle_t relay;         /**< pass updates on to other replicas; default: SPARCL_RELAY */
  const char* secret_path;  /**< secret of role replicate: the publisher must have the key that it
                                 names, which also signs versions; NULL: SPARCL_SECRET, else none */
  uint64_t trust_threshold; /**< keys of trust_path that must have signed a version; 0: 1 */
  double max_age_s; /**< seconds since the held version was the newest one, by the publisher's
                         word; after that sparclSubscriberNext returns sparclStale. Needs
                         trust_path, secret_path or certificates_path. 0: any age */
  const char* certificates_path; /**< folder with ca.crt, tls.crt of role replicate, and tls.key, in
                                      place of a secret: the publisher must have a certificate of
                                      role publish; NULL: SPARCL_CERTIFICATES, else none */
  sparclStore_t store; /**< sparclSubscriberNext takes newer versions from there while the publisher
                          cannot be reached. It may be closed. Not with record_path; with
                          credentials it needs trust_path. NULL: none */
  sparclToggle_t from_store; /**< on: versions come from store, and the publisher only tells of them
                                  (docs/guides/stores.md). Prepare, NextGroup and Pin are refused */
  uint32_t store_patience_ms; /**< with from_store: a version that store does not have by then comes
                                   from the publisher; 0: 5,000 */
} sparclSubscriberOptions_t;
#define SPARCL_SUBSCRIBER_OPTIONS_INITIALIZER                                                      \
  {                                                                                                \
    sizeof(sparclSubscriberOptions_t), NULL, NULL, NULL, NULL, NULL, sparclDefault, sparclDefault, \
        NULL, 0, 0, NULL, NULL, sparclDefault, 0                                                   \
  }

/** Starts a subscriber, which connects to a publisher and connects again after each failure.
 * @param subscriber written; see sparclSubscriberDestroy
 * @param state tensors with the publisher's names, types, shapes and order, with any content. If
 *   they hold a version that the publisher keeps, only later changes are sent
 * @param address "HOST:PORT"
 * @param options may be NULL */
SPARCL_API sparclResult_t sparclSubscriberCreate(sparclSubscriber_t* subscriber,
                                                 sparclState_t state, const char* address,
                                                 const sparclSubscriberOptions_t* options);

/** Waits for a newer version and writes it to the tensors. Blocking.
 * Only this call, sparclSubscriberCommit and sparclSubscriberNextGroup write the tensors. After an
 * error they are unchanged, and the subscriber goes on: call again.
 * @param seconds until sparclTimeout
 * @param version written: the version that the tensors now hold; may be NULL
 * @retval sparclTimeout no newer version came in time
 * @retval sparclRemoteError the publisher is not there
 * @retval sparclSystemError the host name has no address
 * @retval sparclUnauthorized no trusted key signed the version; returned at once
 * @retval sparclMismatch the publisher has another model; returned at once
 * @retval sparclUnsupported the publisher is of another version; returned at once
 * @retval sparclCorrupt tensors were damaged; their blocks are fetched again
 * @retval sparclWrongBase an update did not fit; another one is fetched
 * @retval sparclStale the version may be older than max_age_s; returned at once, again each
 *   max_age_s, and in place of sparclTimeout */
SPARCL_API sparclResult_t sparclSubscriberNext(sparclSubscriber_t subscriber, double seconds,
                                               uint64_t* version);

/** Waits for a newer version and checks it, without writing the tensors. Blocking.
 * If updates lead to it in several steps, sparclSubscriberCommit decodes all but the first.
 * @param seconds until sparclTimeout
 * @param version written: the newest version that can be shown; may be NULL
 * @return errors as of sparclSubscriberNext */
SPARCL_API sparclResult_t sparclSubscriberPrepare(sparclSubscriber_t subscriber, double seconds,
                                                  uint64_t* version);

/** Writes a prepared version to the tensors: this one, even if newer ones have come.
 * After an error they are unchanged. If one of several steps fails and cannot be undone, the error
 * says so, and sparclSubscriberVersion tells which version they hold.
 * @param version prepared, or shown already: then nothing changes
 * @retval sparclInvalidUsage the version is not prepared
 * @retval sparclWrongBase it was prepared and cannot be shown any more: prepare again
 * @retval sparclCorrupt the tensors were damaged; their blocks are fetched again */
SPARCL_API sparclResult_t sparclSubscriberCommit(sparclSubscriber_t subscriber, uint64_t version);

/** Waits for a newer version, and shows it on all ranks of a group, or on none.
 * Collective over comm, blocking. Each rank passes a subscriber of its own, maybe of another part
 * of the model. All ranks return the same result. After an error none shows a new version, except
 * after a failure during the commit: sparclSubscriberVersion then tells what this rank shows. Call
 * again, after a rank's death with a new communicator: ranks that show the version wait for the
 * others. An error of a subscriber, such as a timeout, leaves comm usable.
 * @param seconds until sparclTimeout; the shortest time of all ranks counts
 * @param version written: the version that all ranks show now; may be NULL
 * @return errors as of sparclSubscriberNext: that of the first rank that has one
 * @retval sparclRemoteError a rank is lost, and poisons comm; or a publisher is not there */
SPARCL_API sparclResult_t sparclSubscriberNextGroup(sparclSubscriber_t subscriber, double seconds,
                                                    uint64_t* version, sparclComm_t comm);

/** Gives the memory of a tensor of the shown version, for reading. From any thread.
 * Without double_buffer: the tensor of the state. With double_buffer a version is made beside the
 * shown one, and then the two are exchanged. The memory that was given before stays unchanged until
 * the second call that shows a version begins. Ask again after each such call.
 * @param i number of the tensor, from 0, in the order of adding
 * @param data written; valid until the subscriber is destroyed */
SPARCL_API sparclResult_t sparclSubscriberTensor(sparclSubscriber_t subscriber, size_t i,
                                                 const void** data);

/** Tells the shown version and the newest known version. From any thread.
 * @param held written: 0 before the first; may be NULL
 * @param newest written: the last that the publisher announced; may be NULL */
SPARCL_API sparclResult_t sparclSubscriberVersion(sparclSubscriber_t subscriber, uint64_t* held,
                                                  uint64_t* newest);

/** Limits the versions that are shown to those up to `version`. From any thread.
 * Set the limit right after sparclSubscriberCreate, because one update may span several versions.
 * The version before the shown one is possible while its old values are kept: the next
 * sparclSubscriberNext goes back without the network.
 * @param version 0: no limit
 * @retval sparclInvalidUsage any other older version */
SPARCL_API sparclResult_t sparclSubscriberPin(sparclSubscriber_t subscriber, uint64_t version);

/** Ends a subscriber. The tensors keep what they hold. Waits as sparclPublisherDestroy does. */
SPARCL_API sparclResult_t sparclSubscriberDestroy(sparclSubscriber_t subscriber);

#ifdef __cplusplus
}
#endif

#endif /* SPARCL_REPLICATION_H_ */
