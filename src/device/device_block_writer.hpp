#pragma once
// Writes the blocks of an update that was checked, a step at a time: what the device still has of
// their changes, what has to be decoded again, and the other whole blocks as they came. What is
// under way is never waited for.

#include <array>
#include <span>

#include "src/device/device_decode_batch.hpp"

namespace sparcl::device {

// The entries of an update, all checked.
struct CheckedBlocks {
  std::span<const codec::BlockEntry> entries;
  std::span<const std::size_t>
      batch_ends;           // of each batch that was decoded: how many entries came before its end
  bool has_fresh = false;   // batches hold fresh blocks, too
  bool only_fresh = false;  // are to be written
};

class DeviceBlockWriter {
 public:
  DeviceBlockWriter(DeviceScratch& scratch, DeviceDecodeBatch& batch, void* stream,
                    const CheckedBlocks& blocks);

  // Goes on. False: not all is written.
  Result<bool> step(const Staging& staging);
  // step() would find nothing to do.
  bool is_waiting() const { return !is_over_[turn_ % 2].is_over(); }

 private:
  std::size_t batch_end(std::size_t batches) const;
  bool has_more() const { return ended_turns_ < is_over_.size(); }
  Status start(const Staging& staging);
  Status start_batch(const Staging& staging);
  bool find_whole();
  bool is_whole(std::size_t entry) const;
  Status mark();

  DeviceScratch& scratch_;
  DeviceDecodeBatch& batch_;
  void* stream_;
  CheckedBlocks blocks_;
  std::size_t kept_ = 0;  // batches that are to be written from what the device has: the last ones
  std::size_t kept_entries_ = 0;  // begin here
  std::size_t next_batch_ = 0;    // to be decoded again
  std::size_t next_entry_ = 0;    // to be written as it came
  unsigned turn_ = 0;             // whole blocks go through either half of the batch's memory
  std::array<gpu::DeviceEvent, 2> is_over_;  // what was started in each
  bool is_checked_ = true;                   // that nothing was refused
  unsigned ended_turns_ = 0;                 // once all is started
};

}  // namespace sparcl::device
