#pragma once
// A state of which tensors lie in device memory, and its mirror: a copy of all of its tensors in
// the host's memory, which those work on who cannot reach the tensors. What differs afterwards is
// brought to the tensors, all or nothing as far as can be; or to a second set of them, which is
// then the one that is shown.

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
    std::vector<std::byte*> on_host;    // one a tensor, nullptr where it is on the other side
    std::vector<std::byte*> on_device;  // of any GPUs
  };
  // kernels: of the host. device: nullptr where there are none; then pieces are copied instead of
  // what changed in them. All outlive it.
  static Result<std::unique_ptr<DeviceTensors>> create(const codec::BlockMap& map, Places places,
                                                       const kernels::KernelSet& kernels,
                                                       const kernels::DeviceKernelSet* device);

  // Another set of the tensors, where each of them is. OutOfMemory says how much that takes.
  Status make_second_set();
  // Where tensor i of the set that is shown lies. From any thread.
  std::byte* shown(std::size_t i) const { return sets_[shown_].place(i); }

  // After the first read().
  std::span<std::byte* const> mirror() const { return mirror_.arrays(); }

  // The mirror becomes what the tensors that are shown hold behind what the stream holds. (Streams
  // other than nullptr: of the one GPU that the tensors are on.) Tensors that hold what they held
  // after the last read() or remember() are not copied again.
  Status read(void* stream);
  // The tensors hold what the mirror does: they are looked at, so that it is known when that is so
  // again.
  void remember(void* stream);
  // Nobody knows what the mirror holds.
  void forget() { remembered_.clear(); }

  // The mirror differs where something has been replaced in it; anywhere, or nobody knows where.
  void note(const codec::ChangeLog& replaced) noexcept;
  void note_all() noexcept;
  // Where it differs, found by reading the tensors again.
  Status note_differences(void* stream);

  // The tensors become what the mirror holds, where it was noted to differ, behind what the stream
  // holds, and do when this returns. An error says whether they are as they were. If not, the next
  // write() writes all of them. Of two sets the other one becomes it, and is shown.
  Status write(void* stream);
  // The last write() has failed halfway: what is shown is no version.
  bool is_torn() const { return is_torn_; }
  // Something is noted that was not written to what is shown.
  bool is_behind() const { return sets_[shown_].is_behind(); }

 private:
  struct Set {
    Places places;
    NotedChanges noted;
    bool is_known = false;  // where the tensors differ from the mirror: where it is noted

    std::byte* place(std::size_t i) const {
      return places.on_device[i] != nullptr ? places.on_device[i] : places.on_host[i];
    }
    bool is_behind() const { return !is_known || noted.count() > 0; }
    void note_all() {
      is_known = false;
      noted.clear();
    }
  };
  // What goes to one GPU: an image of memory there, and for each of its tensors where in it lies
  // what.
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
      remembered_;         // what the tensors held that the mirror holds: one each, or none
  std::vector<Set> sets_;  // the caller's, and one of its own
  std::vector<gpu::DeviceBuffer> own_on_device_;
  std::vector<std::unique_ptr<std::byte[]>> own_on_host_;
  std::atomic<std::size_t> shown_ = 0;
  bool is_torn_ = false;
};

}  // namespace sparcl::model
