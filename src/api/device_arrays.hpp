#pragma once
// The arrays of a call, where the host can reach them: those in device memory as copies, taken when
// the call starts and given back when it is over, in the order of its stream.

#include <cstddef>
#include <memory>
#include <vector>

#include "src/api/error.hpp"
#include "src/base/status.hpp"

namespace sparcl::api {

class DeviceArrays {
 public:
  DeviceArrays() = default;
  DeviceArrays(sparclComm* comm, sparclStream_t stream) : comm_(comm), stream_(stream) {}

  // What the call reads, writes after reading, and only writes. name: the parameter. Where it
  // cannot be done the pointer comes back as it is, and status() says why. An array that is given
  // twice is copied once.
  template <class T>
  const T* read(const char* name, const T* array, std::size_t bytes) {
    return static_cast<const T*>(
        take(name, const_cast<void*>(static_cast<const void*>(array)), bytes, Use::kRead));
  }
  template <class T>
  T* update(const char* name, T* array, std::size_t bytes) {
    return static_cast<T*>(take(name, array, bytes, Use::kUpdate));
  }
  template <class T>
  T* write(const char* name, T* array, std::size_t bytes) {
    return static_cast<T*>(take(name, array, bytes, Use::kWrite));
  }

  // Why the call cannot be made, if so; status() after all arrays were named.
  const Status& status_so_far() const { return status_; }
  Status status() const;

  // How many bytes the call has written of what write() gave, where they are fewer than its room.
  void written(const void* copy, std::size_t bytes);
  // What was written goes where it belongs, unless the call failed: its outcome, or that of the
  // copies.
  Status give_back(Status outcome);

 private:
  enum class Use { kRead, kUpdate, kWrite };
  struct Copy {
    void* array;
    std::unique_ptr<std::byte[]> bytes;
    std::size_t count;
    bool is_written;
  };

  void* take(const char* name, void* array, std::size_t bytes, Use use);

  sparclComm* comm_ = nullptr;
  sparclStream_t stream_ = nullptr;
  std::vector<Copy> copies_;
  bool has_device_memory_ = false;  // of an array without bytes, too
  Status status_;
};

}  // namespace sparcl::api
