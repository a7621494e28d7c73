#include "collectives/device/device_block_writer.hpp"

#include <utility>

namespace sparcl::collectives {

DeviceBlockWriter::DeviceBlockWriter(DeviceScratch& scratch, DeviceDecodeBatch& batch, void* stream, const CheckedBlocks& blocks)
    : scratch_(scratch), batch_(batch), stream_(stream), blocks_(blocks), kept_(blocks.only_fresh ? 0 : batch.kept()) {}

Result<bool> DeviceBlockWriter::step(const Staging& staging) {
  const DeviceScope inside(scratch_.context());
  SPARCL_RETURN_IF_ERROR(inside.status());
  while (has_more()) {
    if (is_waiting()) return false;
    SPARCL_RETURN_IF_ERROR(is_over_[turn_ % 2].wait());
    if (!std::exchange(is_checked_, true) && !batch_.was_applied())
      return Status(Code::kInternalError, "an update that had passed its check failed to decode on the device");
    SPARCL_RETURN_IF_ERROR(start(staging));
  }
  return true;
}

Status DeviceBlockWriter::start(const Staging& staging) {
  if (kept_ > 0 && batch_.kept() > 0) {
    SPARCL_RETURN_IF_ERROR(batch_.apply_kept());
    is_checked_ = false;
    return mark();
  }
  if (next_batch_ < blocks_.batch_ends.size() - kept_) return start_batch(staging);
  if (find_whole()) {
    SPARCL_RETURN_IF_ERROR(batch_.write_whole(staging, blocks_.entries[next_entry_++], turn_ % 2));
    SPARCL_RETURN_IF_ERROR(mark());
  } else {
    ++ended_turns_;
  }
  ++turn_;
  return Status();
}

// The entries of a batch, as they were checked.
Status DeviceBlockWriter::start_batch(const Staging& staging) {
  const std::size_t begin = next_batch_ > 0 ? blocks_.batch_ends[next_batch_ - 1] : 0;
  const std::size_t end = blocks_.batch_ends[next_batch_++];
  batch_.clear();
  for (const codec::BlockEntry& entry : blocks_.entries.subspan(begin, end - begin)) {
    if (blocks_.is_decoded(entry) && (!blocks_.only_fresh || is_fresh(entry.mode)))
      batch_.add(staging, entry, batch_.changes_of(staging, entry));
  }
  if (batch_.empty()) return Status();
  SPARCL_RETURN_IF_ERROR(batch_.decode());
  SPARCL_RETURN_IF_ERROR(batch_.apply());
  is_checked_ = false;
  return mark();
}

// The next block that was not looked at.
bool DeviceBlockWriter::find_whole() {
  while (next_entry_ < blocks_.entries.size() && blocks_.is_decoded(blocks_.entries[next_entry_])) ++next_entry_;
  return next_entry_ < blocks_.entries.size();
}

Status DeviceBlockWriter::mark() {
  Result<DeviceEvent> event = DeviceEvent::record(scratch_.context(), stream_);
  if (event.ok()) is_over_[turn_ % 2] = std::move(*event);
  return event.status();
}

}  // namespace sparcl::collectives
