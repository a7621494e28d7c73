#pragma once
// An object of each thread, made at the thread's first use and destroyed when the thread ends.
// glibc ends the process if it has no memory to register the destructor of a thread_local. This
// class then has no object.

#include <pthread.h>

#include <new>

namespace sparcl {

template <class Object>
class ThreadOwn {
 public:
  ThreadOwn() noexcept : has_key_(::pthread_key_create(&key_, destroy) == 0) {}
  ThreadOwn(const ThreadOwn&) = delete;
  ThreadOwn& operator=(const ThreadOwn&) = delete;

  // nullptr: there is no memory for it.
  Object* get() const noexcept {
    if (!has_key_) return nullptr;
    if (auto* const object = static_cast<Object*>(::pthread_getspecific(key_)); object != nullptr)
      return object;
    auto* const made = new (std::nothrow) Object;
    if (made == nullptr || ::pthread_setspecific(key_, made) == 0) return made;
    delete made;
    return nullptr;
  }

 private:
  static void destroy(void* object) { delete static_cast<Object*>(object); }

  pthread_key_t key_ = 0;
  bool has_key_;
};

}  // namespace sparcl
