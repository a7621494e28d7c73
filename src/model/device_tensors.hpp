#pragma once
// A state with tensors in device memory, and its mirror: a copy of all of its tensors in host
// memory, for code that cannot access the tensors. Later differences are copied from the mirror to
// the tensors, completely or not at all if possible. With a second set of tensors they are copied
// to that set, which is then shown.

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/device_kernel_set.hpp"
#include "src/base/checksum.hpp"
#include "src/codec/change_log.hpp"
#include "src/gpu/pinned_copies.hpp"
#include "src/model/device_tensor_source.hpp"
#include "src/model/noted_changes.hpp"
#include "src/model/snapshot.hpp"

namespace sparcl::model {

class DeviceTensors {
 public:
  struct Places {
    std::vector<std::byte*> on_host;    // one for each tensor, nullptr if it is on the other side
    std::vector<std::byte*> on_device;  // of any GPUs
  };
  // kernels: of the host. device: nullptr if there are none; then whole pieces are copied instead
  // of changed elements. All outlive it.
  static Result<std::unique_ptr<DeviceTensors>> create(const codec::BlockMap& map, Places places,
                                                       const kernels::KernelSet& kernels,
                                                       const kernels::DeviceKernelSet* device);

  // Allocates another set of the tensors, each in the same memory. OutOfMemory names the size.
  Status make_second_set();
  // The address of tensor i in the shown set. From any thread.
  std::byte* shown(std::size_t i) const { return sets_[shown_].place(i); }

  // After the first read().
  std::span<std::byte* const> mirror() const { return mirror_.arrays(); }

  // Copies the shown tensors to the mirror, after the work enqueued in the stream. (Streams other
  // than nullptr: of the one GPU that the tensors are on.) Does not copy tensors again that are
  // unchanged since the last read() or remember().
  Status read(void* stream);
  // The tensors and the mirror are equal. Takes fingerprints of the tensors, so that a later read()
  // recognises unchanged ones.
  void remember(void* stream);
  // The contents of the mirror are unknown.
  void forget() { remembered_.clear(); }

  // The mirror differs in the replaced elements, or anywhere in it if the differences are unknown.
  void note(const codec::ChangeLog& replaced) noexcept;
  void note_all() noexcept;
  // Finds the differences by reading the tensors again.
  Status note_differences(void* stream);

  // Copies the noted differences from the mirror to the tensors, after the work enqueued in the
  // stream, and waits. An error says whether the tensors are unchanged. If not, the next write()
  // writes all of them. If there are two sets, the other one is written, and is shown.
  Status write(void* stream);
  // The last write() has failed halfway: the shown tensors are not a version.
  bool is_torn() const { return is_torn_; }
  // Noted differences were not written to the shown set.
  bool is_behind() const { return sets_[shown_].is_behind(); }

 private:
  struct Set {
    Places places;
    NotedChanges noted;
    bool is_known = false;  // the differences between tensors and mirror are known and noted

    std::byte* place(std::size_t i) const {
      return places.on_device[i] != nullptr ? places.on_device[i] : places.on_host[i];
    }
    bool is_behind() const { return !is_known || noted.count() > 0; }
    void note_all() {
      is_known = false;
      noted.clear();
    }
  };
  // The data for one GPU: an image of memory there, and the location of each tensor's part in it.
  struct Staged {
    struct Scatter {
      std::size_t array;
      std::size_t parts, values, positions;  // bytes from the start
      std::uint64_t count, part_count;
    };
    void* context;
    std::vector<std::byte> image;
    std::vector<Scatter> scatters;
    gpu::DeviceBuffer memory;
  };

  DeviceTensors(const codec::BlockMap& map, Places places, const kernels::KernelSet& kernels,
                const kernels::DeviceKernelSet* device);
  std::size_t bytes_of(std::size_t array) const;
  bool can_scatter();
  std::vector<Hash128> look(void* stream);
  Status read_changed(std::span<const Hash128> fingerprints, std::span<const Hash128> known);
  Status check_stream(void* stream) const;
  bool has_two_sets() const { return sets_.size() > 1; }
  Status write_all(Set& set, void* stream);
  Status write_pieces(Set& set, void* stream);
  Status write_changes(Set& set, void* stream);
  Status half_done(const Status& why);
  void gather(const NotedChanges::OfArray& changes, std::byte* values) const;
  void add_to(Staged& staged, const NotedChanges::OfArray& changes) const;
  Status stage(Staged& staged, void* stream);
  Status scatter(const Set& set, const Staged& staged, void* stream) const;
  void write_on_host(const Set& set, std::span<const NotedChanges::OfArray> changes) const;
  Status copy_out(const Set& set, std::size_t array, std::size_t begin, std::size_t bytes,
                  void* stream);
  // Until then memory is in use.
  Status wait_for_all(void* stream) const;
  std::vector<NotedChanges::OfArray> changes_on_host(Set& set) const;

  const codec::BlockMap& map_;
  const kernels::KernelSet& kernels_;
  const kernels::DeviceKernelSet* device_;
  std::optional<bool> can_scatter_;
  std::unique_ptr<DeviceTensorSource> source_;
  Snapshot mirror_;
  gpu::PinnedCopies copies_;
  std::vector<Hash128>
      remembered_;  // fingerprints of tensors that equal the mirror: one for each tensor, or none
  std::vector<Set> sets_;  // the caller's, and one of its own
  std::vector<gpu::DeviceBuffer> own_on_device_;
  std::vector<std::unique_ptr<std::byte[]>> own_on_host_;
  std::atomic<std::size_t> shown_ = 0;
  bool is_torn_ = false;
};

}  // namespace sparcl::model
