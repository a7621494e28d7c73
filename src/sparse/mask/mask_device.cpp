#include "src/sparse/mask/mask_device.hpp"

#include <algorithm>
#include <span>

#include "src/device/memory_layout.hpp"

namespace sparcl::sparse {
namespace {

template <class T>
Status put(const gpu::DeviceBuffer& memory, void* context, std::span<const T> from, std::size_t& at,
           const T*& into) {
  auto* const to = static_cast<std::byte*>(memory.data()) + at;
  into = reinterpret_cast<const T*>(to);
  at += device::padded(from.size_bytes());
  return gpu::upload(context, to, from.data(), from.size_bytes());
}

Result<std::shared_ptr<const DeviceMask>> bring(const Mask& mask, void* context) {
  auto made = std::make_shared<DeviceMask>();
  const Mask::Places places = mask.places();
  made->is_full = places.is_full;
  made->places.count = mask.size();
  if (places.is_full || mask.size() == 0) return std::shared_ptr<const DeviceMask>(std::move(made));
  std::vector<kernels::MaskPart> parts(places.parts.begin(), places.parts.end());
  parts.push_back({0, mask.size()});
  Result<gpu::DeviceBuffer> memory =
      gpu::DeviceBuffer::allocate(context, device::padded(parts.size() * sizeof parts[0]) +
                                               device::padded(places.positions.size_bytes()) +
                                               device::padded(places.runs.size_bytes()));
  if (!memory.ok()) return memory.status().with_prefix("a mask: ");
  made->memory = std::move(*memory);
  made->places.part_count = places.parts.size();
  made->places.run_elements = places.run_elements;
  std::size_t at = 0;
  Status put_there =
      put(made->memory, context, std::span<const kernels::MaskPart>(parts), at, made->places.parts);
  if (put_there.ok())
    put_there = put(made->memory, context, places.positions, at, made->places.positions);
  if (put_there.ok()) put_there = put(made->memory, context, places.runs, at, made->places.runs);
  if (!put_there.ok()) return put_there.with_prefix("a mask: ");
  return std::shared_ptr<const DeviceMask>(std::move(made));
}

}  // namespace

Result<std::shared_ptr<const DeviceMask>> DeviceMasks::get(const Mask& mask, void* context) {
  const std::lock_guard lock(mutex_);
  const auto found =
      std::ranges::find_if(rows_, [&](const Row& row) { return row.context == context; });
  if (found != rows_.end()) return found->mask;
  Result<std::shared_ptr<const DeviceMask>> made = bring(mask, context);
  if (made.ok()) rows_.push_back({context, *made});
  return made;
}

void DeviceMasks::clear() {
  const std::lock_guard lock(mutex_);
  rows_.clear();
}

}  // namespace sparcl::sparse
