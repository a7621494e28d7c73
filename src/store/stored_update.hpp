#pragma once
// Where an update leads from and to, by its own bytes.

#include <cstdint>
#include <optional>

#include "src/base/checksum.hpp"
#include "src/store/stored_object.hpp"

namespace sparcl::store {

struct UpdateEnds {
  std::uint64_t base_version = 0, target_version = 0;
  std::optional<Hash128> base_hash = {}, target_hash = {};  // nullopt: it does not say
};

// Reads all bytes of an update once, as check_object(). Corrupt also if it is no update.
Result<UpdateEnds> check_update(ObjectStore& store, const StoredObject& object);

}  // namespace sparcl::store
