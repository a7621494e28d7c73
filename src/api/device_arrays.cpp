#include "src/api/device_arrays.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <new>

#include "src/api/comm.hpp"
#include "src/api/device_path.hpp"
#include "src/base/stage_range.hpp"
#include "src/gpu/device_memory.hpp"

namespace sparcl::api {

Status DeviceArrays::status() const {
  if (!status_.ok() || stream_ == nullptr || has_device_memory_) return status_;
  return Status(Code::kUnsupported,
                "a stream is for arrays in device memory: pass stream NULL with those of the host");
}

void* DeviceArrays::take(const char* name, void* array, std::size_t bytes, Use use) {
  if (array == nullptr || !status_.ok() || gpu::space_of(array) != MemorySpace::kDevice)
    return array;
  has_device_memory_ = true;
  if (bytes == 0) return array;
  const auto same = std::ranges::find_if(
      copies_, [&](const Copy& copy) { return copy.array == array && copy.count == bytes; });
  if (same != copies_.end()) {
    same->is_written |= use != Use::kRead;
    return same->bytes.get();
  }
  if (copies_.empty()) status_ = await_stream(*comm_, array, stream_);
  if (!status_.ok()) return array;
  // Not filled: of room that is far more than it takes only what is touched becomes memory.
  Copy copy{array, std::unique_ptr<std::byte[]>(new (std::nothrow) std::byte[bytes]), bytes,
            use != Use::kRead};
  if (copy.bytes == nullptr) {
    status_ = Status(Code::kOutOfMemory,
                     fmt::format("{}: no memory on the host for its {} bytes", name, bytes));
    return array;
  }
  const StageRange range("copy from the device");
  if (use != Use::kWrite)
    status_ = comm_->pinned_copies.to_host(copy.bytes.get(), array, bytes, stream_)
                  .with_prefix(std::string(name) + ": ");
  copies_.push_back(std::move(copy));
  return copies_.back().bytes.get();
}

void DeviceArrays::written(const void* copy, std::size_t bytes) {
  for (Copy& each : copies_) {
    if (each.bytes.get() == copy) each.count = std::min(each.count, bytes);
  }
}

Status DeviceArrays::give_back(Status outcome) {
  for (const Copy& copy : copies_) {
    if (!copy.is_written || !outcome.ok()) continue;
    const StageRange range("copy to the device");
    Status status = await_stream(*comm_, copy.array, stream_);
    if (status.ok())
      status = comm_->pinned_copies.to_device(copy.array, copy.bytes.get(), copy.count, stream_);
    if (!status.ok())
      return status.with_prefix("the call was made, but its output did not reach the device: ");
  }
  return outcome;
}

}  // namespace sparcl::api
