#pragma once

#include "src/replication/replicated_state.hpp"
#include "src/store/chain_state.hpp"

namespace sparcl::api {

// The tensors that are published or kept, as src/store sees them.
inline store::ChainState chain_state(const replication::ReplicatedState& view) {
  return {view.map,     view.schema, view.schema_hash, view.arrays, view.source, view.kernels,
          view.workers, false,       std::nullopt,     nullptr};
}

}  // namespace sparcl::api
