#include "src/api/entry.hpp"

#include <unistd.h>

#include "src/api/comm.hpp"

namespace sparcl::api {
namespace {

thread_local const char this_thread = 0;  // its address is another one in each

}  // namespace

Entry::Entry(sparclComm_t comm) noexcept : comm_(comm) {
  if (comm == nullptr) return;
  if (comm->pid != ::getpid()) {
    kind_ = Kind::kForeign;
    return;
  }
  const void* inside = nullptr;
  if (comm->inside.compare_exchange_strong(inside, &this_thread, std::memory_order_acquire, std::memory_order_relaxed)) {
    kind_ = Kind::kFirst;
  } else if (inside != &this_thread) {
    kind_ = Kind::kTaken;
  }
}

Entry::~Entry() {
  if (kind_ == Kind::kFirst && comm_ != nullptr) comm_->inside.store(nullptr, std::memory_order_release);
}

Status Entry::refusal() const {
  if (kind_ == Kind::kTaken) {
    return Status(Code::kInvalidUsage,
                  "another thread is in a call of this communicator: one at a time, but for sparclCommAbort, "
                  "sparclCommGetAsyncError and sparclCommGetFailedRank");
  }
  if (kind_ == Kind::kForeign) {
    return Status(Code::kInvalidUsage,
                  "this communicator is another process's, of which this one is a child by fork(): make one here");
  }
  return {};
}

}  // namespace sparcl::api
