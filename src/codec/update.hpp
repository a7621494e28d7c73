#pragma once
// An update as a stream of bytes (docs/reference/wire-format.md): written block by block by the
// sender, checked as it arrives and applied in place by the receiver. The codec never sends and
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
class ChangeLog;
struct BlockMode;
class ChangeRule;

constexpr std::size_t kMaxAttachmentBytes = std::size_t{8} << 20;

// Where encoded bytes go. reserve() gives at least `bytes` writable bytes in one piece, valid until
// commit(), which keeps the first `used`.
class ByteSink {
 public:
  virtual ~ByteSink() = default;
  virtual std::byte* reserve(std::size_t bytes) = 0;
  virtual void commit(std::size_t used) = 0;
};

// What a receiver checks of its base before it writes: all of it, or with Writing::kEarly block by
// block (docs/explanation/guarantees.md, SPARCL_VERIFY).
enum class Verify : std::uint8_t { kOff, kTouched, kFull };

// What changed, where the caller knows: the encoder then reads nothing else. One entry an array,
// nullptr: unknown, all of it is compared. indices ascend strictly; or blocks is a bitmap (bit i of
// word i/64, low bit first) over pieces of block_elements elements.
struct ChangedHint {
  std::span<const std::uint64_t> indices;
  std::span<const std::uint64_t> blocks;
  std::uint64_t block_elements = 0;  // 0: `indices` holds the hint

  bool names_changes() const {
    return block_elements > 0 || !indices.empty();
  }  // else nothing has changed
};
inline bool name_changes(std::span<const ChangedHint* const> hints) {
  for (const ChangedHint* hint : hints) {
    if (hint != nullptr && hint->names_changes()) return true;
  }
  return false;
}

// How the new values of floats of 16 bits and more travel: exactly, or (lossy) as old value + code
// * scale, with a code of 8 bits and one scale a block (docs/reference/wire-format.md, mode added).
// What a code cannot say is a change again in the next update, as what a rule leaves out. Elements
// of other types, and blocks that become or were NaN or infinite somewhere, travel exactly.
enum class Values : std::uint8_t { kExact, kInt8, kFloat8 };
enum class Rounding : std::uint8_t { kNearest, kStochastic };
struct ValueCoding {
  Values values = Values::kExact;
  Rounding rounding = Rounding::kNearest;
  std::uint64_t seed = 0;  // of kStochastic: with it, the target's version and the element's place
                           // a function of nothing else

  bool is_lossy() const { return values != Values::kExact; }
};

// Between the target and what receivers will hold, over the changes that a lossy coding was asked
// for.
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
// are |new - old|; one that is no number counts as infinite.
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

// Of the link that an update is for (time_cost.hpp).
struct LinkTime {
  std::uint32_t ps_per_byte = 0;  // 0: no link; bytes alone decide
  bool one_machine = false;       // both ends work on the same cores
};

