#include "src/api/entry.hpp"

#include <unistd.h>

#include <chrono>
#include <thread>

#include "src/api/comm.hpp"

namespace sparcl::api {
namespace {

thread_local const char this_thread = 0;  // its address is another one in each
constexpr int kMaxNaps = 2000;            // milliseconds

}  // namespace

Entry::Entry(sparclComm* comm, Purpose purpose) noexcept : comm_(comm) {
  if (comm == nullptr) return;
  kind_ = find(purpose);
  // Another thread ends the communicator by sparclCommAbort: that is soon over, and then what this
  // call is told.
  for (int i = 0; i < kMaxNaps && purpose == Purpose::kCall && kind_ == Kind::kTaken &&
                  comm->engine.is_asked_to_end();
       ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    kind_ = enter(purpose);
  }
  if (is_open() && purpose == Purpose::kCall)
    comm->caller.store(&this_thread, std::memory_order_relaxed);
}

Entry::Kind Entry::find(Purpose purpose) const {
  if (comm_->pid != ::getpid()) return Kind::kForeign;
  const bool uses_transport = purpose != Purpose::kEnd && purpose != Purpose::kLook;
  if (uses_transport && !comm_->transport->is_for_this_thread()) return Kind::kNotItsThread;
  if (purpose == Purpose::kCall && comm_->transport->why_over() != nullptr) return Kind::kOver;
  return enter(purpose);
}

Entry::Kind Entry::enter(Purpose purpose) const {
  const void* const caller = comm_->caller.load(std::memory_order_relaxed);
  if (purpose == Purpose::kQuestion && caller != nullptr && caller != &this_thread)
    return Kind::kTaken;
  const void* inside = nullptr;
  if (comm_->inside.compare_exchange_strong(inside, &this_thread, std::memory_order_acquire,
                                            std::memory_order_relaxed))
    return Kind::kFirst;
  return inside == &this_thread ? Kind::kAgain : Kind::kTaken;
}

Entry::~Entry() {
  if (kind_ == Kind::kFirst && comm_ != nullptr)
    comm_->inside.store(nullptr, std::memory_order_release);
}

Status Entry::refusal() const {
  if (kind_ == Kind::kTaken) {
    return Status(Code::kInvalidUsage,
                  "another thread is in a call of this communicator: one at a time, but for "
                  "sparclCommAbort, sparclCommGetAsyncError and sparclCommGetFailedRank");
  }
  if (kind_ == Kind::kNotItsThread) {
    return Status(Code::kInvalidUsage,
                  "this communicator goes through MPI, which was initialised by MPI_Init, or with "
                  "a level below MPI_THREAD_SERIALIZED: call from the thread that initialised MPI, "
                  "or ask MPI_Init_thread for more");
  }
  if (kind_ == Kind::kOver) return Status(Code::kInvalidUsage, comm_->transport->why_over());
  if (kind_ == Kind::kForeign) {
    return Status(Code::kInvalidUsage,
                  "this communicator is another process's, of which this one is a child by fork(): "
                  "make one here");
  }
  return {};
}

}  // namespace sparcl::api
