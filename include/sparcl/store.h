/** @file
 * Stores: versions of a model in a folder that all hosts share, without a server.
 *
 * One process publishes, any number of processes restore. A version is an anchor, which has all
 * bytes, or a delta from the version before. Versions are published whole or not at all, and
 * every restored byte is checked by SHA-256 first.
 */
#ifndef SPARCL_STORE_H_
#define SPARCL_STORE_H_

#include "sparcl/core.h"
#include "sparcl/state.h"

#ifdef __cplusplus
extern "C" {
#endif

/** An open store. Calls with one store wait for each other. */
typedef struct sparclStore* sparclStore_t;

/** Options of sparclStoreOpen. */
typedef struct {
  size_t size;
  uint64_t anchor_every; /**< versions from an anchor to the next one; 0: 64. An anchor also
                              follows once the deltas after the last one have as many bytes */
} sparclStoreOptions_t;
#define SPARCL_STORE_OPTIONS_INITIALIZER \
  { sizeof(sparclStoreOptions_t), 0 }

/** Opens a store. It is empty if nothing was published yet.
 * @param url `file:PATH`, a folder. The first publish makes it. Its file system must have hard
 *   links
 * @param options may be NULL
 * @retval sparclUnsupported another scheme */
SPARCL_API sparclResult_t sparclStoreOpen(sparclStore_t* store, const char* url,
                                          const sparclStoreOptions_t* options);

/** Publishes the state's present bytes. It returns when all readers can restore the version. The
 * first call reads the newest version into memory, which is kept: the model once more, and for a
 * while the bytes of an anchor as well. The state belongs to the store until the store is closed.
 * @param version larger than the newest one of the store, at least 1
 * @retval sparclInvalidArgument version is not larger
 * @retval sparclInvalidUsage the store publishes another state already
 * @retval sparclMismatch the store's versions have other tensors
 * @retval sparclUnsupported the file system has no hard links
 * @retval sparclStale another process has published since this store was opened for publishing:
 *   nothing was published, and no later call with this store publishes
 *
 * After another error the version may be there or not: a repeated call finds out, and publishes
 * what is not there. */
SPARCL_API sparclResult_t sparclStorePublish(sparclStore_t store, sparclState_t state,
                                             uint64_t version);

/** The newest version. @param version written; 0: there is none */
SPARCL_API sparclResult_t sparclStoreLatest(sparclStore_t store, uint64_t* version);

/** Writes a version into the state's tensors, which lie in host memory. The tensors may hold
 * anything. If they hold the last version that was restored into them, bit for bit, deltas from
 * there are read if they have fewer bytes. More than one delta needs the memory of a second copy.
 * @param version 0: the newest
 * @param got written: the version; may be NULL
 * @retval sparclInvalidArgument there is no such version, or the store is empty
 * @retval sparclMismatch the version has other tensors
 * @retval sparclCorrupt an object is missing or damaged: the text names it
 * @retval sparclUnsupported a tensor is in device memory
 *
 * After an error the tensors are as before. For broadcasts use another state. */
SPARCL_API sparclResult_t sparclStoreRestore(sparclStore_t store, sparclState_t state,
                                             uint64_t version, uint64_t* got);

/** Closes the store, and gives its state back. NULL is no error. */
SPARCL_API sparclResult_t sparclStoreClose(sparclStore_t store);

#ifdef __cplusplus
}
#endif

#endif /* SPARCL_STORE_H_ */
