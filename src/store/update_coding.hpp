#pragma once
// Codes whole updates of a chain's state into its store.

#include <string>
#include <vector>

#include "src/codec/update.hpp"
#include "src/model/version_update.hpp"
#include "src/store/chain_state.hpp"
#include "src/store/coding_effort.hpp"
#include "src/store/object_store.hpp"
#include "src/store/version_record.hpp"

namespace sparcl::store {

std::vector<const std::byte*> readable(std::span<std::byte* const> arrays);

// At most so many bytes has an update of these tensors.
std::uint64_t max_update_bytes(const codec::BlockMap& map);

// base: version 0 for an anchor.
codec::EncodeOptions encode_options(const ChainState& state, const model::HeldVersion& base,
                                    std::uint64_t version);

// An anchor in the store, and its index.
struct PutAnchor {
  StoredObject object, index;
  Hash128 hash;  // of the version
};
// Puts all bytes of the state. map, arrays and kernels are the state's alone.
Result<PutAnchor> put_anchor(ObjectStore& store, const std::string& key, const ChainState& state,
                             std::uint64_t version);

// Runs the encoder to its end, whose bytes go to an object under a key that no other writer uses.
// Its stats() then say the rest. times: written; may be nullptr.
Result<StoredObject> put_update(ObjectStore& store, const std::string& key, const ChainState& state,
                                codec::UpdateEncoder& encoder, CodingTimes* times = nullptr);

}  // namespace sparcl::store
