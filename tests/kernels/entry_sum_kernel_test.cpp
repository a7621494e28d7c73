#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "kernels/entry_sum.hpp"
#include "src/base/float_environment.hpp"
#include "tests/kernels/every_body.hpp"

namespace sparcl::kernels {
namespace {

class SparseSumKernelsTest : public EveryBody {};

constexpr std::array kSummedTypes{DataType::kInt8,       DataType::kUint8,   DataType::kInt16,
                                  DataType::kUint16,     DataType::kInt32,   DataType::kUint32,
                                  DataType::kInt64,      DataType::kUint64,  DataType::kFloat16,
                                  DataType::kBfloat16,   DataType::kFloat32, DataType::kFloat8e4m3,
                                  DataType::kFloat8e5m2, DataType::kFloat64, DataType::kBool};
constexpr std::array kOps{ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMax, ReduceOp::kMin};

// Entries with accumulators as a rank's values are widened to; unaligned by one byte.
struct Entries {
  std::vector<std::uint16_t> positions;
  std::vector<std::byte> accumulators;  // from the second byte on

  EntryList list() const { return {positions.data(), accumulators.data() + 1, positions.size()}; }
};

Entries random_entries(DataType type, std::size_t span, unsigned percent, std::mt19937_64& random) {
  const ReduceKernels& reduce = reference_kernels().reduce_of(type);
  Entries entries{random_positions(span, percent, random), {}};
  std::vector<std::byte> values =
      random_bytes(entries.positions.size() * element_bytes(type), random);
  for (std::size_t i = 0; i + 1 < values.size() && info(type).is_float;
       i += 3 * element_bytes(type)) {
    std::fill_n(values.begin() + static_cast<std::ptrdiff_t>(i), element_bytes(type),
                std::byte{0});  // zeros, and -0
    values[i + element_bytes(type) - 1] = random() % 2 == 0 ? std::byte{0x80} : std::byte{0};
  }
  entries.accumulators.resize(1 + entries.positions.size() * reduce.accumulator_bytes);
  std::vector<std::byte> aligned(entries.accumulators.size() + kAccumulatorAlignment);
  reduce.widen(values.data(), entries.positions.size(), aligned.data());
  std::copy_n(aligned.begin(), entries.accumulators.size() - 1, entries.accumulators.begin() + 1);
  return entries;
}

// Entries as a body wrote them, and their values, as a NaN may have any bits until it is narrowed.
struct Sum {
  Sum(std::size_t room, DataType of)
      : type(of),
        positions(room + kEntrySlack),
        accumulators((room + kEntrySlack) * reference_kernels().reduce_of(of).accumulator_bytes) {}
  std::vector<std::byte> values() const {
    std::vector<std::byte> narrowed(size * element_bytes(type));
    reference_kernels().reduce_of(type).narrow(accumulators.data(), size, narrowed.data());
    return narrowed;
  }
  friend void expect_equal(const Sum& a, const Sum& b) {
    ASSERT_EQ(a.size, b.size);
    EXPECT_TRUE(std::equal(a.positions.begin(),
                           a.positions.begin() + static_cast<std::ptrdiff_t>(a.size),
                           b.positions.begin()));
    EXPECT_TRUE(a.values() == b.values());
  }

