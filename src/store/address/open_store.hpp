#pragma once
// Stores by their address.

#include <memory>
#include <string_view>

#include "src/store/object_store.hpp"

namespace sparcl::store {

// The reason why it is no store's address, found without a request; ok: it may be one.
Status check_store_url(std::string_view url);

// url: "file:PATH" or "s3://BUCKET/PREFIX". missing: of a folder; buckets are not made.
// Unsupported: another scheme, or there is no libcurl.
Result<std::unique_ptr<ObjectStore>> open_store(std::string_view url, Missing missing);

}  // namespace sparcl::store
