#include "collectives/masked/masked.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "src/base/seeded_random.hpp"
#include "tests/support/sim_party.hpp"

namespace sparcl::collectives {
namespace {

using test::SimParty;
using ::testing::HasSubstr;

using Values = std::vector<std::byte>;

constexpr DataType kReducedTypes[] = {
    DataType::kFloat64,  DataType::kFloat32,    DataType::kFloat16,
    DataType::kBfloat16, DataType::kFloat8e4m3, DataType::kInt32,
    DataType::kInt64,    DataType::kUint8,      DataType::kBool};
constexpr sparse::Reduction kAllReductions[] = {{kernels::ReduceOp::kSum, false},
                                                {kernels::ReduceOp::kSum, true},
                                                {kernels::ReduceOp::kProd, false},
                                                {kernels::ReduceOp::kMax, false},
                                                {kernels::ReduceOp::kMin, false}};

// T(a, b) as it is written down: one element at a time, by scalar kernels.
class Reference {
 public:
  Reference(DataType type, sparse::Reduction reduction)
      : kernels_(kernels::reference_kernels().reduce_of(type)), reduction_(reduction) {}

  void reduce(const std::vector<const std::byte*>& by_rank, std::byte* result) const {
    alignas(64) std::byte sum[64] = {};
    tree(by_rank, 0, by_rank.size(), sum);
    if (reduction_.is_mean) kernels_.divide(sum, 1, static_cast<std::uint32_t>(by_rank.size()));
    kernels_.narrow(sum, 1, result);
  }

 private:
  void tree(const std::vector<const std::byte*>& by_rank, std::size_t a, std::size_t b,
            std::byte* into) const {
    if (b - a == 1) return kernels_.widen(by_rank[a], 1, into);
    const std::size_t m = a + std::bit_floor(b - a - 1);
    alignas(64) std::byte right[64] = {};
    tree(by_rank, a, m, into);
    tree(by_rank, m, b, right);
    kernels_.combine[static_cast<std::size_t>(reduction_.op)](into, right, 1);
  }

  const kernels::ReduceKernels& kernels_;
  sparse::Reduction reduction_;
};

// Every rank's array, with NaN, infinities, -0 and denormals as chance has them in random bits, and
// some on purpose.
std::vector<Values> random_arrays(int ranks, std::uint64_t count, DataType type,
                                  SeededRandom& random) {
  std::vector<Values> arrays;
  for (int rank = 0; rank < ranks; ++rank) {
    Values& values = arrays.emplace_back(count * element_bytes(type));
    for (std::byte& byte : values)
      byte = static_cast<std::byte>(type == DataType::kBool ? random.below(2) : random.next());
    if (type != DataType::kFloat32) continue;
    constexpr float kSpecial[] = {-0.0f,
                                  1e-40f,
                                  std::numeric_limits<float>::infinity(),
                                  -std::numeric_limits<float>::infinity(),
                                  1.0f,
                                  0.1f};
    for (std::uint64_t i = 0; i + 1 < count; i += 2) {
      const float value = random.chance(0.3) ? kSpecial[random.below(std::size(kSpecial))]
                                             : static_cast<float>(random.unit() - 0.5);
      std::memcpy(values.data() + i * sizeof value, &value, sizeof value);
    }
  }
  return arrays;
}

struct ReducingWorld {
  ReducingWorld(int ranks, std::uint64_t seed)
      : party(ranks, seed),
        calls(static_cast<std::size_t>(ranks)),
        reports(calls.size()),
        contexts(calls.size()) {
    for (int rank = 0; rank < ranks; ++rank) {
      contexts[static_cast<std::size_t>(rank)].engine = &party.engine(rank);
      contexts[static_cast<std::size_t>(rank)].kernels = &kernels::cpu_kernels();
    }
  }
  transport::SimOutcome run() {
    const std::uint32_t number = calls_made++;
    return party.run([this, number](int rank) {
      const auto r = static_cast<std::size_t>(rank);
      return all_reduce_masked(contexts[r], number, calls[r], reports[r]);
    });
  }

