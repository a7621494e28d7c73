/** @file
 * Stores: versions of a model in a folder that all hosts share, or in a bucket of S3.
 *
 * One process publishes, any number of processes restore. A version is a delta from the version
 * before. A reader that begins reads an anchor, which has all bytes. One that is late reads skips,
 * which lead over 8 or 64 versions. Versions are published whole or not at all, and every restored
 * byte is checked by SHA-256 first.
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
  uint64_t anchor_every;  /**< at most so many versions between two anchors; 0: 64. An anchor also
                               follows once the deltas after the last one have as many bytes */
  uint64_t keep_versions; /**< a publisher prunes as sparclStorePrune does, after each anchor;
                               0: it keeps all versions */
  double lease_seconds;   /**< how long a reader's needs are respected after its last call, and how
                               long pruning waits; the same for all who use a store. 0: 600 */
  uint64_t single_writer; /**< 1: publish also to a server of S3 that ignores conditions, where a
                               second writer is detected, and not prevented; 0: such a server is
                               refused. Other stores ignore it */
  const char* model_id;   /**< a publisher writes it to each version, and a reader refuses
                             versions of another model; NULL: no name, and any model */
  const char* key_path;   /**< Ed25519 keys (`sparcl keygen`) that sign what is published; NULL:
                             none */
  const char* trust_path; /**< file of public keys: what is read must be signed by
                             trust_threshold of them, for model_id, which is required. Read when
                             the store is opened. NULL: no signature is required */
  uint64_t trust_threshold; /**< 0: 1 */
  uint64_t chain; /**< a sparclStoreChain_t: what a publisher writes beside deltas and anchors */
} sparclStoreOptions_t;
#define SPARCL_STORE_OPTIONS_INITIALIZER \
  { sizeof(sparclStoreOptions_t), 0, 0, 0, 0, NULL, NULL, NULL, 0, sparclChainHybrid }

/** Objects that readers that are late may take in place of many deltas. */
typedef enum {
  sparclChainHybrid = 0,      /**< skips over 8 and 64 versions */
  sparclChainPlain = 1,       /**< nothing */
  sparclChainIndependent = 2, /**< a skip from the last anchor to each version: one object for
                                   readers that keep the anchor (SPARCL_STORE_CACHE) */
  sparclChainForceInt = 0x7fffffff
} sparclStoreChain_t;

/** Opens a store. It is empty if nothing was published yet.
 * @param url `file:PATH`, a folder. The first publish makes it: until then sparclStoreLatest says
 *   0, and listing, verifying, pruning, compacting and copying it are sparclSystemError. Its file
 *   system must have hard links. Or `s3://BUCKET/PREFIX`, in a bucket that exists. Keys, region and
 * endpoint come from the variables and files of AWS (`AWS_ACCESS_KEY_ID`, `AWS_REGION`,
 * `AWS_ENDPOINT_URL_S3`, ...)
 * @param options may be NULL
 * @retval sparclInvalidArgument the address, an option or a variable is wrong, or there are no keys
 * @retval sparclUnsupported another scheme, or there is no libcurl for `s3://`
 *
 * No request is made. Later calls wait for a server at most `SPARCL_TIMEOUT_S` for each request,
 * with its repetitions. Their errors name the object and the server's answer: sparclUnauthorized
 * for keys and rights, sparclRemoteError and sparclTimeout for a server that fails or is not
 * reached. */
SPARCL_API sparclResult_t sparclStoreOpen(sparclStore_t* store, const char* url,
                                          const sparclStoreOptions_t* options);

/** Publishes the state's present bytes. It returns when all readers can restore the version. The
 * first call reads the newest version into memory, which is kept. Memory: the model once more, for
 * skips at most as much again, and for a while the bytes of an anchor. A thread writes anchors and
 * skips after the call; the next call waits for it. The state belongs to the store until the store
 * is closed.
 * @param version larger than the newest one of the store, at least 1
 * @retval sparclInvalidArgument version is not larger
 * @retval sparclInvalidUsage the store publishes another state already
 * @retval sparclMismatch the store's versions have other tensors
 * @retval sparclUnsupported the file system has no hard links, or the server ignores conditions
 *   and the option single_writer is not 1
 * @retval sparclStale another process has published since this store was opened for publishing:
 *   nothing was published, and no later call with this store publishes. With single_writer on a
 *   server that ignores conditions: another process has overwritten a version
 *
 * After another error the version may be there or not: a repeated call finds out, and publishes
 * what is not there. */
SPARCL_API sparclResult_t sparclStorePublish(sparclStore_t store, sparclState_t state,
                                             uint64_t version);

/** The newest version. @param version written; 0: there is none */
SPARCL_API sparclResult_t sparclStoreLatest(sparclStore_t store, uint64_t* version);

