#include "src/aggregate/sum/slot_tree.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "src/base/log.hpp"

namespace sparcl::aggregate {
namespace {

constexpr std::uint32_t kLog2FanIn = 3;  // heuristic: bench_aggregate
constexpr std::size_t kFanIn = std::size_t{1} << kLog2FanIn;
constexpr std::size_t kValueBytes = sizeof(float);

Status bad(std::string text) { return Status(Code::kInvalidArgument, std::move(text)); }

}  // namespace

SlotTree::SlotTree(BufferSource& buffers, const kernels::KernelSet& kernels,
                   const sparse::BlockRun& run, WaitingParts& waiting)
    : buffers_(buffers),
      kernels_(kernels),
      run_(run),
      sum_(buffers, kernels, {DataType::kFloat32, {}, Determinism::kCanonical}, kFanIn,
           sparse::PartValues::kElements, sparse::PartValues::kElements, 1),
      waiting_(waiting) {}

Status SlotTree::add(const Subtree& subtree, Buffer part) {
  SPARCL_RETURN_IF_ERROR(check(subtree, part.bytes()));
  insert(subtree, std::move(part));
  for (std::uint32_t log2 = kLog2FanIn; log2 <= kLog2MaxSlots; log2 += kLog2FanIn) {
    if (log2 <= subtree.log2_slots) continue;
    const Subtree above{subtree.first >> log2 << log2, log2};
    if (!is_complete(above)) break;
    Buffer merged = fold(above);
    insert(above, std::move(merged));
  }
  return {};
}

Status SlotTree::check(const Subtree& subtree, std::span<const std::byte> part) const {
  if (subtree.log2_slots > kLog2MaxSlots || subtree.first % subtree.slots() != 0)
    return bad(fmt::format("slots from {} on, 2^{} of them, are no subtree", subtree.first,
                           subtree.log2_slots));
  auto after = nodes_.lower_bound(subtree.first);
  const bool meets_next = after != nodes_.end() && after->first < subtree.end();
  const bool meets_last =
      after != nodes_.begin() && std::prev(after)->second.subtree.end() > subtree.first;
  if (meets_next || meets_last)
    return bad(
        fmt::format("slots {} to {} have contributed already", subtree.first, subtree.end() - 1));
  if (!sparse::PartView::read(kernels_, part, run_, kValueBytes))
    return bad("the entries are no part of this shard");
  return {};
}

bool SlotTree::is_complete(const Subtree& subtree) const {
  std::uint64_t slots = 0;
  for (auto node = nodes_.lower_bound(subtree.first);
       node != nodes_.end() && node->first < subtree.end(); ++node)
    slots += node->second.subtree.slots();
  return slots == subtree.slots();
}

// The sum of the nodes in the subtree, which are removed.
Buffer SlotTree::fold(const Subtree& subtree) {
  auto first = nodes_.lower_bound(subtree.first);
  if (first == nodes_.end() || first->first >= subtree.end()) return {};
  const auto second = std::next(first);
  if (second == nodes_.end() || second->first >= subtree.end()) return remove(first);

  const std::uint32_t log2_children = std::min(kLog2FanIn, subtree.log2_slots);
  std::array<Buffer, kFanIn> children;
  std::size_t present = 0, last = 0;
  for (std::uint32_t i = 0; i < 1U << log2_children; ++i) {
    const std::uint32_t log2 = subtree.log2_slots - log2_children;
    children[i] = fold({subtree.first + (i << log2), log2});
    if (children[i].size() == 0) continue;
    ++present;
    last = i;
  }
  if (present == 1) return std::move(children[last]);
  const Buffer none = no_entries();
  std::array<std::span<const std::byte>, kFanIn> parts;
  for (std::size_t i = 0; i < kFanIn; ++i)
    parts[i] = children[i].size() > 0 ? children[i].bytes() : none.bytes();
  std::optional<Buffer> sum = sum_.sum(parts, run_);
  if (sum) return std::move(*sum);
  log_error("aggregate: sums of slots {} to {} are lost: a fault of sparcl, please report it",
            subtree.first, subtree.end() - 1);
  return no_entries();
}

std::vector<SlotTree::Node> SlotTree::take(const SlotSpan& span) {
  std::vector<Node> taken;
  visit_largest(
      span, {0, kLog2MaxSlots}, [this](const Subtree& subtree) { return has_parts(subtree); },
      [&](const Subtree& subtree) {
        taken.push_back({subtree, fold(subtree)});
      });
  return taken;
}

bool SlotTree::has_parts(const Subtree& subtree) const {
  const auto next = nodes_.lower_bound(subtree.first);
  return next != nodes_.end() && next->first < subtree.end();
}

Buffer SlotTree::finish() {
  if (nodes_.empty()) return no_entries();
  std::uint32_t log2 = 0;
  while ((std::uint64_t{1} << log2) < std::prev(nodes_.end())->second.subtree.end()) ++log2;
  return fold({0, log2});
}

void SlotTree::insert(const Subtree& subtree, Buffer part) {
  nodes_.emplace(subtree.first, Node{subtree, waiting_.put(std::move(part))});
}

Buffer SlotTree::remove(Nodes::iterator node) {
  Buffer part = std::move(node->second.part);
  nodes_.erase(node);
  return part;
}

Buffer SlotTree::no_entries() {
  return sparse::write_part(buffers_, kernels_, run_, {}, nullptr, kValueBytes);
}

}  // namespace sparcl::aggregate
