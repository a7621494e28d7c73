#pragma once
// Calls of the C interface without the GIL: errors become exceptions, and Ctrl-C ends them.

#include <nanobind/nanobind.h>

#include <chrono>
#include <functional>
#include <utility>

#include "sparcl/sparcl.h"

namespace sparcl::python {

namespace nb = nanobind;

// Raises the exception of `result` with the library's text, unless it is success. Call it on the
// thread that made the call.
void check(sparclResult_t result, sparclComm_t comm = nullptr);
nb::object last_error(sparclResult_t result, sparclComm_t comm = nullptr);  // its text
[[noreturn]] void raise(sparclResult_t result, const nb::object& text);
[[noreturn]] void raise_type_error(const nb::object& text);

// Releases the GIL. A thread that comes back when the interpreter is ending stays here: it could
// not get the GIL any more, and CPython before 3.14 would end it amid C++.
class ReleasedGil {
 public:
  ReleasedGil() : thread_(PyEval_SaveThread()) {}
  ~ReleasedGil();
  ReleasedGil(const ReleasedGil&) = delete;
  ReleasedGil& operator=(const ReleasedGil&) = delete;

 private:
  PyThreadState* thread_;
};

// Has the GIL in a thread of the library's call; likewise.
class HeldGil {
 public:
  HeldGil();
  ~HeldGil() { PyGILState_Release(state_); }
  HeldGil(const HeldGil&) = delete;
  HeldGil& operator=(const HeldGil&) = delete;

 private:
  PyGILState_STATE state_;
};

// From now on threads stay where they released the GIL. By atexit.
void end_threads();

// While it lives on the main thread, Ctrl-C aborts `comm`, which ends the calls on it.
class AbortOnInterrupt {
 public:
  explicit AbortOnInterrupt(sparclComm_t comm);
  ~AbortOnInterrupt();
  AbortOnInterrupt(const AbortOnInterrupt&) = delete;
  AbortOnInterrupt& operator=(const AbortOnInterrupt&) = delete;

  // Runs Python's handlers if a signal came: KeyboardInterrupt.
  void raise_if_interrupted() const;

 private:
  bool is_watched_;
  unsigned seen_;
};

// Runs a call on `comm` that may block.
template <class Call>
void run_blocking(sparclComm_t comm, Call&& call) {
  sparclResult_t result;
  const AbortOnInterrupt guard(comm);
  {
    const ReleasedGil released;
    result = call();
  }
  guard.raise_if_interrupted();
  check(result, comm);
}

// Runs a call that cannot be ended from outside, in a thread of its own: Ctrl-C leaves it behind.
// undo(): what is done then with its success. Both live as long as the thread.
void run_aside(std::function<sparclResult_t()> call, std::function<void()> undo);

// Runs a call that cannot be ended from outside.
template <class Call>
void run_released(Call&& call) {
  sparclResult_t result;
  {
    const ReleasedGil released;
    result = call();
  }
  check(result);
}

// How often Ctrl-C came; from any thread, without the GIL.
unsigned interrupts();
// Takes note of Ctrl-C from now on, on the main thread.
void watch_interrupts();

// Warns of a long wait (SPARCL_WAIT_WARNING_S), by Python's warnings: pieces of a wait are too
// short for the library's own.
class WaitWarning {
 public:
  WaitWarning();
  void look(double waited, sparclResult_t result);

 private:
  double next_;  // seconds; 0: never
};

// Runs call(seconds) in pieces, between which Python handles signals. is_early(result): nothing
// came in a piece.
template <class Call, class IsEarly>
void run_in_pieces(double seconds, Call&& call, IsEarly&& is_early) {
  using Clock = std::chrono::steady_clock;
  constexpr double kPiece = 0.1;
  WaitWarning warning;
  for (const Clock::time_point begin = Clock::now();;) {
    const double waited = std::chrono::duration<double>(Clock::now() - begin).count();
    const double left = seconds - waited;
    sparclResult_t result;
    {
      const ReleasedGil released;
      result = call(left > kPiece ? kPiece : left < 0 ? 0 : left);  // NaN: refused by the call
    }
    if (result == sparclSuccess || !is_early(result) || !(left > kPiece)) return check(result);
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    warning.look(waited, result);
  }
}

}  // namespace sparcl::python
