#pragma once
// Which records and shortcuts a chain has, for calls that go through all of it.

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "src/store/held_lease.hpp"
#include "src/store/version_chain.hpp"

namespace sparcl::store {

// The first record that is not being removed, the last one that is there, and all that are there,
// in ascending order.
struct StoredRange {
  std::uint64_t first = 1, last = 0;
  std::vector<std::uint64_t> listed = {};
};
Result<StoredRange> range_of(const Chain& chain);

// The same, of records that pruning leaves alone while the lease is held. No record, no lease.
Result<StoredRange> range_under_lease(const Chain& chain, std::int64_t lease_s,
                                      std::unique_ptr<HeldLease>& lease);

// The next record from `number` on to look at. Hostile numbers may be far from each other: then not
// each one that is missing is looked at.
std::uint64_t after_long_gap(const StoredRange& range, std::uint64_t number);

using Origins = std::map<std::uint64_t, std::set<std::uint64_t>>;  // of shortcuts, by number
Result<Origins> shortcuts_of(const Chain& chain);
// The record that a key N-FROM... begins at.
std::uint64_t origin_in(std::string_view key);

}  // namespace sparcl::store
