#pragma once
// Calls of the C interface without the GIL: errors become exceptions, and Ctrl-C ends them.

#include <nanobind/nanobind.h>

#include <utility>

#include "sparcl/sparcl.h"

namespace sparcl::python {

namespace nb = nanobind;

// Raises the exception of `result` with the library's text, unless it is success. Call it on the
// thread that made the call.
void check(sparclResult_t result, sparclComm_t comm = nullptr);
[[noreturn]] void raise(sparclResult_t result, const nb::object& text);
[[noreturn]] void raise_type_error(const nb::object& text);

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
    const nb::gil_scoped_release released;
    result = call();
  }
  guard.raise_if_interrupted();
  check(result, comm);
}

// Runs a call that cannot be ended from outside.
template <class Call>
void run_released(Call&& call) {
  sparclResult_t result;
  {
    const nb::gil_scoped_release released;
    result = call();
  }
  check(result);
}

// How often Ctrl-C came; from any thread, without the GIL.
unsigned interrupts();
// Takes note of Ctrl-C from now on, on the main thread.
void watch_interrupts();

// Runs call(seconds) in pieces, between which Python handles signals. is_early(result): nothing
// came in a piece.
template <class Call, class IsEarly>
void run_in_pieces(double seconds, Call&& call, IsEarly&& is_early) {
  constexpr double kPiece = 0.1;
  for (double waited = 0;; waited += kPiece) {
    const double left = seconds - waited;
    sparclResult_t result;
    {
      const nb::gil_scoped_release released;
      result = call(left < kPiece ? (left > 0 ? left : 0) : kPiece);
    }
    if (result == sparclSuccess || !is_early(result) || left <= kPiece) return check(result);
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  }
}

}  // namespace sparcl::python
