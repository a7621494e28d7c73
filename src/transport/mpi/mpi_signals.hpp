#pragma once
// Signals on a tag of their own. They are looked for by probing, so that no receive is left to take back at the end.

#include <mpi.h>

#include <memory>
#include <vector>

#include "src/transport/transport.hpp"

namespace sparcl {

class MpiSignals {
 public:
  static constexpr int kTag = 0;

  explicit MpiSignals(MPI_Comm comm) : comm_(comm) {}
  ~MpiSignals();

  bool all_sent() {
    forget_sent();
    return sent_.empty();
  }
  void send(int peer, const Signal& signal);
  // Asks MPI for those that have arrived; poll() takes one of them.
  void probe();
  bool poll(Signal& signal);

 private:
  struct Sent {
    MPI_Request request;
    std::unique_ptr<Signal> signal;
  };
  void forget_sent();

  MPI_Comm comm_;
  std::vector<Sent> sent_;
  std::vector<Signal> arrived_;  // newest first
};

}  // namespace sparcl
