#include "src/store/pruned_marks.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>

#include "src/store/version_chain.hpp"

namespace sparcl::store {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxPrunedBytes = 64 << 10;
constexpr std::uint64_t kMaxMarkSeconds = std::uint64_t{1} << 40;  // sums with it do not overflow

// Records are removed from the first one on, so that no gap is left behind those that stay.
Result<std::uint64_t> first_without_gap(ObjectStore& store) {
  std::uint64_t first = 1, last = 0;
  SPARCL_RETURN_IF_ERROR(store.list(kCommits, [&](const ObjectInfo& each) {
    const std::uint64_t number = number_in(each.key);
    if (each.key != commit_key(number)) return true;
    if (number != last + 1) first = number;
    last = number;
    return true;
  }));
  return first;
}

}  // namespace

Result<PrunedMarks> read_pruned(ObjectStore& store) {
  PrunedMarks pruned;
  SPARCL_ASSIGN_OR_RETURN(const auto content, store.read_all(kPruned, kMaxPrunedBytes));
  if (!content) return pruned;
  const auto* const text = reinterpret_cast<const char*>(content->data());
  const Json json = Json::parse(text, text + content->size(), nullptr, false);
  bool is_right = json.is_array();
  for (std::size_t i = 0; is_right && i < json.size(); ++i) {
    const Json& each = json[i];
    is_right = each.is_array() && each.size() == 2 && each[0].is_number_unsigned() &&
               each[1].is_number_unsigned() && each[0].get<std::uint64_t>() > pruned.below() &&
               each[1].get<std::uint64_t>() < kMaxMarkSeconds;
    if (is_right)
      pruned.marks.push_back({each[0].get<std::uint64_t>(), each[1].get<std::int64_t>()});
  }
  if (is_right) return pruned;
  return Status(Code::kCorrupt,
                store.location_of(kPruned) + ": it is no list of numbers and times");
}

Status write_pruned(ObjectStore& store, const PrunedMarks& pruned) {
  Json json = Json::array();
  for (const PrunedMarks::Mark& each : pruned.marks) json.push_back({each.below, each.since_s});
  const std::string text = json.dump() + "\n";
  const std::array pieces{std::as_bytes(std::span(text))};
  return store.replace(kPruned, pieces);
}

Result<std::uint64_t> oldest_record(ObjectStore& store) {
  const Result<PrunedMarks> pruned = read_pruned(store);
  if (pruned.ok()) return std::max<std::uint64_t>(pruned->below(), 1);
  if (pruned.status().code() != Code::kCorrupt) return pruned.status();
  return first_without_gap(store);
}

}  // namespace sparcl::store
