#include "collectives/device/device_scratch.hpp"

#include <fmt/format.h>

#include <algorithm>

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
  if (context == context_) return checked_;
  on_device_ = DeviceBuffer();
  pinned_ = PinnedBuffer();
  context_ = context;
  const DeviceScope inside(context);
  checked_ = inside.status();
  if (checked_.ok()) checked_ = kernels_.check_device();
  return checked_;
}

Result<std::byte*> DeviceScratch::on_device(std::size_t bytes) {
  SPARCL_RETURN_IF_ERROR(grow(on_device_, context_, bytes));
  return static_cast<std::byte*>(on_device_.data());
}

Result<std::byte*> DeviceScratch::pinned(std::size_t bytes) {
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

void DeviceScratch::settle(void* stream) const {
  const DeviceScope inside(context_);
  (void)wait_for(stream);
}

}  // namespace sparcl::collectives
