#pragma once
// Looks a name up on a thread of its own: the system's resolver may take many seconds, and cannot
// be called back. A numeric address needs no resolver: its answer is there at once.

#include <memory>
#include <vector>

#include "src/net/host_port.hpp"
#include "src/net/socket.hpp"

namespace sparcl::net {

using Addresses = Result<std::vector<NetAddress>>;

// Destroyed while one is under way: its thread ends when the resolver lets it.
class NameLookup {
 public:
  using Resolver = Addresses (*)(const HostPort& where);  // resolve(), or a test's

  explicit NameLookup(Resolver resolver = resolve) : resolver_(resolver) {}

  // Not while one is under way. An error: there can be none.
  Status start(const HostPort& where);
  bool is_under_way() const { return under_way_ != nullptr; }
  // Readable once take() has the answer; -1 where none is under way.
  int fd() const;
  // If it is there: the lookup is then over.
  bool take(Addresses& answer);

 private:
  struct UnderWay;

  Resolver resolver_;
  std::shared_ptr<UnderWay> under_way_;
};

// Waits for one until the deadline, on monotonic_seconds(). Timeout: the resolver takes longer.
Addresses resolve_until(const HostPort& where, double deadline,
                        NameLookup::Resolver resolver = resolve);

}  // namespace sparcl::net
