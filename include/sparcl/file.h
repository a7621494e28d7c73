/** @file
 * sparcl on files: safetensors checkpoints, and the deltas between them (C99).
 *
 * A checkpoint is a .safetensors file, or a folder of shards. A delta is a file that turns one
 * checkpoint, the base, into another one, the target.
 *
 * Rules for every function:
 *  - Calls are local and blocking. Any thread may call. Calls at once need different outputs.
 *  - A call keeps no path or name. It never modifies an input.
 *  - The output appears, or replaces what is there, when all of it is on the disk. After an error,
 *    `output` is as it was, or the error says what is there now.
 *  - `options` and `report` may be NULL. A report is written on success only.
 *
 * Errors of every function; sparclGetLastError(NULL) names the path:
 *  - sparclInvalidArgument: an argument is NULL or out of range, or the output is an input.
 *  - sparclSystemError: a file cannot be read or written.
 *  - sparclCorrupt: a file is damaged, cut, or not of the kind that the call needs.
 *  - sparclOutOfMemory: the tensors do not fit in memory.
 */
#ifndef SPARCL_FILE_H_
#define SPARCL_FILE_H_

#include "sparcl/state.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Follows the progress of a call, on the thread of the caller. Bytes count from 0 in each phase.
 * A call neither reports nor can be cancelled while it selects changes, converts values to another
 * layout, measures the shape of a change, or waits for the disk.
 * @return sparclSuccess to go on. Any other result cancels the call, which returns this result. */
typedef sparclResult_t (*sparclFileProgress_t)(uint64_t done_bytes, uint64_t total_bytes,
                                               void* arg);

/** Kinds of names that a sparclFileNote_t receives. A NUL in a tensor's name is bytes C0 80. */
typedef enum {
  sparclFileTensorAdded = 1,    /**< a tensor that only the target has */
  sparclFileTensorRemoved = 2,  /**< a tensor that only the base has */
  sparclFileTensorReplaced = 3, /**< a tensor that changed its type or its number of elements */
  sparclFileSideFile = 4,       /**< a file beside the shards that the delta carries */
  sparclFileSideFileLeft = 5,   /**< a file beside the shards that is too large for a delta */
  sparclFileNotInIndex = 6,     /**< path of a file like a shard that the folder's index omits */
  sparclFileNoteForceInt = 0x7fffffff
} sparclFileNoteKind_t;

/** Receives a name while a call runs. `name` is valid until the callback returns. */
typedef void (*sparclFileNote_t)(sparclFileNoteKind_t kind, const char* name, void* arg);

/** Options of all functions without options of their own. */
typedef struct {
  size_t size;                      /**< set by SPARCL_FILE_OPTIONS_INITIALIZER */
  sparclFileProgress_t on_progress; /**< NULL: none */
  sparclFileNote_t on_note;         /**< NULL: none */
  void* arg;                        /**< passed to both callbacks */
} sparclFileOptions_t;
#define SPARCL_FILE_OPTIONS_INITIALIZER \
  { sizeof(sparclFileOptions_t), NULL, NULL, NULL }

/** Counts and bytes of a call. Unused fields are 0 or "". Hashes are hexadecimal digits. */
typedef struct {
  size_t size;                          /**< set by SPARCL_FILE_REPORT_INITIALIZER */
  uint64_t elements;                    /**< of the target, or of the checkpoint */
  uint64_t changed;                     /**< elements; sparclFileCompose without a base: at most */
  uint64_t tensors;                     /**< in the checkpoint; sparclFileConvert: with changes */
  uint64_t bytes;                       /**< of the file; of a checkpoint: of its tensors */
  uint64_t input_bytes;                 /**< of the deltas, or of another program's files */
  uint64_t dense_bytes;                 /**< sparclFileDiff: of all tensors of the target */
  uint64_t files;                       /**< sparclFileConvert: written; of a signature: signed */
  uint64_t unchanged;                   /**< sparclFileConvert: values that the base has already */
  uint64_t blocks, chunks;              /**< sparclFileVerify: in the delta */
  uint64_t left_out;                    /**< sparclFileDiff: changes that are not selected */
  double left_out_l2, left_out_largest; /**< their L2 norm, and the largest of them */
  double quantisation_largest;          /**< largest quantisation error of the selected changes */
  double quantisation_relative;        /**< its L2 norm, relative to that of the selected changes */
  double largest_error;                /**< largest difference between the target and the result */
  double relative_error;               /**< its L2 norm, relative to that of all changes */
  double seconds;                      /**< duration of the call */
  char base_hash[40], target_hash[40]; /**< state hashes, 32 digits each */
  char hash[72];                       /**< sparclFileHash: 32 digits, SHA-256: 64 digits */
  char layout[32];                     /**< sparclFileConvert: layout of the input */
  int is_delta;                        /**< sparclFileVerify: 1 a delta, 0 a checkpoint */
  int same_header; /**< sparclFileApply: 1 if the header is the target's bytes */
} sparclFileReport_t;
#define SPARCL_FILE_REPORT_INITIALIZER                                                            \
  {                                                                                               \
    sizeof(sparclFileReport_t), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, "", "", "", \
        "", 0, 0                                                                                  \
  }

