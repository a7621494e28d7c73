// Sums over slots: one tree, whatever comes first and whoever merges.
#include "src/aggregate/sum/slot_tree.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <memory>
#include <numeric>

#include "src/aggregate/sum/round_sum.hpp"
#include "tests/aggregate/sparse_input.hpp"
#include "tests/support/temp_folder.hpp"

namespace sparcl::aggregate {
namespace {

using sparcl::test::TempFolder;
using test::Entries;
using Sum = std::map<std::uint64_t, float>;

// T over slots, an element at a time.
float tree_of(const std::map<std::uint32_t, float>& values, std::uint32_t first,
              std::uint32_t slots, bool& is_there) {
  const auto begin = values.lower_bound(first);
  is_there = begin != values.end() && begin->first < first + slots;
  if (!is_there) return 0;
  if (slots == 1) return begin->second;
  bool left = false, right = false;
  const float a = tree_of(values, first, slots / 2, left),
              b = tree_of(values, first + slots / 2, slots / 2, right);
  return left && right ? a + b : left ? a : b;
}

Sum reference(const std::map<std::uint32_t, Entries>& slots) {
  std::map<std::uint64_t, std::map<std::uint32_t, float>> by_element;
  for (const auto& [slot, entries] : slots) {
    for (std::size_t i = 0; i < entries.indices.size(); ++i)
      by_element[entries.indices[i]][slot] = entries.values[i];
  }
  Sum sum;
  for (const auto& [element, values] : by_element) {
    bool is_there = false;
    sum[element] = tree_of(values, 0, 256, is_there);
  }
  return sum;
}

bool same_bits(const Sum& a, const Sum& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.first == y.first &&
           std::bit_cast<std::uint32_t>(x.second) == std::bit_cast<std::uint32_t>(y.second);
  });
}

std::map<std::uint32_t, Entries> random_slots(SeededRandom& random, std::size_t workers,
                                              std::uint64_t max_slot) {
  std::map<std::uint32_t, Entries> slots;
  while (slots.size() < workers) {
    const auto slot = static_cast<std::uint32_t>(random.below(max_slot));
    if (!slots.contains(slot))
      slots[slot] = test::random_entries(random, random.below(60), 60 + random.below(500));
  }
  return slots;
}

std::vector<std::uint32_t> shuffled(SeededRandom& random,
                                    const std::map<std::uint32_t, Entries>& slots) {
  std::vector<std::uint32_t> order;
  for (const auto& [slot, entries] : slots) order.push_back(slot);
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  return order;
}

TEST(SlotTree, IsTheSameForAnyArrivalAndAnyGaps) {
  SeededRandom random(1);
  BufferPool buffers;
  for (const std::size_t workers : {1, 2, 3, 4, 5, 7, 8, 9, 16, 23, 64}) {
    for (const std::uint64_t spread : {1, 3}) {
      const auto slots = random_slots(random, workers, workers * spread);
      const Sum expected = reference(slots);
      for (int order = 0; order < 3; ++order) {
        WaitingParts waiting;
        SlotTree tree(buffers, kernels::cpu_kernels(), test::kRun, waiting);
        for (const std::uint32_t slot : shuffled(random, slots))
          ASSERT_TRUE(tree.add({slot, 0}, test::part_of(buffers, slots.at(slot))).ok());
        EXPECT_TRUE(same_bits(test::entries_of(tree.finish()), expected))
            << workers << " of " << workers * spread << " slots";
        EXPECT_EQ(waiting.held()->memory.load(), 0u);
      }
    }
  }
}

// The spans between the slots of others, in which a leaf has all there is.
std::vector<SlotSpan> spans_of(const std::map<std::uint32_t, std::size_t>& owners,
                               std::size_t leaf) {
  std::vector<SlotSpan> spans{{0, kAllSlots.end}};
  for (const auto& [slot, owner] : owners) {
    if (owner == leaf) continue;
    spans.back().end = slot;
    spans.push_back({slot + 1, kAllSlots.end});
  }
  return spans;
}

// A leaf aggregator adds up some of the slots, and sends on what it could merge.
TEST(SlotTree, IsTheSameForAnyTreeOfAggregators) {
  SeededRandom random(2);
  BufferPool buffers;
  for (int round = 0; round < 30; ++round) {
    const auto slots = random_slots(random, 2 + random.below(30), 40);
    const std::size_t leaves = 1 + random.below(5);
    WaitingParts waiting, below;
    SlotTree root(buffers, kernels::cpu_kernels(), test::kRun, waiting);
    std::vector<std::unique_ptr<SlotTree>> trees;
    for (std::size_t i = 0; i < leaves; ++i)
      trees.push_back(
          std::make_unique<SlotTree>(buffers, kernels::cpu_kernels(), test::kRun, below));
    const bool by_blocks = random.chance(0.5);
    std::map<std::uint32_t, std::size_t> owners;
    for (const std::uint32_t slot : shuffled(random, slots)) {
      owners[slot] = by_blocks ? slot / 8 % leaves : random.below(leaves);
      ASSERT_TRUE(trees[owners[slot]]->add({slot, 0}, test::part_of(buffers, slots.at(slot))).ok());
    }
    for (std::size_t leaf = 0; leaf < leaves; ++leaf) {
      std::size_t sums = 0;
      for (const SlotSpan& span : spans_of(owners, leaf)) {
        for (SlotTree::Node& node : trees[leaf]->take(span)) {
          ASSERT_TRUE(root.add(node.subtree, std::move(node.part)).ok());
          ++sums;
        }
      }
      if (leaves == 1) {
        EXPECT_EQ(sums, 1u) << "one leaf merges all";
      }
    }
    EXPECT_TRUE(same_bits(test::entries_of(root.finish()), reference(slots))) << round;
    EXPECT_EQ(below.held()->memory.load(), 0u);
  }
}

