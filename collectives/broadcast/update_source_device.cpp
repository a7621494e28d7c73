// The source of an update of arrays in device memory: only the coded bytes of its blocks are copied
// to the host. The stream has the usual format. Its block modes are those that the device writes;
// without a base, all blocks are sent as they are.
#include <algorithm>
#include <array>
#include <cstring>

#include "collectives/broadcast/update_ends.hpp"
#include "src/base/bytes.hpp"
#include "src/base/log.hpp"
#include "src/codec/block_mode.hpp"
#include "src/codec/frame_writer.hpp"
#include "src/codec/layout.hpp"
#include "src/codec/state_hash.hpp"
#include "src/codec/update_header.hpp"
#include "src/comm/device/device_patience.hpp"
#include "src/device/device_array_reader.hpp"
#include "src/device/device_block_encoder.hpp"

namespace sparcl::collectives::broadcast {
namespace {

// The stream's frames around the blocks.
class DeviceSource : public UpdateSource {
 public:
  // hashes: flags for the state hashes in the update, if it names its states.
  DeviceSource(UpdateCall& call, const CommContext& comm, std::uint32_t hashes)
      : call_(call),
        comm_(comm),
        target_(call.held.begin(), call.held.end()),
        patience_(comm.engine),
        flags_(call.sender.with_state_hash || comm.verify == codec::Verify::kFull ? hashes : 0) {}

  bool finished() const override { return finished_; }
  void commit() override {
    call_.outcome.version = call_.version;
    if (flags_ != 0) call_.outcome.hash = end_.target_hash;
    if (const Status brought = bring_forward(); !brought.ok()) lose_snapshot(brought.message());
  }
  std::uint64_t changed() const override { return end_.changed; }
  bool is_settling() override {
    if (call_.device->scratch->is_free()) return false;
    if (patience_.goes_on()) return true;
    if (call_.outcome.has_written_snapshot) lose_snapshot("its stream is stuck");
    return false;
  }

 protected:
  // Waits for the device, but not for ever.
  bool waits(bool is_waiting) {
    if (is_waiting) return patience_.goes_on(), true;
    patience_.has_moved();
    return false;
  }
  const UpdateCall& call() const { return call_; }
  std::span<const std::byte* const> target() const { return target_; }
  bool has_state_hash() const { return flags_ != 0; }
  bool started() const { return started_; }
  codec::FrameWriter& frame() { return frame_; }
  codec::UpdateEnd& totals() { return end_; }

  void start(codec::ByteSink& sink) {
    started_ = true;
    const codec::UpdateHeader header{call_.sender.base_version,
                                     call_.version,
                                     call_.schema_hash,
                                     codec::layout_hash(*call_.map),
                                     call_.map->element_count(),
                                     static_cast<std::uint32_t>(call_.map->arrays().size()),
                                     flags_};
    frame_.write_prefix(codec::StreamKind::kUpdate, sink);
    frame_.write_checked_section(codec::kTagUpdateHeader, serialise(header), sink);
  }
  void end(codec::ByteSink& sink) {
    frame_.end_chunk(sink);
    end_.blocks = frame_.blocks();
    frame_.write_checked_section(codec::kTagEnd, serialise(end_, flags_), sink);
    finished_ = true;
  }

 private:
  Status bring_forward();
  void lose_snapshot(std::string_view why) {
    call_.outcome.is_snapshot_lost = true;
    log_warn("rank {}: the next update sends all, as the snapshot of this one is lost: {}",
             comm_.engine->transport().rank(), why);
  }

  UpdateCall& call_;
  const CommContext& comm_;
  std::vector<const std::byte*> target_;
  comm::DevicePatience patience_;
  std::uint32_t flags_;
  codec::FrameWriter frame_;
  codec::UpdateEnd end_;
  bool started_ = false;
  bool finished_ = false;
};

// Enqueues the copy; the call's end waits for it.
Status DeviceSource::bring_forward() {
  if (call_.sender.snapshot.empty()) return Status();
  call_.outcome.has_written_snapshot = true;
  device::DeviceScratch& scratch = *call_.device->scratch;
  const gpu::DeviceScope inside(scratch.context());
  SPARCL_RETURN_IF_ERROR(inside.status());
  scratch.begin_use(call_.device->stream, call_.device->snapshot);
  for (std::size_t i = 0; i < target_.size(); ++i) {
    if (call_.sender.base[i] == target_[i]) continue;
    const codec::ArraySpec& array = call_.map->arrays()[i];
    SPARCL_RETURN_IF_ERROR(gpu::enqueue_copy(call_.sender.snapshot[i], target_[i], array.bytes(),
                                             call_.device->stream));
  }
  return Status();
}

// Sends the changes against the base.
class ChangesSource final : public DeviceSource {
 public:
  ChangesSource(UpdateCall& update, const CommContext& comm)
      : DeviceSource(update, comm, codec::kFlagBaseHash | codec::kFlagTargetHash),
        encoder_(*update.device->scratch,
                 {update.map, update.sender.base, target(), update.device->snapshot},
                 update.device->stream, comm.device_classes && has_state_hash()) {}

  bool is_waiting() override { return waits(started() && encoder_.is_waiting()); }
  Status produce(codec::ByteSink& sink) override;

 private:
  void write(const device::CodedSection& section, std::uint64_t block, codec::ByteSink& sink);

