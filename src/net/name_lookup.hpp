#pragma once
// Looks a name up on a thread of its own, because the system's resolver may take many seconds, and
// cannot be cancelled. A numeric address needs no resolver: its answer is there at once.

#include <memory>
#include <vector>

#include "src/net/host_port.hpp"
#include "src/net/socket.hpp"

namespace sparcl::net {

using Addresses = Result<std::vector<NetAddress>>;

// May be destroyed during a lookup: its thread ends when the resolver returns.
class NameLookup {
 public:
  using Resolver = Addresses (*)(const HostPort& where);  // resolve(), or a test's

  explicit NameLookup(Resolver resolver = resolve) : resolver_(resolver) {}

  // Not during a lookup. An error: the lookup could not be started.
  Status start(const HostPort& where);
  bool is_under_way() const { return under_way_ != nullptr; }
  // Readable once take() has the answer; -1 if there is no lookup.
  int fd() const;
  // Takes the answer if it is there, which ends the lookup.
  bool take(Addresses& answer);

 private:
  struct UnderWay;

  Resolver resolver_;
  std::shared_ptr<UnderWay> under_way_;
};

// Waits for one lookup until the deadline, on monotonic_seconds(). Timeout: the resolver takes
// longer.
Addresses resolve_until(const HostPort& where, double deadline,
                        NameLookup::Resolver resolver = resolve);

}  // namespace sparcl::net
