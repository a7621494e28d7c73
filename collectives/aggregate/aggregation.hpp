#pragma once
// Aggregation over a communicator: the synchronous round of a parameter server, whose workers are
// the ranks (sparclAggregate). The elements are cut into ranges, each of which one rank aggregates.
// Symbols in the costs: P ranks, S shards, k entries of a rank, R of a result, w bytes of an entry.

#include <cstdint>
#include <span>
#include <vector>

#include "collectives/collective.hpp"
#include "src/aggregate/outer/aggregator.hpp"

namespace sparcl::collectives::aggregate {

extern const CollectiveDescriptor kAggregate;
extern const comm::AlgorithmChoice kAggregateAlgorithms;

struct AggregateCall {
  Status refusal;  // of the caller's arguments on this rank
  std::span<const std::uint64_t> indices;
  const std::byte* values = nullptr;
  std::uint64_t count = 0;  // elements of the array
  double weight = 1;        // of this rank's contribution
  DataType datatype = DataType::kFloat32;
  sparcl::aggregate::Aggregator* aggregator = nullptr;
  std::vector<int> ranks = {};  // that aggregate, ascending; none: all
  std::byte* out_values = nullptr;
  std::uint64_t* out_indices = nullptr;
  std::uint64_t out_capacity = 0;
  std::uint64_t out_nnz = 0;  // written
};

Task aggregate(const CommContext& comm, std::uint32_t number, AggregateCall& call,
               CallReport& report);

// Lanes of a call's channel; 0 is the agreement's. Those of parts have a second one.
constexpr std::uint8_t kFactsLane = 1;
constexpr std::uint8_t kUpLane = 2;
constexpr std::uint8_t kDownLane = 4;
constexpr std::uint8_t kGroupLane = 6;    // from leaders of groups to those above
constexpr std::uint8_t kForwardLane = 8;  // from leaders to their groups

// The part of the shards' proposals that all keep together: `keep` entries with the largest
// magnitudes, on a tie the first ones. Collective: four gathers of 2 KiB a rank. keys: this rank's
// proposal; lower ranks have lower elements. Source: radix selection, by counts of digits.
struct Threshold {
  std::uint32_t least = 0;          // key
  std::uint64_t ties = UINT64_MAX;  // of this rank's entries with this key
};
Task find_threshold(const CommContext& comm, std::uint32_t number,
                    std::span<const std::uint32_t> keys, std::uint64_t keep, Threshold& threshold);

}  // namespace sparcl::collectives::aggregate
