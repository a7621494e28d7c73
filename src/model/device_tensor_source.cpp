#include "src/model/device_tensor_source.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "src/gpu/device_memory.hpp"

namespace sparcl::model {

Result<std::unique_ptr<DeviceTensorSource>> DeviceTensorSource::create(
    const codec::BlockMap& map, std::vector<const std::byte*> arrays, const Room& room) {
  std::unique_ptr<DeviceTensorSource> made(new DeviceTensorSource(map, std::move(arrays), room));
  for (std::size_t i = 0; i < made->arrays_.size(); ++i) {
    if (made->arrays_[i] == nullptr) continue;
    SPARCL_ASSIGN_OR_RETURN(void* const context, gpu::context_of(made->arrays_[i]));
    made->contexts_[i] = context;
  }
  const std::size_t chunks = std::min<std::uint64_t>(room.chunks, made->first_chunk_.back());
  const std::vector<void*> contexts = made->contexts();
  if (chunks == 0 || contexts.empty() || !gpu::can_stage()) return made;
  Result<gpu::PinnedBuffer> memory =
      gpu::PinnedBuffer::allocate(contexts.front(), chunks * room.chunk_bytes);
  if (!memory.ok()) return made;  // there may be a limit for it: then pieces are copied without
  made->memory_ = std::move(*memory);
  made->slots_.resize(chunks);
  return made;
}

DeviceTensorSource::DeviceTensorSource(const codec::BlockMap& map,
                                       std::vector<const std::byte*> arrays, const Room& room)
    : map_(map), arrays_(std::move(arrays)), contexts_(arrays_.size(), nullptr), room_(room) {
  std::uint64_t chunks = 0;
  for (std::size_t i = 0; i < arrays_.size(); ++i) {
    first_chunk_.push_back(chunks);
    const codec::ArraySpec& spec = map_.arrays()[i];
    if (arrays_[i] == nullptr) continue;
    chunks += (spec.count * element_bytes(spec.datatype) + room.chunk_bytes - 1) / room.chunk_bytes;
  }
  first_chunk_.push_back(chunks);
}

DeviceTensorSource::~DeviceTensorSource() { settle(); }

std::vector<void*> DeviceTensorSource::contexts() const {
  std::vector<void*> all;
  for (void* const context : contexts_) {
    if (context != nullptr && std::ranges::find(all, context) == all.end()) all.push_back(context);
  }
  return all;
}

// Work in flight writes to the pinned memory, and reads arrays that may be freed.
void DeviceTensorSource::settle() {
  if (!std::exchange(is_open_, false)) return;
  for (const Slot& slot : slots_) (void)slot.event.wait();
  if (error_.ok()) return;  // otherwise a copy may have no event
  for (void* const context : contexts()) {
    const gpu::DeviceScope inside(context);
    if (inside.status().ok()) (void)gpu::wait_for(stream_);
  }
}

void DeviceTensorSource::begin(void* stream) {
  const std::lock_guard lock(mutex_);
  settle();
  for (Slot& slot : slots_) slot = Slot();
  stream_ = stream;
  is_open_ = true;
  error_ = Status();
}

Status DeviceTensorSource::end() {
  const std::lock_guard lock(mutex_);
  settle();
  for (Slot& slot : slots_) slot = Slot();
  return error_;
}

Status DeviceTensorSource::status() const {
  const std::lock_guard lock(mutex_);
  return error_;
}

void DeviceTensorSource::read(std::uint32_t array, std::uint64_t first, std::uint64_t count,
                              std::byte* out) const {
  const std::size_t width = element_bytes(map_.arrays()[array].datatype),
                    end = (first + count) * width;
  for (std::size_t at = first * width; at < end;) {
    const std::size_t in_array = at / room_.chunk_bytes,
                      bytes = std::min(end, (in_array + 1) * room_.chunk_bytes) - at;
    const Status status = read_part(first_chunk_[array] + in_array, {array, at, bytes}, out);
    if (!status.ok()) {
      std::memset(out, 0, bytes);  // the same in each run
      const std::lock_guard lock(mutex_);
      if (error_.ok()) error_ = status;
    }
    at += bytes;
    out += bytes;
  }
}

Status DeviceTensorSource::read_part(std::uint64_t chunk, const Part& wanted,
                                     std::byte* out) const {
  std::unique_lock lock(mutex_);
  SPARCL_RETURN_IF_ERROR(error_);
  Slot* slot = find(chunk);
  if (slot == nullptr && (slot = oldest_free()) != nullptr) {
    SPARCL_RETURN_IF_ERROR(fetch(chunk, *slot));
  }
  if (slot == nullptr) {  // as many threads as slots, or none of these
    lock.unlock();
    return gpu::copy_device_memory(out, arrays_[wanted.array] + wanted.begin, wanted.bytes,
                                   stream_);
  }
  slot->used_at = ++clock_;
  ++slot->readers;
  Status status;
  // A reader that reads in order will want the next chunks, too.
  const bool is_in_order = chunk == 0 || find(chunk - 1) != nullptr;
  for (std::uint64_t next = chunk + 1;
       is_in_order && next <= chunk + kAhead && next < first_chunk_.back(); ++next) {
    if (find(next) != nullptr) continue;
    Slot* const free = oldest_free();
    if (free == nullptr || !status.ok()) break;
    status = fetch(next, *free);
    free->used_at = ++clock_;
  }
  lock.unlock();
  if (status.ok()) status = slot->event.wait();
  if (status.ok())
    std::memcpy(out, memory_of(*slot) + (wanted.begin - part_of(chunk).begin), wanted.bytes);
  lock.lock();
  --slot->readers;
  return status;
}

DeviceTensorSource::Part DeviceTensorSource::part_of(std::uint64_t chunk) const {
  const auto next = std::ranges::upper_bound(first_chunk_, chunk);
  const auto array = static_cast<std::size_t>(next - first_chunk_.begin()) - 1;
  const codec::ArraySpec& spec = map_.arrays()[array];
  const std::size_t begin = (chunk - first_chunk_[array]) * room_.chunk_bytes,
                    bytes = spec.count * element_bytes(spec.datatype);
  return {array, begin, std::min(room_.chunk_bytes, bytes - begin)};
}

DeviceTensorSource::Slot* DeviceTensorSource::find(std::uint64_t chunk) const {
  const auto found = std::ranges::find(slots_, chunk, &Slot::chunk);
  return found == slots_.end() ? nullptr : &*found;
}

DeviceTensorSource::Slot* DeviceTensorSource::oldest_free() const {
  Slot* oldest = nullptr;
  for (Slot& slot : slots_) {
    if (slot.readers == 0 && (oldest == nullptr || slot.used_at < oldest->used_at)) oldest = &slot;
  }
  return oldest;
}

Status DeviceTensorSource::fetch(std::uint64_t chunk, Slot& slot) const {
  slot.chunk = kNone;
  SPARCL_RETURN_IF_ERROR(slot.event.wait());  // a chunk that was prefetched but not read
  const Part part = part_of(chunk);
  const gpu::DeviceScope inside(contexts_[part.array]);
  SPARCL_RETURN_IF_ERROR(inside.status());
  SPARCL_RETURN_IF_ERROR(
      gpu::enqueue_copy(memory_of(slot), arrays_[part.array] + part.begin, part.bytes, stream_));
  SPARCL_ASSIGN_OR_RETURN(gpu::DeviceEvent event,
                          gpu::DeviceEvent::record(contexts_[part.array], stream_));
  slot.event = std::move(event);
  slot.chunk = chunk;
  return {};
}

std::byte* DeviceTensorSource::memory_of(const Slot& slot) const {
  return memory_.data() + static_cast<std::size_t>(&slot - slots_.data()) * room_.chunk_bytes;
}

}  // namespace sparcl::model
