#pragma once

#include <cstddef>
#include <memory>

namespace sparcl::codec {

// Room that is kept from block to block. Not initialised: a vector would write zeros to all of it,
// and touch pages that are never used.
template <class T>
class Scratch {
 public:
  // Returns room for at least `count` elements; growing discards the contents.
  T* need(std::size_t count) {
    if (count > size_) {
      data_ = std::make_unique_for_overwrite<T[]>(count);
      size_ = count;
    }
    return data_.get();
  }
  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }

 private:
  std::unique_ptr<T[]> data_;
  std::size_t size_ = 0;
};

}  // namespace sparcl::codec
