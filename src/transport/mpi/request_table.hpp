#pragma once
// The requests that MPI holds for one transport, side by side as MPI_Testsome wants them.

#include <mpi.h>

#include <vector>

#include "src/transport/mpi/mpi_operation.hpp"

namespace sparcl::transport {

class RequestTable {
 public:
  enum class Role : std::uint8_t { kSend, kHead, kBody, kDiscard };

  struct Finished {
    MpiOperationRef operation;
    Role role = Role::kSend;
    std::uint64_t bytes = 0;  // of a receive
    int error = MPI_SUCCESS;
    bool withdrawn = false;  // MPI_Cancel took it back
  };

  ~RequestTable();

  // Takes the memory for one request more. First this, then MPI's call, then add(): a request that
  // is not in the table would write to memory that is gone.
  void make_place();
  void add(MPI_Request request, MpiOperationRef operation, Role role) noexcept;
  std::size_t size() const { return requests_.size(); }

  // Asks MPI for the next kWindow requests in turn, and appends those that have finished. MPI moves
  // all of them on whichever it is asked for, and a question costs time in proportion: with a
  // request a peer and many peers, asking for all would be most of the work.
  Status test(std::vector<Finished>& finished);
  static constexpr std::size_t kWindow = 64;  // heuristic

  // After so many calls of test() each request has been asked for.
  std::size_t windows() const { return (requests_.size() + kWindow - 1) / kWindow; }

  // Blocks until something finishes, or `other` does, which is then MPI_REQUEST_NULL. For
  // simulators, where polling costs simulated time.
  Status wait(std::vector<Finished>& finished, MPI_Request& other);

  // Visits the operations that somebody waits for.
  template <class Visit>
  void each_waiting(const Visit& visit) const {
    for (const Entry& entry : entries_) {
      if (!entry.operation->done) visit(*entry.operation);
    }
  }

  // Asks MPI to take back the operation's receive of a head; if it does not, that finishes later.
  void cancel_head(const MpiOperation& operation);
  void cancel_heads();

  // Requests that MPI will not finish any more keep their memory until the process ends.
  void abandon();

 private:
  struct Entry {
    MpiOperationRef operation;
    Role role;
    bool is_cancelled;  // MPI was asked to take it back
  };

  void make_room(std::size_t requests);
  // Of a question for requests from `first` on.
  void collect(std::size_t first, int count, int error, std::vector<Finished>& finished);
  void remove(std::size_t at);
  void cancel_at(std::size_t at);

  std::size_t next_ = 0;  // where the next window begins
  std::vector<MPI_Request> requests_;
  std::vector<Entry> entries_;
  std::vector<int> indices_;
  std::vector<MPI_Status> statuses_;
};

}  // namespace sparcl::transport
