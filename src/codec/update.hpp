#pragma once
// An update as a stream of bytes (docs/reference/wire-format.md). The sender writes it block by
// block; the receiver checks it as it arrives and applies it in place. The codec never sends and
// never knows a rank.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "kernels/kernel_set.hpp"
#include "src/base/checksum.hpp"
#include "src/base/staging.hpp"
#include "src/base/status.hpp"
#include "src/codec/block_map.hpp"
#include "src/codec/block_place.hpp"

namespace sparcl {
class WorkerPool;
}

namespace sparcl::codec {

class ArraySource;
class BlocksElsewhere;
class BlockWindow;
class ChangeLog;
struct BlockMode;
class ChangeRule;

constexpr std::size_t kMaxAttachmentBytes = std::size_t{8} << 20;

// The destination of encoded bytes. reserve() returns at least `bytes` writable bytes in one piece,
// valid until commit(), which keeps the first `used`.
class ByteSink {
 public:
  virtual ~ByteSink() = default;
  virtual std::byte* reserve(std::size_t bytes) = 0;
  virtual void commit(std::size_t used) = 0;
};

// The check of the base that a receiver makes before it writes anything, or with Writing::kEarly
// before it writes each block (docs/explanation/guarantees.md, SPARCL_VERIFY).
enum class Verify : std::uint8_t { kOff, kTouched, kFull };

// The changed elements, if the caller knows them: the encoder then reads nothing else. One entry
// for each array, nullptr: unknown, the whole array is compared. indices ascend strictly.
// Alternatively blocks is a bitmap (bit i of word i/64, low bit first) over pieces of
// block_elements elements.
struct ChangedHint {
  std::span<const std::uint64_t> indices;
  std::span<const std::uint64_t> blocks;
  std::uint64_t block_elements = 0;  // 0: `indices` holds the hint

  bool names_changes() const {
    return block_elements > 0 || !indices.empty();
  }  // true: nothing has changed
};
inline bool name_changes(std::span<const ChangedHint* const> hints) {
  for (const ChangedHint* hint : hints) {
    if (hint != nullptr && hint->names_changes()) return true;
  }
  return false;
}

// How the new values of floats of at least 16 bits are sent: exactly, or (lossy) as old value +
// code * scale. A code has 8 bits, a block one scale (docs/reference/wire-format.md, mode
// added). The difference that a code cannot express is a change again in the next update, like a
// change that a rule leaves out. Elements of other types are sent exactly, as are blocks with NaN
// or infinity before or after.
enum class Values : std::uint8_t { kExact, kInt8, kFloat8 };
enum class Rounding : std::uint8_t { kNearest, kStochastic };
struct ValueCoding {
  Values values = Values::kExact;
  Rounding rounding = Rounding::kNearest;
  std::uint64_t seed = 0;  // kStochastic depends only on it, the target's version and the element's
                           // position

  bool is_lossy() const { return values != Values::kExact; }
};

// The difference between the target and the values that receivers will hold, over the changes with
// lossy coding.
struct LossyError {
  double largest = 0;
  double squares = 0;         // their sum
  double change_squares = 0;  // that of target - base

  void add(double error, double change) {
    largest = error < -largest ? -error : error > largest ? error : largest;
    squares += error * error;
    change_squares += change * change;
  }
  void add(const LossyError& other) {
    largest = other.largest > largest ? other.largest : largest;
    squares += other.squares;
    change_squares += other.change_squares;
  }
};

// Changes that a rule has left out of an update, so that receivers will not hold the target. Sizes
// are |new - old|; a size that is no number counts as infinite.
struct LeftOut {
  std::uint64_t count = 0;
  double squares = 0;  // their sum
  double largest = 0;
  double change_squares = 0;  // of all changes, those that are sent, too; not part of the stream

  void add(const LeftOut& other) {
    count += other.count;
    squares += other.squares;
    largest = other.largest > largest ? other.largest : largest;
    change_squares += other.change_squares;
  }
};

// The link that an update is for (time_cost.hpp).
struct LinkTime {
  std::uint32_t ps_per_byte = 0;  // 0: no link; only bytes decide
  bool one_machine = false;       // both ends work on the same cores
};

struct EncodeOptions {
  std::uint64_t base_version = 0;
  std::uint64_t target_version = 0;
  Hash128 schema_hash;               // of names, types and shapes: the model layer's
  bool with_state_hash = false;      // of base and target, in the update's end
  std::optional<Hash128> base_hash;  // with_state_hash: if the caller does not know it, the encoder
                                     // hashes all of the base

