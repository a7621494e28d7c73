#pragma once
// Stores by their address.

#include <memory>
#include <string_view>

#include "src/store/object_store.hpp"

namespace sparcl::store {

enum class Missing : std::uint8_t { kIsMade, kIsAnError };

// url: "file:PATH". Unsupported: another scheme.
Result<std::unique_ptr<ObjectStore>> open_store(std::string_view url, Missing missing);

}  // namespace sparcl::store
