#include "src/transport/mpi/mpi_signals.hpp"

#include <type_traits>
#include <utility>

#include "src/transport/mpi/kept_for_good.hpp"

namespace sparcl::transport {

static_assert(std::is_trivially_copyable_v<Signal>);

MpiSignals::MpiSignals(MPI_Comm comm, bool keeps_receive)
    : comm_(comm), keeps_receive_(keeps_receive) {
  if (keeps_receive_) post();
}

MpiSignals::~MpiSignals() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (!finalized) {
    forget_sent();
    if (posted_ != MPI_REQUEST_NULL) {
      MPI_Cancel(&posted_);
      MPI_Request_free(&posted_);
    }
  }
  if (incoming_) sent_.push_back({MPI_REQUEST_NULL, std::move(incoming_)});
  keep_for_good(std::move(sent_));
}

void MpiSignals::send(int peer, const Signal& signal) {
  none_ever_ = false;
  forget_sent();
  Sent sent{MPI_REQUEST_NULL, std::make_unique<Signal>(signal)};
  if (MPI_Isend(sent.signal.get(), sizeof(Signal), MPI_BYTE, peer, kTag, comm_, &sent.request) !=
      MPI_SUCCESS)
    return;  // best effort
  sent_.push_back(std::move(sent));
}

void MpiSignals::forget_sent() {
  std::erase_if(sent_, [](Sent& sent) {
    int done = 0;
    return MPI_Test(&sent.request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || done;
  });
}

void MpiSignals::post() {
  if (!incoming_) incoming_ = std::make_unique<Signal>();
  MPI_Irecv(incoming_.get(), sizeof(Signal), MPI_BYTE, MPI_ANY_SOURCE, kTag, comm_, &posted_);
}

void MpiSignals::probe() {
  int found = 0;
  if (keeps_receive_) {
    if (posted_ != MPI_REQUEST_NULL) MPI_Test(&posted_, &found, MPI_STATUS_IGNORE);
    if (posted_ != MPI_REQUEST_NULL) return;
    add(*incoming_);
    return post();
  }
  MPI_Status status;
  while (MPI_Iprobe(MPI_ANY_SOURCE, kTag, comm_, &found, &status) == MPI_SUCCESS && found) {
    Signal signal;
    int bytes = 0;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    if (bytes != static_cast<int>(sizeof signal)) return;  // not one of this library's
    // Small, and arrived: this receive does not wait.
    if (MPI_Recv(&signal, sizeof signal, MPI_BYTE, status.MPI_SOURCE, kTag, comm_,
                 MPI_STATUS_IGNORE) != MPI_SUCCESS)
      return;
    signal.from = status.MPI_SOURCE;
    add(signal);
  }
}

void MpiSignals::add(const Signal& signal) {
  none_ever_ = false;
  arrived_.insert(arrived_.begin(), signal);
  arrived_.front().text.back() = '\0';
}

bool MpiSignals::poll(Signal& signal) {
  if (arrived_.empty()) return false;
  signal = arrived_.back();
  arrived_.pop_back();
  return true;
}

}  // namespace sparcl::transport
