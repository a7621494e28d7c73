#pragma once
// Sparse sums of simulated ranks, and the sum as it is written down.

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <string>

#include "collectives/sparse_sum/sparse_all_reduce.hpp"
#include "src/base/float_environment.hpp"
#include "src/base/seeded_random.hpp"
#include "src/comm/start/node_discovery.hpp"
#include "src/comm/start/shared_windows.hpp"
#include "tests/support/sim_party.hpp"

namespace sparcl::collectives::test {

using sparcl::test::SimOptions;
using sparcl::test::SimParty;

inline constexpr DataType kSumTypes[] = {
    DataType::kFloat64,    DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16,
    DataType::kFloat8e4m3, DataType::kInt32,   DataType::kInt64,   DataType::kUint8};
inline constexpr sparse::Reduction kReductions[] = {{kernels::ReduceOp::kSum, false},
                                                    {kernels::ReduceOp::kSum, true},
                                                    {kernels::ReduceOp::kProd, false},
                                                    {kernels::ReduceOp::kMax, false},
                                                    {kernels::ReduceOp::kMin, false}};

struct Entries {
  std::vector<std::uint64_t> indices;
  std::vector<std::byte> values;
};

// The sum as it is written down: one element at a time, by scalar kernels, along T(a, b).
class Reference {
 public:
  Reference(const sparse::SumKind& kind, std::size_t ranks)
      : kind_(kind),
        kernels_(kernels::reference_kernels().reduce_of(kind.datatype)),
        ranks_(ranks) {}

  void add(std::size_t rank, std::uint64_t index, const std::byte* value) {
    Lane lane{};
    kernels_.widen(value, 1, lane.bytes);
    std::vector<std::optional<Lane>>& own = sums_[index];
    own.resize(ranks_);
    own[rank] = own[rank] ? combined(*own[rank], lane) : lane;
  }

  Entries total() const {
    Entries entries;
    for (const auto& [index, by_rank] : sums_) {
      Lane sum = *tree(by_rank, 0, ranks_);
      if (kind_.reduction.is_mean)
        kernels_.divide(sum.bytes, 1, static_cast<std::uint32_t>(ranks_));
      std::byte value[8];
      kernels_.narrow(sum.bytes, 1, value);
      entries.indices.push_back(index);
      entries.values.insert(entries.values.end(), value, value + element_bytes(kind_.datatype));
    }
    return entries;
  }

 private:
  struct alignas(64) Lane {
    std::byte bytes[64];
  };
  Lane combined(Lane a, const Lane& b) const {
    kernels_.combine[static_cast<std::size_t>(kind_.reduction.op)](a.bytes, b.bytes, 1);
    return a;
  }
  std::optional<Lane> tree(const std::vector<std::optional<Lane>>& by_rank, std::size_t a,
                           std::size_t b) const {
    if (b - a == 1) return by_rank[a];
    const std::size_t m = a + std::bit_floor(b - a - 1);
    const std::optional<Lane> left = tree(by_rank, a, m), right = tree(by_rank, m, b);
    return left && right ? combined(*left, *right) : left ? left : right;
  }