  // Sends only these blocks (bit i of word i/64, low bit first), to a receiver that holds the other
  // blocks already. They are sent whole. The other blocks are not read, and are marked unchanged.
  // No array has a base then. The caller gives base_hash, the hash of the receiver's state, and
  // target_hash. Empty: all blocks.
  std::span<const std::uint64_t> only_blocks;
  std::optional<Hash128> target_hash;
  std::span<const ChangedHint* const> hints;  // empty, or one for each array
  std::span<const std::byte>
      attachment;  // opaque bytes that are sent with the update (the model layer's: a changed
                   // schema, metadata); at most kMaxAttachmentBytes
  std::span<std::byte* const>
      bring_forward;  // empty, or the base itself, writable: the encoder writes the target to it
                      // while its lines are in the cache. Undone unless keep_forward() follows
  bool with_runs = false;  // for files: the update can be composed with others without a schema
                           // (compose.hpp)
  const ChangeRule* rule =
      nullptr;  // selects the sent changes (change_rule.hpp); nullptr, or without a whole base: all
  bool measure_left_out =
      false;           // for files: changes that the rule leaves out are counted in the stream
  ValueCoding values;  // of these changes; without a whole base: exact
  // Blocks of bf16 and fp16 may be coded given the old values' exponents: a third fewer bits for
  // real changes, at half the speed. Only with a state hash, and not with hints.
  bool allow_classes = false;
  bool for_devices = false;   // only modes that kernels on device memory read (block_mode.hpp); not
                              // with lossy values
  bool fewest_bytes = false;  // for files: also tries the slow modes, which use an entropy coder
  LinkTime link;  // a block is sent whole if its changes would take longer than the whole block
  // Threads that share the work; nullptr: only the caller's. The bytes are the same. Not with
  // hints.
  WorkerPool* workers = nullptr;
  // Sources of the arrays that are nullptr in `base` or `target`. They outlive the encoder.
  const ArraySource* base_source = nullptr;
  const ArraySource* target_source = nullptr;
  // The target is the base, all of which is in memory, with these new values over it, each of which
  // differs from the base's. Then nothing else is read. Not with hints, classes or a rule.
  const ChangeLog* known_changes = nullptr;
  const BlockMode* mode = nullptr;  // used for every block that allows it (block_mode.hpp);
                                    // nullptr: the cheapest for each block
};

struct EncodeStats {
  std::uint64_t elements = 0;
  std::uint64_t changed = 0;
  std::uint64_t encoded_bytes = 0;
  LossyError lossy;
  LeftOut left_out;   // measure_left_out only
  Hash128 base_hash;  // with_state_hash only
  Hash128 target_hash;
};

// Where a chunk begins in a stream, so that a receiver can begin there. The last one says where the
// sections after all chunks begin.
struct ChunkStart {
  std::uint64_t byte = 0;   // of the stream
  std::uint64_t block = 0;  // all blocks below it come before, or do not change
  std::uint32_t crc = 0;    // of all bytes before it, without CRC fields

  friend bool operator==(const ChunkStart&, const ChunkStart&) = default;
};

// Writes one update. base[i] is nullptr if array i has no base (and options no source of it): it is
// then sent whole. All arrays must stay unchanged until finished(). map, kernels and the objects
// that options point to outlive the encoder.
class UpdateEncoder {
 public:
  UpdateEncoder(const BlockMap& map, std::span<const std::byte* const> base,
                std::span<const std::byte* const> target, const EncodeOptions& options,
                const kernels::KernelSet& kernels);
  ~UpdateEncoder();

