#include "collectives/dense/dense.hpp"

#include <array>

namespace sparcl::collectives::dense {
namespace {

constexpr std::array kDenseTable{
    DenseRow{"direct", direct_seconds, reduce_direct},
    DenseRow{"owner", owner_seconds, reduce_by_owner},
};

std::vector<std::string_view> names() { return comm::row_names(kDenseTable); }

}  // namespace

const comm::AlgorithmChoice kDenseAlgorithms{
    "ALGO_ALLREDUCE",
    "Algorithm that sums the values of a masked all-reduce. auto: the algorithm with the smallest "
    "predicted time.",
    names};

std::span<const DenseRow> dense_table() { return kDenseTable; }

std::uint8_t forced_dense_row(std::string_view name) { return comm::forced_row(kDenseTable, name); }

std::string_view forced_dense_name(std::uint8_t row) { return comm::forced_name(kDenseTable, row); }

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
