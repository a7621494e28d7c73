// The ends of an update whose one array is in device memory: what crosses is what its blocks take in the stream. The stream is any
// other's; of the modes of blocks it has those that the device writes.
#include <cstring>
#include <new>
#include <optional>

#include "collectives/broadcast/update_ends.hpp"
#include "collectives/device/device_block_decoder.hpp"
#include "collectives/device/device_block_encoder.hpp"
#include "src/base/bytes.hpp"
#include "src/base/pinned_copies.hpp"
#include "src/base/stage_range.hpp"
#include "src/codec/frame_writer.hpp"
#include "src/codec/layout.hpp"
#include "src/codec/state_hash.hpp"
#include "src/codec/update_header.hpp"

namespace sparcl::collectives {
namespace {

constexpr std::uint64_t kBlocksPerStep = 64;  // that are taken to a batch between two looks at the network. Heuristic

DevicePair pair_of(const UpdateCall& call) {
  const codec::ArraySpec& array = call.map->arrays()[0];
  return {call.base[0], call.held[0], array.count, array.datatype};
}

class DeviceSource final : public UpdateSource {
 public:
  DeviceSource(UpdateCall& call, const CommContext& comm)
      : call_(call),
        has_state_hash_(call.with_state_hash || comm.verify == codec::Verify::kFull),
        encoder_(*call.device->scratch, pair_of(call), call.device->stream) {}

  Status produce(codec::ByteSink& sink) override;
  bool finished() const override { return finished_; }
  void commit() override {
    call_.new_version = call_.version;
    if (has_state_hash_) call_.new_hash = target_hash_;
  }
  std::uint64_t changed() const override { return end_.changed; }

 private:
  std::uint32_t flags() const { return has_state_hash_ ? codec::kFlagBaseHash | codec::kFlagTargetHash : 0; }
  Status start(codec::ByteSink& sink);
  void write(const CodedSection& section, std::uint64_t block, codec::ByteSink& sink);
  void end(codec::ByteSink& sink);

  UpdateCall& call_;
  bool has_state_hash_;
  DeviceBlockEncoder encoder_;
  codec::FrameWriter frame_;
  codec::UpdateEnd end_;
  std::uint64_t written_block_ = 0;  // the one after the last that was written
  Hash128 change_sum_;               // what the changes add to the base's
  Hash128 target_hash_;
  bool started_ = false;
  bool finished_ = false;
};

Status DeviceSource::start(codec::ByteSink& sink) {
  started_ = true;
  const codec::UpdateHeader header{call_.base_version,
                                   call_.version,
                                   call_.schema_hash,
                                   codec::layout_hash(*call_.map),
                                   call_.map->element_count(),
                                   static_cast<std::uint32_t>(call_.map->arrays().size()),
                                   flags()};
  frame_.write_prefix(codec::StreamKind::kUpdate, sink);
  frame_.write_checked_section(codec::kTagUpdateHeader, serialise(header), sink);
  return encoder_.begin(has_state_hash_);
}

Status DeviceSource::produce(codec::ByteSink& sink) {
  if (!started_) SPARCL_RETURN_IF_ERROR(start(sink));
  const Result<CodedSection> section = encoder_.next();
  if (!section.ok()) return section.status();
  for (std::uint64_t block = 0; block < section->block_count; ++block) {
    if (section->blocks[block].mode != kernels::kNoBlock) write(*section, block, sink);
  }
  if (!encoder_.has_more()) end(sink);
  return Status();
}

void DeviceSource::write(const CodedSection& section, std::uint64_t block, codec::ByteSink& sink) {
  const kernels::BlockContent& content = section.blocks[block];
  const kernels::DeviceChangeHashes& hashes = section.hashes[block];
  const std::uint64_t index = section.first_block + block;
  const Hash128 old_values = codec::placed({hashes.old_low, hashes.old_high}, index);
  const Hash128 new_values = codec::placed({hashes.new_low, hashes.new_high}, index);
  const bool is_whole = content.mode == kernels::kDenseBlock;
  std::byte* const out =
      frame_.begin_block(content.mode, index - written_block_, content.bytes, sink, is_whole ? 0 : codec::kOldCheckBytes);
  std::memcpy(out, section.contents + content.offset, content.bytes);
  if (!is_whole) store_le(out + content.bytes, codec::old_check_of(old_values));
  frame_.end_block(old_values, new_values, sink);
  written_block_ = index + 1;
  change_sum_ = change_sum_ + new_values - old_values;
  const std::uint64_t changed = section.change_starts[block + 1] - section.change_starts[block];
  end_.changed += changed;
  end_.coded_elements += is_whole ? call_.map->run_of(index).elements(index, index + 1) : changed;
  if (frame_.chunk_is_full()) frame_.end_chunk(sink);
}

void DeviceSource::end(codec::ByteSink& sink) {
  frame_.end_chunk(sink);
  end_.blocks = frame_.blocks();
  if (has_state_hash_) {
    end_.base_hash = call_.schema_hash + encoder_.base_sum();
    end_.target_hash = target_hash_ = end_.base_hash + change_sum_;
  }
  frame_.write_checked_section(codec::kTagEnd, serialise(end_, flags()), sink);
  finished_ = true;
}

class DeviceTarget final : public UpdateTarget {
 public:
  DeviceTarget(UpdateCall& call, const CommContext& comm)
      : call_(call),
        comm_(comm),
        blocks_(*call.device->scratch, *call.map, call.held[0], comm.verify, *comm.kernels, call.device->stream),
        decoder_(*call.map, call.held, comm.verify, call.schema_hash, *comm.kernels) {
    decoder_.set_elsewhere(blocks_);
    reserved_ = blocks_.reserve();
  }

