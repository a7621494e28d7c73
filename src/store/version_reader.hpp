#pragma once
// A reader of a chain's versions. It holds a lease while it reads, and begins again at a later
// version if one was removed meanwhile.

#include <cstdint>
#include <optional>

#include "src/store/chain_reader.hpp"
#include "src/store/reader_lease.hpp"

namespace sparcl::store {

struct RestoredVersion {
  VersionRecord record;
  std::uint64_t object_bytes = 0;  // that were read
  std::uint64_t changed = 0;       // elements, by each object
  int objects = 0;                 // 0: the version was held already
  bool by_anchor = false;
};

class VersionReader {
 public:
  // Both outlive it.
  VersionReader(Chain& chain, Lease& lease) : chain_(chain), lease_(lease) {}

  // Writes a version, or the newest (0), into the state's arrays, which hold `held`, or anything.
  // InvalidArgument: there is no such version. Other errors as restore(). After an error the arrays
  // are as before. at_least: Stale if the version is older.
  Result<RestoredVersion> restore(std::uint64_t version,
                                  const std::optional<model::HeldVersion>& held,
                                  const ChainState& state, std::uint64_t at_least = 0);
  // The same for the version of a record. Corrupt: it may have been removed meanwhile.
  Result<RestoredVersion> restore_record(const VersionRecord& target,
                                         const std::optional<model::HeldVersion>& held,
                                         const ChainState& state);
  // The version with this state among the last records; nullopt: there is none.
  Result<std::optional<model::HeldVersion>> find_state(const Hash128& hash) const;

 private:
  Result<VersionRecord> find(std::uint64_t version);
  Result<RestoredVersion> restore_once(std::uint64_t version,
                                       const std::optional<model::HeldVersion>& held,
                                       const ChainState& state, std::uint64_t at_least);
  Status hold(std::uint64_t number);

  Chain& chain_;
  Lease& lease_;
};

}  // namespace sparcl::store
