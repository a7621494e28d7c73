#include "src/store/pruned_marks.hpp"

#include <array>
#include <nlohmann/json.hpp>
#include <string>

namespace sparcl::store {
namespace {

using Json = nlohmann::json;

constexpr const char* kPruned = "pruned";
constexpr std::size_t kMaxPrunedBytes = 64 << 10;

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
               each[1].is_number_unsigned() && each[0].get<std::uint64_t>() > pruned.below();
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

}  // namespace sparcl::store
