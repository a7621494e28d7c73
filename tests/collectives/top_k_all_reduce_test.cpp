#include "collectives/top_k/top_k_all_reduce.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>
#include <set>

#include "collectives/sparse_sum/sparse_sum.hpp"
#include "src/base/float_environment.hpp"
#include "src/base/number.hpp"
#include "src/base/seeded_random.hpp"
#include "src/sparse/selection/group_rounding.hpp"
#include "tests/support/sim_party.hpp"

namespace sparcl::collectives {
namespace {

using sparcl::test::SimParty;
using ::testing::HasSubstr;

struct Kind {
  DataType type;
  bool is_mean;
  top_k::TopKMode mode;
  top_k::TopKWire wire;
  bool has_others = true;  // infinities and NaN
};

// The semantics as they are written down, one element at a time. A: what the type accumulates in.
template <class A>
class TopKReference {
 public:
  TopKReference(const Kind& kind, std::size_t ranks, std::size_t count)
      : kind_(kind), residuals(ranks, std::vector<A>(count)) {}

  // What all ranks receive, as elements; moves the residuals on.
  std::vector<std::byte> call(const std::vector<std::vector<std::byte>>& sent, std::size_t k,
                              bool keeps_residual) {
    const FloatEnvironment ieee;
    const std::size_t ranks = sent.size(), count = residuals[0].size(),
                      width = element_bytes(kind_.type);
    std::vector<std::vector<A>> acc = residuals;
    std::vector<std::set<std::size_t>> selected;
    for (std::size_t r = 0; r < ranks; ++r) {
      for (std::size_t i = 0; i < count; ++i)
        acc[r][i] =
            canonical(add(keeps_residual ? acc[r][i] : A{0}, load(sent[r].data() + i * width)));
      selected.push_back(largest(acc[r], k));
    }
    std::set<std::size_t> kept;
    for (const auto& own : selected) kept.insert(own.begin(), own.end());
    const auto contributes = [&](std::size_t r, std::size_t i) {
      return kind_.mode == top_k::TopKMode::kUnion || selected[r].contains(i);
    };
    std::vector<std::vector<A>> seen = acc;
    for (std::size_t r = 0; r < ranks; ++r)
      see(kind_.mode == top_k::TopKMode::kUnion ? kept : selected[r], seen[r]);
    std::vector<A> sums(count);
    for (const std::size_t i : kept) sums[i] = canonical(*tree(seen, contributes, i, 0, ranks));
    if (kind_.mode == top_k::TopKMode::kGlobal && kept.size() > k) kept = largest_of(sums, kept, k);
    std::vector<std::byte> result(count * width);
    for (const std::size_t i : kept) {
      store(kind_.is_mean ? divided(sums[i], ranks) : sums[i], result.data() + i * width);
      for (std::size_t r = 0; r < ranks; ++r) {
        if (contributes(r, i)) acc[r][i] = rest(acc[r][i], seen[r][i]);
      }
    }
    if (keeps_residual) residuals = acc;
    return result;
  }

 private:
  Kind kind_;

 public:
  std::vector<std::vector<A>> residuals;

