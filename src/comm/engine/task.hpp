#pragma once
// A collective is a coroutine that returns a Status, written like the paper's text. co_await
// suspends until a message is there, a peer is lost, or a deadline has passed. No thread is needed:
// each caller of Engine::step() advances all calls of a communicator. Only the frames of coroutines
// take memory. Ready and waiting tasks are linked through them, so that a rank without memory can
// still end its calls.
//
// These rules keep g++ 12 and deep call chains safe. Tasks are named locals, never temporaries of a
// co_await expression. They are resumed only from the engine's ready queue, never from each other.
// A started task must be awaited before it goes out of scope.

#include <coroutine>
#include <cstddef>
#include <cstdlib>
#include <utility>

#include "src/base/status.hpp"

namespace sparcl::comm {

class Engine;

class [[nodiscard]] Task {
 public:
  struct promise_type {
    Engine* engine = nullptr;                          // set when the task starts
    std::coroutine_handle<promise_type> continuation;  // the task that awaits this one
    promise_type* next = nullptr;                      // behind this task in a TaskQueue
    Status result;

    Task get_return_object() {
      return Task(std::coroutine_handle<promise_type>::from_promise(*this));
    }
    std::suspend_always initial_suspend() noexcept { return {}; }
    auto final_suspend() noexcept;
    void return_value(Status status) { result = std::move(status); }
    void unhandled_exception() noexcept;  // becomes the result: no exception leaves a layer
  };

  Task() = default;
  Task(Task&& other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)), started_(other.started_) {}
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

using TaskHandle = std::coroutine_handle<Task::promise_type>;

// Tasks that will be resumed in this order. A task is in one queue at a time, once.
class TaskQueue {
 public:
  bool empty() const { return first_ == nullptr; }
  std::size_t size() const { return size_; }
  void push(TaskHandle task) noexcept {
    Task::promise_type* const last = &task.promise();
    last->next = nullptr;
    (first_ != nullptr ? last_->next : first_) = last;
    last_ = last;
    ++size_;
  }
  TaskHandle pop() noexcept {
    Task::promise_type* const first = first_;
    first_ = first->next;
    --size_;
    return TaskHandle::from_promise(*first);
  }

 private:
  Task::promise_type* first_ = nullptr;
  Task::promise_type* last_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace sparcl::comm

#include "src/comm/engine/engine.hpp"
