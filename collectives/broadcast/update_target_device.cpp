// The target of an update of arrays in device memory: only the coded bytes of its blocks are copied
// to the device. A stream that the device cannot read is staged through host memory.
#include <cstring>
#include <new>
#include <optional>

#include "collectives/broadcast/update_ends.hpp"
#include "src/base/stage_range.hpp"
#include "src/comm/device/device_patience.hpp"
#include "src/device/device_array_reader.hpp"
#include "src/device/device_array_writer.hpp"
#include "src/device/device_block_decoder.hpp"
#include "src/device/device_block_encoder.hpp"

namespace sparcl::collectives::broadcast {
namespace {

constexpr std::uint64_t kBlocksPerBatchStep =
    64;  // taken to a batch between two looks at the network. Heuristic

class DeviceTarget final : public UpdateTarget {
 public:
  DeviceTarget(UpdateCall& call, const CommContext& comm)
      : call_(call),
        comm_(comm),
        scratch_(*call.device->scratch),
        held_(call.held.begin(), call.held.end()),
        patience_(comm.engine),
        blocks_(scratch_, *call.map, call.held, comm.verify, *comm.kernels, call.device->stream),
        decoder_(*call.map, call.held, comm.verify, call.schema_hash, *comm.kernels) {
    decoder_.set_elsewhere(blocks_);
    decoder_.set_array_name(call.array_name);
    if (call.known_hash) decoder_.track(*call.known_hash);
    blocks_.set_array_name(call.array_name);
    reserved_ = blocks_.reserve();
    if (reserved_.ok()) reserved_ = make_end();
  }

  bool is_waiting() override {
    const bool waits = goes_by_host_ ? reader_ && reader_->has_more() && reader_->is_waiting()
                                     : blocks_.is_waiting();
    if (waits) return patience_.goes_on(), true;
    patience_.has_moved();
    return false;
  }

  Status check(const Staging& stream, std::uint64_t available, bool& more) override {
    SPARCL_RETURN_IF_ERROR(reserved_);
    if (host_ != nullptr) return host_->check(stream, available, more);
    if (!goes_by_host_) {
      Status status = decoder_.advance(stream, available, kBlocksPerBatchStep, more);
      if (status.ok() || !blocks_.needs_host()) return status;
      goes_by_host_ = true;
    }
    more = true;  // from the stream's beginning, which is still there
    return copy_to_host();
  }

  Status finish(std::uint64_t stream_bytes) override {
    if (host_ != nullptr) return host_->finish(stream_bytes);
    SPARCL_RETURN_IF_ERROR(decoder_.finish(stream_bytes));
    return check_target(call_, comm_, decoder_);
  }

  Status commit(const Staging& stream) override {
    if (is_committing_ && (host_ != nullptr ? writer_->is_waiting() : blocks_.is_waiting()))
      return patience_.goes_on() ? Status() : comm_.engine->health();
    patience_.has_moved();
    call_.outcome.is_partially_written = true;
    const Status status = host_ != nullptr ? commit_by_host(stream) : commit_there(stream);
    call_.outcome.is_partially_written = is_committing_ || !status.ok();
    call_.outcome.is_committed = !call_.outcome.is_partially_written;
    return status;
  }
  bool is_committing() const override { return is_committing_; }

  bool is_settling() override {
    if (scratch_.is_free()) return false;
    if (patience_.goes_on()) return true;
    if (!call_.outcome.is_partially_written) return false;
    (void)end_->move_to_end(
        call_.device->stream);  // a stream that takes no event any more runs no work any more
    call_.outcome.written_until = end_;
    return false;
  }
  std::uint64_t changed() const override {
    return host_ != nullptr ? host_->changed() : decoder_.changed();
  }

 private:
  Status commit_there(const Staging& stream) {
    call_.outcome.version = decoder_.target_version();
    call_.outcome.hash = decoder_.target_hash();
    const Status status = decoder_.apply(stream);
    is_committing_ = blocks_.is_applying();
    return status;
  }
  Status make_end();
  Status start_copy();
  Status copy_to_host();
  Status commit_by_host(const Staging& stream);

