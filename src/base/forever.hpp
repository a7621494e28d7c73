#pragma once

#include <cstddef>
#include <new>

namespace sparcl {

// An object in static memory that is never destroyed: other threads may use it while the process
// ends, and its first use takes no memory. Object's constructor takes none either.
template <class Object>
class Forever {
 public:
  Forever() { new (memory_) Object; }
  Forever(const Forever&) = delete;
  Forever& operator=(const Forever&) = delete;
  Object& operator*() { return *std::launder(reinterpret_cast<Object*>(memory_)); }

 private:
  alignas(Object) std::byte memory_[sizeof(Object)];
};

}  // namespace sparcl
