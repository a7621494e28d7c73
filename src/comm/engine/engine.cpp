#include "src/comm/engine/engine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "src/base/caught_error.hpp"
#include "src/base/flight/flight_dump.hpp"
#include "src/base/log.hpp"
#include "src/base/wait_warning.hpp"

namespace sparcl::comm {
namespace {

// The clock and the deadlines are checked once in so many turns; idle turns always check.
// Heuristic: a turn is about 0.2 us.
constexpr std::uint32_t kTurnsPerClockRead = 256;
constexpr std::uint32_t kTurnsPerLook =
    16;  // of tasks that have work, some milliseconds of it; heuristic
constexpr std::uint64_t kTurnsBeforeWatch = 64;  // some 10 us; heuristic
constexpr double kSignalSeconds =
    0.2;  // for signals to leave: live peers take them in milliseconds

// Between two looks of an idle task, once it has spun for a while. Heuristic: the awaited work
// takes as long on a GPU.
constexpr double kIdleSeconds = 0.0001;

// A wait is put into the flight record once it has lasted so long. Heuristic: far above the latency
// of any step, far below human perception.
constexpr double kNoteAfterSeconds = 0.01;

// A failed operation names its peer as culprit, unless memory ran out on this rank.
int culprit_of(const transport::Operation& operation) {
  return operation.status.code() == Code::kOutOfMemory ? -1 : operation.peer;
}

}  // namespace

void Task::promise_type::unhandled_exception() noexcept {
  result = caught_error("a collective could not go on", Scope::kComm);
}

void Engine::start(Task& task) {
  task.handle_.promise().engine = this;
  task.started_ = true;
  make_ready(task.handle_);
}

bool Engine::step() {
  if (is_asked_to_end() && health_.ok())
    fail(Code::kRemoteError, "sparclCommAbort was called", transport_.rank());
  const bool moved = pump();
  if (ready_.empty() && !moved) check_deadlines();
  if (ready_.empty()) return look_again() || moved;
  ready_.pop().resume();
  if (!idle_.empty() && ++turns_since_look_ >= kTurnsPerLook) (void)look_again();
  return true;
}

// Resumes the idle tasks. False if they are idle again.
bool Engine::look_again() {
  turns_since_look_ = 0;
  const std::size_t count = idle_.size();
  for (std::size_t i = 0; i < count; ++i) idle_.pop().resume();
  return idle_.size() < count;
}

// Warns of the longest wait while a thread is in it. Peers are not watched while no thread waits.
class Engine::Watch {
 public:
  explicit Watch(const Engine& engine) noexcept
      : engine_(engine), begin_(engine.transport_.now()) {}

  // When to look again.
  double next() {
    if (engine_.first_wait_ == nullptr) return std::numeric_limits<double>::infinity();
    const double began = std::max(begin_, engine_.first_wait_->deadline_ - engine_.timeout_s_);
    if (began != began_) warning_.begin_anew();
    began_ = began;
    return began_ + warning_.next_s();
  }

  void look() noexcept try {
    const double lasted = engine_.transport_.now() - began_;
    if (engine_.first_wait_ == nullptr || !warning_.is_due(lasted)) return;
    const transport::Operation& operation = *engine_.first_wait_->operation_;
    log_warn(
        "rank {} has waited {:.3g} s for {} ({}): it has not made this call yet, is slow or "
        "stopped, or itself waits for another rank. `sparcl status` on its machine shows it. The "
        "call ends after {:g} s (SPARCL_TIMEOUT_S)",
        engine_.transport_.rank(), lasted, engine_.describe(operation.peer),
        engine_.first_wait_->purpose_, engine_.timeout_s_);
  } catch (const std::exception&) {  // no memory for a warning
  }

