#pragma once
// The process that makes a unique id serves it, by a thread of its own, until the ranks have met.

#include <array>
#include <memory>

#include "src/base/status.hpp"
#include "src/net/bootstrap/root_server.hpp"
#include "src/net/bootstrap/unique_id.hpp"
#include "src/net/service_thread.hpp"

namespace sparcl::net {

class BootstrapRoot {
 public:
  // Listens at these addresses (their ports are ignored), as many as fit into an id, at one port.
  static Result<std::unique_ptr<BootstrapRoot>> start(std::span<const NetAddress> addresses,
                                                      const RootOptions& options = {});

  // Tells waiting ranks that this process ends. Harmless in a child of fork(), which has no such
  // thread.
  ~BootstrapRoot();
  BootstrapRoot(const BootstrapRoot&) = delete;
  BootstrapRoot& operator=(const BootstrapRoot&) = delete;

  const UniqueId& id() const { return id_; }
  bool is_over() const { return server_->is_over(); }

 private:
  BootstrapRoot() = default;

  UniqueId id_;
  std::unique_ptr<RootServer> server_;
  ServiceThread thread_;
};

// sparclGetUniqueId: a new id, served by this process at the addresses that the setting INTERFACE
// allows until it has been used, or the process ends.
Result<std::array<std::byte, kUniqueIdBytes>> make_unique_id();

}  // namespace sparcl::net
