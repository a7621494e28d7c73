#pragma once
// The newest record of a store that a program follows for a long time, as long as it is the same
// chain: a store that was removed, or begun anew at the same address, is named.

#include <optional>

#include "src/store/version_chain.hpp"

namespace sparcl::tool {

class FollowedChain {
 public:
  // The chain outlives it, and is asked by nothing else for its newest record.
  explicit FollowedChain(store::Chain& chain) : chain_(chain) {}

  // nullopt: nothing was published yet. Mismatch: the records that are there do not follow the one
  // that was returned last, as another run has written them. RemoteError: there are no records any
  // more. Both last until the old records are there again. It is two requests if at most one record
  // is new and `newest` names it. A chain whose records are pruned up to the last one is not told
  // from another one.
  Result<std::optional<store::VersionRecord>> newest(double now);

 private:
  Result<std::optional<store::VersionRecord>> find_newest(double now);
  Status check_follows(const store::VersionRecord& record) const;
  // Whether the last record is there as it was, or was pruned. has_others: there are other records.
  Status check_last_is_there(bool has_others) const;
  Status begun_anew(const store::VersionRecord& other) const;

  store::Chain& chain_;
  std::optional<store::VersionRecord> last_;  // that was returned
  double look_at_ = 0;                        // not before this time, while `newest` is earlier
};

}  // namespace sparcl::tool
