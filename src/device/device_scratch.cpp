#include "src/device/device_scratch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "src/base/log.hpp"

namespace sparcl::device {
namespace {

constexpr std::size_t kMinBytes = 4096;

template <class Memory>
Status grow(Memory& memory, void* context, std::size_t bytes) {
  if (memory.size_bytes() >= std::max(bytes, kMinBytes)) return Status();
  memory = Memory();  // freed before the new one is allocated
  Result<Memory> made = Memory::allocate(context, std::max(bytes, kMinBytes));
  if (made.ok()) memory = std::move(*made);
  return made.status();
}

}  // namespace

DeviceScratch::Place& DeviceScratch::place_of(void* context) {
  const auto found =
      std::ranges::find(places_, context, [](const auto& place) { return place->context; });
  if (found != places_.end()) return **found;
  auto made = std::make_unique<Place>();
  made->context = context;
  const gpu::DeviceScope inside(context);
  made->checked = inside.status();
  if (made->checked.ok()) made->checked = kernels_.check_device();
  if (!made->checked.ok())
    log_warn("calls on a GPU's arrays are staged through host memory: {}", made->checked.message());
  return *places_.emplace_back(std::move(made));
}

Status DeviceScratch::enter(void* context) {
  here_ = &place_of(context);
  (void)here_->left.free_if_over();
  return here_->checked;
}

Result<std::byte*> DeviceScratch::on_device(std::size_t bytes) {
  end_use();
  SPARCL_RETURN_IF_ERROR(grow(here_->on_device, here_->context, bytes));
  return static_cast<std::byte*>(here_->on_device.data());
}

Result<std::byte*> DeviceScratch::pinned(std::size_t bytes) {
  end_use();
  SPARCL_RETURN_IF_ERROR(grow(here_->pinned, here_->context, bytes));
  return here_->pinned.data();
}

Result<DeviceScratch::Memory> DeviceScratch::both(std::size_t device_bytes,
                                                  std::size_t pinned_bytes, const char* what) {
  const Result<std::byte*> device = on_device(device_bytes);
  if (!device.ok())
    return device.status().with_prefix(fmt::format("memory for {} on the device: ", what));
  const Result<std::byte*> here = pinned(pinned_bytes);
  if (!here.ok())
    return here.status().with_prefix(fmt::format("pinned memory for {} on the device: ", what));
  return Memory{*device, *here};
}

void DeviceScratch::begin_use(void* stream, std::shared_ptr<const void> other) {
  here_->left.make_room();
  here_->is_used = true;
  here_->stream = stream;
  here_->other = std::move(other);
  here_->end.reset();
}

bool DeviceScratch::is_free() {
  if (here_->is_used) here_->is_used = !(here_->end ? here_->end->is_over() : is_idle_now());
  if (!here_->is_used) here_->other.reset();
  return !here_->is_used;
}

void DeviceScratch::has_been_waited_for() {
  here_->is_used = false;
  here_->other.reset();
  here_->end.reset();
}

// Otherwise marks the end of the stream's work. A stream that cannot be queried has no work any
// more.
bool DeviceScratch::is_idle_now() {
  const gpu::DeviceScope inside(here_->context);
  if (!inside.status().ok()) return true;
  const Result<bool> found = gpu::is_idle(here_->stream);
  if (!found.ok() || *found) return true;
  if (Result<gpu::DeviceEvent> event = gpu::DeviceEvent::record(here_->context, here_->stream);
      event.ok())
    here_->end.emplace(std::move(*event));
  return false;
}

void DeviceScratch::end_use() {
  if (is_free()) return;
  here_->left.add(std::exchange(here_->on_device, {}), std::exchange(here_->pinned, {}),
                  std::move(here_->other), std::exchange(here_->end, std::nullopt));
  here_->is_used = false;
}

}  // namespace sparcl::device
