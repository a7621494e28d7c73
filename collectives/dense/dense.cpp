#include "collectives/dense/dense.hpp"

#include <array>

namespace sparcl::collectives::dense {
namespace {

constexpr std::array kDenseTable{
    DenseRow{"direct", direct_seconds, reduce_direct},
    DenseRow{"owner", owner_seconds, reduce_by_owner},
};

std::vector<std::string_view> names() {
  std::vector<std::string_view> all;
  for (const DenseRow& row : kDenseTable) all.emplace_back(row.name);
  return all;
}

}  // namespace

const comm::AlgorithmChoice kDenseAlgorithms{"ALGO_ALLREDUCE",
                                             "how ranks sum the values of a masked all-reduce; "
                                             "auto takes the way with the least predicted time",
                                             names};

std::span<const DenseRow> dense_table() { return kDenseTable; }

std::uint8_t forced_dense_row(std::string_view name) {
  for (std::size_t i = 0; i < kDenseTable.size(); ++i) {
    if (name == kDenseTable[i].name) return static_cast<std::uint8_t>(i + 1);
  }
  return 0;
}

std::string_view forced_dense_name(std::uint8_t row) {
  if (row == 0) return "auto";
  return row <= kDenseTable.size() ? kDenseTable[row - 1U].name : "unknown";
}

DensePlan plan_dense(const LinkCost& link, int size, std::uint64_t bytes,
                     std::string_view forced_name) {
  DensePlan best{nullptr, 0};
  for (const DenseRow& row : kDenseTable) {
    if (forced_name != "auto" && forced_name != row.name) continue;
    const double seconds = row.seconds(link, size, bytes);
    if (best.row == nullptr || seconds < best.seconds) best = {&row, seconds};
  }
  return best;
}

}  // namespace sparcl::collectives::dense
