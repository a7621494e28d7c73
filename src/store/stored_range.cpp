#include "src/store/stored_range.hpp"

#include <algorithm>

namespace sparcl::store {

Result<StoredRange> range_of(const Chain& chain) {
  StoredRange range;
  SPARCL_ASSIGN_OR_RETURN(range.first, chain.oldest());
  SPARCL_RETURN_IF_ERROR(chain.store().list(kCommits, [&](const ObjectInfo& each) {
    const std::uint64_t number = number_in(each.key);
    if (number == 0 || number == UINT64_MAX || each.key != commit_key(number)) return true;
    range.listed.push_back(number);
    range.last = number;
    return true;
  }));
  return range;
}

Result<StoredRange> range_under_lease(const Chain& chain, std::int64_t lease_s,
                                      std::unique_ptr<HeldLease>& lease) {
  SPARCL_ASSIGN_OR_RETURN(StoredRange range, range_of(chain));
  if (range.last == 0) return range;
  SPARCL_ASSIGN_OR_RETURN(lease, HeldLease::hold(chain.store(), lease_s));
  if (lease->first() > range.last) return range_of(chain);  // of a list that is old by now
  range.first = lease->first();
  return range;
}

std::uint64_t after_long_gap(const StoredRange& range, std::uint64_t number) {
  constexpr std::uint64_t kMaxNamed = 32;
  const auto next = std::ranges::lower_bound(range.listed, number);
  return next == range.listed.end() || *next - number <= kMaxNamed ? number : *next;
}

std::uint64_t origin_in(std::string_view key) {
  const std::size_t slash = key.rfind('/') + 1;  // 0: it has none
  const std::size_t dash = key.find('-', slash);
  return dash == std::string_view::npos ? 0 : number_in(key.substr(dash + 1));
}

Result<Origins> shortcuts_of(const Chain& chain) {
  Origins origins;
  SPARCL_RETURN_IF_ERROR(chain.store().list(kShortcuts, [&](const ObjectInfo& each) {
    const std::uint64_t number = number_in(each.key), from = origin_in(each.key);
    if (each.key == shortcut_key(number, from)) origins[number].insert(from);
    return true;
  }));
  return origins;
}

}  // namespace sparcl::store
