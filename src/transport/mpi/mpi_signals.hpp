#pragma once
// Signals on a tag of their own. They are found by probing, so that no receive is left to cancel at
// the end. In simulation a receive is always posted, because a rank blocks while it waits.

#include <mpi.h>

#include <memory>
#include <vector>

#include "src/transport/transport.hpp"

namespace sparcl::transport {

class MpiSignals {
 public:
  static constexpr int kTag = 0;

  MpiSignals(MPI_Comm comm, bool keeps_receive);
  ~MpiSignals();
  MpiSignals(const MpiSignals&) = delete;
  MpiSignals& operator=(const MpiSignals&) = delete;

  // signal.from must be set.
  void send(int peer, const Signal& signal);
  bool none_ever() const { return none_ever_; }  // neither sent nor received

  // Asks MPI for signals that have arrived; poll() takes one of them.
  void probe();
  bool poll(Signal& signal);
  bool empty() const { return arrived_.empty(); }

  // The receive that is always posted. The caller that completes it must then call probe().
  MPI_Request& posted() { return posted_; }

 private:
  struct Sent {
    MPI_Request request;
    std::unique_ptr<Signal> signal;
  };
  void forget_sent();
  void post();
  void add(const Signal& signal);

  MPI_Comm comm_;
  std::vector<Sent> sent_;
  std::vector<Signal> arrived_;  // newest first
  bool none_ever_ = true;
  bool keeps_receive_;
  MPI_Request posted_ = MPI_REQUEST_NULL;
  std::unique_ptr<Signal> incoming_;  // the buffer of posted_
};

}  // namespace sparcl::transport
