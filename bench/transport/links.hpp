#pragma once
// Two ranks that send each other messages, by each of the ways that are compared.

#include <mpi.h>

#include <memory>
#include <string>
#include <vector>

#include "src/transport/transport.hpp"

namespace sparcl::bench {

class Link {
 public:
  virtual ~Link() = default;
  virtual const char* name() const = 0;
  virtual void send(const Buffer& message) = 0;  // posts
  virtual void receive(const Buffer& space) = 0;
  virtual void wait() = 0;  // for all that was posted
};

// MPI_Isend, MPI_Irecv, MPI_Waitall.
std::unique_ptr<Link> make_mpi_link(int peer);
// UCX's tags without anything of ours around them, as ucx_perftest uses them.
std::unique_ptr<Link> make_ucp_link(int rank);
// A transport of this library.
std::unique_ptr<Link> make_transport_link(std::string name,
                                          std::unique_ptr<transport::Transport> transport,
                                          int peer);

}  // namespace sparcl::bench