 private:
  static A add(A a, A b) {
    if constexpr (std::is_integral_v<A>)
      return static_cast<A>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
    return a + b;
  }
  static A canonical(A value) {
    if constexpr (std::is_floating_point_v<A>) {
      if (std::isnan(value)) return std::numeric_limits<A>::quiet_NaN();
      return value + A{0};
    }
    return value;
  }
  A load(const std::byte* at) const {
    if constexpr (std::is_integral_v<A>) {
      A value;
      std::memcpy(&value, at, sizeof value);
      return value;
    }
    return static_cast<A>(load_number(kind_.type, at));
  }
  void store(A value, std::byte* at) const {
    if constexpr (std::is_integral_v<A>) {
      std::memcpy(at, &value, sizeof value);
    } else {
      store_number(kind_.type, static_cast<double>(value), at);
    }
  }
  static A divided(A value, std::size_t ranks) {
    return static_cast<A>(value / static_cast<A>(ranks));
  }
  // What the others see of it.
  A rounded(A value) const {
    if constexpr (std::is_same_v<A, float>) {
      const DataType wire =
          kind_.wire == top_k::TopKWire::kBfloat16 ? DataType::kBfloat16 : kind_.type;
      std::byte bytes[8];
      store_number(wire, static_cast<double>(value), bytes);
      return canonical(static_cast<float>(load_number(wire, bytes)));
    }
    return value;
  }
  // Of what a rank sends, what the others see.
  void see(const std::set<std::size_t>& sent, std::vector<A>& values) const {
    if constexpr (std::is_same_v<A, float>) {
      if (kind_.wire == top_k::TopKWire::kScaled8)
        return see_scaled({sent.begin(), sent.end()}, values);
      if (kind_.wire > top_k::TopKWire::kScaled8)
        return see_groups({sent.begin(), sent.end()}, values);
    }
    for (const std::size_t i : sent) values[i] = rounded(values[i]);
  }
  // Few bits: tests/sparse/group_rounding_test.cpp has the rounding.
  void see_groups(const std::vector<std::size_t>& sent, std::vector<float>& values) const {
    std::vector<float> own;
    for (const std::size_t i : sent) own.push_back(values[i]);
    auto* const bytes = reinterpret_cast<std::byte*>(own.data());
    sparse::round_to_groups(sparse::wire_type(DataType::kFloat32, kind_.wire).form, bytes,
                            own.size(), bytes);
    for (std::size_t i = 0; i < sent.size(); ++i) values[sent[i]] = canonical(own[i]);
  }
  // 128 in turn share the least power of two with which the largest has seven bits.
  static void see_scaled(const std::vector<std::size_t>& sent, std::vector<float>& values) {
    for (std::size_t first = 0; first < sent.size(); first += 128) {
      const std::span group =
          std::span(sent).subspan(first, std::min<std::size_t>(128, sent.size() - first));
      double largest = 0;
      for (const std::size_t i : group)
        largest = std::isfinite(values[i]) ? std::max<double>(largest, std::abs(values[i])) : 1e300;
      double unit = 0x1p-149;
      while (std::nearbyint(largest / unit) > 127 && unit < 0x1p121) unit *= 2;
      for (const std::size_t i : group)
        values[i] = canonical(
            largest == 1e300
                ? values[i]
                : static_cast<float>(std::clamp(std::nearbyint(values[i] / unit), -127.0, 127.0) *
                                     unit));
    }
  }
  static A rest(A value, A seen) {
    if constexpr (std::is_floating_point_v<A>) {
      return seen == value || std::isnan(value) ? A{0} : value - seen;
    }
    return A{0};
  }
  static bool is_larger(A a, A b) {
    if constexpr (std::is_floating_point_v<A>) {
      if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && !std::isnan(b);
      return std::abs(a) > std::abs(b);
    }
    const auto size = [](A v) {
      return v < 0 ? std::uint64_t{0} - static_cast<std::uint64_t>(v)
                   : static_cast<std::uint64_t>(v);
    };
    return size(a) > size(b);
  }
  static std::set<std::size_t> largest_of(const std::vector<A>& values,
                                          const std::set<std::size_t>& among, std::size_t k) {
    std::vector<std::size_t> order(among.begin(), among.end());
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t i, std::size_t j) { return is_larger(values[i], values[j]); });
    order.resize(std::min(k, order.size()));
    return {order.begin(), order.end()};
  }
  static std::set<std::size_t> largest(const std::vector<A>& values, std::size_t k) {
    std::set<std::size_t> nonzero;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (values[i] != A{0}) nonzero.insert(i);
    }
    return largest_of(values, nonzero, k);
  }
  template <class Contributes>
  std::optional<A> tree(const std::vector<std::vector<A>>& seen, const Contributes& contributes,
                        std::size_t i, std::size_t a, std::size_t b) const {
    if (b - a == 1) return contributes(a, i) ? std::optional<A>(seen[a][i]) : std::nullopt;
    const std::size_t m = a + std::bit_floor(b - a - 1);
    const std::optional<A> left = tree(seen, contributes, i, a, m),
                           right = tree(seen, contributes, i, m, b);
    return left && right ? add(*left, *right) : left ? left : right;
  }
};