/** Whether a delta of folders carries the configuration and tokenizer files that changed. */
typedef enum {
  sparclFileSideFilesCarry = 0,
  sparclFileSideFilesOmit = 1,
  sparclFileSideFilesForceInt = 0x7fffffff
} sparclFileSideFiles_t;

/** Options of sparclFileDiff. */
typedef struct {
  size_t size;                            /**< set by SPARCL_FILE_DIFF_OPTIONS_INITIALIZER */
  sparclFileProgress_t on_progress;       /**< NULL: none */
  sparclFileNote_t on_note;               /**< NULL: none */
  void* arg;                              /**< passed to both callbacks */
  const char* mode;                       /**< name as in `sparcl diff --mode`; NULL: auto */
  const char* const* only;                /**< globs: a tensor takes part if its name matches one */
  size_t only_count;                      /**< number of globs; 0: all tensors take part */
  const sparclUpdateOptions_t* selection; /**< which changes, how exactly; NULL: all, exactly */
  sparclFileSideFiles_t side_files;       /**< 0: carried */
  int threads;                            /**< that encode; 0: SPARCL_THREADS */
  uint64_t with_identities; /**< 1: the delta also names base and target by a SHA-256 tree, which
                                 every later call checks; takes 0.6 s of a core a GB. 0: not */
} sparclFileDiffOptions_t;
#define SPARCL_FILE_DIFF_OPTIONS_INITIALIZER                                \
  {                                                                         \
    sizeof(sparclFileDiffOptions_t), NULL, NULL, NULL, NULL, NULL, 0, NULL, \
        sparclFileSideFilesCarry, 0, 0                                      \
  }

/** Writes the delta that turns one checkpoint into another one.
 * Changes that are not selected stay out. The next delta, made from the result, has them again.
 * @param base path of the checkpoint to start from
 * @param target path of the checkpoint to arrive at
 * @param output path of the delta
 * @param options NULL: all changes, exactly. `selection->adopt` must be 0
 * @param report elements, changed, bytes, dense_bytes, left_out to target_hash */
SPARCL_API sparclResult_t sparclFileDiff(const char* base, const char* target, const char* output,
                                         const sparclFileDiffOptions_t* options,
                                         sparclFileReport_t* report);

/** Writes the target of a delta. The result is a folder if the target was one.
 * The call checks the delta, the hash of the base, and the hash of the result before it writes.
 * Errors: sparclWrongBase if `base` is not the checkpoint that the delta was made from.
 * @param base path of the checkpoint that the delta was made from
 * @param delta path of the delta
 * @param output path of the target; may be `base`
 * @param options NULL: none
 * @param report elements, changed, bytes, input_bytes, both hashes, same_header */
SPARCL_API sparclResult_t sparclFileApply(const char* base, const char* delta, const char* output,
                                          const sparclFileOptions_t* options,
                                          sparclFileReport_t* report);

/** Checks all checksums of a delta, or the structure of a checkpoint, which has no checksums.
 * @param path path of the delta or of the checkpoint
 * @param options NULL: none
 * @param report is_delta, bytes; blocks, chunks and hashes of a delta; tensors of a checkpoint */
SPARCL_API sparclResult_t sparclFileVerify(const char* path, const sparclFileOptions_t* options,
                                           sparclFileReport_t* report);