  // Compares and encodes about `budget_elements` more elements (at least a block), writing to
  // `sink`. The last step ends the stream.
  Status step(std::uint64_t budget_elements, ByteSink& sink);
  bool finished() const;
  // The values replaced in options.bring_forward.
  ChangeLog replaced() const;
  // The update was accepted: the target's values stay in options.bring_forward.
  void keep_forward();
  const EncodeStats& stats() const;
  // Of all chunks, and where the last one ends. After finished().
  std::span<const ChunkStart> chunk_starts() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// When a receiver writes. Staged: not before apply(). Early: writes a block's changes as soon as
// the old values of the block are checked, while its lines are in the cache. It logs the values
// that they replace, and restores them unless apply() follows. Full checks and whole blocks are
// always staged. Early saves a second pass over the changed lines. Meanwhile the arrays are neither
// old nor new. Over: writes each block as it is decoded over values that do not matter, such as
// those of new memory, which are not read. Only with a full check or a window, and only if each
// block is sent whole; after an error the arrays hold anything.
enum class Writing : std::uint8_t { kStaged, kEarly, kOver };

// Checks one update while it arrives, and applies it when it is complete and approved. Input is
// untrusted: every byte is checked before use.
class UpdateDecoder {
 public:
  // held[i]: the receiver's array i. expected_schema: a stream with another schema is refused.
  UpdateDecoder(const BlockMap& map, std::span<std::byte* const> held, Verify verify,
                const Hash128& expected_schema, const kernels::KernelSet& kernels,
                Writing writing = Writing::kStaged);
  // Array names for the texts of errors, which otherwise name only blocks. Before the first
  // advance().
  void set_array_name(ArrayName name);
  // Threads that share the work. Before the first advance(), whose budgets are then larger.
  void set_workers(WorkerPool& pool);
  // Checks and writes blocks through `elsewhere`, and does not access the held arrays here
  // (block_entry.hpp). Before the first advance(), of a decoder without workers that keeps no
  // changes. `elsewhere` outlives the decoder.
  void set_elsewhere(BlocksElsewhere& elsewhere);
  // The receiver holds these blocks only: others are not decoded, and their memory is neither read
  // nor written. Nothing then says that the target is held already, and state hashes are not
  // checked: the caller knows what is held, and has checked the stream's bytes by their digest.
  // What still protects it: CRCs, the checks of content, and for Verify::kTouched the digests of
  // chunks and the old checks of groups that lie wholly in the window. Verify::kOff with
  // Writing::kOver, else kTouched. Not with set_elsewhere(). The window outlives the decoder.
  void set_window(const BlockWindow& window);
  // With a window, instead of a stream's first chunks: after the header has been read, goes on at a
  // chunk, later ones after earlier ones, up to finish_chunks(). `available` of advance() is then
  // the end of the last chunk that is there, and the bytes between chunks need not be there.
  Status go_on_at(const ChunkStart& start);
  // Corrupt: what was read since go_on_at() does not end where this chunk begins.
  Status end_before(const ChunkStart& next);
  // Instead of finish(): the caller has read all chunks that it wants. Corrupt: blocks of the
  // window were not in them. With Writing::kOver.
  Status finish_chunks();
  // Without an apply() that succeeded, the held arrays are restored to their initial values.
  ~UpdateDecoder();

  // Before the first advance(): the state hash of the held state, if the caller knows it from
  // earlier updates. If the update's base has this hash, Verify::kTouched then checks the hash of
  // its target, too. The hash of another state is no error: it is ignored.
  void track(const Hash128& held_hash);

  // Before the first advance(), staged, not with Verify::kOff: keeps decoded changes as they are
  // checked, up to max_bytes. apply() then only exchanges values, and take_replaced() returns the
  // replaced values once. It returns nothing if there were more bytes, or nothing was written.
  void keep_changes(std::uint64_t max_bytes);
  std::optional<ChangeLog> take_replaced();

  // The stream's first `available` bytes are in `staging`. Checks up to `budget_blocks` more
  // complete blocks: CRC32C of the chunks, structure, and by `verify` the base. Sets `more` if
  // complete blocks remain. Errors (Corrupt, WrongBase, Mismatch for a schema) are sticky.
  Status advance(const Staging& staging, std::uint64_t available, std::uint64_t budget_blocks,
                 bool& more);

  // Bytes of the stream, from the first, that are not read again with Writing::kOver.
  std::uint64_t used_bytes() const;

  // After the last byte: an error unless the update is complete (nothing missing, nothing after its
  // end) and every check passed.
  Status finish(std::uint64_t stream_bytes);

  // After finish(): the held state is the target already, because the call is repeated. apply()
  // will write nothing.
  bool already_applied() const;
  std::uint64_t base_version() const;
  std::uint64_t target_version() const;
  std::uint64_t changed() const;
  bool writes_all() const;  // after finish(): the update writes each element
  std::span<const std::byte> attachment() const;
  // After finish(): the state hashes of the base and the target, if the update names them.
  std::optional<Hash128> base_hash() const;
  std::optional<Hash128> target_hash() const;

  // Before apply(): it writes into these arrays instead, which have the same values.
  void write_to(std::span<std::byte* const> arrays);

  // After finish(): writes the update into the held arrays. For a checked update it fails only by a
  // bug or damaged memory (InternalError). With set_elsewhere() the caller repeats it while
  // `elsewhere` says so.
  Status apply(const Staging& staging);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The hash of a state: schema and bytes, independent of how many threads or pieces computed it.
Hash128 state_hash(const BlockMap& map, std::span<const std::byte* const> arrays,
                   const Hash128& schema_hash,
                   const kernels::KernelSet& kernels = kernels::cpu_kernels());

}  // namespace sparcl::codec
