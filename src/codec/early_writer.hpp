#pragma once
// Writes changes before the update is committed, and logs the values that they replace. Unless
// keep() is called, the destructor restores them.

#include <cstdint>
#include <span>
#include <vector>

#include "src/base/segment_pool.hpp"
#include "src/codec/block_map.hpp"
#include "src/codec/block_view.hpp"
#include "src/codec/change_log.hpp"

namespace sparcl::codec {

class EarlyWriter {
 public:
  // `held` outlives the writer. If not enabled, it never writes.
  EarlyWriter(const BlockMap& map, std::span<std::byte* const> held,
              const kernels::KernelSet& kernels, bool enabled)
      : map_(map), held_(held), kernels_(kernels), active_(enabled) {}
  ~EarlyWriter() { take_back(); }
  EarlyWriter(const EarlyWriter&) = delete;
  EarlyWriter& operator=(const EarlyWriter&) = delete;

  // True while every block that was passed to write() is written.
  bool active() const { return active_; }

  // old_values: the values of the block at `positions`, just read.
  void write(std::uint64_t index, const WritableBlockView& view, Positions positions,
             std::span<const std::byte> old_values, std::span<const std::byte> new_values);

  // Restores all old values, and disables the writer.
  void stop() {
    take_back();
    active_ = false;
  }

  // Adds the values replaced to a log.
  void add_to(ChangeLog& log) const;

  // The update is approved: the written values stay.
  void keep() { log_.clear(); }

 private:
  struct Replaced {  // the old values of one block, followed by their positions
    std::uint64_t index;
    std::size_t count;
    std::byte* values;
  };

  std::byte* room(std::size_t bytes);
  std::size_t width_of(std::uint64_t index) const;
  static Positions positions_of(const Replaced& block, std::size_t width);
  void take_back();

  const BlockMap& map_;
  std::span<std::byte* const> held_;
  const kernels::KernelSet& kernels_;
  bool active_;
  std::vector<Replaced> log_;
  std::vector<Piece> pieces_;     // room for the pieces of any block in the log
  std::vector<Buffer> segments_;  // never moved, so that a growing log is not copied
  std::size_t used_ = 0;          // bytes of the last one
};

}  // namespace sparcl::codec
