#pragma once
// Finds the changes of arrays in a GPU's memory. They are compared there with a copy of their
// earlier values, section by section. Positions and new values are transferred, and are written to
// the copy. The device handles the next section while the host stores the changes of one.

#include <array>
#include <memory>
#include <vector>

#include "src/codec/change_finder.hpp"
#include "src/device/device_scratch.hpp"
#include "src/device/device_spans.hpp"
#include "src/model/device_snapshot.hpp"

namespace sparcl::device {

// The limits of a section that kernels handle at once: enough to fill a GPU, and room for changes
// of 1 / 8 of it. Heuristic.
struct FinderLimits {
  std::uint64_t blocks = 512;
  std::uint64_t changes = std::uint64_t{4} << 20;
};

// The map's arrays that have elements: their addresses; or nullptr, and the float32 master that the
// array is rounded from. masters may be empty.
struct FinderArrays {
  std::vector<const std::byte*> arrays;
  std::vector<const float*> masters;

  const float* master_of(std::size_t array) const {
    return masters.empty() ? nullptr : masters[array];
  }
};

class DeviceChangeFinder final : public codec::ChangeFinder {
 public:
  // arrays: of the map, which has elements. All are in this context's memory and aligned to their
  // elements. They are read after the work in the GPU's default stream. map and kernels outlive it.
  // An error: kernels do not run there.
  static Result<std::unique_ptr<DeviceChangeFinder>> create(const kernels::DeviceKernelSet& kernels,
                                                            const codec::BlockMap& map,
                                                            FinderArrays arrays, void* context,
                                                            const FinderLimits& limits = {});
  ~DeviceChangeFinder() override { scratch_.end_use(); }

  Result<std::shared_ptr<const codec::ChangeLog>> find(Hints hints) override;
  // If the GPU has no room for a copy, or hints name changes, it keeps nothing and takes no memory.
  void keep(Hints hints, std::span<std::byte* const> sent) noexcept override;

 private:
  struct Section {
    BlockSpan span;
    unsigned half = 0;  // of the pinned memory for its starts
  };
  // kAhead: the copy has the found changes, which are not a version yet.
  enum class Copy : std::uint8_t { kNone, kVersion, kAhead };

  DeviceChangeFinder(const kernels::DeviceKernelSet& kernels, const codec::BlockMap& map,
                     FinderArrays arrays, const FinderLimits& limits);
  Status reserve();
  Status find_all(Hints hints, codec::ChangeLog& log);
  bool is_too_much(const codec::ChangeLog& log) const;
  Section section_at(std::uint64_t block, Hints hints, unsigned half);
  Status enqueue_diff(const Section& section, Hints hints);
  Result<std::byte*> bring_base(const BlockSpan& span);
  Result<const std::byte*> bring_target(const BlockSpan& span, Hints hints);
  Status copy_rounded(std::size_t array, std::uint64_t first_byte, std::size_t bytes,
                      std::byte* out) const;
  kernels::DeviceChanges changes() const;
  const std::uint64_t* starts_of(const Section& section) const;
  std::uint64_t blocks_with_room(const Section& section) const;
  Status fetch_and_apply(const Section& section, std::uint64_t blocks);
  void add(const Section& section, std::uint64_t blocks, codec::ChangeLog& log) const;
  Status copy_all(Hints hints, std::span<std::byte* const> sent);
  void forget() noexcept;

  DeviceScratch scratch_;
  const codec::BlockMap& map_;
  FinderArrays arrays_;
  DeviceSpans spans_;
  std::uint64_t max_blocks_;
  std::uint64_t max_changes_;
  std::shared_ptr<const model::DeviceSnapshot> kept_;
  Copy copy_ = Copy::kNone;  // contents of the copy
  bool has_told_ = false;    // it has reported that nothing can be kept

  // Offsets in device memory, and in pinned memory.
  std::size_t starts_at_ = 0, positions_at_ = 0, old_at_ = 0, new_at_ = 0, refused_at_ = 0,
              workspace_at_ = 0, base_at_ = 0, target_at_ = 0;
  std::size_t workspace_bytes_ = 0, device_bytes_ = 0;
  std::array<std::size_t, 2> pinned_starts_at_{};
  std::size_t pinned_positions_at_ = 0, pinned_new_at_ = 0, pinned_bytes_ = 0;
  std::byte *device_ = nullptr, *pinned_ = nullptr;
};

}  // namespace sparcl::device
