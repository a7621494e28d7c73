#include "src/api/confirmed.hpp"

#include "src/base/stage_range.hpp"

namespace sparcl::api {

Status Confirmed::move_to_host(std::uint64_t comm, const codec::BlockMap& map, void* stream) {
  if (!is_by(comm)) clear();
  if (on_device_ == nullptr) return {};
  const StageRange range("copy from the device");
  if (const Status moved = on_device_->read(map, on_host_, stream); !moved.ok()) {
    on_host_.clear();
    return moved.with_prefix("the snapshot of what the ranks hold: ");
  }
  on_device_ = nullptr;
  return {};
}

Status Confirmed::move_to_device(std::uint64_t comm, const codec::BlockMap& map, void* context,
                                 void* stream) {
  if (on_device_ != nullptr && on_device_->context() == context) {
    if (!is_by(comm)) comm_ = 0;  // the memory is as good as any
    return {};
  }
  SPARCL_RETURN_IF_ERROR(move_to_host(comm, map, stream));
  SPARCL_ASSIGN_OR_RETURN(std::shared_ptr<const model::DeviceSnapshot> made,
                          model::DeviceSnapshot::make(map, context));
  if (comm_ != 0) {
    const StageRange range("copy to the device");
    SPARCL_RETURN_IF_ERROR((made)->write(map, on_host_, stream));
  }
  on_device_ = std::move(made);
  on_host_.clear();
  return {};
}

void Confirmed::take(std::uint64_t comm, const codec::BlockMap& map,
                     std::span<std::byte* const> held) {
  const bool is_taken = on_host_.take(map, held).ok();
  if (!is_taken) on_host_.clear();
  comm_ = is_taken ? comm : 0;
}

void Confirmed::clear() {
  comm_ = 0;
  on_host_.clear();
  on_device_ = nullptr;
}

}  // namespace sparcl::api