  Status check(const Staging& stream, std::uint64_t available, bool& more) override {
    SPARCL_RETURN_IF_ERROR(reserved_);
    if (host_ != nullptr) return host_->check(stream, available, more);
    Status status = decoder_.advance(stream, available, kBlocksPerStep, more);
    if (status.ok() || !blocks_.needs_host()) return status;
    more = true;  // from the stream's beginning, which is still there
    return go_by_host();
  }

  Status finish(std::uint64_t stream_bytes) override {
    if (host_ != nullptr) return host_->finish(stream_bytes);
    SPARCL_RETURN_IF_ERROR(decoder_.finish(stream_bytes));
    return check_version(call_, comm_, decoder_.target_version());
  }

  Status commit(const Staging& stream) override {
    if (host_ != nullptr) return commit_by_host(stream);
    call_.new_version = decoder_.target_version();
    call_.new_hash = decoder_.target_hash();
    return decoder_.apply(stream);
  }

  std::uint64_t changed() const override { return host_ != nullptr ? host_->changed() : decoder_.changed(); }

 private:
  Status go_by_host();
  Status commit_by_host(const Staging& stream);

  UpdateCall& call_;
  const CommContext& comm_;
  DeviceBlockDecoder blocks_;
  codec::UpdateDecoder decoder_;
  Status reserved_;
  // A copy of the array, and a call with it: by way of the host.
  std::unique_ptr<std::byte[]> copy_;
  std::byte* copied_ = nullptr;
  UpdateCall host_call_;
  std::unique_ptr<UpdateTarget> host_;
};

Status DeviceTarget::go_by_host() {
  const StageRange range("copy from the device");
  const std::uint64_t bytes = call_.map->byte_count();
  copy_.reset(new (std::nothrow) std::byte[bytes]);
  if (copy_ == nullptr) return Status(Code::kOutOfMemory, "no memory on the host for a copy of an array in device memory");
  SPARCL_RETURN_IF_ERROR(call_.device->copies->to_host(copy_.get(), call_.held[0], bytes, call_.device->stream));
  copied_ = copy_.get();
  host_call_ = call_;
  host_call_.held = std::span(&copied_, 1);
  host_ = host_target(host_call_, comm_);
  return Status();
}

Status DeviceTarget::commit_by_host(const Staging& stream) {
  SPARCL_RETURN_IF_ERROR(host_->commit(stream));
  call_.new_version = host_call_.new_version;
  call_.new_hash = host_call_.new_hash;
  const StageRange range("copy to the device");
  return call_.device->copies->to_device(call_.held[0], copied_, call_.map->byte_count(), call_.device->stream);
}

}  // namespace

std::unique_ptr<UpdateSource> device_source(UpdateCall& call, const CommContext& comm) {
  return std::make_unique<DeviceSource>(call, comm);
}

std::unique_ptr<UpdateTarget> device_target(UpdateCall& call, const CommContext& comm) {
  return std::make_unique<DeviceTarget>(call, comm);
}

Status reserve_for_update(DeviceScratch& scratch, const kernels::KernelSet& host, const codec::ArraySpec& array, bool is_root) {
  if (is_root) return DeviceBlockEncoder(scratch, {nullptr, nullptr, array.count, array.datatype}, nullptr).reserve();
  const codec::BlockMap map(std::span(&array, 1));
  return DeviceBlockDecoder(scratch, map, nullptr, codec::Verify::kOff, host, nullptr).reserve();
}

}  // namespace sparcl::collectives