  device::DeviceBlockEncoder encoder_;
  std::uint64_t written_block_ = 0;  // the one after the last written block
  std::uint64_t written_table_ = 0;  // the number of the last written table; 0: none
  Hash128 change_sum_;               // the changes' contribution to the base's hash
};

Status ChangesSource::produce(codec::ByteSink& sink) {
  if (!started()) {
    start(sink);
    SPARCL_RETURN_IF_ERROR(encoder_.begin(has_state_hash() && !call().known_hash));
  }
  const Result<std::optional<device::CodedSection>> coded = encoder_.next();
  if (!coded.ok() || !*coded) return coded.status();
  const device::CodedSection& section = **coded;
  for (std::uint64_t block = 0; block < section.block_count; ++block) {
    const std::uint32_t mode = section.blocks[block].mode;
    if (mode != kernels::kNoBlock && mode != kernels::kClassesRest) write(section, block, sink);
  }
  if (encoder_.has_more()) return Status();
  if (has_state_hash()) {
    totals().base_hash =
        call().known_hash ? *call().known_hash : call().schema_hash + encoder_.base_sum();
    totals().target_hash = totals().base_hash + change_sum_;
  }
  end(sink);
  return Status();
}

void ChangesSource::write(const device::CodedSection& section, std::uint64_t block,
                          codec::ByteSink& sink) {
  const kernels::BlockContent& content = section.blocks[block];
  std::uint64_t end = block + 1;  // in a superblock: the end of its blocks
  while (end < section.block_count && section.blocks[end].mode == kernels::kClassesRest) ++end;
  Hash128 old_values, new_values;
  for (std::uint64_t each = block; each < end; ++each) {
    const kernels::DeviceChangeHashes& hashes = section.hashes[each];
    old_values =
        old_values + codec::placed({hashes.old_low, hashes.old_high}, section.first_block + each);
    new_values =
        new_values + codec::placed({hashes.new_low, hashes.new_high}, section.first_block + each);
  }
  const std::uint64_t index = section.first_block + block;
  const bool is_whole = content.mode == kernels::kDenseBlock;
  if (content.mode == kernels::kClassesBlock && section.table->number != written_table_) {
    std::array<std::byte, codec::kMaxTableBytes> table;
    codec::store(section.table->table, table.data());
    frame().write_section(codec::kTagClassTable, {table.data(), section.table->table.bytes()},
                          sink);
    written_table_ = section.table->number;
  }
  std::byte* const out = frame().begin_block(content.mode, index - written_block_, content.bytes,
                                             sink, is_whole ? 0 : codec::kOldCheckBytes);
  std::memcpy(out, section.contents + content.offset, content.bytes);
  if (!is_whole) store_le(out + content.bytes, codec::old_check_of(old_values));
  frame().end_block(old_values, new_values, sink);
  written_block_ = section.first_block + end;
  change_sum_ = change_sum_ + new_values - old_values;
  const std::uint64_t changed = section.change_starts[end] - section.change_starts[block];
  totals().changed += changed;
  totals().coded_elements +=
      is_whole ? call().map->run_of(index).elements(index, index + 1) : changed;
  if (frame().chunk_is_full()) frame().end_chunk(sink);
}

// Sends all blocks.
class WholeSource final : public DeviceSource {
 public:
  WholeSource(UpdateCall& update, const CommContext& comm)
      : DeviceSource(update, comm, codec::kFlagTargetHash),
        reader_(*update.device->scratch, *update.map, target(), update.device->stream) {}

  bool is_waiting() override { return waits(started() && reader_.is_waiting()); }
  Status produce(codec::ByteSink& sink) override;

 private:
  device::DeviceArrayReader reader_;
};

Status WholeSource::produce(codec::ByteSink& sink) {
  if (!started()) {
    start(sink);
    SPARCL_RETURN_IF_ERROR(reader_.begin(has_state_hash()));
  }
  const Result<device::ArrayPiece> piece = reader_.next();
  if (!piece.ok() || piece->bytes.empty()) return piece.status();
  const std::size_t block_bytes =
      codec::kBlockElements * element_bytes(call().map->run_of(piece->first_block).datatype);
  for (std::size_t at = 0; at < piece->bytes.size(); at += block_bytes) {
    const std::span<const std::byte> block =
        piece->bytes.subspan(at, std::min(block_bytes, piece->bytes.size() - at));
    std::memcpy(frame().begin_block(codec::kFreshMode.id, 0, block.size(), sink), block.data(),
                block.size());
    frame().end_block({}, {}, sink);  // the old values are unknown
    if (frame().chunk_is_full()) frame().end_chunk(sink);
  }
  if (reader_.has_more()) return Status();
  totals().changed = totals().coded_elements = call().map->element_count();
  if (has_state_hash()) totals().target_hash = call().schema_hash + reader_.sum();
  end(sink);
  return Status();
}

}  // namespace

std::unique_ptr<UpdateSource> device_source(UpdateCall& call, const CommContext& comm) {
  const auto is_there = [](const std::byte* base) {
    return base != nullptr;
  };  // an empty array may have none
  if (std::ranges::none_of(call.sender.base, is_there))
    return std::make_unique<WholeSource>(call, comm);
  return std::make_unique<ChangesSource>(call, comm);
}

}  // namespace sparcl::collectives::broadcast
