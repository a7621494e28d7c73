#pragma once
// A collective is a coroutine that returns a Status, written as the paper's text: co_await suspends until a message is there, a peer is lost,
// or a deadline has passed. No thread is needed: whoever calls Engine::step() moves all calls of a comm on.
//
// Rules that keep g++ 12 and deep call chains safe: tasks are named locals, never temporaries of a co_await expression, and resume only from
// the engine's ready queue, never from each other. A started task must be awaited before it goes out of scope.

#include <coroutine>
#include <cstdlib>
#include <exception>
#include <new>
#include <utility>

#include "src/base/status.hpp"

namespace sparcl::collectives {

class Engine;

class [[nodiscard]] Task {
 public:
  struct promise_type {
    Engine* engine = nullptr;               // set when the task starts
    std::coroutine_handle<> continuation;   // who awaits this task
    Status result;

    Task get_return_object() { return Task(std::coroutine_handle<promise_type>::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    auto final_suspend() noexcept;
    void return_value(Status status) { result = std::move(status); }
    void unhandled_exception() noexcept;  // becomes the result: no exception leaves a layer
  };

  Task() = default;
  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)), started_(other.started_) {}
  Task& operator=(Task&& other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(started_, other.started_);
    return *this;
  }
  ~Task() {
    if (!handle_) return;
    if (started_ && !handle_.done()) std::abort();  // its waits still point into the frame
    handle_.destroy();
  }

  bool done() const { return handle_ && handle_.done(); }
  const Status& result() const { return handle_.promise().result; }  // once done

  auto operator co_await() &;

 private:
  friend class Engine;
  explicit Task(std::coroutine_handle<promise_type> handle) : handle_(handle) {}

  std::coroutine_handle<promise_type> handle_;
  bool started_ = false;
};

}  // namespace sparcl::collectives

#include "collectives/engine/engine.hpp"
