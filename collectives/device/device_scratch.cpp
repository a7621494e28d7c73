#include "collectives/device/device_scratch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace sparcl::collectives {
namespace {

constexpr std::size_t kLeastBytes = 4096;

template <class Memory>
Status grow(Memory& memory, void* context, std::size_t bytes) {
  if (memory.size_bytes() >= std::max(bytes, kLeastBytes)) return Status();
  memory = Memory();  // before the new one is taken
  Result<Memory> made = Memory::allocate(context, std::max(bytes, kLeastBytes));
  if (made.ok()) memory = std::move(*made);
  return made.status();
}

}  // namespace

Status DeviceScratch::enter(void* context) {
  (void)left_.free_if_over();
  if (context == context_) return checked_;
  end_use();
  on_device_ = DeviceBuffer();
  pinned_ = PinnedBuffer();
  context_ = context;
  const DeviceScope inside(context);
  checked_ = inside.status();
  if (checked_.ok()) checked_ = kernels_.check_device();
  return checked_;
}

Result<std::byte*> DeviceScratch::on_device(std::size_t bytes) {
  end_use();
  SPARCL_RETURN_IF_ERROR(grow(on_device_, context_, bytes));
  return static_cast<std::byte*>(on_device_.data());
}

Result<std::byte*> DeviceScratch::pinned(std::size_t bytes) {
  end_use();
  SPARCL_RETURN_IF_ERROR(grow(pinned_, context_, bytes));
  return pinned_.data();
}

Result<DeviceScratch::Memory> DeviceScratch::both(std::size_t device_bytes, std::size_t pinned_bytes, const char* what) {
  const Result<std::byte*> device = on_device(device_bytes);
  if (!device.ok()) return device.status().with_prefix(fmt::format("memory for {} on the device: ", what));
  const Result<std::byte*> here = pinned(pinned_bytes);
  if (!here.ok()) return here.status().with_prefix(fmt::format("pinned memory for {} on the device: ", what));
  return Memory{*device, *here};
}

void DeviceScratch::begin_use(void* stream) {
  left_.make_room();
  is_used_ = true;
  stream_ = stream;
  end_.reset();
}

bool DeviceScratch::is_free() {
  if (is_used_) is_used_ = !(end_ ? end_->is_over() : is_idle_now());
  return !is_used_;
}

// Else the end of what is in the stream is marked. A stream that cannot be asked does nothing any more.
bool DeviceScratch::is_idle_now() {
  const DeviceScope inside(context_);
  if (!inside.status().ok()) return true;
  const Result<bool> found = is_idle(stream_);
  if (!found.ok() || *found) return true;
  if (Result<DeviceEvent> event = DeviceEvent::record(context_, stream_); event.ok()) end_.emplace(std::move(*event));
  return false;
}

void DeviceScratch::end_use() {
  if (is_free()) return;
  left_.add(std::exchange(on_device_, {}), std::exchange(pinned_, {}), std::exchange(end_, std::nullopt));
  is_used_ = false;
}

}  // namespace sparcl::collectives
