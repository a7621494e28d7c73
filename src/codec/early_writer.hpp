#pragma once
// Writes changes before the update is committed, with a log of the values that they replace: until
// keep(), all of it is taken back at the end.

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
  // `held` outlives the writer. Not enabled: nothing is ever written.
  EarlyWriter(const BlockMap& map, std::span<std::byte* const> held,
              const kernels::KernelSet& kernels, bool enabled)
      : map_(map), held_(held), kernels_(kernels), active_(enabled) {}
  ~EarlyWriter() { take_back(); }
  EarlyWriter(const EarlyWriter&) = delete;
  EarlyWriter& operator=(const EarlyWriter&) = delete;

  // Every block that was given to write() is written.
  bool active() const { return active_; }

  // old_values: what the block holds at `positions`, just read.
  void write(std::uint64_t index, const WritableBlockView& view, Positions positions,
             std::span<const std::byte> old_values, std::span<const std::byte> new_values);

  // Takes all back, and writes no more.
  void stop() {
    take_back();
    active_ = false;
  }

  // What was replaced so far.
  void add_to(ChangeLog& log) const;

  // The update is approved: what is written stays.
  void keep() { log_.clear(); }

 private:
  struct Replaced {  // the old values of one block, and behind them their positions
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
  std::vector<Piece> pieces_;     // room for those of any block in the log
  std::vector<Buffer> segments_;  // never moved, so that a growing log is not copied
  std::size_t used_ = 0;          // of the last one
};

}  // namespace sparcl::codec
