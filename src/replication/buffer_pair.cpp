#include "src/replication/buffer_pair.hpp"

#include <fmt/format.h>

#include <cstring>
#include <new>
#include <utility>

namespace sparcl::replication {

BufferPair::BufferPair(const codec::BlockMap& map, std::span<std::byte* const> first) {
  for (const codec::ArraySpec& array : map.arrays())
    bytes_.push_back(array.count * element_bytes(array.datatype));
  sets_[0].assign(first.begin(), first.end());
}

Result<std::unique_ptr<BufferPair>> BufferPair::create(const codec::BlockMap& map,
                                                       std::span<std::byte* const> first) {
  std::unique_ptr<BufferPair> pair(new BufferPair(map, first));
  for (const std::size_t bytes : pair->bytes_) {
    std::unique_ptr<std::byte[]> array(new (std::nothrow) std::byte[bytes]);
    if (array == nullptr) {
      return Status(Code::kOutOfMemory,
                    fmt::format("a second buffer for {} bytes of tensors cannot be had: free "
                                "memory, or do without options.double_buffer",
                                map.byte_count()));
    }
    pair->sets_[1].push_back(array.get());
    pair->own_.push_back(std::move(array));
  }
  return pair;
}

void BufferPair::catch_up(const ReplicatedState& state, const Rollback& last) {
  if (std::exchange(is_known_, true) && last.copy(state, front(), back())) return;
  for (std::size_t i = 0; i < bytes_.size(); ++i) {
    if (bytes_[i] > 0) std::memcpy(back()[i], front()[i], bytes_[i]);
  }
}

}  // namespace sparcl::replication
