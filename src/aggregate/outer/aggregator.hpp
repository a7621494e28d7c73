#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "src/aggregate/outer/shard.hpp"
#include "src/aggregate/sum/facts.hpp"

namespace sparcl::aggregate {

struct AggregatorOptions {
  MeanKind mean = MeanKind::kByWeight;
  OuterOptions outer;
  ScreenOptions screen{NonFinite::kFail, {}};
  std::uint64_t keep = 0;  // elements of a result at most; 0: all
  sparse::Wire wire = sparse::Wire::kSameType;

  // Results may have elements that the round's contributions do not have.
  bool has_state() const {
    return keep > 0 || wire != sparse::Wire::kSameType || outer_moments(outer) > 0;
  }
};

Status check_aggregator_options(const AggregatorOptions& options);

struct AggregatorStats {
  std::uint64_t rounds = 0;      // committed, since it was made
  std::uint64_t listed = 0;      // contributions of the last round that counted
  std::uint64_t refused = 0;     // contributions of the last round that did not
  bool own_was_refused = false;  // this rank's: it keeps the values, for a later round
  bool own_was_clipped = false;
  double total_weight = 0;  // of the last round
};

// A rank's state between the rounds: its shard of the aggregator, if it has one.
class Aggregator {
 public:
  static Result<Aggregator> create(std::uint64_t count, const AggregatorOptions& options);

  std::uint64_t count() const { return count_; }
  const AggregatorOptions& options() const { return options_; }
  AggregatorStats& stats() { return stats_; }
  const AggregatorStats& stats() const { return stats_; }

  // The range of this rank in a communicator. InvalidArgument if it has had another one: its state
  // is that of other elements. Later calls with the same range do nothing.
  Status take_range(std::uint64_t first, std::uint64_t count, const kernels::KernelSet& kernels);
  bool has_range() const { return has_range_; }
  Shard* shard() { return shard_ ? &*shard_ : nullptr; }  // nullptr: this rank has no elements

  // A hash of all that must be equal on all ranks.
  std::uint64_t fingerprint() const;

 private:
  Aggregator(std::uint64_t count, const AggregatorOptions& options)
      : count_(count), options_(options) {}

  std::uint64_t count_;
  AggregatorOptions options_;
  AggregatorStats stats_;
  bool has_range_ = false;
  std::uint64_t first_ = 0, own_ = 0;
  std::optional<Shard> shard_;
};

// Whole blocks of 65536 elements for each of `shards`, as equal as can be.
struct ShardRange {
  std::uint64_t first = 0, count = 0;
};
ShardRange shard_range(std::uint64_t count, std::uint64_t shards, std::uint64_t shard);
std::uint64_t shards_of(std::uint64_t count, std::uint64_t most);

}  // namespace sparcl::aggregate
