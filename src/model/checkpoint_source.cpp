#include "src/model/checkpoint_source.hpp"

#include <algorithm>

namespace sparcl::model {

void CheckpointSource::read(std::uint32_t array, std::uint64_t first, std::uint64_t count,
                            std::byte* out) const {
  const std::size_t width = element_bytes(checkpoint_.schema()[array].datatype);
  Status status = checkpoint_.read(array, first * width, {out, count * width});
  if (status.ok()) return;
  std::fill_n(out, count * width, std::byte{});
  const std::lock_guard lock(mutex_);
  if (error_.ok()) error_ = std::move(status);
}

Status CheckpointSource::status() const {
  const std::lock_guard lock(mutex_);
  return error_.ok() ? checkpoint_.check_unchanged() : error_;
}

}  // namespace sparcl::model
