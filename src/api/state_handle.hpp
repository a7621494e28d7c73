#pragma once
// The state behind the handle: the caller's tensors, and on a root what the ranks have confirmed.

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collectives/broadcast/part_list.hpp"
#include "sparcl/sparcl.h"
#include "src/api/confirmed.hpp"
#include "src/api/handles.hpp"
#include "src/base/memory_space.hpp"
#include "src/base/status.hpp"
#include "src/codec/update.hpp"
#include "src/gpu/device_stream.hpp"
#include "src/model/device_tensors.hpp"
#include "src/model/schema.hpp"

namespace sparcl::api {

// The elements of one tensor that the caller has named as changed since the last update.
struct Marks {
  enum class Kind : std::uint8_t { kUnknown, kIndices, kBlocks };
  Kind kind = Kind::kUnknown;
  bool mixed = false;  // named in two ways that do not combine: all of the tensor is compared
  std::vector<std::uint64_t> indices;
  std::vector<std::uint64_t> bitmap;
  std::uint64_t block_elements = 0;
  codec::ChangedHint hint;  // views of the above
};

struct TensorRole {
  int priority = 0;
  bool trainable = true;
};

}  // namespace sparcl::api

struct sparclState {
  sparcl::api::OwnHandle<sparclState> handle{this};
  sparcl::model::Schema schema;
  std::vector<std::byte*> data;
  std::vector<sparcl::MemorySpace> spaces;  // of `data`, or of a master
  std::vector<const float*>
      masters;  // empty, or one a tensor: what it is rounded from where `data` is nullptr
  std::vector<sparcl::api::Marks> marks;
  std::vector<sparcl::api::TensorRole> roles;  // empty, or one a tensor

  // Made with the first use; tensors cannot be added afterwards.
  std::optional<sparcl::codec::BlockMap> map;
  sparcl::Hash128 schema_hash;
  sparcl::collectives::broadcast::PartList parts;

  std::uint64_t version = 0;
  std::uint64_t received_from =
      0;  // the communicator of the last update that this rank received (sparclComm::id)
  std::uint64_t updated_to = 0;  // the version of the last update that this rank sent or received
  // The hash of the state after the last update, kept in O(changed). A root's next update is named
  // by it, and the other ranks check that the update leads where it says. The caller's own writes
  // are not in it: unlike sparclStateHash, it proves nothing of the bytes. If it does not fit an
  // update's base, it is left out.
  std::optional<sparcl::Hash128> tracked_hash;
  // For tensors in device memory, from the first update on. is_mirror_ahead: the tensors lack what
  // the last update brought the mirror.
  std::unique_ptr<sparcl::model::DeviceTensors> mirror;
  bool is_mirror_ahead = false;
  // An update failed while it was written to the tensors. They are no version until an update
  // writes all of them.
  bool is_torn = false;
  std::shared_ptr<const sparcl::gpu::DeviceEvent>
      written_until;  // a stream that is stuck may still write them until then
  std::atomic<bool> in_flight{false};
  std::atomic<bool> is_attached{false};  // it has a publisher or a subscriber
  bool is_subscribed = false;            // a subscriber, which writes the tensors
  sparcl::api::Confirmed confirmed;      // root only

  void freeze();
  bool has_device_memory() const;
  // One a tensor: where it lies in memory of that kind, else nullptr.
  std::vector<std::byte*> data_in(sparcl::MemorySpace space) const;
  // Once it is frozen.
  sparcl::Result<std::unique_ptr<sparcl::model::DeviceTensors>> make_mirror(
      const sparcl::kernels::KernelSet& kernels) const;
  // InvalidUsage while a broadcast reads or writes it.
  sparcl::Status check_idle() const;
  // InvalidUsage while a stream that is stuck may still write the tensors.
  sparcl::Status check_still() const;
  // InvalidUsage while the tensors lack what an update brought, or are no version.
  sparcl::Status check_complete() const;
  // Unsupported, with a name, where a tensor is made of its master each time it is published.
  sparcl::Status check_in_memory() const;
  // The caller's marks, one a tensor; a tensor that does not train has none. nullptr: all of the
  // tensor is compared. Empty: all of every tensor is. Valid until the state changes.
  std::vector<const sparcl::codec::ChangedHint*> hints() const;
  sparcl::api::TensorRole& role(std::size_t tensor);
  sparcl::Result<std::size_t> find(const char* name) const;  // the first of this name
  std::vector<std::size_t> named(const char* name) const;    // its slices, or the tensor
};