// Beyond twice the largest part they wait in files, and the sum is the same.
TEST(SlotTree, PartsWaitInFiles) {
  SeededRandom random(5);
  BufferPool buffers;
  const TempFolder folder;
  const auto slots = random_slots(random, 64, 64);
  for (const std::string& where : {folder.path().string(), folder / "absent"}) {
    WaitingParts waiting(where, 0);
    SlotTree tree(buffers, kernels::cpu_kernels(), test::kRun, waiting);
    std::uint64_t memory = 0, files = 0;
    for (const std::uint32_t slot : shuffled(random, slots)) {
      ASSERT_TRUE(tree.add({slot, 0}, test::part_of(buffers, slots.at(slot))).ok());
      memory = std::max(memory, waiting.held()->memory.load());
      files = std::max(files, waiting.held()->files.load());
    }
    const Buffer sum = tree.finish();
    EXPECT_TRUE(same_bits(test::entries_of(sum), reference(slots)));
    const bool is_there = where == folder.path();
    EXPECT_EQ(files > memory, is_there) << memory << " " << files;
    EXPECT_EQ(memory <= 2 * sum.size(), is_there) << memory << " " << sum.size();
    EXPECT_EQ(folder.count(), 0U) << "files without a name";
  }
}

TEST(SlotTree, RefusesASlotThatIsThere) {
  SeededRandom random(3);
  BufferPool buffers;
  WaitingParts waiting;
  SlotTree tree(buffers, kernels::cpu_kernels(), test::kRun, waiting);
  const Buffer part = test::part_of(buffers, test::random_entries(random, 5, 100));
  ASSERT_TRUE(tree.add({4, 2}, part).ok());
  for (const Subtree taken : {Subtree{4, 0}, Subtree{7, 0}, Subtree{6, 1}, Subtree{0, 3}})
    EXPECT_FALSE(tree.add(taken, part).ok()) << taken.first;
  EXPECT_FALSE(tree.add({1, 1}, part).ok()) << "no subtree";
  EXPECT_FALSE(tree.add({0, 32}, part).ok());
  EXPECT_FALSE(tree.add({8, 0}, part.slice(0, part.size() - 1)).ok()) << "no part";
  EXPECT_TRUE(tree.add({8, 0}, part).ok());
}

TEST(SlotTree, MergesWhatIsComplete) {
  SeededRandom random(4);
  BufferPool buffers;
  WaitingParts waiting;
  SlotTree tree(buffers, kernels::cpu_kernels(), test::kRun, waiting);
  const Entries entries = test::random_entries(random, 1000, 2000);
  const Buffer part = test::part_of(buffers, entries);
  for (std::uint32_t slot = 0; slot < 256; ++slot) {
    ASSERT_TRUE(tree.add({slot, 0}, part).ok());
    EXPECT_LE(waiting.held()->memory.load(), 22 * part.size()) << slot;
  }
  EXPECT_LE(waiting.held()->memory.load(), 4 * part.size());
}

TEST(RoundSum, AddsLateContributionsBehindThoseOnTime) {
  BufferPool buffers;
  const auto sum_of = [&](std::vector<std::pair<std::uint64_t, std::uint32_t>> order) {
    WaitingParts waiting;
    RoundSum sum(buffers, kernels::cpu_kernels(), test::kRun, waiting);
    for (const auto& [rounds_late, slot] : order) {
      const float value = rounds_late == 0 ? (slot == 0 ? 1e8F : -1e8F) : 1;
      EXPECT_TRUE(sum.add(rounds_late, {slot, 0}, test::part_of(buffers, {{7}, {value}})).ok());
    }
    return test::entries_of(sum.finish())[7];
  };
  EXPECT_EQ(sum_of({{0, 0}, {0, 1}, {1, 0}}), 1);
  EXPECT_EQ(sum_of({{1, 0}, {0, 0}, {0, 1}}), 1) << "1e8 + 1 would have lost it";
  EXPECT_EQ(sum_of({{2, 0}, {1, 0}}), 2);
  WaitingParts waiting;
  RoundSum empty(buffers, kernels::cpu_kernels(), test::kRun, waiting);
  EXPECT_TRUE(test::entries_of(empty.finish()).empty());
}

}  // namespace
}  // namespace sparcl::aggregate
