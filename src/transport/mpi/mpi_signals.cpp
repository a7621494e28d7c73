#include "src/transport/mpi/mpi_signals.hpp"

#include <type_traits>
#include <utility>

#include "src/transport/mpi/kept_for_good.hpp"

namespace sparcl {

static_assert(std::is_trivially_copyable_v<Signal>);

MpiSignals::~MpiSignals() {
  forget_sent();
  keep_for_good(std::move(sent_));
}

void MpiSignals::send(int peer, const Signal& signal) {
  forget_sent();
  Sent sent{MPI_REQUEST_NULL, std::make_unique<Signal>(signal)};
  if (MPI_Isend(sent.signal.get(), sizeof(Signal), MPI_BYTE, peer, kTag, comm_, &sent.request) != MPI_SUCCESS) return;  // best effort
  sent_.push_back(std::move(sent));
}

void MpiSignals::forget_sent() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized) return;
  std::erase_if(sent_, [](Sent& sent) {
    int done = 0;
    return MPI_Test(&sent.request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || done;
  });
}

void MpiSignals::probe() {
  int found = 0;
  MPI_Status status;
  while (MPI_Iprobe(MPI_ANY_SOURCE, kTag, comm_, &found, &status) == MPI_SUCCESS && found) {
    Signal signal;
    int bytes = 0;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    // Small, and it is there: this receive does not wait.
    if (MPI_Recv(&signal, sizeof signal, MPI_BYTE, status.MPI_SOURCE, kTag, comm_, MPI_STATUS_IGNORE) != MPI_SUCCESS) return;
    if (bytes != static_cast<int>(sizeof signal)) continue;
    signal.from = status.MPI_SOURCE;
    signal.text.back() = '\0';
    arrived_.insert(arrived_.begin(), signal);
  }
}

bool MpiSignals::poll(Signal& signal) {
  if (arrived_.empty()) return false;
  signal = arrived_.back();
  arrived_.pop_back();
  return true;
}

}  // namespace sparcl