/** Writes several deltas as one. Each delta must begin at the state where the one before it ends.
 * Errors: sparclWrongBase or sparclMismatch if the deltas do not follow each other. Without a base
 * sparclUnsupported if a delta codes values against old values: pass the base.
 * @param deltas paths of the deltas, in order
 * @param count number of paths, 1 or more
 * @param base path of the checkpoint that the first delta was made from; NULL: none
 * @param output path of the composed delta
 * @param options NULL: none
 * @param report elements, changed, bytes, input_bytes, both hashes */
SPARCL_API sparclResult_t sparclFileCompose(const char* const* deltas, size_t count,
                                            const char* base, const char* output,
                                            const sparclFileOptions_t* options,
                                            sparclFileReport_t* report);

/** Writes the delta that leads from the target of a delta back to its base.
 * Errors: sparclWrongBase if `base` is not the checkpoint that the delta was made from.
 * @param base path of the checkpoint that the delta was made from
 * @param delta path of the delta
 * @param output path of the inverse delta
 * @param options NULL: none
 * @param report elements, changed, bytes, input_bytes, both hashes */
SPARCL_API sparclResult_t sparclFileInvert(const char* base, const char* delta, const char* output,
                                           const sparclFileOptions_t* options,
                                           sparclFileReport_t* report);

/** Writes a change in the layout of another program, or such a file as a delta.
 * Errors: sparclWrongBase if `base` is not the checkpoint of the change. sparclMismatch if it has
 * other tensors. sparclUnsupported if the layout cannot hold the change.
 * @param input path of a delta, or of a file or folder of another program
 * @param from layout of the input; NULL: as the file looks
 * @param output path to write; a new folder if the layout takes several files
 * @param to layout of the output: "sparcl" is a delta; `sparcl convert --help` has the others
 * @param base path of the checkpoint that the change is for; may be NULL if no delta takes part
 * @param options NULL: none
 * @param report changed, tensors, bytes, input_bytes, files, unchanged, layout */
SPARCL_API sparclResult_t sparclFileConvert(const char* input, const char* from, const char* output,
                                            const char* to, const char* base,
                                            const sparclFileOptions_t* options,
                                            sparclFileReport_t* report);

/** Options of sparclFileSign. */
typedef struct {
  size_t size;                      /**< set by SPARCL_FILE_SIGN_OPTIONS_INITIALIZER */
  sparclFileProgress_t on_progress; /**< NULL: none */
  sparclFileNote_t on_note;         /**< not called */
  void* arg;                        /**< passed to the callbacks */
  const char* signature;            /**< path of the signature file; NULL: path + ".sparcl-sig" */
  const char* model_id;             /**< signed, too; NULL: none */
  uint64_t version;                 /**< of the model; signed, too; 0: none */
  double valid_s;                   /**< seconds from now until it expires; 0: never */
  uint64_t adds;                    /**< 1: add to the signature file that is there, and take its
                                         facts; 0: there must be none */
} sparclFileSignOptions_t;
#define SPARCL_FILE_SIGN_OPTIONS_INITIALIZER \
  { sizeof(sparclFileSignOptions_t), NULL, NULL, NULL, NULL, NULL, 0, 0, 0 }

/** Signs a file, or all files of a folder, by Ed25519 over their names, sizes and SHA-256.
 * See docs/reference/signatures.md.
 * @param path path of the file or folder
 * @param key path of a file of secret keys (`sparcl keygen`); each of them signs
 * @param options NULL: defaults
 * @param report files, bytes
 * @retval sparclInvalidArgument also: the signature file is there, and `adds` is 0
 * @retval sparclMismatch the signature file is of other files or facts
 * @retval sparclCorrupt a signature that is there is wrong */
SPARCL_API sparclResult_t sparclFileSign(const char* path, const char* key,
                                         const sparclFileSignOptions_t* options,
                                         sparclFileReport_t* report);

/** Options of sparclFileVerifySignature. */
typedef struct {
  size_t size;                      /**< set by SPARCL_FILE_SIGNATURE_OPTIONS_INITIALIZER */
  sparclFileProgress_t on_progress; /**< NULL: none */
  sparclFileNote_t on_note;         /**< not called */
  void* arg;                        /**< passed to the callbacks */
  const char* signature;            /**< path of the signature file; NULL: path + ".sparcl-sig" */
  const char* model_id;             /**< that must have been signed; NULL: any */
  uint64_t min_version;             /**< older versions are refused; 0: any */
  uint64_t trust_threshold;         /**< keys that must have signed; 0: 1 */
} sparclFileSignatureOptions_t;
#define SPARCL_FILE_SIGNATURE_OPTIONS_INITIALIZER \
  { sizeof(sparclFileSignatureOptions_t), NULL, NULL, NULL, NULL, NULL, 0, 0 }