  SimParty party;
  std::vector<masked::MaskedCall> calls;
  std::vector<CallReport> reports;
  std::vector<CommContext> contexts;
  std::uint32_t calls_made = 0;
};

void expect_reduced(ReducingWorld& world, const sparse::Mask& mask, DataType type,
                    sparse::Reduction reduction, SeededRandom& random) {
  const int ranks = world.party.size();
  const std::size_t width = element_bytes(type);
  const std::vector<Values> sent = random_arrays(ranks, mask.count(), type, random);
  std::vector<Values> received = random_arrays(ranks, mask.count(), type, random);
  const bool in_place = random.chance(0.5);
  if (in_place) received = sent;
  std::vector<Values> expected = received;
  std::vector<std::uint64_t> indices(mask.size());
  mask.write_indices(indices.data());
  const Reference reference(type, reduction);
  for (const std::uint64_t i : indices) {
    std::vector<const std::byte*> by_rank;
    for (const Values& values : sent) by_rank.push_back(values.data() + i * width);
    for (Values& values : expected) reference.reduce(by_rank, values.data() + i * width);
  }
  for (std::size_t r = 0; r < world.calls.size(); ++r) {
    world.calls[r] = {.refusal = {},
                      .send = in_place ? received[r].data() : sent[r].data(),
                      .receive = received[r].data(),
                      .datatype = type,
                      .reduction = reduction,
                      .mask = &mask};
  }
  const transport::SimOutcome outcome = world.run();
  ASSERT_TRUE(outcome.ok()) << outcome.report;
  for (std::size_t r = 0; r < world.calls.size(); ++r) {
    ASSERT_TRUE(world.party.result(static_cast<int>(r)).ok())
        << world.party.result(static_cast<int>(r)).message();
    ASSERT_TRUE(received[r] == expected[r])
        << "rank " << r << ", " << info(type).name << ", op " << static_cast<int>(reduction.op);
    EXPECT_EQ(world.reports[r].nnz_out, mask.size());
  }
}

TEST(MaskedAllReduce, EveryTypeReductionRankCountAndAlgorithmBitForBit) {
  SeededRandom random(1);
  std::uint64_t seed = 0;
  for (const int ranks : test::rank_counts()) {
    for (const dense::DenseRow& row : dense::dense_table()) {
      for (const DataType type : kReducedTypes) {
        for (const sparse::Reduction reduction : kAllReductions) {
          ReducingWorld world(ranks, ++seed);
          for (CommContext& context : world.contexts) context.all_reduce_algorithm = row.name;
          const Result<sparse::Mask> mask = sparse::Mask::random(301, 0.4, seed);
          ASSERT_TRUE(mask.ok());
          SCOPED_TRACE(testing::Message() << ranks << " ranks, " << row.name);
          ASSERT_NO_FATAL_FAILURE(expect_reduced(world, *mask, type, reduction, random));
        }
      }
    }
  }
}

TEST(MaskedAllReduce, EmptyFullOneElementBlocksAndManySegments) {
  SeededRandom random(2);
  std::uint64_t seed = 100;
  const std::vector<std::uint64_t> one{77};
  for (const int ranks : test::rank_counts()) {
    for (const dense::DenseRow& row : dense::dense_table()) {
      const Result<sparse::Mask> masks[] = {sparse::Mask::random(0, 0.5, 1),
                                            sparse::Mask::random(1'000, 0, 1),
                                            sparse::Mask::random(1'000, 1, 1),
                                            sparse::Mask::of_indices(one, 100),
                                            sparse::Mask::random_blocks(5'000, 64, 0.3, 2),
                                            sparse::Mask::random(400'000, 0.9, 3)};
      for (const Result<sparse::Mask>& mask : masks) {
        ASSERT_TRUE(mask.ok());
        ReducingWorld world(ranks, ++seed);
        for (CommContext& context : world.contexts) context.all_reduce_algorithm = row.name;
        SCOPED_TRACE(testing::Message() << ranks << " ranks, " << row.name << ", " << mask->size()
                                        << " of " << mask->count());
        ASSERT_NO_FATAL_FAILURE(expect_reduced(world, *mask, DataType::kFloat32, {}, random));
      }
    }
  }
}

TEST(MaskedAllReduce, SeveralCallsFollowEachOther) {
  SeededRandom random(3);
  ReducingWorld world(4, 7);
  for (std::uint64_t step = 0; step < 20; ++step) {
    Result<sparse::Mask> mask = sparse::Mask::random(3'000, 0.2, 5);
    ASSERT_TRUE(mask.ok());
    mask->set_step(step);
    ASSERT_NO_FATAL_FAILURE(expect_reduced(
        world, *mask, step % 2 == 0 ? DataType::kBfloat16 : DataType::kFloat64, {}, random));
  }
}

TEST(MaskedAllReduce, BytesAreThoseOfTheFormula) {
  SeededRandom random(4);
  const Result<sparse::Mask> mask = sparse::Mask::random(1 << 20, 0.25, 1);
  ASSERT_TRUE(mask.ok());
  for (const int ranks : {2, 4, 8}) {
    ReducingWorld world(ranks, 9);
    for (CommContext& context : world.contexts) context.all_reduce_algorithm = "owner";
    ASSERT_NO_FATAL_FAILURE(expect_reduced(world, *mask, DataType::kFloat32, {}, random));
    const double own = 2.0 * (ranks - 1) / ranks * static_cast<double>(mask->size()) * 4;
    for (const CallReport& report : world.reports)
      EXPECT_NEAR(static_cast<double>(report.traffic.bytes_sent), own, 0.01 * own);
  }
}

TEST(DensePlan, TakesOneRoundForFewBytesAndTheFewestBytesForMany) {
  const LinkCost node{1e-6, 0.2e-9};
  for (const int ranks : {2, 3, 4, 8}) {
    EXPECT_STREQ(dense::plan_dense(node, ranks, 8, "auto").row->name, "direct");
    EXPECT_STREQ(dense::plan_dense(node, ranks, 1 << 20, "auto").row->name, "owner");
  }
  EXPECT_STREQ(dense::plan_dense(node, 2, 32 << 10, "auto").row->name, "direct");
  EXPECT_STREQ(dense::plan_dense(node, 4, 32 << 10, "auto").row->name, "owner");
  EXPECT_STREQ(dense::plan_dense(node, 2, 1 << 20, "direct").row->name, "direct");
}

TEST(MaskedAllReduce, MemoryOfOneCallIsNotAnothers) {
  SeededRandom random(5);
  const Result<sparse::Mask> mask =
      sparse::Mask::random(300'000, 1, 1);  // several segments, some smaller than what is pooled
  ASSERT_TRUE(mask.ok());
  for (const char* algorithm : {"direct", "owner"}) {
    ReducingWorld world(3, 9);
    for (CommContext& context : world.contexts) context.all_reduce_algorithm = algorithm;
    for (int call = 0; call < 3; ++call)
      ASSERT_NO_FATAL_FAILURE(expect_reduced(world, *mask, DataType::kFloat32, {}, random));
  }
}

TEST(MaskedAllReduce, CallsThatDifferAreAMismatchThatNamesIt) {
  const Result<sparse::Mask> mask = sparse::Mask::random(1'000, 0.5, 1),
                             other = sparse::Mask::random(1'000, 0.5, 2),
                             longer = sparse::Mask::random(1'001, 0.5, 1);
  ASSERT_TRUE(mask.ok() && other.ok() && longer.ok());
  struct Row {
    const char* text;
    void (*change)(masked::MaskedCall&, CommContext&, const sparse::Mask& other,
                   const sparse::Mask& longer);
  };
  const Row rows[] = {
      {"differ in their masks", [](masked::MaskedCall& call, CommContext&, const sparse::Mask& o,
                                   const sparse::Mask&) { call.mask = &o; }},
      {"differ in their counts", [](masked::MaskedCall& call, CommContext&, const sparse::Mask&,
                                    const sparse::Mask& l) { call.mask = &l; }},
      {"differ in their data types", [](masked::MaskedCall& call, CommContext&, const sparse::Mask&,
                                        const sparse::Mask&) { call.datatype = DataType::kInt32; }},
      {"differ in their reductions", [](masked::MaskedCall& call, CommContext&, const sparse::Mask&,
                                        const sparse::Mask&) { call.reduction.is_mean = true; }},
      {"SPARCL_ALGO_ALLREDUCE direct",
       [](masked::MaskedCall&, CommContext& context, const sparse::Mask&, const sparse::Mask&) {
         context.all_reduce_algorithm = "direct";
       }},
  };
  for (const Row& row : rows) {
    for (const int ranks : {2, 3, 4, 8}) {
      ReducingWorld world(ranks, 3);
      std::vector<std::vector<float>> arrays(static_cast<std::size_t>(ranks),
                                             std::vector<float>(1'001, 1.0f));
      const auto odd = static_cast<std::size_t>(ranks / 2);
      for (std::size_t r = 0; r < arrays.size(); ++r) {
        auto* bytes = reinterpret_cast<std::byte*>(arrays[r].data());
        world.calls[r] = {.refusal = {},
                          .send = bytes,
                          .receive = bytes,
                          .datatype = DataType::kFloat32,
                          .reduction = {},
                          .mask = &*mask};
        world.contexts[r].all_reduce_algorithm = "owner";
        if (r == odd) row.change(world.calls[r], world.contexts[r], *other, *longer);
      }
      const transport::SimOutcome outcome = world.run();
      ASSERT_TRUE(outcome.ok()) << outcome.report;
      for (std::size_t r = 0; r < arrays.size(); ++r) {
        EXPECT_EQ(world.party.result(static_cast<int>(r)).code(), Code::kMismatch);
        EXPECT_THAT(std::string(world.party.result(static_cast<int>(r)).message()),
                    HasSubstr(row.text));
        EXPECT_EQ(arrays[r], std::vector<float>(1'001, 1.0f));
        EXPECT_TRUE(world.party.engine(static_cast<int>(r)).health().ok());
      }
    }
  }
}

}  // namespace
}  // namespace sparcl::collectives
