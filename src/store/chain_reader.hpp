#pragma once
// Brings tensors to a version of a chain.

#include <functional>
#include <optional>
#include <span>

#include "src/store/chain_path.hpp"
#include "src/store/chain_state.hpp"

namespace sparcl::store {

// Writes the target into the state's arrays, which hold `held`, or anything. steps: of steps_to().
// After an error the arrays are as before, unless state.may_tear. One update is applied in place;
// an anchor, and several steps, in the memory of a second copy. Mismatch: the chain is of other
// tensors. changed: written, the changes of all steps; may be nullptr.
Status restore(const Chain& chain, const VersionRecord& target, std::span<const ChainStep> steps,
               const std::optional<model::HeldVersion>& held, const ChainState& state,
               std::uint64_t* changed = nullptr);

// Calls take() with steps to the target, and with others where it answers Corrupt, as long as there
// are others. Returns the first error then.
Status by_any_path(const Chain& chain, const VersionRecord& target, PathChoice choice,
                   const std::function<Status(std::span<const ChainStep>)>& take);

// The same from an anchor on, without the second copy: after an error the arrays hold anything.
Status restore_in_place(const Chain& chain, const VersionRecord& target, const ChainState& state);

// As record.schema of a state's own.
Result<StoredObject> schema_object(std::span<const std::byte> schema);

}  // namespace sparcl::store
