#pragma once
// What a chain has: its versions, and whether each object is what was published.

#include <functional>
#include <string>
#include <vector>

#include "src/store/reader_lease.hpp"
#include "src/store/version_chain.hpp"

namespace sparcl::store {

struct ListedVersion {
  VersionRecord record;
  std::uint64_t anchor_bytes = 0, skip_bytes = 0;  // of all skips to it
};

struct Damage {
  std::string location, what;
  bool is_repaired = false;
};
// All versions that are not being removed, in ascending order. damaged: may be empty. Corrupt: some
// records or shortcuts are damaged or missing; the others were visited.
Status list_versions(Chain& chain, const std::function<void(const ListedVersion&)>& visit,
                     const std::function<void(const Damage&)>& damaged = {});

struct VerifyReport {
  std::uint64_t versions = 0, objects = 0, bytes = 0;  // read
  std::uint64_t damaged = 0, repaired = 0;
  std::vector<Damage> remarks = {};  // what does no harm to readers; not many are kept
};

// Reads all objects once, and compares records and shortcuts with them and with each other. copy:
// of the chain; may be nullptr. What is damaged or missing is replaced by the copy's, if that fits.
// Mismatch: the other chain is no copy of this one; nothing was written. It holds a lease on the
// chain while it reads.
Result<VerifyReport> verify_content(Chain& chain, Chain* copy,
                                    const std::function<void(const Damage&)>& visit,
                                    std::int64_t lease_s = kLeaseSeconds);

// Copies what `to` lacks, in the order of versions. A repeated call goes on. Stale: `to` has
// another history. Returns the number of versions that are new there. Memory: one object. It holds
// a lease on `from` while it reads.
Result<std::uint64_t> copy_content(Chain& from, Chain& to, std::int64_t lease_s = kLeaseSeconds);

}  // namespace sparcl::store
