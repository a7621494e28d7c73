#pragma once
// A thread's way into a communicator: one at a time, and never from a child of fork(), whose copy is its parent's.

#include "sparcl/sparcl.h"
#include "src/base/status.hpp"

namespace sparcl::api {

class Entry {
 public:
  // comm may be nullptr: then there is nothing to enter. A thread that is in already goes in again.
  explicit Entry(sparclComm_t comm) noexcept;
  ~Entry();
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;

  bool is_open() const { return kind_ == Kind::kFirst || kind_ == Kind::kAgain; }
  // Another thread is in: of the communicator only what is said to be any thread's may be touched.
  bool is_taken() const { return kind_ == Kind::kTaken; }
  Status refusal() const;  // InvalidUsage, unless it is open
  // The communicator is about to go.
  void forget() { kind_ = Kind::kAgain; }

 private:
  enum class Kind : unsigned char { kFirst, kAgain, kTaken, kForeign };

  sparclComm_t comm_;
  Kind kind_ = Kind::kAgain;
};

}  // namespace sparcl::api
