#include "src/store/object_fetch.hpp"

#include <algorithm>

#include "src/base/caught_error.hpp"
#include "src/net/signals_blocked.hpp"
#include "src/store/stored_object.hpp"

namespace sparcl::store {

Result<std::unique_ptr<ObjectFetch>> ObjectFetch::begin(ObjectStore& store,
                                                        const StoredObject& object,
                                                        std::uint64_t window) try {
  std::unique_ptr<ObjectFetch> made(new ObjectFetch(store, object, window));
  made->bytes_.prepare(object.bytes);
  const net::SignalsBlocked blocked;
  made->thread_ = std::thread([own = made.get()] { own->run(); });
  return made;
} catch (...) {
  return caught_error("no thread for reading an object of a store");
}

void ObjectFetch::run() {
  Status status;
  try {
    status = read();
  } catch (...) {  // must not leave the thread
    status = caught_error("an object of a store could not be read");
  }
  const std::lock_guard lock(mutex_);
  error_ = std::move(status);
  is_done_ = true;
  changed_.notify_all();
}

ObjectFetch::~ObjectFetch() {
  {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

Status ObjectFetch::read() {
  return read_checked(
      store_, object_,
      {[this](std::uint64_t first, std::size_t count) { return memory(first, count); },
       [this](std::span<const std::byte> piece) {
         const std::lock_guard lock(mutex_);
         there_ += piece.size();
         changed_.notify_all();
         return is_stopped_ ? Status(Code::kInternalError, "the object is not wanted any more")
                            : Status();
       }});
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
  return error_;
}

}  // namespace sparcl::store
