#pragma once
// Brings tensors to a version of a chain.

#include <functional>
#include <optional>
#include <span>

#include "src/store/chain_path.hpp"
#include "src/store/chain_state.hpp"

namespace sparcl::store {

// What was read.
struct ReadCounts {
  std::uint64_t bytes = 0;    // that were fetched
  std::uint64_t changed = 0;  // elements, by each object
};

// Writes the target into the state's arrays, which hold `held`, or anything. steps: of steps_to().
// After an error the arrays are as before, unless state.may_tear. One update is applied in place;
// an anchor, and several steps, in the memory of a second copy. Mismatch: the chain is of other
// tensors.
Status restore(const Chain& chain, const VersionRecord& target, std::span<const ChainStep> steps,
               const std::optional<model::HeldVersion>& held, const ChainState& state,
               ReadCounts& counts);

inline Status restore(const Chain& chain, const VersionRecord& target,
                      std::span<const ChainStep> steps,
                      const std::optional<model::HeldVersion>& held, const ChainState& state) {
  ReadCounts counts;
  return restore(chain, target, steps, held, state, counts);
}

// Calls take() with steps to the target, and with others where it answers Corrupt, as long as there
// are others. Returns the first error then.
Status by_any_path(const Chain& chain, const VersionRecord& target, PathChoice choice,
                   const std::function<Status(std::span<const ChainStep>)>& take);

// The same from an anchor on, without the second copy: after an error the arrays hold anything.
Status restore_in_place(const Chain& chain, const VersionRecord& target, const ChainState& state);

// Takes the steps with a window: of an anchor with an index, only what the window needs is read.
// held: what the arrays hold; written, also after an error.
Status restore_window(const Chain& chain, std::span<const ChainStep> steps,
                      std::optional<model::HeldVersion>& held, const ChainState& state,
                      ReadCounts& counts);

// Whether the version has the tensors of the state: all of them, whole, in this order.
Result<bool> has_tensors_of(const VersionRecord& version, const ChainState& state);

// As record.schema of a state's own.
Result<StoredObject> schema_object(std::span<const std::byte> schema);

}  // namespace sparcl::store
