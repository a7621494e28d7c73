#pragma once
// From a caller's handles to the objects behind them, and back. A sparclX_t that a caller gave is
// no address (handle_table.hpp): a Held looks it up, and keeps its object from being destroyed
// meanwhile.

#include <string>
#include <utility>

#include "sparcl/sparcl.h"
#include "src/api/handle_table.hpp"
#include "src/base/status.hpp"

namespace sparcl::api {

constexpr HandleKind kind_of(const sparclComm*) { return HandleKind::kComm; }
constexpr HandleKind kind_of(const sparclRequest*) { return HandleKind::kRequest; }
constexpr HandleKind kind_of(const sparclState*) { return HandleKind::kState; }
constexpr HandleKind kind_of(const sparclMask*) { return HandleKind::kMask; }
constexpr HandleKind kind_of(const sparclFeedback*) { return HandleKind::kFeedback; }
constexpr HandleKind kind_of(const sparclAggregator*) { return HandleKind::kAggregator; }
constexpr HandleKind kind_of(const sparclWorker*) { return HandleKind::kWorker; }
constexpr HandleKind kind_of(const sparclPublisher*) { return HandleKind::kPublisher; }
constexpr HandleKind kind_of(const sparclSubscriber*) { return HandleKind::kSubscriber; }
constexpr HandleKind kind_of(const sparclStore*) { return HandleKind::kStore; }

// The first member of an object that has handles: it has one while it lives, its destructor
// included.
template <class Object>
class OwnHandle {
 public:
  explicit OwnHandle(Object* object) : number_(open_handle(kind_of(object), object)) {}
  ~OwnHandle() { bury_handle(number_); }
  OwnHandle(const OwnHandle&) = delete;
  OwnHandle& operator=(const OwnHandle&) = delete;
  // The handle for the caller.
  Object* get() const { return reinterpret_cast<Object*>(number_); }

 private:
  HandleNumber number_;
};

// The object of a caller's handle. It is not destroyed while a Held of it lives.
template <class Object>
class Held {
 public:
  Held() = default;  // of no object
  // parameter: the handle's name in the call.
  Held(Object* handle, const char* parameter) {
    const auto number = reinterpret_cast<HandleNumber>(handle);
    const Result<void*> found = hold_handle(number, kind_of(handle), parameter);
    status_ = found.status();
    if (!found.ok()) return;
    number_ = number;
    object_ = static_cast<Object*>(*found);
  }
  Held(const Held& other) : number_(other.number_), object_(other.object_), status_(other.status_) {
    if (number_ != 0) hold_again(number_);
  }
  Held(Held&& other) noexcept
      : number_(std::exchange(other.number_, 0)),
        object_(std::exchange(other.object_, nullptr)),
        status_(std::move(other.status_)) {}
  Held& operator=(Held other) noexcept {
    std::swap(number_, other.number_);
    std::swap(object_, other.object_);
    std::swap(status_, other.status_);
    return *this;
  }
  ~Held() {
    if (number_ != 0) let_go(number_);
  }

  const Status& status() const { return status_; }  // what the handle is instead
  Object* get() const { return object_; }
  Object* operator->() const { return object_; }
  Object& operator*() const { return *object_; }

  // InvalidUsage where another thread, or a call in flight, holds it, too.
  Status destroy(const char* parameter) {
    if (!close_handle(number_)) {
      return Status(Code::kInvalidUsage, std::string("another thread is in a call with this ") +
                                             parameter + ": wait for its end");
    }
    number_ = 0;
    delete std::exchange(object_, nullptr);
    return {};
  }

 private:
  HandleNumber number_ = 0;
  Object* object_ = nullptr;
  Status status_;
};

// A handle that may be NULL: then of no object, without an error.
template <class Object>
Held<Object> hold_if_given(Object* handle, const char* parameter) {
  return handle != nullptr ? Held<Object>(handle, parameter) : Held<Object>();
}

}  // namespace sparcl::api