std::vector<std::byte> random_values(std::size_t count, DataType type, double zeros,
                                     bool has_others, SeededRandom& random) {
  std::vector<std::byte> values(count * element_bytes(type));
  for (std::size_t i = 0; i < count; ++i) {
    std::byte* const at = values.data() + i * element_bytes(type);
    if (random.chance(zeros)) continue;
    if (!info(type).is_float) {
      const std::uint64_t bits = random.below(2000) - 1000;
      std::memcpy(at, &bits, element_bytes(type));
      continue;
    }
    constexpr double kSpecial[] = {-0.0, 1e-40, 0.25, std::numeric_limits<double>::infinity(),
                                   std::numeric_limits<double>::quiet_NaN()};
    const std::size_t which = random.below(has_others ? 5 : 3);
    store_number(type, random.chance(0.02) ? kSpecial[which] : random.unit() - 0.5, at);
  }
  return values;
}

struct TopKWorld {
  TopKWorld(int ranks, std::uint64_t seed, const sparcl::test::SimOptions& options = {})
      : party(ranks, seed, options),
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
      return all_reduce_top_k(contexts[r], number, calls[r], reports[r]);
    });
  }

  SimParty party;
  std::vector<top_k::TopKCall> calls;
  std::vector<CallReport> reports;
  std::vector<CommContext> contexts;
  std::uint32_t calls_made = 0;
};

template <class A>
void expect_steps(int ranks, const Kind& kind, std::size_t count, std::size_t k,
                  const char* algorithm, bool with_feedback, std::uint64_t seed) {
  SCOPED_TRACE(testing::Message() << ranks << " ranks, " << info(kind.type).name << ", mode "
                                  << static_cast<int>(kind.mode) << ", wire "
                                  << static_cast<int>(kind.wire) << (kind.is_mean ? ", mean" : "")
                                  << ", k " << k << " of " << count << ", " << algorithm
                                  << (with_feedback ? ", feedback" : ""));
  SeededRandom random(seed);
  TopKWorld world(ranks, seed);
  for (CommContext& context : world.contexts) {
    context.entry_coding = seed % 2 == 0 ? comm::EntryCoding::kOff : comm::EntryCoding::kOn;
    for (int rank = 0; ranks % 4 == 0 && rank < ranks; rank += 2)
      context.node_map.nodes.push_back({rank, rank + 1});
  }
  const auto p = static_cast<std::size_t>(ranks);
  TopKReference<A> reference(kind, p, count);
  std::vector<sparse::Feedback> feedbacks;
  for (std::size_t r = 0; r < p; ++r) {
    Result<sparse::Feedback> feedback = sparse::Feedback::create(count, kind.type);
    ASSERT_TRUE(feedback.ok());
    feedbacks.push_back(std::move(*feedback));
  }
  for (int step = 0; step < 3; ++step) {
    std::vector<std::vector<std::byte>> sent, received;
    for (std::size_t r = 0; r < p; ++r)
      sent.push_back(
          random_values(count, kind.type, step == 1 ? 0.9 : 0.1, kind.has_others, random));
    const bool in_place = random.chance(0.5);
    received = in_place ? sent
                        : std::vector<std::vector<std::byte>>(
                              p, std::vector<std::byte>(sent[0].size(), std::byte{0xa5}));
    for (std::size_t r = 0; r < p; ++r) {
      world.calls[r] = {.refusal = {},
                        .send = in_place ? received[r].data() : sent[r].data(),
                        .receive = received[r].data(),
                        .count = count,
                        .k = k,
                        .datatype = kind.type,
                        .is_mean = kind.is_mean,
                        .feedback = with_feedback ? &feedbacks[r] : nullptr,
                        .mode = kind.mode,
                        .wire = kind.wire,
                        .determinism = Determinism::kCanonical,
                        .algorithm = algorithm};
    }
    const std::vector<std::byte> expected = reference.call(sent, k, with_feedback);
    const transport::SimOutcome outcome = world.run();
    ASSERT_TRUE(outcome.ok()) << outcome.report;
    for (std::size_t r = 0; r < p; ++r) {
      ASSERT_TRUE(world.party.result(static_cast<int>(r)).ok())
          << world.party.result(static_cast<int>(r)).message();
      ASSERT_TRUE(received[r] == expected) << "rank " << r << ", step " << step;
      if (!with_feedback || count == 0) continue;
      ASSERT_EQ(
          std::memcmp(feedbacks[r].residual(), reference.residuals[r].data(), count * sizeof(A)), 0)
          << "residual of rank " << r << ", step " << step;
    }
  }
}

