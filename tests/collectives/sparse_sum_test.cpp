#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sparse_world.hpp"
#include "src/comm/engine/lending.hpp"

namespace sparcl::collectives {
namespace {

using sparcl::test::rank_counts;
using test::Entries;
using test::entries_at;
using test::expect_summed;
using test::kReductions;
using test::Output;
using test::random_entries;
using test::World;
using ::testing::HasSubstr;

TEST(SparseAllReduce, EveryTypeReductionRankCountAndAlgorithmBitForBit) {
  SeededRandom random(1);
  std::uint64_t seed = 0;
  for (const int ranks : rank_counts()) {
    for (const sparse_sum::SparseSumRow& row : sparse_sum::sparse_sum_table()) {
      for (const DataType type : test::kSumTypes) {
        for (const sparse::Reduction reduction : kReductions) {
          SCOPED_TRACE(testing::Message()
                       << ranks << " ranks, " << row.name << ", " << info(type).name << ", op "
                       << static_cast<int>(reduction.op) << (reduction.is_mean ? ", mean" : ""));
          World world(ranks, ++seed);
          world.force(row.name);
          std::vector<Entries> entries;
          for (int rank = 0; rank < ranks; ++rank)
            entries.push_back(random_entries(9000, random.unit() * 0.2, type, random));
          ASSERT_NO_FATAL_FAILURE(expect_summed(world, 9000,
                                                {type, reduction, Determinism::kCanonical}, entries,
                                                random.chance(0.5)));
        }
      }
    }
  }
}

// Supports of all kinds, over several blocks and groups of blocks.
TEST(SparseAllReduce, EveryKindOfSupport) {
  SeededRandom random(2);
  std::uint64_t seed = 1000;
  constexpr std::uint64_t kCount = 140'000;
  using Maker = std::vector<Entries> (*)(int ranks, DataType type, SeededRandom& random);
  const std::pair<const char*, Maker> kinds[] = {
      {"empty on all",
       [](int ranks, DataType, SeededRandom&) {
         return std::vector<Entries>(static_cast<std::size_t>(ranks));
       }},
      {"empty on one",
       [](int ranks, DataType type, SeededRandom& r) {
         std::vector<Entries> all;
         for (int rank = 0; rank < ranks; ++rank)
           all.push_back(random_entries(kCount, rank == ranks / 2 ? 0 : 0.01, type, r));
         return all;
       }},
      {"one giant rank",
       [](int ranks, DataType type, SeededRandom& r) {
         std::vector<Entries> all;
         for (int rank = 0; rank < ranks; ++rank)
           all.push_back(random_entries(kCount, rank == 0 ? 0.9 : 0.0001, type, r));
         return all;
       }},
      {"full",
       [](int ranks, DataType type, SeededRandom& r) {
         std::vector<Entries> all;
         for (int rank = 0; rank < ranks; ++rank)
           all.push_back(random_entries(kCount / 4, 1.1, type, r));
         return all;
       }},
      {"same support",
       [](int ranks, DataType type, SeededRandom& r) {
         const Entries one = random_entries(kCount, 0.02, type, r);
         std::vector<Entries> all;
         for (int rank = 0; rank < ranks; ++rank) all.push_back(entries_at(one.indices, type, r));
         return all;
       }},
      {"disjoint",
       [](int ranks, DataType type, SeededRandom& r) {
         std::vector<Entries> all;
         for (int rank = 0; rank < ranks; ++rank) {
           std::vector<std::uint64_t> own;
           for (std::uint64_t i = static_cast<std::uint64_t>(rank); i < kCount;
                i += static_cast<std::uint64_t>(10 * ranks))
             own.push_back(i);
           all.push_back(entries_at(own, type, r));
         }
         return all;
       }},
      {"one element",
       [](int ranks, DataType type, SeededRandom& r) {
         std::vector<Entries> all;
         for (int rank = 0; rank < ranks; ++rank) all.push_back(entries_at({kCount - 1}, type, r));
         return all;
       }},
      {"in one block",
       [](int ranks, DataType type, SeededRandom& r) {
         std::vector<Entries> all;
         for (int rank = 0; rank < ranks; ++rank)
           all.push_back(random_entries(9'000, 0.5, type, r));
         return all;
       }},
      {"unsorted with duplicates", [](int ranks, DataType type, SeededRandom& r) {
         std::vector<Entries> all;
         for (int rank = 0; rank < ranks; ++rank) {
           std::vector<std::uint64_t> own;
           for (int i = 0; i < 500 && rank != 1; ++i)
             own.push_back(r.below(r.chance(0.5) ? 200 : kCount));
           all.push_back(entries_at(own, type, r));
         }
         return all;
       }}};
  for (const int ranks : {1, 3, 8}) {
    for (const sparse_sum::SparseSumRow& row : sparse_sum::sparse_sum_table()) {
      for (const auto& [name, make] : kinds) {
        for (const DataType type : {DataType::kFloat32, DataType::kBfloat16}) {
          SCOPED_TRACE(testing::Message() << ranks << " ranks, " << row.name << ", " << name << ", "
                                          << info(type).name);
          World world(ranks, ++seed);
          world.force(row.name);
          ASSERT_NO_FATAL_FAILURE(expect_summed(world, kCount, {type, {}, Determinism::kCanonical},
                                                make(ranks, type, random), random.chance(0.5)));
        }
      }
    }
  }
}

// Parts that are read where they lie in another rank's window.
TEST(SparseAllReduce, OverSharedWindows) {
  SeededRandom random(9);
  for (const int ranks : {2, 5}) {
    for (const sparse_sum::SparseSumRow& row : sparse_sum::sparse_sum_table()) {
      World world(ranks, static_cast<std::uint64_t>(ranks));
      world.force(row.name);
      ASSERT_TRUE(world.meet([](int) { return ""; }).ok());
      const int other = ranks - 1;
      ASSERT_NE(world.contexts[0].window, nullptr);
      ASSERT_TRUE(world.contexts[0].window->is_shared_with(other));
      ASSERT_EQ(comm::lent(world.contexts[0].window.get(), other,
                           world.contexts[0].outgoing().take(20'000))
                    .size(),
                comm::kPlaceBytes);
      for (const double density : {0.02, 0.3, 1.1}) {
        std::vector<Entries> entries;
        for (int rank = 0; rank < ranks; ++rank)
          entries.push_back(random_entries(140'000, density, DataType::kFloat32, random));
        SCOPED_TRACE(testing::Message()
                     << ranks << " ranks, " << row.name << ", density " << density);
        ASSERT_NO_FATAL_FAILURE(expect_summed(world, 140'000, {}, entries, random.chance(0.5)));
      }
    }
  }
}

// The union of a call is what the next one expects.
TEST(SparseAllReduce, LearnsHowFarSupportsLieApart) {
  SeededRandom random(10);
  World world(4, 3);
  const Entries one = random_entries(50'000, 0.05, DataType::kFloat32, random);
  std::vector<Entries> same;
  for (int rank = 0; rank < 4; ++rank)
    same.push_back(entries_at(one.indices, DataType::kFloat32, random));
  ASSERT_NO_FATAL_FAILURE(expect_summed(world, 50'000, {}, same, false));
  for (const CommContext& context : world.contexts) EXPECT_EQ(context.learned_union->share, 0);
  std::vector<Entries> others;
  for (int rank = 0; rank < 4; ++rank)
    others.push_back(random_entries(50'000, 0.05, DataType::kFloat32, random));
  ASSERT_NO_FATAL_FAILURE(expect_summed(world, 50'000, {}, others, false));
  for (const CommContext& context : world.contexts)
    EXPECT_GT(context.learned_union->share, 0.9 * kWholeUnion);
}

TEST(SparseAllReduce, HugeIndexSpaces) {
  SeededRandom random(3);
  for (const std::uint64_t count :
       {std::uint64_t{1} << 33, std::uint64_t{1} << 47, sparse::kMaxSparseCount}) {
    for (const sparse_sum::SparseSumRow& row : sparse_sum::sparse_sum_table()) {
      World world(3, count);
      world.force(row.name);
      std::vector<Entries> entries;
      for (int rank = 0; rank < 3; ++rank) {
        std::vector<std::uint64_t> own{0, 65'535, 65'536, count / 2, count - 1};
        for (int i = 0; i < 200; ++i) own.push_back(random.below(count));
        entries.push_back(entries_at(own, DataType::kFloat32, random));
      }
      SCOPED_TRACE(testing::Message() << row.name << ", " << count);
      ASSERT_NO_FATAL_FAILURE(expect_summed(world, count, {}, entries, true));
    }
  }
}

// Level `runs`: the same bits on all ranks, and in each run.
TEST(SparseAllReduce, RunsAreRepeatable) {
  SeededRandom random(4);
  std::vector<Entries> entries;
  for (int rank = 0; rank < 5; ++rank)
    entries.push_back(random_entries(200'000, 0.1, DataType::kFloat32, random));
  for (const sparse_sum::SparseSumRow& row : sparse_sum::sparse_sum_table()) {
    std::vector<std::byte> first;
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
      World world(5, 50 + seed);
      world.force(row.name);
      std::vector<Output> outputs(5, Output(200'000, 4));
      for (std::size_t r = 0; r < 5; ++r) {
        world.calls[r] = {.refusal = {},
                          .indices = entries[r].indices,
                          .values = entries[r].values.data(),
                          .count = 200'000,
                          .kind = {DataType::kFloat32, {}, Determinism::kRuns},
                          .out_indices = outputs[r].indices.data(),
                          .out_values = outputs[r].values.data(),
                          .out_capacity = 200'000,
                          .out_nnz = 0};
      }
      ASSERT_TRUE(world.run().ok());
      for (const Output& output : outputs) {
        if (first.empty()) first = output.values;
        EXPECT_TRUE(output.values == first) << row.name;
      }
    }
  }
}

TEST(SparseAllReduce, TruncatedEverywhereAndNothingWritten) {
  SeededRandom random(5);
  for (const sparse_sum::SparseSumRow& row : sparse_sum::sparse_sum_table()) {
    for (const int ranks : {1, 2, 5}) {
      World world(ranks, 10);  // coded
      world.force(row.name);
      std::vector<Entries> entries;
      std::vector<Output> outputs;
      std::vector<std::uint64_t> all;
      for (int rank = 0; rank < ranks; ++rank) {
        entries.push_back(random_entries(100'000, 0.01, DataType::kFloat32, random));
        all.insert(all.end(), entries.back().indices.begin(), entries.back().indices.end());
      }
      std::sort(all.begin(), all.end());
      all.erase(std::unique(all.begin(), all.end()), all.end());
      for (int rank = 0; rank < ranks; ++rank)
        outputs.emplace_back(rank == ranks - 1 ? all.size() - 1 : 100'000, 4);
      for (std::size_t r = 0; r < entries.size(); ++r) {
        world.calls[r] = {.refusal = {},
                          .indices = entries[r].indices,
                          .values = entries[r].values.data(),
                          .count = 100'000,
                          .kind = {},
                          .out_indices = outputs[r].indices.data(),
                          .out_values = outputs[r].values.data(),
                          .out_capacity = outputs[r].indices.size(),
                          .out_nnz = 0};
      }
      ASSERT_TRUE(world.run().ok());
      for (std::size_t r = 0; r < entries.size(); ++r) {
        EXPECT_EQ(world.party.result(static_cast<int>(r)).code(), Code::kTruncated);
        EXPECT_EQ(world.calls[r].out_nnz, all.size());
        EXPECT_EQ(outputs[r].indices, std::vector<std::uint64_t>(outputs[r].indices.size(), 77));
        EXPECT_TRUE(world.party.engine(static_cast<int>(r)).health().ok());
      }
    }
  }
}

TEST(SparseAllReduce, AnIndexOutOfBoundsIsRefusedOnAllRanks) {
  World world(3, 1);
  std::vector<float> values(2, 1.0f);
  const std::vector<std::uint64_t> good{1, 5}, bad{5, 10};
  std::vector<Output> outputs(3, Output(10, 4));
  for (std::size_t r = 0; r < 3; ++r) {
    world.calls[r] = {.refusal = {},
                      .indices = r == 1 ? bad : good,
                      .values = reinterpret_cast<const std::byte*>(values.data()),
                      .count = 10,
                      .kind = {},
                      .out_indices = outputs[r].indices.data(),
                      .out_values = outputs[r].values.data(),
                      .out_capacity = 10,
                      .out_nnz = 0};
  }
  ASSERT_TRUE(world.run().ok());
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(world.party.result(rank).code(), Code::kInvalidArgument);
    EXPECT_THAT(std::string(world.party.result(rank).message()),
                HasSubstr("indices[1] = 10, but there are 10 elements"));
    EXPECT_EQ(outputs[static_cast<std::size_t>(rank)].indices[0], 77U);
  }
}

// -0 counts as +0 where it is an input, not where a product is -0: whether its factors come from
// one rank or from two.
TEST(SparseAllReduce, AProductOfDuplicatesMayBeMinusZero) {
  constexpr float kLeast = 0x1p-149F;
  for (const sparse_sum::SparseSumRow& row : sparse_sum::sparse_sum_table()) {
    World world(3, 4);
    world.force(row.name);
    const std::vector<std::vector<std::uint64_t>> indices{{5, 9}, {9}, {5, 7, 5, 7}};
    const std::vector<std::vector<float>> values{{1, -1}, {0}, {-kLeast, -0.0F, kLeast, -1}};
    std::vector<Output> outputs(3, Output(8, sizeof(float)));
    for (std::size_t r = 0; r < 3; ++r) {
      world.calls[r] = {
          .refusal = {},
          .indices = indices[r],
          .values = reinterpret_cast<const std::byte*>(values[r].data()),
          .count = 1000,
          .kind = {DataType::kFloat32, {kernels::ReduceOp::kProd, false}, Determinism::kCanonical},
          .out_indices = outputs[r].indices.data(),
          .out_values = outputs[r].values.data(),
          .out_capacity = 8};
    }
    ASSERT_TRUE(world.run().ok());
    for (std::size_t r = 0; r < 3; ++r) {
      ASSERT_EQ(world.calls[r].out_nnz, 3U);
      const auto* const got = reinterpret_cast<const float*>(outputs[r].values.data());
      for (const std::size_t i : {0, 1, 2})
        EXPECT_TRUE(got[i] == 0 && std::signbit(got[i]))
            << row.name << ", entry " << i << ": " << got[i];
    }
  }
}

TEST(SparseAllReduce, BytesAreThoseOfTheFormula) {
  SeededRandom random(6);
  constexpr std::uint64_t kCount = 1 << 20;
  for (const int ranks : {2, 4, 8}) {
    std::vector<Entries> entries;
    std::size_t k = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      entries.push_back(random_entries(kCount, 0.01, DataType::kFloat32, random));
      k = std::max(k, entries.back().indices.size());
    }
    for (const sparse_sum::SparseSumRow& row : sparse_sum::sparse_sum_table()) {
      World world(ranks, 10);  // coded
      world.force(row.name);
      ASSERT_NO_FATAL_FAILURE(expect_summed(world, kCount, {}, entries, false));
      const double p = ranks, own = static_cast<double>(k),
                   all = static_cast<double>(world.calls[0].out_nnz);
      const SumShape shape{ranks, kCount, k, 4};
      double expected = (p - 1) * own;
      if (std::string(row.name) == "split") expected = (p - 1) / p * (own + p * all / p * 1.0);
      if (std::string(row.name) == "two_level") continue;  // two_level_sum_test.cpp
      if (std::string(row.name) == "doubling") {
        expected = 0;
        for (int together = 1; together < ranks; together *= 2)
          expected += shape.union_of(together);
      }
      // Of 1 % and more: the entropy of a place is 1.01 bytes at most, and falls as parts are
      // summed.
      for (const CallReport& report : world.reports)
        EXPECT_LE(static_cast<double>(report.traffic.bytes_received), 1.05 * expected * 5.01)
            << row.name << ", " << ranks << " ranks";
    }
  }
}

}  // namespace
}  // namespace sparcl::collectives
