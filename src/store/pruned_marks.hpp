#pragma once
// The object `pruned`, which says what is being removed from a chain (retention.hpp).

#include <cstdint>
#include <vector>

#include "src/store/object_store.hpp"

namespace sparcl::store {

struct PrunedMarks {
  struct Mark {  // records below this number are removed, and since when this stands there
    std::uint64_t below = 0;
    std::int64_t since_s = 0;
  };
  std::vector<Mark> marks;  // ascending

  std::uint64_t below() const { return marks.empty() ? 0 : marks.back().below; }
};

inline constexpr const char* kPruned = "pruned";

// Empty: there is none. Corrupt: it is damaged.
Result<PrunedMarks> read_pruned(ObjectStore& store);
Status write_pruned(ObjectStore& store, const PrunedMarks& pruned);

// The first record that is not being removed. If `pruned` is damaged: the first one after which the
// list of records has no gap.
Result<std::uint64_t> oldest_record(ObjectStore& store);

}  // namespace sparcl::store
