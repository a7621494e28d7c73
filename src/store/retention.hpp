#pragma once
// Removes old versions, and what killed writers have left, while readers go on.
//
// A reader writes a lease, which says what it needs, and reads `pruned` afterwards. prune() writes
// to `pruned` first what is to be removed. It removes that once this is as old as a lease can be,
// and no lease needs it. So a reader that may not write has this time, and one with a lease has
// all that it needs. All ages are by the store's clock.

#include <cstdint>
#include <optional>

#include "src/store/reader_lease.hpp"
#include "src/store/version_chain.hpp"

namespace sparcl::store {

// A version is kept if one of the first two says so. The newest version always is, and what leads
// to a version that is kept.
struct Keep {
  std::uint64_t versions = 0;                   // so many of the newest
  std::optional<std::int64_t> age_s = {};       // those that are younger
  std::optional<std::uint64_t> max_bytes = {};  // fewer versions, if their objects have more bytes
  std::int64_t lease_s = kLeaseSeconds;
};

struct PruneReport {
  std::uint64_t versions = 0, objects = 0, bytes = 0;  // removed; objects: records, too
  std::uint64_t waiting = 0;                           // versions that a later call removes
  std::optional<FirstLease> lease = {};                // it keeps versions from being removed
  bool has_damaged_marks = false;                      // nothing was removed by earlier marks
};

// A repeated call goes on where one was killed.
Result<PruneReport> prune(Chain& chain, const Keep& keep);

}  // namespace sparcl::store
