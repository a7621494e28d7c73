#pragma once
// The sparse broadcast: agree, stream, vote, commit. One rank's changes reach all ranks, whole or
// not at all.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "collectives/broadcast/fanout.hpp"
#include "collectives/broadcast/part_list.hpp"
#include "collectives/broadcast/stream.hpp"
#include "collectives/collective.hpp"
#include "kernels/kernel_set.hpp"
#include "src/codec/update.hpp"
#include "src/gpu/device_stream.hpp"

namespace sparcl::device {
class DeviceScratch;
}

namespace sparcl::collectives::broadcast {

struct UpdateCall;

// One run of the pattern that all sparse broadcasts share: agree on the call, stream, vote, commit.
// number: the call's position in the communicator's order. The root has a source, other ranks a
// target; neither is needed with a refusal. The result is the call's: the same on all ranks unless
// the communicator is poisoned.
struct BroadcastCall {
  CallFingerprint fingerprint;
  Status refusal;
  int root = 0;
  const PartList* parts = nullptr;  // see agree()
  bool encodes_ahead = true;        // false: the source is not used before the ranks have agreed
  bool is_blocking = false;         // concurrent calls would reach NCCL in no fixed order
  bool is_on_device = false;        // kernels read and write this rank's arrays
  std::uint64_t dense_bytes = 0;    // known to all ranks: the plan depends on it
  StreamSource* source = nullptr;
  StreamTarget* target = nullptr;
  UpdateCall* update = nullptr;  // whose arrays a root may send as they are
  bool sends_dense = false;      // root: it does
  bool was_dense = false;        // result, the same on all ranks
};
Task run_broadcast(const CommContext& comm, std::uint32_t number, BroadcastCall& call,
                   CallReport& report);

// For a call whose arrays are in device memory, aligned to their elements, on the GPU that scratch
// has entered. The call is in the stream's order. A root's bases are there, too, all or none, and
// so is its snapshot. The root has neither a rule nor lossy values, and its hints are ignored. A
// base that is the held array itself does not change.
struct UpdateOnDevice {
  device::DeviceScratch* scratch = nullptr;
  void* stream = nullptr;
  std::shared_ptr<const void> snapshot =
      nullptr;  // its memory, and that of the bases: stays while the stream may use it
};

// The root's input besides its arrays.
struct UpdateSender {
  std::span<const std::byte* const> base;  // the values that the ranks hold; nullptr entries: none
  std::uint64_t base_version = 0;
  std::span<const codec::ChangedHint* const> hints;  // empty, or one an array
  const codec::ChangeRule* rule = nullptr;           // which changes are sent; nullptr: all
  codec::ValueCoding values;                         // how
  std::span<std::byte* const> snapshot;  // empty, or updated to the new state with the commit
  bool with_state_hash = false;  // the update names its base and target by their state hashes
};

// The input of the other ranks.
struct UpdateReceiver {
  codec::Writing writing = codec::Writing::kStaged;
  std::uint64_t held_version = 0;  // the held version, if it is known and has a number
  std::uint64_t updated_to = 0;    // of the last update that was taken
  bool holds_no_version = false;   // accepts only an update that writes all
};

// The results of a call, also of one that failed.
struct UpdateOutcome {
  std::uint64_t version = 0;    // of the arrays now
  std::optional<Hash128> hash;  // its state hash, if the update names it
  bool is_committed = false;    // receivers: the arrays hold the update, even if the call fails
  bool is_partially_written = false;  // the call failed while it wrote to device memory
  std::shared_ptr<const gpu::DeviceEvent> written_until;  // a GPU may write until then; or nullptr
  bool has_written_snapshot = false;  // root, on the device: the snapshot has changed,
  bool is_snapshot_lost = false;      // and is no longer that of any state
};

// sparclBroadcastDelta and sparclBroadcastUpdate: the arrays of `held`, cut into blocks by `map`.
struct UpdateCall {
  CallKind kind = CallKind::kBroadcastUpdate;
  Status refusal;  // of the caller's arguments on this rank
  int root = 0;
  bool is_blocking = false;
  std::uint64_t version = 0;  // all ranks but the root: 0 accepts any
  const codec::BlockMap* map = nullptr;
  Hash128 schema_hash;
  const PartList* parts = nullptr;         // a model's tensors, for the text of a Mismatch
  codec::ArrayName array_name;             // empty, or for the texts of errors
  std::span<std::byte* const> held;        // root: the new state, only read
  std::optional<Hash128> known_hash;       // of the root's base, or of what is held, if it is known
  const UpdateOnDevice* device = nullptr;  // map has elements: they are in device memory
  UpdateSender sender;
  UpdateReceiver receiver;
  UpdateOutcome outcome;
};
Task broadcast_update(const CommContext& comm, std::uint32_t number, UpdateCall& call,
                      CallReport& report);
enum class UpdateRole : std::uint8_t { kSendsChanges, kSendsAll, kReceives };
// Allocates host and device memory for a call on arrays in device memory, before it is made. If
// that fails, the call can still be staged through host memory.
Status reserve_for_update(device::DeviceScratch& scratch, const kernels::KernelSet& host,
                          const codec::BlockMap& map, UpdateRole role, bool with_classes);

// sparclBroadcastSparse.
struct SparseCall {
  Status refusal;
  bool is_blocking = false;
  int root = 0;
  DataType datatype = DataType::kUint8;
  std::byte* values = nullptr;
  std::uint64_t* indices = nullptr;
  std::uint64_t nnz = 0;       // root: input; other ranks: output, also with Truncated
  std::uint64_t capacity = 0;  // other ranks
};
Task broadcast_sparse(const CommContext& comm, std::uint32_t number, SparseCall& call,
                      CallReport& report);

}  // namespace sparcl::collectives::broadcast