/** Checks that a file or folder is what was signed: all of its files, and no others.
 * @param path path of the file or folder
 * @param trust path of a file of public keys
 * @param options NULL: defaults
 * @param report files, bytes
 * @retval sparclUnauthorized no trusted key has signed, or too few; it has expired, or is of
 * another model or an older version
 * @retval sparclCorrupt a file was changed, is missing, or was not signed */
SPARCL_API sparclResult_t sparclFileVerifySignature(const char* path, const char* trust,
                                                    const sparclFileSignatureOptions_t* options,
                                                    sparclFileReport_t* report);

/** Which hash sparclFileHash computes. */
typedef enum {
  sparclFileHashState = 0,    /**< the hash by which deltas name base and target; sparclStateHash */
  sparclFileHashXxh3 = 1,     /**< XXH3-128 of the list of tensors and all bytes */
  sparclFileHashSha256 = 2,   /**< GRAIL's weights_hash: sorted names, types and bytes */
  sparclFileHashIdentity = 3, /**< a SHA-256 tree over names, types, shapes and bytes */
  sparclFileHashForceInt = 0x7fffffff
} sparclFileHashKind_t;

/** Computes a hash of a checkpoint.
 * @param path path of the checkpoint
 * @param kind which hash
 * @param options NULL: none
 * @param report hash, tensors, bytes */
SPARCL_API sparclResult_t sparclFileHash(const char* path, sparclFileHashKind_t kind,
                                         const sparclFileOptions_t* options,
                                         sparclFileReport_t* report);

/** Cost of a change in one block mode. */
typedef struct {
  char name[32];
  uint64_t bytes;
  double seconds; /**< to encode on this host, with the time to read the files */
} sparclFileMode_t;

/** Shape and cost of a change, and the density from which a dense broadcast is faster. */
typedef struct {
  size_t size; /**< set by SPARCL_FILE_ADVICE_INITIALIZER */
  uint64_t elements, changed, dense_bytes;
  double clustering;                    /**< 1: changes are independent; more: they are clustered */
  double position_bits;                 /**< entropy of positions, bits per change */
  double position_bits_given_old;       /**< the same, if the old exponents are known */
  double unit_steps;                    /**< share of changes by one unit in the last place */
  double sparse_seconds, dense_seconds; /**< predicted broadcast of the update, of the state */
  double dense_wins_above;              /**< density above which dense is faster; negative: none */
  char sparse_algorithm[32], dense_algorithm[32];
  char best_mode[32];         /**< the smallest of `modes` that is not auto */
  sparclFileMode_t broadcast; /**< the update as a root encodes it */
  uint64_t mode_count;
  sparclFileMode_t modes[16]; /**< as sparclFileDiff writes it; the first is auto */
} sparclFileAdvice_t;
#define SPARCL_FILE_ADVICE_INITIALIZER                                                     \
  {                                                                                        \
    sizeof(sparclFileAdvice_t), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, "", "", "", {"", 0, 0}, 0, { \
      { "", 0, 0 }                                                                         \
    }                                                                                      \
  }

/** Says whether a sparse broadcast of a change pays, and in which mode. Writes no file.
 * Errors: sparclMismatch if the two checkpoints do not have the same tensors.
 * @param first path of a checkpoint, or of gradients in a safetensors file
 * @param second path of the same, one step later
 * @param link_gbit link between two ranks, Gbit/s, more than 0
 * @param ranks ranks that hold the state, the root included, 2 or more
 * @param options NULL: none
 * @param advice all fields inside its size; not NULL */
SPARCL_API sparclResult_t sparclFileAdvise(const char* first, const char* second, double link_gbit,
                                           int ranks, const sparclFileOptions_t* options,
                                           sparclFileAdvice_t* advice);

#ifdef __cplusplus
}
#endif

#endif /* SPARCL_FILE_H_ */
