#include "src/aggregate/sum/round_sum.hpp"

#include <array>
#include <utility>

namespace sparcl::aggregate {

Status RoundSum::add(std::uint64_t rounds_late, const Subtree& subtree, Buffer part) {
  std::unique_ptr<SlotTree>& tree = trees_[rounds_late];
  if (tree == nullptr) tree = std::make_unique<SlotTree>(buffers_, kernels_, run_, waiting_);
  return tree->add(subtree, std::move(part));
}

Buffer RoundSum::finish() {
  sparse::PartSum sum(buffers_, kernels_, {DataType::kFloat32, {}, Determinism::kCanonical}, 2,
                      sparse::PartValues::kElements, sparse::PartValues::kElements, 1);
  Buffer total;
  for (auto& [rounds_late, tree] : trees_) {
    const Buffer own = tree->finish();
    const std::array<std::span<const std::byte>, 2> both{total.bytes(), own.bytes()};
    total = total.size() == 0 ? own : *sum.sum(both, run_);
  }
  trees_.clear();
  if (total.size() > 0) return total;
  return sparse::write_part(buffers_, kernels_, run_, {}, nullptr, sizeof(float));
}

std::vector<SlotTree::Node> RoundSum::take(std::uint64_t rounds_late, const SlotSpan& span) {
  const auto tree = trees_.find(rounds_late);
  if (tree == trees_.end()) return {};
  return tree->second->take(span);
}

}  // namespace sparcl::aggregate
