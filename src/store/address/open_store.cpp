#include "src/store/address/open_store.hpp"

#include <fmt/format.h>

#include "src/base/settings.hpp"
#include "src/store/directory_store.hpp"
#include "src/store/object_cache.hpp"
#include "src/store/s3/s3_settings.hpp"
#include "src/store/s3/s3_store.hpp"

namespace sparcl::store {

namespace {

Result<std::unique_ptr<ObjectStore>> open_at(std::string_view url, Missing missing) {
  constexpr std::string_view kFile = "file:";
  if (url.starts_with(kFile))
    return DirectoryStore::open(std::string(url.substr(kFile.size())), missing);
  if (url.starts_with("s3://")) return S3Store::open(std::string(url));
  return Status(Code::kUnsupported,
                fmt::format("'{}' is no address of a store: expected file:PATH, a folder that all "
                            "hosts share, or s3://BUCKET/PREFIX",
                            url));
}

Result<StoreLink> link_of_settings() {
  SPARCL_ASSIGN_OR_RETURN(const std::string link, setting_choice("STORE_LINK"));
  if (link == "fast") return StoreLink::kFast;
  return link == "metered" ? StoreLink::kMetered : StoreLink::kMeasured;
}

}  // namespace

Status check_store_url(std::string_view url) {
  if (url.starts_with("s3://")) return check_s3_address(url);
  if (url.starts_with("file:") && url != "file:") return {};
  return Status(Code::kInvalidArgument,
                fmt::format("'{}' is no address of a store: expected file:PATH, a folder that all "
                            "hosts share, or s3://BUCKET/PREFIX",
                            url));
}

Result<std::unique_ptr<ObjectStore>> open_store(std::string_view url, Missing missing) {
  SPARCL_ASSIGN_OR_RETURN(std::unique_ptr<ObjectStore> opened, open_at(url, missing));
  SPARCL_ASSIGN_OR_RETURN(auto cache, ObjectCache::of_settings());
  opened->set_cache(std::move(cache));
  SPARCL_ASSIGN_OR_RETURN(const StoreLink link, link_of_settings());
  opened->set_link(link);
  return opened;
}

}  // namespace sparcl::store
