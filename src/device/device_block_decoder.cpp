#include "src/device/device_block_decoder.hpp"

#include <utility>

#include "src/codec/block_mode.hpp"
#include "src/codec/class_decoder.hpp"
#include "src/codec/state_hash.hpp"

namespace sparcl::device {

DeviceBlockDecoder::DeviceBlockDecoder(DeviceScratch& scratch, const codec::BlockMap& map,
                                       std::span<std::byte* const> held, codec::Verify verify,
                                       const kernels::KernelSet& host, void* stream,
                                       const BatchLimits& limits)
    : scratch_(scratch),
      map_(map),
      verify_(verify),
      host_(host),
      stream_(stream),
      batch_(scratch, map, held, stream, limits) {}

DeviceBlockDecoder::~DeviceBlockDecoder() { scratch_.end_use(); }

Result<bool> DeviceBlockDecoder::check(const Staging& staging, const codec::BlockEntry& entry) {
  if (!codec::find_block_mode(entry.mode)->on_device) return leave_to_host();
  const std::uint64_t changes = batch_.changes_of(staging, entry);
  const bool may_be_right = changes > 0 && entry.bytes <= max_content(batch_.elements_of(entry), 1);
  if (!may_be_right || !batch_.takes(entry)) return refuse(staging, entry);
  if (is_fresh(entry.mode) && !counts_fresh()) {
    findings_.elements += changes;
  } else {
    if (is_under_way_ || !batch_.has_room(entry, changes)) {
      const Result<bool> is_through = flush(staging);
      if (!is_through.ok() || !*is_through) return is_through;
    }
    batch_.add(staging, entry, changes);
  }
  ++entries_;
  return true;
}

Status DeviceBlockDecoder::leave_to_host() {
  needs_host_ = true;
  return Status(Code::kUnsupported,
                "a block, or what is held, is such that the host has to look at it");
}

// Does the part that does not depend on the held values.
const char* DeviceBlockDecoder::read_on_host(const Staging& staging,
                                             const codec::BlockEntry& entry) {
  const codec::BlockMode& mode = *codec::find_block_mode(entry.mode);
  const std::span<const std::byte> bytes =
      payload_.load(staging, entry.first, entry.bytes, mode.in_place);
  const std::uint32_t elements = batch_.elements_of(entry);
  if (is_of_classes(entry.mode))
    return codec::ClassDecoder(host_).read(batch_.table_of(entry), elements, bytes);
  return mode.decode({map_.run_of(entry.index).datatype, elements}, bytes, host_, refused_block_);
}

// The host describes the error. If it finds none, it also does the remaining work.
Status DeviceBlockDecoder::refuse(const Staging& staging, const codec::BlockEntry& entry) {
  const char* const wrong = read_on_host(staging, entry);
  return wrong != nullptr ? unreadable(map_, entry, array_name_, wrong) : leave_to_host();
}

Result<bool> DeviceBlockDecoder::flush(const Staging& staging) {
  if (!is_under_way_) {
    if (batch_.empty() && !is_to_hash()) return true;
    SPARCL_RETURN_IF_ERROR(start_batch());
  }
  if (!has_come_.is_over()) return false;
  SPARCL_RETURN_IF_ERROR(finish_batch(staging));
  return true;
}

// Starts the batch, and the hash of all held arrays if requested.
Status DeviceBlockDecoder::start_batch() {
  const gpu::DeviceScope inside(scratch_.context());
  SPARCL_RETURN_IF_ERROR(inside.status());
  scratch_.begin_use(stream_);
  range_.emplace("decode");
  if (is_to_hash()) SPARCL_RETURN_IF_ERROR(batch_.hash_array());
  held_is_hashed_ = true;
  if (!batch_.empty()) SPARCL_RETURN_IF_ERROR(batch_.decode());
  Result<gpu::DeviceEvent> event = gpu::DeviceEvent::record(scratch_.context(), stream_);
  if (event.ok()) has_come_ = std::move(*event);
  is_under_way_ = event.ok();
  return event.status();
}

// Waits for the started work.
Status DeviceBlockDecoder::finish_batch(const Staging& staging) {
  is_under_way_ = false;
  const Status arrived = has_come_.wait();
  range_.reset();
  SPARCL_RETURN_IF_ERROR(arrived);
  if (verify_ == codec::Verify::kFull && !std::exchange(hash_is_counted_, true))
    findings_.sums.held = findings_.sums.held + batch_.array_sum();
  if (batch_.empty()) return Status();
  for (const codec::BlockEntry& entry : batch_.entries()) {
    if (batch_.error_of(entry) != kernels::BlockError::kNone) return refuse(staging, entry);
    find(entry);
    if (needs_host_) return leave_to_host();
  }
  findings_.elements += batch_.changes();
  batch_ends_.push_back(entries_);
  batch_.keep();
  batch_.clear();
  return Status();
}

// As codec::BlockCheck counts them.
void DeviceBlockDecoder::find(const codec::BlockEntry& entry) {
  if (verify_ == codec::Verify::kOff) return;
  Hash128 held_values, new_values;
  for (std::uint64_t block = entry.index; block < entry.last; ++block) {
    const kernels::DeviceChangeHashes& hashes = batch_.hashes_of(block);
    held_values = held_values + codec::placed({hashes.old_low, hashes.old_high}, block);
    new_values = new_values + codec::placed({hashes.new_low, hashes.new_high}, block);
  }
  codec::BlockSums& sums = findings_.sums;
  sums.change = sums.change + new_values - held_values;
  if (!is_fresh(entry.mode)) {
    sums.held_values = sums.held_values + held_values;
    sums.new_values = sums.new_values + new_values;
  }
  const bool is_odd =
      lists_positions(entry.mode) && codec::old_check_of(held_values) != entry.old_check;
  if (is_odd && !findings_.odd_blocks)
    findings_.odd_blocks = codec::BlockRange{entry.index, entry.last - 1};
  if (!is_of_classes(entry.mode)) return;
  sums.has_classes = true;
  needs_host_ = is_odd;  // no base: only a hash of all that is held tells whether it is the target
}

codec::BlockFindings DeviceBlockDecoder::take_findings() { return std::exchange(findings_, {}); }

Status DeviceBlockDecoder::apply(const Staging& staging, std::span<const codec::BlockEntry> entries,
                                 bool only_fresh) {
  if (!writer_) {
    scratch_.begin_use(stream_);
    writer_.emplace(scratch_, batch_, stream_,
                    CheckedBlocks{entries, batch_ends_, counts_fresh(), only_fresh});
  }
  const Result<bool> is_written = writer_->step(staging);
  is_applying_ = is_written.ok() && !*is_written;
  return is_written.status();
}

}  // namespace sparcl::device