struct EncodeOptions {
  std::uint64_t base_version = 0;
  std::uint64_t target_version = 0;
  Hash128 schema_hash;           // of names, types and shapes: the model layer's
  bool with_state_hash = false;  // of base and target, in the update's end
  std::optional<Hash128>
      base_hash;  // with_state_hash: where the caller knows it, no more is read than without a
                  // hash; else all of the base is hashed on the way
  // Of some blocks (bit i of word i/64, low bit first), for one who holds these arrays but there:
  // they travel whole, the others are not read, and are said to stay. No array has a base then, and
  // base_hash, of what that one holds, and target_hash are the caller's word. Empty: of all.
  std::span<const std::uint64_t> only_blocks;
  std::optional<Hash128> target_hash;
  std::span<const ChangedHint* const> hints;  // empty, or one an array
  std::span<const std::byte>
      attachment;  // opaque bytes that travel with the update (the model layer's: a changed schema,
                   // metadata); at most kMaxAttachmentBytes
  std::span<std::byte* const>
      bring_forward;  // empty, or the base itself, writable: brought to the target on the way,
                      // while its lines are in the cache. Taken back unless keep_forward() follows
  bool with_runs = false;  // for files: the update can be composed with others by those who know no
                           // schema (compose.hpp)
  const ChangeRule* rule =
      nullptr;  // which changes are sent (change_rule.hpp); nullptr, or without a whole base: all
  bool measure_left_out =
      false;           // for files: what the rule leaves out is counted, and said in the stream
  ValueCoding values;  // of these changes; without a whole base: exact
  // Blocks of bf16 and fp16 may be coded given the old values' exponents: a third fewer bits for
  // real changes, at half the speed. With a state hash only, and not with hints.
  bool allow_classes = false;
  bool for_devices = false;  // only modes that kernels on device memory read (block_mode.hpp); not
                             // with values that are lossy
  bool fewest_bytes =
      false;      // for files: asks modes that cost time as well, which go through an entropy coder
  LinkTime link;  // a block of which so much changed that its changes would take longer than all of
                  // it travels whole
  // Threads that share the work; nullptr: the caller's alone. The bytes are the same. Not with
  // hints.
  WorkerPool* workers = nullptr;
  // Of the arrays that are nullptr in `base` or `target`, which are then there, too. They outlive
  // the encoder.
  const ArraySource* base_source = nullptr;
  const ArraySource* target_source = nullptr;
  const BlockMode* mode = nullptr;  // see block_mode.hpp: every block that can be in this mode is;
                                    // nullptr: the cheapest each
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

// Writes one update. base[i] is nullptr where array i has no base (and options no source of it): it
// is then sent whole. All arrays must stay as they are until finished(); map, kernels and what the
// options point to outlive the encoder.
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
  // What it has replaced in options.bring_forward.
  ChangeLog replaced() const;
  // The update was accepted: what options.bring_forward has brought to the target stays there.
  void keep_forward();
  const EncodeStats& stats() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// When a receiver writes. Staged: not before apply(). Early: a block's changes as soon as the old
// values of that block are checked, while its lines are in the cache, with a log of what they
// replace; all of it is taken back unless apply() follows. Full checks and blocks that come whole
// are staged always. Early saves a second pass over the changed lines; meanwhile the arrays are
// neither old nor new.
enum class Writing : std::uint8_t { kStaged, kEarly };

// Checks one update while it arrives, and applies it once it is whole and approved. Input is
// hostile: every byte is checked before use.
class UpdateDecoder {
 public:
  // held[i]: what the receiver holds of array i. expected_schema: refused if the stream's differs.
  UpdateDecoder(const BlockMap& map, std::span<std::byte* const> held, Verify verify,
                const Hash128& expected_schema, const kernels::KernelSet& kernels,
                Writing writing = Writing::kStaged);
  // For the texts of errors, which else know arrays by their blocks only. Before the first
  // advance().
  void set_array_name(ArrayName name);
  // Threads that share the work. Before the first advance(), whose budgets are then larger.
  void set_workers(WorkerPool& pool);
  // Before the first advance(), of a decoder without workers that keeps nothing: blocks are checked
  // and written by this one, which outlives the decoder, and no held array is looked at here
  // (block_entry.hpp).
  void set_elsewhere(BlocksElsewhere& elsewhere);
  // Without an apply() that succeeded, the held arrays are as they were at the beginning.
  ~UpdateDecoder();

  // Before the first advance(): the state hash of what is held, as far as the caller knows from the
  // updates before. Where the update is from there, Verify::kTouched then checks the hash of its
  // target, too. A hash of another state is no error: it is left out.
  void track(const Hash128& held_hash);

  // Before the first advance(), staged, not with Verify::kOff: changes are kept decoded as they are
  // checked, up to so many bytes. apply() then has only to exchange values, and take_replaced()
  // gives what it has replaced, once: nothing where it were more, or nothing was written.
  void keep_changes(std::uint64_t max_bytes);
  std::optional<ChangeLog> take_replaced();

  // The stream's first `available` bytes lie in `staging`. Checks up to `budget_blocks` more
  // complete blocks: CRC32C of the chunks, structure, and by `verify` the base. Sets `more` if
  // complete blocks remain. Errors (Corrupt, WrongBase, Mismatch for a schema) are sticky.
  Status advance(const Staging& staging, std::uint64_t available, std::uint64_t budget_blocks,
                 bool& more);

  // After the last byte: an error unless the update is whole (nothing missing, nothing after its
  // end) and every check passed.
  Status finish(std::uint64_t stream_bytes);

  // After finish(): what is held is the target already (the call is being repeated): apply() will
  // then write nothing.
  bool already_applied() const;
  std::uint64_t base_version() const;
  std::uint64_t target_version() const;
  std::uint64_t changed() const;
  bool writes_all() const;  // after finish(): each element, whatever was held
  std::span<const std::byte> attachment() const;
  // After finish(): the state hash of the target, where the update names it.
  std::optional<Hash128> target_hash() const;

  // Before apply(): it writes into these arrays instead, which hold the same.
  void write_to(std::span<std::byte* const> arrays);

  // After finish(): writes the update into the held arrays. Cannot fail for a checked update but by
  // a bug or damaged memory (InternalError). With set_elsewhere() again and again, as long as that
  // one says.
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
