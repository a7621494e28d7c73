#pragma once
// The tensors of a version, as its record names them.

#include <vector>

#include "src/model/schema.hpp"
#include "src/store/version_chain.hpp"

namespace sparcl::store {

struct StoredSchema {
  std::vector<std::byte> bytes;  // model::serialise()
  model::Schema tensors;
};

// Corrupt: it is missing, or is not what the record says.
Result<StoredSchema> read_schema(const Chain& chain, const StoredObject& schema);

}  // namespace sparcl::store
