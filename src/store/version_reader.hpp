#pragma once
// A reader of a chain's versions. It holds a lease while it reads, and begins again at a later
// version if one was removed meanwhile.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "src/store/chain_reader.hpp"
#include "src/store/reader_lease.hpp"
#include "src/store/stored_part.hpp"

namespace sparcl::store {

struct RestoredVersion {
  VersionRecord record;
  std::uint64_t object_bytes = 0;  // that were fetched
  std::uint64_t changed = 0;       // elements, by each object
  int objects = 0;                 // 0: the version was held already
  bool by_anchor = false;
  bool is_part = false;  // of the version's tensors

  void note(std::span<const ChainStep> steps);
};

class VersionReader {
 public:
  // kRefused: a state with a part of a version's tensors is a Mismatch.
  enum class Parts : std::uint8_t { kAllowed, kRefused };
  // Both outlive it.
  VersionReader(Chain& chain, Lease& lease, Parts parts = Parts::kAllowed)
      : chain_(chain), lease_(lease), parts_(parts) {}

  // Writes a version, or the newest (0), into the state's arrays, which hold `held`, or anything.
  // InvalidArgument: there is no such version. Other errors as restore(). After an error the arrays
  // are as before. at_least: Stale if the version is older. If the state has other tensors than the
  // version, they are a part of it, of which this reader keeps the last one: `held` does not count
  // then.
  Result<RestoredVersion> restore(std::uint64_t version,
                                  const std::optional<model::HeldVersion>& held,
                                  const ChainState& state, std::uint64_t at_least = 0);
  // The same for the version of a record. Corrupt: it may have been removed meanwhile.
  Result<RestoredVersion> restore_record(const VersionRecord& target,
                                         const std::optional<model::HeldVersion>& held,
                                         const ChainState& state);
  // Whether it keeps the part of a version that these tensors are.
  bool keeps_part_of(const ChainState& state) const {
    return part_ != nullptr && part_->is_of(state);
  }
  // The version with this state among the last records; nullopt: there is none.
  Result<std::optional<model::HeldVersion>> find_state(const Hash128& hash) const;

 private:
  Result<VersionRecord> find(std::uint64_t version);
  Result<RestoredVersion> restore_once(std::uint64_t version,
                                       const std::optional<model::HeldVersion>& held,
                                       const ChainState& state, std::uint64_t at_least);
  Status hold(std::span<const ChainStep> steps, const VersionRecord& target);
  Status restore_whole(const std::optional<model::HeldVersion>& held, const ChainState& state,
                       RestoredVersion& restored);
  Status restore_part(const ChainState& state, RestoredVersion& restored);

  Chain& chain_;
  Lease& lease_;
  const Parts parts_;
  std::unique_ptr<StoredPart> part_;  // that was restored last
};

}  // namespace sparcl::store
