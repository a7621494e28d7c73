#pragma once
// Reads an object in a thread of its own, so that its first bytes are decoded while later ones
// arrive.

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>

#include "src/base/staging.hpp"
#include "src/store/object_store.hpp"
#include "src/store/version_record.hpp"

namespace sparcl::store {

class ObjectFetch {
 public:
  // The store outlives it. window: it reads no more bytes beyond those that release() gives back.
  static Result<std::unique_ptr<ObjectFetch>> begin(ObjectStore& store, const StoredObject& object,
                                                    std::uint64_t window = UINT64_MAX);
  // Ends the reading after the present piece.
  ~ObjectFetch();

  // The first wait() bytes of the object, not checked yet but for their size.
  const Staging& bytes() const { return bytes_; }
  // Until there are more than `known`, or no more come. Returns how many there are.
  std::uint64_t wait(std::uint64_t known);
  // Bytes before `end` are not used again.
  void release(std::uint64_t end);
  // Reads the rest. Corrupt: the object is missing, or is not what its record says. With a window
  // all bytes are released.
  Status finish();

 private:
  ObjectFetch(ObjectStore& store, const StoredObject& object, std::uint64_t window)
      : store_(store), object_(object), window_(window) {}
  void run();
  Status read();
  std::span<std::byte> memory(std::uint64_t first, std::size_t count);

  ObjectStore& store_;
  const StoredObject object_;
  const std::uint64_t window_;
  Staging bytes_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::uint64_t there_ = 0, released_ = 0;
  bool is_stopped_ = false, is_done_ = false;
  Status error_;        // once it is done
  std::thread thread_;  // the last member
};

}  // namespace sparcl::store