void expect_steps_of(int ranks, const Kind& kind, std::size_t count, std::size_t k,
                     const char* algorithm, bool with_feedback, std::uint64_t seed) {
  switch (kind.type) {
    case DataType::kFloat64:
      return expect_steps<double>(ranks, kind, count, k, algorithm, with_feedback, seed);
    case DataType::kInt32:
      return expect_steps<std::int32_t>(ranks, kind, count, k, algorithm, with_feedback, seed);
    case DataType::kInt64:
      return expect_steps<std::int64_t>(ranks, kind, count, k, algorithm, with_feedback, seed);
    default:
      return expect_steps<float>(ranks, kind, count, k, algorithm, with_feedback, seed);
  }
}

constexpr DataType kTopKTypes[] = {DataType::kFloat64,  DataType::kFloat32, DataType::kFloat16,
                                   DataType::kBfloat16, DataType::kInt32,   DataType::kInt64};
constexpr top_k::TopKMode kModes[] = {top_k::TopKMode::kUnion, top_k::TopKMode::kSelected,
                                      top_k::TopKMode::kGlobal};

TEST(TopKAllReduce, EveryTypeModeRankCountAndAlgorithmBitForBit) {
  std::uint64_t seed = 0;
  for (const int ranks : sparcl::test::rank_counts()) {
    for (const DataType type : kTopKTypes) {
      for (const top_k::TopKMode mode : kModes) {
        for (const sparse_sum::SparseSumRow& row : sparse_sum::sparse_sum_table()) {
          ++seed;
          ASSERT_NO_FATAL_FAILURE(
              expect_steps_of(ranks, {type, seed % 2 == 0, mode, top_k::TopKWire::kSameType}, 700,
                              40, row.name, seed % 3 != 0, seed));
        }
      }
    }
  }
}

TEST(TopKAllReduce, ValuesRoundedOnTheWireStayInTheResidual) {
  std::uint64_t seed = 500;
  for (const int ranks : {1, 2, 3, 8}) {
    for (const DataType type : {DataType::kFloat32, DataType::kFloat16}) {
      for (const top_k::TopKMode mode : kModes) {
        ASSERT_NO_FATAL_FAILURE(expect_steps_of(
            ranks, {type, false, mode, top_k::TopKWire::kBfloat16}, 900, 50, "auto", true, ++seed));
        for (const sparse_sum::SparseSumRow& row : sparse_sum::sparse_sum_table()) {
          ++seed;
          ASSERT_NO_FATAL_FAILURE(
              expect_steps_of(ranks, {type, false, mode, top_k::TopKWire::kScaled8, seed % 4 == 0},
                              6000, 400, row.name, seed % 3 != 0, seed));
          if (type != DataType::kFloat32) continue;
          const auto few = seed % 2 == 0 ? top_k::TopKWire::kScaled4 : top_k::TopKWire::kScaled2;
          ASSERT_NO_FATAL_FAILURE(expect_steps_of(ranks, {type, false, mode, few, seed % 4 == 0},
                                                  6000, 400, row.name, seed % 3 != 0, seed));
        }
      }
    }
  }
}