  UpdateCall& call_;
  const CommContext& comm_;
  device::DeviceScratch& scratch_;
  std::vector<const std::byte*> held_;
  comm::DevicePatience patience_;
  device::DeviceBlockDecoder blocks_;
  codec::UpdateDecoder decoder_;
  Status reserved_;
  std::shared_ptr<gpu::DeviceEvent> end_;  // of the stream's work, if arrays are partially written
  bool is_committing_ = false;
  // Staged through host memory: a copy of the arrays, and a call with the copy.
  bool goes_by_host_ = false;
  std::unique_ptr<std::byte[]> copy_;
  std::optional<device::DeviceArrayReader> reader_;
  std::vector<std::byte*> copied_;
  std::vector<const std::byte*> written_;  // the same
  UpdateCall host_call_;
  std::unique_ptr<UpdateTarget> host_;
  std::optional<StageRange> range_;
  std::optional<device::DeviceArrayWriter> writer_;
};

// Made before anything is written: if memory runs out later, the end of a stuck stream's writes is
// still known.
Status DeviceTarget::make_end() {
  const gpu::DeviceScope inside(scratch_.context());
  SPARCL_RETURN_IF_ERROR(inside.status());
  Result<gpu::DeviceEvent> event =
      gpu::DeviceEvent::record(scratch_.context(), call_.device->stream);
  if (event.ok()) end_ = std::make_shared<gpu::DeviceEvent>(std::move(*event));
  return event.status();
}

// Discards the device's checks until now: the copy uses their memory.
Status DeviceTarget::start_copy() {
  copy_.reset(new (std::nothrow) std::byte[call_.map->byte_count()]);
  if (copy_ == nullptr)
    return Status(Code::kOutOfMemory,
                  "no memory on the host for a copy of arrays in device memory");
  range_.emplace("copy from the device");
  std::byte* at = copy_.get();
  for (const codec::ArraySpec& array : call_.map->arrays()) {
    copied_.push_back(at);
    at += array.bytes();
  }
  written_.assign(copied_.begin(), copied_.end());
  reader_.emplace(scratch_, *call_.map, held_, call_.device->stream);
  return reader_->begin(false);
}

// Copies one piece; after the last piece host_ is set.
Status DeviceTarget::copy_to_host() {
  if (!reader_) return start_copy();
  const Result<device::ArrayPiece> piece = reader_->next();
  if (!piece.ok() || piece->bytes.empty()) return piece.status();
  SPARCL_RETURN_IF_ERROR(
      device::DeviceSpans(*call_.map)
          .for_pieces(
              piece->first_block, piece->end_block,
              [&](std::uint32_t array, std::uint64_t at, std::size_t bytes, std::uint64_t place) {
                std::memcpy(copied_[array] + at, piece->bytes.data() + place, bytes);
                return Status();
              }));
  if (reader_->has_more()) return Status();
  range_.reset();
  host_call_ = call_;
  host_call_.held = copied_;
  host_ = host_target(host_call_, comm_);
  return Status();
}

Status DeviceTarget::commit_by_host(const Staging& stream) {
  if (!writer_) {
    SPARCL_RETURN_IF_ERROR(host_->commit(stream));
    call_.outcome.version = host_call_.outcome.version;
    call_.outcome.hash = host_call_.outcome.hash;
    range_.emplace("copy to the device");
    writer_.emplace(scratch_, *call_.map, device::ArrayPair{call_.held, written_},
                    reader_->pieces(), reader_->piece_bytes(), call_.device->stream);
  }
  const Result<bool> is_written = writer_->step();
  is_committing_ = is_written.ok() && !*is_written;
  if (!is_committing_) range_.reset();
  return is_written.status();
}

}  // namespace

std::unique_ptr<UpdateTarget> device_target(UpdateCall& call, const CommContext& comm) {
  return std::make_unique<DeviceTarget>(call, comm);
}

Status reserve_for_update(device::DeviceScratch& scratch, const kernels::KernelSet& host,
                          const codec::BlockMap& map, UpdateRole role, bool with_classes) {
  if (role == UpdateRole::kSendsChanges)
    return device::DeviceBlockEncoder(scratch, {&map, {}, {}}, nullptr, with_classes).reserve();
  if (role == UpdateRole::kSendsAll)
    return device::DeviceArrayReader(scratch, map, {}, nullptr).reserve();
  return device::DeviceBlockDecoder(scratch, map, {}, codec::Verify::kOff, host, nullptr).reserve();
}

}  // namespace sparcl::collectives::broadcast
