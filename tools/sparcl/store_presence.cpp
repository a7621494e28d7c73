#include "tools/sparcl/store_presence.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "src/base/shown_text.hpp"

namespace sparcl::tool {
namespace {

constexpr std::array<std::string_view, 11> kOwnNames{
    "anchors", "clock",  "commits", "deltas",    "descriptions", "leases",
    "newest",  "pruned", "schemas", "shortcuts", "skips"};

bool is_own_name(std::string_view segment) {
  return std::ranges::find(kOwnNames, segment) != kOwnNames.end();
}

// "policy/v2" for policy/v2/commits/1; "": the key is not of a store below.
std::string store_above(std::string_view key) {
  for (std::size_t slash = key.find('/'); slash != key.npos;) {
    const std::size_t end = std::min(key.find('/', slash + 1), key.size());
    if (end < key.size() && is_own_name(key.substr(slash + 1, end - slash - 1)))
      return std::string(key.substr(0, slash));
    slash = end < key.size() ? end : key.npos;
  }
  return "";
}

Status no_store(const std::string& url, const std::string& key) {
  const std::string below = store_above(key);
  const std::string where = url.ends_with('/') ? url + below : url + "/" + below;
  return Status(
      Code::kInvalidArgument,
      below.empty()
          ? fmt::format("{}: it is no store: {} lies there, and no version: is the address right? "
                        "(Folders of other programs are read by sparcl convert)",
                        shown(url), shown(key))
          : fmt::format("{}: it is no store, but a store lies below it: give {}", shown(url),
                        shown(where)));
}

}  // namespace

Result<bool> has_versions(store::Chain& chain, const std::string& url) {
  SPARCL_ASSIGN_OR_RETURN(const std::optional<store::VersionRecord> newest, chain.newest());
  if (newest) return true;
  SPARCL_ASSIGN_OR_RETURN(const std::uint64_t noted, chain.noted());
  if (noted > 0)
    return Status(
        Code::kCorrupt,
        fmt::format("{}: it names record {}, and the store has no record ({}/...): they were "
                    "removed, or not copied. Bring them back, or copy the store anew by sparcl "
                    "store copy",
                    chain.store().location_of(store::kNewest), noted, store::kCommits));
  std::string first;
  // What cannot be searched is no store's damage.
  (void)chain.store().list("", [&](const store::ObjectInfo& each) {
    first = each.key;
    return false;
  });
  if (first.empty() || is_own_name(std::string_view(first).substr(0, first.find('/'))))
    return false;
  return no_store(url, first);
}

Status check_has_versions(store::Chain& chain, const std::string& url, const char* done) {
  SPARCL_ASSIGN_OR_RETURN(const bool has_some, has_versions(chain, url));
  if (has_some) return {};
  return Status(Code::kInvalidArgument,
                fmt::format("{}: the store is empty, so nothing was {}: is its address right?",
                            shown(url), done));
}

}  // namespace sparcl::tool
