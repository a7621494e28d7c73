#pragma once
// The requests that MPI holds for one transport, contiguous as MPI_Testsome needs them.

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
    bool withdrawn = false;  // MPI_Cancel succeeded
  };

  ~RequestTable();

  // Takes the memory for one request more. The order is make_place(), MPI's call, add(). A request
  // that is not in the table would write to memory that is gone.
  void make_place();
  void add(MPI_Request request, MpiOperationRef operation, Role role) noexcept;
  std::size_t size() const { return requests_.size(); }

  // Asks MPI for the next kWindow requests in turn, and appends those that have finished. MPI
  // advances all requests in each call, and the cost of a call grows with the number asked for.
  // With one request a peer and many peers, asking for all would be most of the work.
  Status test(std::vector<Finished>& finished);
  static constexpr std::size_t kWindow = 64;  // heuristic

  // After so many calls of test() each request has been asked for.
  std::size_t windows() const { return (requests_.size() + kWindow - 1) / kWindow; }

  // Blocks until a request finishes, or `other` does, which is then MPI_REQUEST_NULL. For
  // simulators, where polling costs simulated time.
  Status wait(std::vector<Finished>& finished, MPI_Request& other);

  // Visits the operations that have a waiter.
  template <class Visit>
  void each_waiting(const Visit& visit) const {
    for (const Entry& entry : entries_) {
      if (!entry.operation->done) visit(*entry.operation);
    }
  }

  // Asks MPI to cancel the operation's receive of a head; if MPI does not, the receive finishes
  // later.
  void cancel_head(const MpiOperation& operation);
  void cancel_heads();

  // Requests that MPI will not finish keep their memory until the process ends.
  void abandon();

 private:
  struct Entry {
    MpiOperationRef operation;
    Role role;
    bool is_cancelled;  // MPI was asked to cancel it
  };

  void make_room(std::size_t requests);
  // The result of a call for requests from `first` on.
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
