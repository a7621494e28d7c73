#pragma once
// A copy of the root's state that the ranks of a communicator have confirmed to hold. It is on the
// host or on the tensors' GPU.

#include <cstdint>
#include <memory>

#include "src/model/device_snapshot.hpp"
#include "src/model/snapshot.hpp"

namespace sparcl::api {

class Confirmed {
 public:
  bool is_by(std::uint64_t comm) const { return comm_ == comm; }
  // Its arrays, or room for them.
  std::span<std::byte* const> arrays() const {
    return on_device_ != nullptr ? on_device_->arrays() : on_host_.arrays();
  }
  // nullptr: it is on the host.
  const std::shared_ptr<const model::DeviceSnapshot>& on_device() const { return on_device_; }

  // Moves the copy to where this communicator's next update is made. The move follows the work on
  // the stream, and is waited for. The copy of another communicator is dropped. On an error the
  // copy stays.
  Status move_to_host(std::uint64_t comm, const codec::BlockMap& map, void* stream);
  Status move_to_device(std::uint64_t comm, const codec::BlockMap& map, void* context,
                        void* stream);

  bool moves_to(void* context) const {
    return comm_ != 0 && (on_device_ == nullptr || on_device_->context() != context);
  }

  // The ranks hold what arrays() does.
  void confirm(std::uint64_t comm) { comm_ = comm; }
  // The ranks hold `held`. Without memory for a copy nothing is confirmed.
  void take(std::uint64_t comm, const codec::BlockMap& map, std::span<std::byte* const> held);
  void clear();

 private:
  std::uint64_t comm_ = 0;  // 0: none
  model::Snapshot on_host_;
  std::shared_ptr<const model::DeviceSnapshot> on_device_;
};

}  // namespace sparcl::api