  DataType type;
  std::vector<std::uint16_t> positions;
  std::vector<std::byte> accumulators;
  std::size_t size = 0;
};

Sum merged(const KernelSet& set, DataType type, ReduceOp op, const Entries& a, const Entries& b) {
  Sum sum(a.positions.size() + b.positions.size(), type);
  sum.size = set.sparse_sum_of(type, op).merge(a.list(), b.list(), sum.positions.data(),
                                               sum.accumulators.data());
  return sum;
}

EntryList rest_of(const EntryList& list, std::size_t done, std::size_t width) {
  return {list.positions + done, list.accumulators + done * width, list.count - done};
}

// Sums all lists in windows, the first two in one and the others in another that is folded into it.
Sum summed(const KernelSet& set, DataType type, ReduceOp op, const std::vector<Entries>& lists,
           std::size_t span) {
  const SparseSumKernels& kernels = set.sparse_sum_of(type, op);
  const std::size_t width = set.reduce_of(type).accumulator_bytes, elements = kWindowBytes / width;
  const auto window = std::make_unique<Window>(), other = std::make_unique<Window>();
  kernels.clear(*window);
  kernels.clear(*other);
  Sum sum(span + elements, type);
  std::vector<std::size_t> done(lists.size());
  for (std::size_t first = 0; first < span; first += elements) {
    for (std::size_t i = 0; i < lists.size(); ++i) {
      const EntryList rest = rest_of(lists[i].list(), done[i], width);
      done[i] +=
          kernels.add(rest, static_cast<std::uint32_t>(first), elements, i < 2 ? *window : *other);
    }
    kernels.fold(*window, *other, elements);
    sum.size +=
        kernels.take(*window, static_cast<std::uint32_t>(first), elements,
                     sum.positions.data() + sum.size, sum.accumulators.data() + sum.size * width);
  }
  for (std::size_t i = 0; i < lists.size(); ++i) EXPECT_EQ(done[i], lists[i].positions.size());
  return sum;
}

TEST_P(SparseSumKernelsTest, IndicesBecomePositionsAndBack) {
  std::mt19937_64 random(1);
  for (const std::size_t count : interesting_counts()) {
    std::vector<std::uint64_t> indices(count), back(count + 1, 7);
    for (std::uint64_t& index : indices) index = 0x123'4567'0000 + random() % 65536;
    std::vector<std::uint16_t> positions(count + 1, 7);
    body().entries.lower_indices(indices.data(), count, positions.data());
    EXPECT_EQ(positions.back(), 7);
    for (const Output output : {Output::kCached, Output::kStreamed}) {
      std::fill(back.begin(), back.end(), 7);
      body().entries.raise_positions(positions.data(), count, 0x123'4567'0000, output, back.data());
      EXPECT_EQ(back.back(), 7U);
      EXPECT_TRUE(std::equal(indices.begin(), indices.end(), back.begin()));
    }
  }
}

TEST_P(SparseSumKernelsTest, CopiesFromAndToAnywhere) {
  std::mt19937_64 random(6);
  for (const std::size_t count : interesting_counts()) {
    const std::vector<std::byte> from = random_bytes(count + 3, random);
    for (const std::size_t shift : {0U, 1U, 4U, 63U}) {
      for (const Output output : {Output::kCached, Output::kStreamed}) {
        std::vector<std::byte> to(count + shift + 1, std::byte{0x5a});
        body().entries.copy_bytes(from.data() + 3, count, output, to.data() + shift);
        EXPECT_TRUE(std::equal(from.begin() + 3, from.end(),
                               to.begin() + static_cast<std::ptrdiff_t>(shift)));
        EXPECT_EQ(to.back(), std::byte{0x5a});
        EXPECT_EQ(std::count(to.begin(), to.begin() + static_cast<std::ptrdiff_t>(shift),
                             std::byte{0x5a}),
                  shift);
      }
    }
  }
}

TEST_P(SparseSumKernelsTest, MergesAsTheReference) {
  const FloatEnvironment ieee;
  std::mt19937_64 random(2);
  for (const DataType type : kSummedTypes) {
    for (const ReduceOp op : kOps) {
      for (const auto& [a, b] :
           {std::pair{0U, 0U}, {0U, 30U}, {30U, 0U}, {100U, 100U}, {1U, 1U}, {20U, 60U}}) {
        const Entries left = random_entries(type, 3000, a, random),
                      right = random_entries(type, 3000, b, random);
        SCOPED_TRACE(testing::Message() << info(type).name << " op " << static_cast<int>(op) << " "
                                        << a << " % and " << b << " %");
        ASSERT_NO_FATAL_FAILURE(expect_equal(merged(body(), type, op, left, right),
                                             merged(reference(), type, op, left, right)));
      }
    }
  }
}

TEST_P(SparseSumKernelsTest, WindowsSumAsTheReference) {
  const FloatEnvironment ieee;
  std::mt19937_64 random(3);
  constexpr std::size_t kSpan = 65536;
  for (const DataType type : kSummedTypes) {
    for (const ReduceOp op : kOps) {
      std::vector<Entries> lists;
      for (const unsigned percent : {0U, 1U, 100U, 7U})
        lists.push_back(random_entries(type, kSpan, percent, random));
      for (const std::size_t count : {std::size_t{2}, lists.size()}) {
        const std::vector<Entries> some(lists.begin(),
                                        lists.begin() + static_cast<std::ptrdiff_t>(count));
        SCOPED_TRACE(testing::Message() << info(type).name << " op " << static_cast<int>(op) << ", "
                                        << count << " lists");
        ASSERT_NO_FATAL_FAILURE(expect_equal(summed(body(), type, op, some, kSpan),
                                             summed(reference(), type, op, some, kSpan)));
      }
    }
  }
}

// Two lists in a window and merged are the same sum.
TEST_P(SparseSumKernelsTest, WindowsAndMergesAgree) {
  const FloatEnvironment ieee;
  std::mt19937_64 random(4);
  for (const DataType type : kSummedTypes) {
    for (const ReduceOp op : kOps) {
      const std::vector<Entries> lists{random_entries(type, 65536, 3, random),
                                       random_entries(type, 65536, 3, random)};
      SCOPED_TRACE(testing::Message() << info(type).name << " op " << static_cast<int>(op));
      ASSERT_NO_FATAL_FAILURE(expect_equal(summed(body(), type, op, lists, 65536),
                                           merged(body(), type, op, lists[0], lists[1])));
    }
  }
}

std::vector<std::byte> marks_of(const std::vector<std::uint16_t>& positions, std::size_t span) {
  std::vector<std::byte> marks(span / 8);
  for (const std::uint16_t position : positions)
    marks[position / 8U] |= std::byte{1} << (position % 8);
  return marks;
}

// Bits instead of positions, in and out, are the same sum.
TEST_P(SparseSumKernelsTest, MarkedEntriesSumAsThoseWithPositions) {
  const FloatEnvironment ieee;
  std::mt19937_64 random(8);
  for (const DataType type : kSummedTypes) {
    for (const ReduceOp op : kOps) {
      const SparseSumKernels& kernels = body().sparse_sum_of(type, op);
      const std::size_t width = body().reduce_of(type).accumulator_bytes,
                        span = kWindowBytes / width;
      std::vector<Entries> lists;
      for (const unsigned percent : {100U, 40U, 7U, 0U})
        lists.push_back(random_entries(type, span, percent, random));
      const auto window = std::make_unique<Window>();
      kernels.clear(*window);
      for (const std::size_t count : {std::size_t{1}, std::size_t{2}, lists.size()}) {
        const std::vector<Entries> some(lists.end() - static_cast<std::ptrdiff_t>(count),
                                        lists.end());
        SCOPED_TRACE(testing::Message() << info(type).name << " op " << static_cast<int>(op) << ", "
                                        << count << " lists");
        for (const Entries& each : some) {
          std::vector<std::byte> values =
              each.accumulators;  // of just this size: what is read behind it is found
          const std::vector<std::byte> marks = marks_of(each.positions, span);
          EntryList list = each.list();
          list.positions = nullptr;
          list.accumulators = values.data() + 1;
          list.marks = marks.data();
          EXPECT_EQ(kernels.add_marked(list, span, *window), each.positions.size());
        }
        Sum marked(span, type);
        std::vector<std::byte> marks(span / 8, std::byte{0x5a});
        marked.size = kernels.take_marked(*window, span, marks.data(), marked.accumulators.data());
        Sum expected(span, type);
        const SparseSumKernels& plain = reference().sparse_sum_of(type, op);
        const auto other = std::make_unique<Window>();
        plain.clear(*other);
        for (const Entries& each : some) plain.add(each.list(), 0, span, *other);
        expected.size =
            plain.take(*other, 0, span, expected.positions.data(), expected.accumulators.data());
        expected.positions.resize(expected.size);
        EXPECT_EQ(marks, marks_of(expected.positions, span));
        expected.positions.resize(marked.positions.size());
        marked.positions = expected.positions;
        ASSERT_NO_FATAL_FAILURE(expect_equal(marked, expected));
      }
    }
  }
}

// Ranks of positions in the union of several lists.
TEST_P(SparseSumKernelsTest, PositionsHaveTheirRanksAmongMarks) {
  std::mt19937_64 random(9);
  for (const std::size_t elements : {std::size_t{64}, std::size_t{4096}, std::size_t{65536}}) {
    for (const unsigned percent : {0U, 1U, 30U, 100U}) {
      const auto first = static_cast<std::uint32_t>(elements < 65536 ? 65536 - elements : 0);
      std::vector<std::uint16_t> own, marked;
      std::vector<std::uint32_t> marks(elements / 32), before(marks.size());
      std::set<std::uint16_t> all;
      for (std::size_t at = 0; at < elements; ++at) {
        const auto position = static_cast<std::uint16_t>(first + at);
        if (random() % 100 < percent) own.push_back(position);
        if (random() % 100 < percent) marked.push_back(position);
      }
      all.insert(own.begin(), own.end());
      all.insert(marked.begin(), marked.end());
      for (const auto& list : {own, marked})
        EXPECT_EQ(
            body().entries.mark_positions(list.data(), list.size(), first, elements, marks.data()),
            list.size());
      EXPECT_EQ(body().entries.count_before(marks.data(), marks.size(), before.data()), all.size());
      const std::vector<std::uint16_t> sorted(all.begin(), all.end());
      std::vector<std::uint16_t> ranks(own.size() + kEntrySlack);
      body().entries.rank_positions(own.data(), own.size(), first, marks.data(), before.data(),
                                    ranks.data());
      for (std::size_t i = 0; i < own.size(); ++i)
        ASSERT_EQ(ranks[i], std::ranges::lower_bound(sorted, own[i]) - sorted.begin());
      std::vector<std::uint16_t> listed(all.size() + kEntrySlack);
      listed.resize(body().entries.list_marks(marks.data(), elements, first, listed.data()));
      EXPECT_EQ(listed, sorted);
      std::vector<std::uint16_t> twice(sorted);
      twice.insert(twice.end(), sorted.begin(), sorted.end());
      EXPECT_EQ(
          body().entries.mark_positions(twice.data(), twice.size(), first, elements, marks.data()),
          sorted.size())
          << "those that do not ascend have no rank";
      if (first == 0) continue;
      const std::uint16_t outside = 0;  // what comes over a wire may be anywhere
      EXPECT_EQ(body().entries.mark_positions(&outside, 1, first, elements, marks.data()), 0U);
    }
  }
}

TEST_P(SparseSumKernelsTest, WhatAscendsIsKnown) {
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{2}, std::size_t{7},
                                  std::size_t{64}, std::size_t{1001}}) {
    std::vector<std::uint64_t> indices;
    for (std::uint64_t i = 0; i < count; ++i) indices.push_back((i << 40) + 5);
    if (count > 0) indices.back() = UINT64_MAX;
    EXPECT_TRUE(body().entries.ascend(indices.data(), count)) << count;
    for (std::size_t i = 1; i < count; ++i) {
      const std::uint64_t kept = indices[i];
      indices[i] = indices[i - 1];
      EXPECT_FALSE(body().entries.ascend(indices.data(), count)) << i << " of " << count;
      indices[i] = kept;
    }
    if (count > 1) std::swap(indices.front(), indices.back());
    EXPECT_EQ(body().entries.ascend(indices.data(), count), count < 2) << count;
  }
}

