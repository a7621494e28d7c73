#include "src/device/device_block_writer.hpp"

#include <utility>

namespace sparcl::device {

DeviceBlockWriter::DeviceBlockWriter(DeviceScratch& scratch, DeviceDecodeBatch& batch, void* stream,
                                     const CheckedBlocks& blocks)
    : scratch_(scratch),
      batch_(batch),
      stream_(stream),
      blocks_(blocks),
      kept_(blocks.only_fresh ? 0 : batch.kept()),
      kept_entries_(batch_end(blocks.batch_ends.size() - kept_)) {}

Result<bool> DeviceBlockWriter::step(const Staging& staging) {
  const gpu::DeviceScope inside(scratch_.context());
  SPARCL_RETURN_IF_ERROR(inside.status());
  while (has_more()) {
    if (is_waiting()) return false;
    SPARCL_RETURN_IF_ERROR(is_over_[turn_ % 2].wait());
    if (!std::exchange(is_checked_, true) && !batch_.was_applied())
      return Status(Code::kInternalError,
                    "an update that had passed its check failed to decode on the device");
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
  if (!blocks_.only_fresh && next_batch_ < blocks_.batch_ends.size() - kept_)
    return start_batch(staging);
  if (find_whole()) {
    SPARCL_RETURN_IF_ERROR(batch_.write_whole(staging, blocks_.entries[next_entry_++], turn_ % 2));
    SPARCL_RETURN_IF_ERROR(mark());
  } else {
    ++ended_turns_;
  }
  ++turn_;
  return Status();
}

std::size_t DeviceBlockWriter::batch_end(std::size_t batches) const {
  return batches > 0 ? blocks_.batch_ends[batches - 1] : 0;
}

// Decodes the entries of a batch that list positions, in the same way as they were checked.
Status DeviceBlockWriter::start_batch(const Staging& staging) {
  const std::size_t begin = batch_end(next_batch_), end = batch_end(++next_batch_);
  batch_.clear();
  for (const codec::BlockEntry& entry : blocks_.entries.subspan(begin, end - begin)) {
    if (lists_positions(entry.mode)) batch_.add(staging, entry, batch_.changes_of(staging, entry));
  }
  if (batch_.empty()) return Status();
  SPARCL_RETURN_IF_ERROR(batch_.decode());
  SPARCL_RETURN_IF_ERROR(batch_.apply());
  is_checked_ = false;
  return mark();
}

bool DeviceBlockWriter::find_whole() {
  while (next_entry_ < blocks_.entries.size() && !is_whole(next_entry_)) ++next_entry_;
  return next_entry_ < blocks_.entries.size();
}

// True for blocks that are written as received, because the kept changes do not contain them.
bool DeviceBlockWriter::is_whole(std::size_t entry) const {
  const std::uint8_t mode = blocks_.entries[entry].mode;
  if (lists_positions(mode)) return false;
  if (blocks_.only_fresh) return is_fresh(mode);
  const bool is_kept = kept_ > 0 && entry >= kept_entries_ && entry < blocks_.batch_ends.back();
  return !is_kept || (is_fresh(mode) && !blocks_.has_fresh);
}

Status DeviceBlockWriter::mark() {
  Result<gpu::DeviceEvent> event = gpu::DeviceEvent::record(scratch_.context(), stream_);
  if (event.ok()) is_over_[turn_ % 2] = std::move(*event);
  return event.status();
}

}  // namespace sparcl::device
