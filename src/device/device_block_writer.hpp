#pragma once
// Writes the blocks of a checked update, a step at a time. It writes the changes that the device
// still has, then those that must be decoded again, and then the other whole blocks as received. It
// never waits for work in flight.

#include <array>
#include <span>

#include "src/device/device_decode_batch.hpp"

namespace sparcl::device {

// The entries of an update, all checked.
struct CheckedBlocks {
  std::span<const codec::BlockEntry> entries;
  std::span<const std::size_t>
      batch_ends;           // for each decoded batch: the number of entries before its end
  bool has_fresh = false;   // batches hold fresh blocks, too
  bool only_fresh = false;  // are to be written
};

class DeviceBlockWriter {
 public:
  DeviceBlockWriter(DeviceScratch& scratch, DeviceDecodeBatch& batch, void* stream,
                    const CheckedBlocks& blocks);

  // Continues. False: not all is written.
  Result<bool> step(const Staging& staging);
  // step() would have nothing to do.
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
  std::size_t kept_ = 0;  // the last batches, which are written from the changes on the device
  std::size_t kept_entries_ = 0;  // the first entry of these
  std::size_t next_batch_ = 0;    // the next batch to decode again
  std::size_t next_entry_ = 0;    // the next entry to write as received
  unsigned turn_ = 0;             // whole blocks alternate between the halves of the batch's memory
  std::array<gpu::DeviceEvent, 2> is_over_;  // for the work in each half
  bool is_checked_ = true;                   // nothing was refused
  unsigned ended_turns_ = 0;                 // counted after all work is enqueued
};

}  // namespace sparcl::device
