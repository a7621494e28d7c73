// Where an update of one array in device memory is checked and written: what crosses is what its blocks take in the stream. What
// the device cannot read goes by way of the host.
#include <new>

#include "collectives/broadcast/update_ends.hpp"
#include "collectives/device/device_array_reader.hpp"
#include "collectives/device/device_block_decoder.hpp"
#include "collectives/device/device_block_encoder.hpp"
#include "src/base/pinned_copies.hpp"
#include "src/base/stage_range.hpp"

namespace sparcl::collectives {
namespace {

constexpr std::uint64_t kBlocksPerStep = 64;  // that are taken to a batch between two looks at the network. Heuristic

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

std::unique_ptr<UpdateTarget> device_target(UpdateCall& call, const CommContext& comm) {
  return std::make_unique<DeviceTarget>(call, comm);
}

Status reserve_for_update(DeviceScratch& scratch, const kernels::KernelSet& host, const codec::ArraySpec& array, UpdateRole role) {
  if (role == UpdateRole::kSendsChanges)
    return DeviceBlockEncoder(scratch, {nullptr, nullptr, array.count, array.datatype}, nullptr).reserve();
  if (role == UpdateRole::kSendsAll) return DeviceArrayReader(scratch, nullptr, array.count, array.datatype, nullptr).reserve();
  const codec::BlockMap map(std::span(&array, 1));
  return DeviceBlockDecoder(scratch, map, nullptr, codec::Verify::kOff, host, nullptr).reserve();
}

}  // namespace sparcl::collectives
