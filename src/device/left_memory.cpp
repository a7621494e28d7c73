#include "src/device/left_memory.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "src/base/log.hpp"

namespace sparcl::device {
namespace {

constexpr int kMaxTurns = 2000;  // of a millisecond

}  // namespace

LeftMemory::~LeftMemory() {
  for (int turn = 0; turn < kMaxTurns && !free_if_over(); ++turn)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  if (left_ == nullptr || left_->empty()) return;
  std::size_t bytes = 0;
  for (const Left& left : *left_) bytes += left.on_device.size_bytes() + left.pinned.size_bytes();
  log_warn(
      "{} bytes of a GPU's and of pinned memory are not given back: a stream that may use them is "
      "not through",
      bytes);
  (void)left_.release();
}

void LeftMemory::make_room() {
  if (left_ == nullptr) left_ = std::make_unique<std::vector<Left>>();
  left_->reserve(left_->size() + 1);
}

void LeftMemory::add(gpu::DeviceBuffer on_device, gpu::PinnedBuffer pinned,
                     std::shared_ptr<const void> other, std::optional<gpu::DeviceEvent> end) {
  left_->push_back({std::move(on_device), std::move(pinned), std::move(other), std::move(end)});
}

bool LeftMemory::free_if_over() {
  if (left_ == nullptr || left_->empty()) return true;
  if (!std::ranges::all_of(*left_,
                           [](const Left& left) { return left.end && left.end->is_over(); }))
    return false;
  left_->clear();
  return true;
}

}  // namespace sparcl::device
