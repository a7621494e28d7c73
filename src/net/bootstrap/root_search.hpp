#pragma once
// A rank's way to the process that made its unique id: all addresses are tried, a little one after
// the other, and the first at which a holder of the secret answers is taken.

#include "src/net/bootstrap/record_line.hpp"

namespace sparcl::net {

struct SearchOptions {
  double stagger_s = 0.25;  // between the first tries of two addresses
  double refused_s = 3;     // once all addresses refuse for so long, nobody is there
  double search_s = 15;     // while some do not answer at all
};

struct FoundRoot {
  RecordLine line;
  NetAddress address;
};

// RemoteError with what each address said. `deadline` on monotonic_seconds().
Result<FoundRoot> find_root(const UniqueId& id, int nranks, double deadline,
                            const SearchOptions& options);

}  // namespace sparcl::net
