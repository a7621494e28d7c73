#pragma once
// A thread's way into a communicator: one at a time, and never from a child of fork(), whose copy
// is its parent's.

#include "sparcl/sparcl.h"
#include "src/base/status.hpp"

namespace sparcl::api {

class Entry {
 public:
  // kCall: of those that one thread at a time makes. kQuestion: of those that any thread may make
  // at any time: it gets in where it is the thread of the last call, and no other one is in. kEnd:
  // of sparclCommAbort, by any thread where no other one is in. kDestroy, kLook: as kCall, also
  // where the transport is over (Transport::why_over).
  enum class Purpose : unsigned char { kCall, kQuestion, kEnd, kDestroy, kLook };

  // comm may be nullptr: then there is nothing to enter. A thread that is in already goes in again.
  explicit Entry(sparclComm* comm, Purpose purpose = Purpose::kCall) noexcept;
  ~Entry();
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;

  bool is_open() const { return kind_ == Kind::kFirst || kind_ == Kind::kAgain; }
  // The communicator is another thread's: only what is said to be any thread's may be touched.
  bool is_taken() const { return kind_ == Kind::kTaken || kind_ == Kind::kNotItsThread; }
  Status refusal() const;  // InvalidUsage, unless it is open
  // The communicator is about to go.
  void forget() { kind_ = Kind::kAgain; }

 private:
  enum class Kind : unsigned char { kFirst, kAgain, kTaken, kForeign, kNotItsThread, kOver };

  Kind find(Purpose purpose) const;
  Kind enter(Purpose purpose) const;

  sparclComm* comm_;
  Kind kind_ = Kind::kAgain;
};

}  // namespace sparcl::api
