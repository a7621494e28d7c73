#include "src/store/object_fetch.hpp"

#include <algorithm>
#include <new>

#include "src/store/stored_object.hpp"

namespace sparcl::store {

ObjectFetch::ObjectFetch(ObjectStore& store, const StoredObject& object, std::uint64_t window)
    : store_(store), window_(window) {
  bytes_.prepare(object.bytes);
  thread_ = std::thread([this, object] {
    Status status = read(object);
    const std::lock_guard lock(mutex_);
    status_ = std::move(status);
    is_done_ = true;
    changed_.notify_all();
  });
}

ObjectFetch::~ObjectFetch() {
  {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

Status ObjectFetch::read(const StoredObject& object) try {
  return read_checked(
      store_, object,
      {[this](std::uint64_t first, std::size_t count) { return memory(first, count); },
       [this](std::span<const std::byte> piece) {
         const std::lock_guard lock(mutex_);
         there_ += piece.size();
         changed_.notify_all();
         return is_stopped_ ? Status(Code::kInternalError, "the object is not wanted any more")
                            : Status();
       }});
} catch (const std::bad_alloc&) {  // must not leave the thread
  return Status(Code::kOutOfMemory, "no memory for the bytes of an object of a store");
}

std::span<std::byte> ObjectFetch::memory(std::uint64_t first, std::size_t count) {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return is_stopped_ || first + count - released_ <= window_; });
  }
  static_assert(Staging::kSegmentBytes % kPieceBytes == 0);
  if (first % Staging::kSegmentBytes == 0) bytes_.adopt(first, take_segment());
  return {bytes_.slice(first, count).data(), count};
}

std::uint64_t ObjectFetch::wait(std::uint64_t known) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return there_ > known || is_done_; });
  return there_;
}

void ObjectFetch::release(std::uint64_t end) {
  bytes_.release(end);
  const std::lock_guard lock(mutex_);
  released_ = std::max(released_, end);
  changed_.notify_all();
}

Status ObjectFetch::finish() {
  for (std::uint64_t known = 0, there = 0; (there = wait(known)) > known; known = there) {
    if (window_ < UINT64_MAX) release(there);
  }
  if (thread_.joinable()) thread_.join();
  return status_;
}

}  // namespace sparcl::store
