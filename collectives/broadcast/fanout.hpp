#pragma once
// Fan-outs: how a stream spreads from a root. An algorithm is a file with two functions and a row
// in the table (fanout.cpp). Costs: P ranks, B bytes in fragments of f; each rank passes every
// fragment on as soon as it has it.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "collectives/collective.hpp"
#include "src/base/status.hpp"

namespace sparcl::collectives::broadcast {

struct Links {
  int parent = -1;  // -1: the root
  std::vector<int> children;
};

struct FanoutRow {
  const char* name;
  Links (*links)(int rank, int root, int size);
  double (*seconds)(const LinkCost& link, int size, std::uint64_t bytes,
                    std::uint64_t fragment_bytes);
};

std::span<const FanoutRow> fanout_table();
extern const comm::AlgorithmChoice kFanoutAlgorithms;
constexpr std::uint8_t kNcclFanout =
    254;  // instead of a row: NCCL's own algorithms (stream_nccl.hpp)
constexpr const char* kNcclFanoutName = "nccl";

struct FanoutPlan {
  const FanoutRow* row;
  std::uint32_t row_index;  // the same on every rank, or the call does not match
  std::uint32_t fragment_bytes;
  double seconds;  // predicted
};

constexpr std::uint32_t kMinFragmentBytes = 64 << 10;
constexpr std::uint32_t kMaxFragmentBytes = 256 << 10;

// The cheapest row and fragment size; forced_name ("auto": none) and forced_bytes (0: none) narrow
// the choice and are valid.
FanoutPlan plan_fanout(const LinkCost& link, int size, std::uint64_t bytes,
                       std::string_view forced_name, std::uint32_t forced_bytes);

// The rows, each in the file of its name.
Links chain_links(int rank, int root, int size);
double chain_seconds(const LinkCost& link, int size, std::uint64_t bytes,
                     std::uint64_t fragment_bytes);
Links binary_tree_links(int rank, int root, int size);
double binary_tree_seconds(const LinkCost& link, int size, std::uint64_t bytes,
                           std::uint64_t fragment_bytes);
Links binomial_tree_links(int rank, int root, int size);
double binomial_tree_seconds(const LinkCost& link, int size, std::uint64_t bytes,
                             std::uint64_t fragment_bytes);

}  // namespace sparcl::collectives::broadcast