  sparse::SumKind kind_;
  const kernels::ReduceKernels& kernels_;
  std::size_t ranks_;
  std::map<std::uint64_t, std::vector<std::optional<Lane>>> sums_;
};

// Random bits, as chance has NaN and denormals in them; for float32 also small numbers, infinities
// and -0.
inline void append_value(Entries& entries, DataType type, SeededRandom& random) {
  std::uint64_t bits = random.next();
  if (type == DataType::kFloat32 && random.chance(0.7)) {
    constexpr float kSpecial[] = {-0.0f, 1e-40f, std::numeric_limits<float>::infinity(),
                                  -std::numeric_limits<float>::infinity(), 0.0f};
    const float value = random.chance(0.2) ? kSpecial[random.below(std::size(kSpecial))]
                                           : static_cast<float>(random.unit() - 0.5);
    bits = std::bit_cast<std::uint32_t>(value);
  }
  const auto* from = reinterpret_cast<const std::byte*>(&bits);
  entries.values.insert(entries.values.end(), from, from + element_bytes(type));
}

inline Entries entries_at(std::vector<std::uint64_t> indices, DataType type, SeededRandom& random) {
  Entries entries{std::move(indices), {}};
  for (std::size_t i = 0; i < entries.indices.size(); ++i) append_value(entries, type, random);
  return entries;
}

inline Entries random_entries(std::uint64_t count, double density, DataType type,
                              SeededRandom& random) {
  std::vector<std::uint64_t> indices;
  for (std::uint64_t i = 0; i < count; ++i) {
    if (random.chance(density)) indices.push_back(i);
  }
  return entries_at(std::move(indices), type, random);
}

// Nodes of so many ranks, one after the other.
inline comm::NodeMap nodes_of(int ranks, int each) {
  std::vector<comm::Neighbours> by_rank;
  for (int rank = 0; rank < ranks; ++rank)
    by_rank.push_back(
        {static_cast<std::uint32_t>(rank / each * each), static_cast<std::uint32_t>(each)});
  return comm::node_map(by_rank);
}

inline Task meet(CommContext& context, transport::Channel channel, std::string machine) {
  Task sharing = share_windows(context, channel, true, machine);
  if (const Status alive = co_await sharing; !alive.ok()) co_return alive;
  Task discovery = find_nodes(context, channel);
  co_return co_await discovery;
}

struct World {
  World(int ranks, std::uint64_t seed, const SimOptions& options = {})
      : party(ranks, seed, options),
        calls(static_cast<std::size_t>(ranks)),
        reports(calls.size()),
        contexts(calls.size()) {
    for (int rank = 0; rank < ranks; ++rank) {
      contexts[static_cast<std::size_t>(rank)].engine = &party.engine(rank);
      contexts[static_cast<std::size_t>(rank)].kernels = &kernels::cpu_kernels();
      contexts[static_cast<std::size_t>(rank)].entry_coding =
          seed % 2 == 0 ? comm::EntryCoding::kOn : comm::EntryCoding::kOff;
    }
  }
  void force(const char* algorithm) {
    for (CommContext& context : contexts) context.sparse_sum_algorithm = algorithm;
    if (std::string(algorithm) == "two_level" && party.size() % 2 == 0)
      set_nodes(party.size() % 8 == 0 ? 4 : 2);
  }
  void set_nodes(int ranks_per_node) {
    for (CommContext& context : contexts) context.node_map = nodes_of(party.size(), ranks_per_node);
  }
  // Windows are shared on each machine.
  transport::SimOutcome meet(const std::function<std::string(int rank)>& machine_of) {
    const std::uint32_t number = calls_made++;
    return party.run([&, number](int rank) {
      return test::meet(contexts[static_cast<std::size_t>(rank)], {number, 0}, machine_of(rank));
    });
  }
  transport::SimOutcome run() {
    const std::uint32_t number = calls_made++;
    return party.run([this, number](int rank) {
      const auto r = static_cast<std::size_t>(rank);
      return all_reduce_sparse(contexts[r], number, calls[r], reports[r]);
    });
  }

  SimParty party;
  std::vector<sparse_sum::SparseAllReduceCall> calls;
  std::vector<CallReport> reports;
  std::vector<CommContext> contexts;
  std::uint32_t calls_made = 0;
};

struct Output {
  explicit Output(std::size_t room, std::size_t width)
      : indices(room, 77), values(room * width, std::byte{0xa5}) {}
  std::vector<std::uint64_t> indices;
  std::vector<std::byte> values;
};

inline void expect_summed(World& world, std::uint64_t count, const sparse::SumKind& kind,
                          const std::vector<Entries>& entries, bool tight) {
  const std::size_t width = element_bytes(kind.datatype);
  Reference reference(kind, entries.size());
  std::size_t most = 0;
  {
    const FloatEnvironment ieee;
    for (std::size_t r = 0; r < entries.size(); ++r) {
      most += entries[r].indices.size();
      for (std::size_t i = 0; i < entries[r].indices.size(); ++i)
        reference.add(r, entries[r].indices[i], entries[r].values.data() + i * width);
    }
  }
  const FloatEnvironment ieee;
  const Entries expected = reference.total();
  std::vector<Output> outputs;
  for (std::size_t r = 0; r < entries.size(); ++r) {
    Output& output =
        outputs.emplace_back(tight ? expected.indices.size() : most * entries.size(), width);
    world.calls[r] = {.refusal = {},
                      .indices = entries[r].indices,
                      .values = entries[r].values.data(),
                      .count = count,
                      .kind = kind,
                      .out_indices = output.indices.data(),
                      .out_values = output.values.data(),
                      .out_capacity = output.indices.size(),
                      .out_nnz = 0};
  }
  const transport::SimOutcome outcome = world.run();
  ASSERT_TRUE(outcome.ok()) << outcome.report;
  for (std::size_t r = 0; r < entries.size(); ++r) {
    ASSERT_TRUE(world.party.result(static_cast<int>(r)).ok())
        << world.party.result(static_cast<int>(r)).message();
    ASSERT_EQ(world.calls[r].out_nnz, expected.indices.size());
    const std::size_t size = expected.indices.size();
    EXPECT_TRUE(
        std::equal(expected.indices.begin(), expected.indices.end(), outputs[r].indices.begin()))
        << "rank " << r;
    ASSERT_TRUE(size == 0 ||
                std::memcmp(expected.values.data(), outputs[r].values.data(), size * width) == 0)
        << "rank " << r;
    for (std::size_t i = size; i < outputs[r].indices.size(); ++i)
      ASSERT_EQ(outputs[r].indices[i], 77U) << "written past the end";
  }
}

}  // namespace sparcl::collectives::test
