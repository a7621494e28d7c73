#pragma once
// The arrays of a call in host memory. Arrays in device memory are copied when the call starts, and
// copied back when it is over, in the order of its stream.

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

  // Arrays that the call reads, writes after reading, or only writes. name: the parameter. On an
  // error the pointer is returned unchanged, and status() says why. An array that is given twice is
  // copied once.
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

  // The call has written only the first `bytes` of a copy that write() gave.
  void written(const void* copy, std::size_t bytes);
  // Copies the written arrays back, unless the call failed. Returns `outcome`, or the error of the
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
