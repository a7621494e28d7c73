#pragma once
// The progress engine of one comm: it owns the ready queue, the waits with their deadlines, and the
// comm's health.

#include <atomic>
#include <coroutine>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/flight/comm_trail.hpp"
#include "src/base/status.hpp"
#include "src/comm/engine/collective_descriptor.hpp"
#include "src/comm/engine/task.hpp"
#include "src/transport/transport.hpp"

namespace sparcl::comm {

class Engine {
 public:
  // timeout_s: how long a wait lasts before the peer counts as late for good.
  Engine(transport::Transport& transport, double timeout_s);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  transport::Transport& transport() { return transport_; }
  double timeout_s() const { return timeout_s_; }

  // Names the calls in the texts of a Mismatch; it must outlive the engine. Without it calls are
  // numbers.
  void set_collectives(CollectiveTable table) { collectives_ = table; }
  CollectiveTable collectives() const { return collectives_; }

  // Records long waits and the communicator's end; it must outlive the engine's last step. nullptr:
  // nothing is recorded.
  void set_trail(flight::CommTrail* trail) { trail_ = trail; }

  // Makes the task ready to run; it must be awaited, or stepped until done, before it is destroyed.
  void start(Task& task);

  // One turn: advances the transport, then resumes one ready task. False if nothing moved. An
  // exception of the transport (for example without memory) poisons the communicator.
  bool step();

  // Turns until the started task is done. Leaves the core to other threads while nothing moves.
  void finish(Task& task);
  void run(Task& task) {
    start(task);
    finish(task);
  }

  // Warns if a wait has lasted long (SPARCL_WAIT_WARNING_S). For loops that do not call finish().
  void look_at_wait() noexcept;

  // The earliest deadline of a wait, or when an idle task looks again; infinity if there is none.
  double next_deadline();

  // Posts; never blocks. Wait for each operation whose result is needed. An operation without a
  // waiter still poisons the communicator if it fails.
  transport::OperationRef send(int peer, transport::Channel channel, Buffer message);
  transport::OperationRef receive(int peer, transport::Channel channel, Buffer space);

  class Wait;
  // co_await engine.wait(operation, "what for") -> Status. An error means that the communicator is
  // poisoned.
  Wait wait(transport::OperationRef operation, const char* purpose);

  struct Yield {
    Engine& engine;
    bool is_idle;
    Yield(Engine& e, bool found_nothing) : engine(e), is_idle(found_nothing) {}
    bool await_ready() const noexcept { return false; }
    void await_suspend(TaskHandle task) noexcept {
      (is_idle ? engine.idle_ : engine.ready_).push(task);
    }
    void await_resume() const noexcept {}
  };
  // co_await engine.yield(): lets messages move between two pieces of work. is_idle: there was no
  // work, because its input has not come, and comes by no message. The task is resumed again, but
  // the core is free meanwhile.
  Yield yield(bool is_idle = false) { return {*this, is_idle}; }

  // Poisons the communicator: pending and later waits end with this error, and the peers are told.
  // The first error wins. culprit: the rank that died, is silent, or gave up; -1 if none is known.
  // If the text begins with the culprit's name, the peers' texts do, too; texts of a death or a
  // silence have the same code on all ranks. Never throws: without memory the text is short.
  void fail(const Status& error, int culprit) noexcept;
  void fail(Code code, const char* text, int culprit) noexcept;
  const Status& health() const { return health_; }
  int culprit() const { return culprit_; }  // of health()

  // Any thread may call it. The thread in the engine ends the communicator in its next turn.
  void ask_to_end() { is_asked_to_end_.store(true, std::memory_order_relaxed); }
  bool is_asked_to_end() const { return is_asked_to_end_.load(std::memory_order_relaxed); }
  Code told_health() const { return told_health_.load(std::memory_order_acquire); }
  int told_culprit() const {
    return told_health() == Code::kSuccess ? -1 : told_culprit_.load(std::memory_order_relaxed);
  }

  void make_ready(TaskHandle task) noexcept { ready_.push(task); }

 private:
  friend class Wait;
  class Watch;

  bool pump();
  bool look_again();
  void move_on();
  void take_signals();
  void poison(Code code, std::string_view text, int culprit) noexcept;
  void log_end() noexcept;
  void tell_peers(int culprit) noexcept;
  void fail_by_exception() noexcept;
  void fail_by(const transport::Operation& operation);
  Status told_by(const transport::Signal& signal) const;
  void check_deadlines();
  void note_waits(double now, double min_s);
  void finish_operation(const transport::OperationRef& operation);
  transport::OperationRef posted(transport::OperationRef operation);
  std::string describe(int rank) const;

  transport::Transport& transport_;
  double timeout_s_;
  Status health_;
  int culprit_ = -1;
  std::atomic<bool> is_asked_to_end_{false};
  std::atomic<Code> told_health_{Code::kSuccess};
  std::atomic<int> told_culprit_{-1};
  TaskQueue ready_;
  TaskQueue idle_;
  std::vector<transport::OperationRef> completed_;
  Wait* first_wait_ = nullptr;  // in the order of their deadlines: all last equally long
  Wait* last_wait_ = nullptr;
  std::uint32_t turns_since_clock_ = 0;
  std::uint32_t turns_since_look_ = 0;
  CollectiveTable collectives_;
  flight::CommTrail* trail_ = nullptr;
  double next_notes_at_ = 0;
  std::unique_ptr<Watch> watch_;  // of look_at_wait()
};

class Engine::Wait {
 public:
  Wait(Engine& engine, transport::OperationRef operation, const char* purpose)
      : engine_(engine), operation_(std::move(operation)), purpose_(purpose) {}
  Wait(const Wait&) = delete;
  Wait& operator=(const Wait&) = delete;

  bool await_ready();
  void await_suspend(TaskHandle task);
  Status await_resume();

 private:
  friend class Engine;
  void unlink();

  Engine& engine_;
  transport::OperationRef operation_;
  const char* purpose_;
  TaskHandle task_;
  double deadline_ = 0;
  bool is_noted_ = false;  // in the flight record
  Wait* previous_ = nullptr;
  Wait* next_ = nullptr;
};

inline Engine::Wait Engine::wait(transport::OperationRef operation, const char* purpose) {
  return Wait(*this, std::move(operation), purpose);
}

inline auto Task::promise_type::final_suspend() noexcept {
  struct Final {
    bool await_ready() const noexcept { return false; }
    void await_suspend(TaskHandle handle) noexcept {
      promise_type& promise = handle.promise();
      if (promise.continuation) promise.engine->make_ready(promise.continuation);
    }
    void await_resume() const noexcept {}
  };
  return Final{};
}

inline auto Task::operator co_await() & {
  class Awaiter {
   public:
    explicit Awaiter(Task& task) : task_(task) {}
    bool await_ready() const { return task_.done(); }
    void await_suspend(TaskHandle parent) {
      task_.handle_.promise().continuation = parent;
      if (!task_.started_) parent.promise().engine->start(task_);
    }
    Status await_resume() const { return task_.result(); }

   private:
    Task& task_;
  };
  return Awaiter(*this);
}

}  // namespace sparcl::comm