/** Writes a version into the state's tensors, which lie in host memory. The tensors may hold
 * anything. If they hold the last version that was restored into them, bit for bit, deltas from
 * there are read if they have fewer bytes. More than one object needs the memory of a second copy.
 *
 * The state may have some of the version's tensors, or slices of them (sparclStateAddSlice), in any
 * order. The call then reads only those parts of an anchor that have their elements. The store
 * keeps a copy of these elements until it is closed, or restores other tensors or slices. A later
 * call reads what is newer. The copy consists of whole blocks of 65,536 elements (floats of 16
 * bits: 262,144), so that a slice of columns needs a copy of its whole tensor. Address space, not
 * memory, is reserved for all tensors of the version. Use one store for each state.
 * @param version 0: the newest
 * @param got written: the version; may be NULL
 * @retval sparclInvalidArgument there is no such version, or the store is empty
 * @retval sparclMismatch a tensor of the state is not in the version, or has another type or shape
 * @retval sparclCorrupt an object is missing or damaged: the text names it
 * @retval sparclUnauthorized no trusted key has signed the version
 * @retval sparclUnsupported a tensor is in device memory
 *
 * After an error the tensors are as before. For broadcasts use another state. */
SPARCL_API sparclResult_t sparclStoreRestore(sparclStore_t store, sparclState_t state,
                                             uint64_t version, uint64_t* got);

/** A version of a store, as sparclStoreList shows it. */
typedef struct {
  uint64_t version;
  uint64_t base_version; /**< of its delta; 0: the first version */
  uint64_t delta_bytes;  /**< 0: the first version */
  uint64_t anchor_bytes; /**< 0: it has no anchor */
  uint64_t skip_bytes;   /**< of all skips to it */
  const char* hash;      /**< of the state: 32 hexadecimal digits */
} sparclStoreVersion_t;

/** Receives a version while a call runs. `version` is valid until the callback returns. */
typedef void (*sparclStoreListed_t)(const sparclStoreVersion_t* version, void* arg);

/** Calls listed for all versions that the store has, in ascending order.
 * @retval sparclCorrupt some records are damaged or missing: listed got the other versions */
SPARCL_API sparclResult_t sparclStoreList(sparclStore_t store, sparclStoreListed_t listed,
                                          void* arg);

/** Receives what is damaged or missing while a call runs. The texts are valid until the callback
 * returns. @param location of the object @param is_repaired 1: a copy has taken its place */
typedef void (*sparclStoreDamaged_t)(const char* location, const char* what, int is_repaired,
                                     void* arg);

/** Reads all objects of a store, and checks that they are what was published.
 * @param copy another store, which sparclStoreCopy has written: its objects take the place of those
 *   that are damaged; may be NULL
 * @param damaged may be NULL
 * @retval sparclCorrupt something is damaged or missing, and was not repaired
 * @retval sparclMismatch the other store is not a copy of this one: nothing was written */
SPARCL_API sparclResult_t sparclStoreVerify(sparclStore_t store, sparclStore_t copy,
                                            sparclStoreDamaged_t damaged, void* arg);

/** Which versions sparclStorePrune keeps: the newest, and each that one of the first two fields
 * names. Versions that lead to a kept one, down to an anchor, are kept as well. */
typedef struct {
  size_t size;
  uint64_t versions; /**< so many of the newest; 0: their number does not count */
  double seconds;    /**< versions that are younger; 0: their age does not count */
  uint64_t bytes;    /**< fewer versions, so that all objects have at most so many; 0: any number */
} sparclStoreKeep_t;
#define SPARCL_STORE_KEEP_INITIALIZER \
  { sizeof(sparclStoreKeep_t), 0, 0, 0 }

/** Result of sparclStorePrune. */
typedef struct {
  size_t size;
  uint64_t versions; /**< removed */
  uint64_t objects;  /**< removed, records and what killed writers have left included */
  uint64_t bytes;    /**< of removed objects */
  uint64_t waiting;  /**< versions that a later call removes: readers may need them still */
} sparclStorePruned_t;
#define SPARCL_STORE_PRUNED_INITIALIZER \
  { sizeof(sparclStorePruned_t), 0, 0, 0, 0 }

/** Removes old versions. The first call writes to the store which ones. A call after lease_seconds
 * removes them, unless a reader needs them. sparclStoreRestore writes a lease, an object that says
 * which versions its store needs for lease_seconds. A reader that may not write has this time to
 * restore. Ages are by the clock of the file system. A call that was killed does no harm: the next
 * one goes on.
 * @param pruned written; may be NULL
 * @retval sparclInvalidArgument keep says nothing */
SPARCL_API sparclResult_t sparclStorePrune(sparclStore_t store, const sparclStoreKeep_t* keep,
                                           sparclStorePruned_t* pruned);

/** Adds the skips that are missing, and an anchor of the newest version. It changes no version, and
 * may run while others publish and restore. Memory: three copies of the model.
 * @param added written: the number of objects; may be NULL
 * @retval sparclInvalidUsage versions are signed, and the store has no key_path */
SPARCL_API sparclResult_t sparclStoreCompact(sparclStore_t store, uint64_t* added);

/** Copies all versions that another store lacks. A call that was killed does no harm: the next one
 * goes on. Memory: the largest object.
 * @param copied written: the number of versions; may be NULL
 * @retval sparclStale the other store has other versions */
SPARCL_API sparclResult_t sparclStoreCopy(sparclStore_t store, sparclStore_t to, uint64_t* copied);

/** Closes the store, and gives its state back. It waits for the thread that writes anchors and
 * skips, and removes the reader's lease. NULL is no error. */
SPARCL_API sparclResult_t sparclStoreClose(sparclStore_t store);

#ifdef __cplusplus
}
#endif

#endif /* SPARCL_STORE_H_ */
