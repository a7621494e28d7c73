#pragma once
// Stores by their address.

#include <memory>
#include <string_view>

#include "src/store/object_store.hpp"

namespace sparcl::store {

// url: "file:PATH" or "s3://BUCKET/PREFIX". missing: of a folder; buckets are not made.
// Unsupported: another scheme, or there is no libcurl.
Result<std::unique_ptr<ObjectStore>> open_store(std::string_view url, Missing missing);

}  // namespace sparcl::store