TEST_P(SparseSumKernelsTest, IndicesBecomeMarks) {
  std::mt19937_64 random(9);
  for (const std::size_t elements : {std::size_t{64}, std::size_t{4096}, std::size_t{65536}}) {
    for (const unsigned percent : {0U, 1U, 10U, 60U, 100U}) {
      const std::vector<std::uint16_t> positions = random_positions(elements, percent, random);
      std::vector<std::uint64_t> indices;
      for (const std::uint16_t position : positions) indices.push_back(0x7'0000'0000 + position);
      std::vector<std::byte> marks(elements / 8 + 1, std::byte{0x5a});
      body().entries.mark_indices(indices.data(), indices.size(), elements, marks.data());
      EXPECT_EQ(marks.back(), std::byte{0x5a});
      marks.pop_back();
      EXPECT_EQ(marks, marks_of(positions, elements));
    }
  }
}

// Where a body takes values as they are, -0 is +0 all the same, alone and twice.
TEST_P(SparseSumKernelsTest, NegativeZerosAreZeros) {
  const FloatEnvironment ieee;
  if (!body().sparse_sum_of(DataType::kFloat32, ReduceOp::kSum).takes_values) return;
  std::vector<std::uint16_t> positions(100);
  for (std::size_t i = 0; i < positions.size(); ++i)
    positions[i] = static_cast<std::uint16_t>(3 * i);
  std::vector<std::byte> values(1 + 4 * positions.size(), std::byte{0});
  for (std::size_t i = 4; i < values.size(); i += 4) values[i] = std::byte{0x80};
  const Entries zeros{positions, values}, none;
  for (const std::size_t other : {0U, 1U}) {
    const Sum merge =
        merged(body(), DataType::kFloat32, ReduceOp::kSum, zeros, other == 1 ? zeros : none);
    const Sum window = summed(body(), DataType::kFloat32, ReduceOp::kSum,
                              {zeros, other == 1 ? zeros : none}, 4096);
    for (const Sum& sum : {merge, window}) {
      ASSERT_EQ(sum.size, positions.size());
      EXPECT_EQ(sum.values(), std::vector<std::byte>(4 * positions.size()));
    }
  }
}

// Positions that came over a wire may be anything: a window keeps them inside.
TEST_P(SparseSumKernelsTest, PositionsThatDoNotAscendStayInTheWindow) {
  std::mt19937_64 random(5);
  const SparseSumKernels& kernels = body().sparse_sum_of(DataType::kFloat32, ReduceOp::kSum);
  const auto window = std::make_unique<Window>();
  kernels.clear(*window);
  std::vector<std::uint16_t> positions(1000);
  for (std::uint16_t& position : positions) position = static_cast<std::uint16_t>(random());
  const std::vector<std::byte> values = random_bytes(4000, random);
  EntryList list{positions.data(), values.data(), positions.size()};
  while (list.count > 0) {
    const std::size_t added = kernels.add(list, 32768, 4096, *window);
    list = rest_of(list, added > 0 ? added : 1, 4);
  }
  Sum sum(4096, DataType::kFloat32);
  EXPECT_LE(kernels.take(*window, 32768, 4096, sum.positions.data(), sum.accumulators.data()),
            1000U);
}

SPARCL_FOR_EVERY_BODY(SparseSumKernelsTest);

}  // namespace
}  // namespace sparcl::kernels