 private:
  const Engine& engine_;
  double begin_, began_ = -1;
  WaitWarning warning_;
};

Engine::Engine(transport::Transport& transport, double timeout_s)
    : transport_(transport), timeout_s_(timeout_s) {}

Engine::~Engine() = default;

void Engine::look_at_wait() noexcept try {
  if (watch_ == nullptr) watch_ = std::make_unique<Watch>(*this);
  if (transport_.now() >= watch_->next()) watch_->look();
} catch (const std::exception&) {  // no memory for a warning
}

void Engine::finish(Task& task) {
  std::uint64_t idle_turns = 0;
  std::optional<Watch> watch;  // of a wait that is not short
  while (!task.done()) {
    if (step()) {
      idle_turns = 0;
      continue;
    }
    if (++idle_turns >= kTurnsBeforeWatch && !watch) watch.emplace(*this);
    const double warning_at = watch ? watch->next() : std::numeric_limits<double>::infinity();
    transport_.idle(idle_turns, std::min(next_deadline(), warning_at));
    if (watch && transport_.now() >= warning_at) watch->look();
  }
}

double Engine::next_deadline() {
  const double end =
      first_wait_ != nullptr ? first_wait_->deadline_ : std::numeric_limits<double>::infinity();
  return idle_.empty() ? end : std::min(end, transport_.now() + kIdleSeconds);
}

transport::OperationRef Engine::send(int peer, transport::Channel channel, Buffer message) {
  return posted(transport_.send(peer, channel, std::move(message)));
}

transport::OperationRef Engine::receive(int peer, transport::Channel channel, Buffer space) {
  return posted(transport_.receive(peer, channel, std::move(space)));
}

// An operation that could not be posted is not reported by progress(), and may have no waiter.
transport::OperationRef Engine::posted(transport::OperationRef operation) {
  if (operation->done && !operation->status.ok()) fail_by(*operation);
  return operation;
}

bool Engine::pump() try {
  completed_.clear();
  move_on();
  if (++turns_since_clock_ >= kTurnsPerClockRead) check_deadlines();
  return !completed_.empty();
} catch (const std::exception&) {
  fail_by_exception();
  return false;
}

void Engine::move_on() {
  const Status status = transport_.progress(completed_);
  take_signals();  // first: a rank that left with an error has sent its reason, which explains the
                   // failures that follow
  if (!status.ok()) fail(status, transport_.culprit());
  for (const transport::OperationRef& operation : completed_) finish_operation(operation);
}

void Engine::finish_operation(const transport::OperationRef& operation) {
  if (!operation->status.ok() && operation->status.code() != Code::kInProgress) {
    fail_by(*operation);
    return;
  }
  if (auto* wait = static_cast<Wait*>(operation->waiter); wait != nullptr) {
    wait->unlink();
    make_ready(wait->task_);
  }
}

void Engine::take_signals() {
  transport::Signal first, next;
  bool has_come = false;
  while (transport_.poll_signal(next)) {
    // A rank may wait for a rank that itself waits for a late rank, and name it. The late rank must
    // learn that it is late itself.
    if (!has_come || (next.culprit == transport_.rank() && first.culprit != next.culprit))
      first = next;
    has_come = true;
  }
  if (!has_come || !health_.ok()) return;
  first.text.back() = '\0';
  // Its sender has told all ranks: telling them again would cost P^2 messages.
  const bool names_one = first.culprit >= 0 && first.culprit < transport_.size();
  const Status told = told_by(first);
  poison(told.code(), told.message(), names_one ? first.culprit : -1);
}

// The text of a death or a silence is the same on all ranks: the rank, the event, and then the rank
// that reported it.
Status Engine::told_by(const transport::Signal& signal) const {
  const auto code = static_cast<Code>(signal.code);
  const std::string_view text = signal.text.data();
  if (text.starts_with(fmt::format("rank {} (", signal.culprit))) {
    const char* whom =
        signal.culprit == transport_.rank() ? "this rank was given up by the others: " : "";
    return Status(code == Code::kTimeout ? code : Code::kRemoteError,
                  fmt::format("{}{} (as {} says)", whom, text, describe(signal.from)));
  }
  return Status(Code::kRemoteError, fmt::format("{} left in error {}: {}", describe(signal.from),
                                                code_name(code), text));
}

void Engine::check_deadlines() try {
  turns_since_clock_ = 0;
  if (first_wait_ == nullptr) return;
  const double now = transport_.now();
  if (now >= next_notes_at_) note_waits(now, kNoteAfterSeconds);
  if (now < first_wait_->deadline_) return;
  const transport::Operation& late = *first_wait_->operation_;
  fail(Status(Code::kTimeout,
              fmt::format("{} did not answer for {} s ({}): it is stopped, cut off, late "
                          "(SPARCL_TIMEOUT_S), or waits itself",
                          describe(late.peer), timeout_s_, first_wait_->purpose_),
              Scope::kComm),
       late.peer);
} catch (const std::exception&) {
  fail_by_exception();
}

// Notes waits that began at least min_s ago; waits are in the order of their beginnings.
void Engine::note_waits(double now, double min_s) {
  next_notes_at_ = now + kNoteAfterSeconds;
  if (trail_ == nullptr) return;
  trail_->turned();
  for (Wait* wait = first_wait_; wait != nullptr; wait = wait->next_) {
    const double lasted = now - (wait->deadline_ - timeout_s_);
    if (lasted < min_s) return;
    if (std::exchange(wait->is_noted_, true)) continue;
    const transport::Operation& operation = *wait->operation_;
    trail_->waits(operation.channel.call, {.peer = operation.peer,
                                           .host = transport_.describe_peer(operation.peer),
                                           .purpose = wait->purpose_,
                                           .seconds = lasted});
  }
}

void Engine::fail(const Status& error, int culprit) noexcept {
  if (!health_.ok()) return;
  // Only the three codes that users know as fatal poison. A violation of the wire protocol is a
  // system error.
  const bool fatal = error.code() == Code::kTimeout || error.code() == Code::kRemoteError ||
                     error.code() == Code::kSystemError;
  poison(fatal ? error.code() : Code::kSystemError, error.message(), culprit);
  tell_peers(culprit);
}

void Engine::fail(Code code, const char* text, int culprit) noexcept {
  fail(status_or_no_memory(code, text), culprit);
}

void Engine::fail_by_exception() noexcept {
  fail(caught_error("this rank's messages could not be moved on", Scope::kComm), transport_.rank());
}

void Engine::tell_peers(int culprit) noexcept {
  transport::Signal signal;
  signal.code = static_cast<std::int32_t>(health_.code());
  signal.culprit = culprit;
  const std::size_t length = std::min(health_.message().size(), signal.text.size() - 1);
  std::memcpy(signal.text.data(), health_.message().data(), length);
  for (int peer = 0; peer < transport_.size(); ++peer) {
    if (peer == transport_.rank()) continue;
    try {
      transport_.signal(peer, signal);  // the culprit, too: it may live
    } catch (const std::exception&) {   // the other ranks are still told; this one learns it when
                                        // this rank leaves
    }
  }
  try {
    transport_.flush_signals(kSignalSeconds);
  } catch (const std::exception&) {
  }
}

// A transport's texts name the peer. Signals are taken first, as in pump(): an operation may also
// fail when it is posted.
void Engine::fail_by(const transport::Operation& operation) {
  take_signals();
  const int first =
      transport_.culprit();  // the culprit's end may be why the operation's peer has ended
  fail(operation.status,
       first >= 0 && operation.status.code() == Code::kRemoteError ? first : culprit_of(operation));
}

void Engine::poison(Code code, std::string_view text, int culprit) noexcept {
  culprit_ = culprit;
  try {
    health_ = Status(code, std::string(text), Scope::kComm);
  } catch (const std::exception&) {
    health_ = Status(code, no_memory().message(), Scope::kComm);
  }
  told_culprit_.store(culprit, std::memory_order_relaxed);
  told_health_.store(health_.code(), std::memory_order_release);
  log_end();
  while (first_wait_ != nullptr) {
    Wait* wait = first_wait_;
    wait->unlink();
    make_ready(wait->task_);
  }
}

void Engine::log_end() noexcept try {
  if (trail_ != nullptr) trail_->poisoned(health_);
  log_error("rank {}: {}{}", transport_.rank(), health_.message(),
            trail_ != nullptr ? flight::where_to_look(*trail_) : "");
  if (trail_ == nullptr) return;
  note_waits(transport_.now(), 0);
  flight::log_trail(*trail_);
} catch (const std::exception&) {  // the calls' own errors report it, too
}

std::string Engine::describe(int rank) const {
  return fmt::format("rank {} ({})", rank, transport_.describe_peer(rank));
}

bool Engine::Wait::await_ready() { return operation_->done || !engine_.health_.ok(); }

void Engine::Wait::await_suspend(TaskHandle task) {
  task_ = task;
  operation_->waiter = this;
  deadline_ = engine_.transport_.now() + engine_.timeout_s_;
  previous_ = engine_.last_wait_;
  (previous_ != nullptr ? previous_->next_ : engine_.first_wait_) = this;
  engine_.last_wait_ = this;
}

Status Engine::Wait::await_resume() {
  if (!engine_.health_.ok()) return engine_.health_;
  if (!operation_->status.ok()) {
    // The post itself returned it done, so progress() never reported it.
    engine_.fail_by(*operation_);
    return engine_.health_;
  }
  return Status();
}

void Engine::Wait::unlink() {
  (previous_ != nullptr ? previous_->next_ : engine_.first_wait_) = next_;
  (next_ != nullptr ? next_->previous_ : engine_.last_wait_) = previous_;
  operation_->waiter = nullptr;
  // A call that ends with an error keeps its wait in the record.
  if (is_noted_ && engine_.health_.ok()) engine_.trail_->waits_no_more(operation_->channel.call);
}

}  // namespace sparcl::comm