TEST(TopKAllReduce, NoneAllAndMoreThanAll) {
  std::uint64_t seed = 600;
  for (const top_k::TopKMode mode : kModes) {
    for (const std::size_t count :
         {std::size_t{0}, std::size_t{1}, std::size_t{300}, std::size_t{70'000}}) {
      for (const std::size_t k : {std::size_t{0}, std::size_t{1}, count})
        ASSERT_NO_FATAL_FAILURE(
            expect_steps_of(3, {DataType::kFloat32, false, mode, top_k::TopKWire::kSameType}, count,
                            k, "auto", true, ++seed));
    }
  }
}

// Whole numbers are summed exactly: what all ranks gave is in the results and the residuals.
TEST(TopKAllReduce, ResultsAndResidualsAreTheInputs) {
  constexpr std::size_t kCount = 5'000, kRanks = 4;
  for (const top_k::TopKMode mode : kModes) {
    SeededRandom random(9);
    TopKWorld world(kRanks, 9);
    std::vector<sparse::Feedback> feedbacks;
    for (std::size_t r = 0; r < kRanks; ++r)
      feedbacks.push_back(std::move(*sparse::Feedback::create(kCount, DataType::kFloat32)));
    std::vector<double> given(kCount), got(kCount);
    for (int step = 0; step < 6; ++step) {
      std::vector<std::vector<float>> sent(kRanks, std::vector<float>(kCount)), received = sent;
      for (std::size_t r = 0; r < kRanks; ++r) {
        for (std::size_t i = 0; i < kCount; ++i)
          given[i] += sent[r][i] = static_cast<float>(static_cast<int>(random.below(2001)) - 1000);
        world.calls[r] = {.refusal = {},
                          .send = reinterpret_cast<const std::byte*>(sent[r].data()),
                          .receive = reinterpret_cast<std::byte*>(received[r].data()),
                          .count = kCount,
                          .k = 100,
                          .feedback = &feedbacks[r],
                          .mode = mode};
      }
      ASSERT_TRUE(world.run().ok());
      for (std::size_t i = 0; i < kCount; ++i) got[i] += received[0][i];
    }
    for (std::size_t i = 0; i < kCount; ++i) {
      double left = 0;
      for (sparse::Feedback& feedback : feedbacks)
        left += load_number(DataType::kFloat32, feedback.residual() + 4 * i);
      ASSERT_EQ(got[i] + left, given[i]) << "element " << i << ", mode " << static_cast<int>(mode);
    }
  }
}

// The choice of a sum's algorithm follows what the last call has found.
TEST(TopKAllReduce, LearnsHowFarSelectionsLieApart) {
  constexpr std::size_t kCount = 20'000, kRanks = 4;
  SeededRandom random(3);
  const std::vector<std::byte> same = random_values(kCount, DataType::kFloat32, 0, false, random);
  TopKWorld world(kRanks, 3);
  std::vector<std::vector<std::byte>> received(kRanks, std::vector<std::byte>(same.size()));
  std::vector<double> predicted;
  for (int step = 0; step < 2; ++step) {
    for (std::size_t r = 0; r < kRanks; ++r) {
      world.calls[r] = {.refusal = {},
                        .send = same.data(),
                        .receive = received[r].data(),
                        .count = kCount,
                        .k = 400,
                        .mode = top_k::TopKMode::kSelected,
                        .algorithm = "gather"};
    }
    ASSERT_TRUE(world.run().ok());
    for (const CallReport& report : world.reports)
      EXPECT_EQ(report.seconds_predicted, world.reports[0].seconds_predicted);
    predicted.push_back(world.reports[0].seconds_predicted);
  }
  for (const CommContext& context : world.contexts) EXPECT_EQ(context.learned_top_k->share, 0);
  EXPECT_LT(predicted[1], predicted[0]);
}

// Wherever a rank dies: who has no result has lost nothing, acc is its residual.
TEST(TopKAllReduce, AnErrorInTheMiddleLeavesAllInTheResidual) {
  constexpr std::size_t kCount = 3000, kRanks = 3;
  std::size_t in_the_middle = 0;
  for (const top_k::TopKMode mode : kModes) {
    for (const top_k::TopKWire wire :
         {top_k::TopKWire::kSameType, top_k::TopKWire::kBfloat16, top_k::TopKWire::kScaled8}) {
      for (std::uint64_t at = 0; at < 24; ++at) {
        SCOPED_TRACE(testing::Message() << "mode " << static_cast<int>(mode) << ", wire "
                                        << static_cast<int>(wire) << ", at " << at);
        const transport::FaultPlan plan{at,
                                        {{.fault = transport::Fault::kKill, .at = at, .rank = 1}}};
        SeededRandom random(at + 1);
        TopKWorld world(kRanks, at, {.faults = &plan});
        std::vector<sparse::Feedback> feedbacks;
        for (std::size_t r = 0; r < kRanks; ++r)
          feedbacks.push_back(std::move(*sparse::Feedback::create(kCount, DataType::kFloat32)));
        std::vector<std::vector<std::byte>> sent,
            received(kRanks, std::vector<std::byte>(4 * kCount, std::byte{0xa5}));
        for (std::size_t r = 0; r < kRanks; ++r)
          sent.push_back(random_values(kCount, DataType::kFloat32, 0.1, false, random));
        for (std::size_t r = 0; r < kRanks; ++r) {
          world.calls[r] = {.refusal = {},
                            .send = sent[r].data(),
                            .receive = received[r].data(),
                            .count = kCount,
                            .k = 300,
                            .feedback = &feedbacks[r],
                            .mode = mode,
                            .wire = wire};
        }
        ASSERT_TRUE(world.run().ok());
        for (std::size_t r = 0; r < kRanks; ++r) {
          if (world.party.is_killed(static_cast<int>(r)) ||
              world.party.result(static_cast<int>(r)).ok())
            continue;
          EXPECT_EQ(received[r], std::vector<std::byte>(4 * kCount, std::byte{0xa5}));
          bool is_untouched = true;
          for (std::size_t i = 0; i < kCount; ++i)
            is_untouched = is_untouched &&
                           load_number(DataType::kFloat32, feedbacks[r].residual() + 4 * i) == 0;
          if (is_untouched) continue;  // before the ranks had agreed
          ++in_the_middle;
          for (std::size_t i = 0; i < kCount; ++i) {
            ASSERT_EQ(load_number(DataType::kFloat32, feedbacks[r].residual() + 4 * i),
                      load_number(DataType::kFloat32, sent[r].data() + 4 * i))
                << "element " << i << " of rank " << r;
          }
        }
      }
    }
  }
  EXPECT_GT(in_the_middle, 50U);
}

// The variant of schemes that sum what was decompressed: what the ranks differ by comes back.
TEST(TopKAllReduce, ResidualsMayBeWhatTheMeanLacks) {
  constexpr std::size_t kCount = 5'000, kRanks = 4;
  for (const top_k::TopKMode mode : kModes) {
    for (const bool is_mean : {false, true}) {
      SeededRandom random(19);
      TopKWorld world(kRanks, 19);
      std::vector<sparse::Feedback> feedbacks;
      for (std::size_t r = 0; r < kRanks; ++r)
        feedbacks.push_back(std::move(*sparse::Feedback::create(kCount, DataType::kFloat32)));
      std::vector<std::vector<float>> residuals(kRanks, std::vector<float>(kCount));
      bool differs = false;
      for (int step = 0; step < 4; ++step) {
        std::vector<std::vector<float>> sent(kRanks, std::vector<float>(kCount)), received = sent;
        for (std::size_t r = 0; r < kRanks; ++r) {
          for (float& value : sent[r])
            value = 1024.0F * static_cast<float>(static_cast<int>(random.below(2001)) - 1000);
          world.calls[r] = {.refusal = {},
                            .send = reinterpret_cast<const std::byte*>(sent[r].data()),
                            .receive = reinterpret_cast<std::byte*>(received[r].data()),
                            .count = kCount,
                            .k = 100,
                            .is_mean = is_mean,
                            .feedback = &feedbacks[r],
                            .mode = mode,
                            .kept = top_k::TopKResidual::kMean};
        }
        ASSERT_TRUE(world.run().ok());
        for (std::size_t r = 0; r < kRanks; ++r) {
          for (std::size_t i = 0; i < kCount; ++i) {
            const float mean = received[r][i] / (is_mean ? 1 : kRanks);
            differs |= mean != 0 && residuals[r][i] + sent[r][i] != mean;
            residuals[r][i] += sent[r][i] - mean;  // exact: whole numbers
            float left = 0;
            std::memcpy(&left, feedbacks[r].residual() + 4 * i, sizeof left);
            ASSERT_EQ(left, residuals[r][i])
                << "rank " << r << ", element " << i << ", mode " << static_cast<int>(mode);
          }
        }
      }
      EXPECT_TRUE(differs);
    }
  }
}

TEST(TopKAllReduce, CallsThatDifferAreAMismatchAndNothingIsWritten) {
  struct Row {
    const char* text;
    top_k::TopKMode mode;
    void (*change)(top_k::TopKCall& call, CommContext& comm);
  };
  constexpr auto kUnion = top_k::TopKMode::kUnion;
  const Row rows[] = {
      {"options: rank 0 called sparclAllReduceTopK(count 10, float32, sum, k 2), rank 1 called",
       kUnion, [](top_k::TopKCall& call, CommContext&) { call.k = 3; }},
      {"count 10, float32, sum, mode global)", kUnion,
       [](top_k::TopKCall& call, CommContext&) { call.mode = top_k::TopKMode::kGlobal; }},
      {"count 10, float32, sum, wire 1)", kUnion,
       [](top_k::TopKCall& call, CommContext&) { call.wire = top_k::TopKWire::kBfloat16; }},
      {"count 10, float32, sum, determinism runs)", kUnion,
       [](top_k::TopKCall& call, CommContext&) { call.determinism = Determinism::kRuns; }},
      {"counts", kUnion, [](top_k::TopKCall& call, CommContext&) { call.count = 9; }},
      {"reductions", kUnion, [](top_k::TopKCall& call, CommContext&) { call.is_mean = true; }},
      {"data types", kUnion,
       [](top_k::TopKCall& call, CommContext&) { call.datatype = DataType::kInt32; }},
      {"SPARCL_ALGO_ALLREDUCE_SPARSE split", top_k::TopKMode::kSelected,
       [](top_k::TopKCall& call, CommContext&) { call.algorithm = "split"; }},
      {"SPARCL_ALGO_ALLREDUCE owner", kUnion,
       [](top_k::TopKCall&, CommContext& comm) { comm.all_reduce_algorithm = "owner"; }}};
  for (const Row& row : rows) {
    TopKWorld world(3, 5);
    std::vector<std::vector<float>> arrays(3, std::vector<float>(10, 2.0f));
    std::vector<sparse::Feedback> feedbacks;
    for (std::size_t r = 0; r < 3; ++r) {
      feedbacks.push_back(std::move(*sparse::Feedback::create(10, DataType::kFloat32)));
      auto* bytes = reinterpret_cast<std::byte*>(arrays[r].data());
      world.calls[r] = {
          .refusal = {}, .send = bytes, .receive = bytes, .count = 10, .k = 2, .feedback = nullptr};
    }
    for (std::size_t r = 0; r < 3; ++r) {
      world.calls[r].feedback = &feedbacks[r];
      world.calls[r].mode = row.mode;
    }
    row.change(world.calls[1], world.contexts[1]);
    ASSERT_TRUE(world.run().ok());
    for (int r = 0; r < 3; ++r) {
      EXPECT_EQ(world.party.result(r).code(), Code::kMismatch);
      EXPECT_THAT(std::string(world.party.result(r).message()), HasSubstr(row.text));
      EXPECT_EQ(arrays[static_cast<std::size_t>(r)], std::vector<float>(10, 2.0f));
      EXPECT_EQ(feedbacks[static_cast<std::size_t>(r)].residual_l2(), 0);
    }
  }
}

}  // namespace
}  // namespace sparcl::collectives
