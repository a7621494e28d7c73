#pragma once
// Finds the process that made the unique id. All addresses are tried, each a little after the one
// before. The first at which a holder of the secret answers is used.

#include "src/net/bootstrap/record_line.hpp"

namespace sparcl::net {

struct SearchOptions {
  double stagger_s = 0.25;  // between the first tries of two addresses
  double refused_s = 3;     // the root is gone once all addresses refuse for so long
  double search_s = 15;     // while some addresses do not answer at all
};

struct FoundRoot {
  RecordLine line;
  NetAddress address;
};

// RemoteError with the result of each address. `deadline` is of monotonic_seconds().
Result<FoundRoot> find_root(const UniqueId& id, int nranks, double deadline,
                            const SearchOptions& options);

}  // namespace sparcl::net
