#include "src/transport/mpi/returned_errors.hpp"

#include <algorithm>
#include <mutex>
#include <vector>

namespace sparcl::transport {
namespace {

struct Borrowed {
  MPI_Comm comm;
  MPI_Errhandler handler;  // the caller's; MPI_ERRHANDLER_NULL: it was not readable, and stays
  int users;
};

struct BorrowedHandlers {
  std::mutex mutex;
  std::vector<Borrowed> all;
  auto find(MPI_Comm comm) {
    return std::find_if(all.begin(), all.end(),
                        [&](const Borrowed& each) { return each.comm == comm; });
  }
};

BorrowedHandlers& borrowed_handlers() {
  static auto* const handlers = new BorrowedHandlers;
  return *handlers;
}

// Predefined handlers must not be freed.
void let_go(MPI_Errhandler handler) {
  if (handler != MPI_ERRORS_ARE_FATAL && handler != MPI_ERRORS_RETURN)
    MPI_Errhandler_free(&handler);
}

}  // namespace

ReturnedErrors::ReturnedErrors(MPI_Comm comm) : comm_(comm) {
  BorrowedHandlers& handlers = borrowed_handlers();
  const std::lock_guard lock(handlers.mutex);
  if (const auto known = handlers.find(comm); known != handlers.all.end()) {
    ++known->users;
    return;
  }
  Borrowed made{comm, MPI_ERRHANDLER_NULL, 1};
  handlers.all.reserve(handlers.all.size() + 1);
  if (MPI_Comm_get_errhandler(comm, &made.handler) != MPI_SUCCESS)
    made.handler = MPI_ERRHANDLER_NULL;
  if (made.handler != MPI_ERRHANDLER_NULL) MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  handlers.all.push_back(made);
}

ReturnedErrors::~ReturnedErrors() {
  BorrowedHandlers& handlers = borrowed_handlers();
  const std::lock_guard lock(handlers.mutex);
  const auto own = handlers.find(comm_);
  if (own == handlers.all.end() || --own->users > 0) return;
  if (own->handler != MPI_ERRHANDLER_NULL) {
    MPI_Comm_set_errhandler(comm_, own->handler);
    let_go(own->handler);
  }
  handlers.all.erase(own);
}

}  // namespace sparcl::transport
