// The sparse broadcasts as users reach them: the C interface of the shared library, ranks as
// threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "sparcl/sparcl.h"
#include "thread_ranks.hpp"

namespace sparcl::test {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

using Bits = std::vector<std::uint16_t>;

Bits random_bits(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  Bits bits(count);
  for (auto& b : bits) b = static_cast<std::uint16_t>(random());
  return bits;
}

Bits changed(Bits bits, double share, unsigned seed) {
  std::mt19937 random(seed);
  std::bernoulli_distribution changes(share);
  for (auto& b : bits) {
    if (changes(random)) b = static_cast<std::uint16_t>(b + 1);
  }
  return bits;
}

// Ranks that have gone apart, each elsewhere, and a root that sends deltas again after one call
// without a base.
TEST(BroadcastDeltaApi, OneCallWithoutABaseBringsRanksTogetherAgain) {
  constexpr int kRanks = 3;
  constexpr std::size_t kCount = 70'000;
  for (const char* verify : {"off", "touched", "full"}) {
    setenv("SPARCL_VERIFY", verify, 1);
    ThreadRanks party(kRanks);
    unsetenv("SPARCL_VERIFY");
    ASSERT_EQ(party.created(), sparclSuccess);
    std::vector<Bits> held;
    for (int rank = 0; rank < kRanks; ++rank)
      held.push_back(random_bits(kCount, static_cast<unsigned>(rank)));
    const Bits first = held[1], second = changed(first, 0.001, 9);
    const auto broadcast = [&](const Bits* base) {
      return party.run([&](int rank, sparclComm_t comm) {
        return sparclBroadcastDelta(held[static_cast<std::size_t>(rank)].data(),
                                    rank == 1 && base != nullptr ? base->data() : nullptr, kCount,
                                    sparclBfloat16, 1, nullptr, comm, nullptr);
      });
    };
    EXPECT_THAT(broadcast(nullptr), Each(sparclSuccess)) << verify;
    EXPECT_THAT(held, Each(first)) << verify;
    held[1] = second;
    EXPECT_THAT(broadcast(&first), Each(sparclSuccess)) << verify;
    EXPECT_THAT(held, Each(second)) << verify;
  }
}

TEST(BroadcastDeltaApi, ReplicasEqualTheRootForEveryRankCount) {
  for (const int ranks : kRankCounts) {
    for (const std::size_t count :
         {std::size_t{0}, std::size_t{1}, std::size_t{65'537}, std::size_t{300'000}}) {
      ThreadRanks party(ranks);
      ASSERT_EQ(party.created(), sparclSuccess);
      const Bits base = random_bits(count, 1), target = changed(base, 0.01, 2);
      std::vector<Bits> held(static_cast<std::size_t>(ranks), base);
      const int root = ranks / 2;
      held[static_cast<std::size_t>(root)] = target;
      const auto results = party.run([&](int rank, sparclComm_t comm) {
        return sparclBroadcastDelta(held[static_cast<std::size_t>(rank)].data(),
                                    rank == root ? base.data() : nullptr, count, sparclBfloat16,
                                    root, nullptr, comm, nullptr);
      });
      EXPECT_THAT(results, Each(sparclSuccess));
      EXPECT_THAT(held, Each(target));
    }
  }
}

TEST(BroadcastDeltaApi, ThreadsOfARankShareItsWork) {
  const std::size_t count = 3'000'000;
  const Bits base = random_bits(count, 1), target = changed(base, 0.01, 2);
  ASSERT_EQ(::setenv("SPARCL_THREADS", "3", 1), 0);
  ThreadRanks party(3);
  ASSERT_EQ(::unsetenv("SPARCL_THREADS"), 0);
  ASSERT_EQ(party.created(), sparclSuccess);
  std::vector<Bits> held(3, base);
  held[1] = target;
  for (int round = 0; round < 2; ++round) {  // the second is a repeat
    const auto results = party.run([&](int rank, sparclComm_t comm) {
      return sparclBroadcastDelta(held[static_cast<std::size_t>(rank)].data(),
                                  rank == 1 ? base.data() : nullptr, count, sparclBfloat16, 1,
                                  nullptr, comm, nullptr);
    });
    EXPECT_THAT(results, Each(sparclSuccess));
    EXPECT_THAT(held, Each(target));
  }
  ASSERT_EQ(::setenv("SPARCL_THREADS", "100000", 1), 0);
  sparclComm_t comm = nullptr;
  EXPECT_EQ(sparclCommInitLocal(&comm, 1), sparclInvalidArgument);
  ASSERT_EQ(::unsetenv("SPARCL_THREADS"), 0);
}

TEST(BroadcastDeltaApi, ReportSaysWhatMoved) {
  ThreadRanks party(4);
  const std::size_t count = 1 << 20;
  const Bits base = random_bits(count, 1), target = changed(base, 0.01, 2);
  std::size_t different = 0;
  for (std::size_t i = 0; i < count; ++i) different += base[i] != target[i];
  std::vector<Bits> held(4, base);
  held[0] = target;
  party.run([&](int rank, sparclComm_t comm) {
    return sparclBroadcastDelta(held[static_cast<std::size_t>(rank)].data(), base.data(), count,
                                sparclBfloat16, 0, nullptr, comm, nullptr);
  });
  for (int rank = 0; rank < 4; ++rank) {
    sparclReport_t report = SPARCL_REPORT_INITIALIZER;
    ASSERT_EQ(sparclCommLastReport(party.comm(rank), &report), sparclSuccess);
    EXPECT_EQ(report.nnz_in, different);
    EXPECT_EQ(report.nnz_out, different);
    EXPECT_EQ(report.bytes_dense, count * 2);
    EXPECT_EQ(report.applied, 1);
    EXPECT_GT(report.seconds, 0);
    EXPECT_LT(report.bytes_bound, report.bytes_dense / 50);
    EXPECT_EQ(report.bytes_received, rank == 0 ? 0 : report.bytes_bound);
    EXPECT_STRNE(report.algorithm, "");
  }
}

TEST(BroadcastDeltaApi, OlderReportStructIsNotOverrun) {
  ThreadRanks party(1);
  struct {
    sparclReport_t report;
  } guarded = {SPARCL_REPORT_INITIALIZER};
  guarded.report.size = offsetof(sparclReport_t, seconds);
  guarded.report.seconds = -1;
  EXPECT_EQ(sparclCommLastReport(party.comm(0), &guarded.report), sparclSuccess);
  EXPECT_EQ(guarded.report.seconds, -1);
  guarded.report.size = 0;
  EXPECT_EQ(sparclCommLastReport(party.comm(0), &guarded.report), sparclInvalidArgument);
}

struct BadCall {
  const char* text;
  sparclResult_t expected;
  sparclResult_t (*call)(std::uint16_t* weights, const std::uint16_t* base, sparclComm_t comm);
};

TEST(BroadcastDeltaApi, ABadArgumentOnOneRankIsAnErrorOnAllAndTheCommStaysUsable) {
  const BadCall rows[] = {
      {"weights is NULL", sparclInvalidArgument,
       [](std::uint16_t*, const std::uint16_t* base, sparclComm_t comm) {
         return sparclBroadcastDelta(nullptr, base, 1000, sparclBfloat16, 0, nullptr, comm,
                                     nullptr);
       }},
      {"no data type", sparclInvalidArgument,
       [](std::uint16_t* w, const std::uint16_t* base, sparclComm_t comm) {
         return sparclBroadcastDelta(w, base, 1000, static_cast<sparclDataType_t>(99), 0, nullptr,
                                     comm, nullptr);
       }},
      {"no rank", sparclInvalidArgument,
       [](std::uint16_t* w, const std::uint16_t* base, sparclComm_t comm) {
         return sparclBroadcastDelta(w, base, 1000, sparclBfloat16, 77, nullptr, comm, nullptr);
       }},
      {"stream NULL", sparclUnsupported,
       [](std::uint16_t* w, const std::uint16_t* base, sparclComm_t comm) {
         return sparclBroadcastDelta(w, base, 1000, sparclBfloat16, 0, nullptr, comm,
                                     reinterpret_cast<sparclStream_t>(w));
       }},
      {"counts", sparclMismatch,
       [](std::uint16_t* w, const std::uint16_t* base, sparclComm_t comm) {
         return sparclBroadcastDelta(w, base, 999, sparclBfloat16, 0, nullptr, comm, nullptr);
       }},
      {"data types", sparclMismatch,
       [](std::uint16_t* w, const std::uint16_t* base, sparclComm_t comm) {
         return sparclBroadcastDelta(w, base, 1000, sparclFloat16, 0, nullptr, comm, nullptr);
       }},
      {"roots", sparclMismatch,
       [](std::uint16_t* w, const std::uint16_t* base, sparclComm_t comm) {
         return sparclBroadcastDelta(w, base, 1000, sparclBfloat16, 1, nullptr, comm, nullptr);
       }},
  };
  for (const BadCall& row : rows) {
    SCOPED_TRACE(row.text);
    for (const int odd : {0, 2}) {
      ThreadRanks party(3);
      const Bits base = random_bits(1000, 1), target = changed(base, 0.1, 2);
      std::vector<Bits> held{target, base, base};
      const auto call = [&](int rank, sparclComm_t comm) {
        return sparclBroadcastDelta(held[static_cast<std::size_t>(rank)].data(), base.data(), 1000,
                                    sparclBfloat16, 0, nullptr, comm, nullptr);
      };
      const auto refused = party.run([&](int rank, sparclComm_t comm) {
        return rank == odd
                   ? row.call(held[static_cast<std::size_t>(rank)].data(), base.data(), comm)
                   : call(rank, comm);
      });
      EXPECT_THAT(refused, Each(row.expected));
      for (int rank = 0; rank < 3; ++rank)
        EXPECT_THAT(sparclGetLastError(party.comm(rank)), HasSubstr(row.text));
      EXPECT_THAT(held, testing::ElementsAre(target, base, base));
      EXPECT_THAT(party.run(call), Each(sparclSuccess));
      EXPECT_THAT(held, Each(target));
    }
  }
}

TEST(BroadcastDeltaApi, DifferentCallsAreAMismatch) {
  ThreadRanks party(2);
  Bits weights(10), base(10);
  std::vector<float> values(10);
  std::vector<std::uint64_t> indices(10);
  std::size_t nnz = 0;
  const auto results = party.run([&](int rank, sparclComm_t comm) {
    return rank == 0 ? sparclBroadcastDelta(weights.data(), base.data(), 10, sparclBfloat16, 0,
                                            nullptr, comm, nullptr)
                     : sparclBroadcastSparse(values.data(), indices.data(), &nnz, 10, sparclFloat32,
                                             0, nullptr, comm, nullptr);
  });
  EXPECT_THAT(results, Each(sparclMismatch));
  EXPECT_THAT(sparclGetLastError(party.comm(0)), HasSubstr("sparclBroadcastSparse"));
}

// One rank's model: two tensors.
struct Model {
  Bits first;
  std::vector<float> second;
  sparclState_t state = nullptr;

  Model() = default;
  Model(Bits a, std::vector<float> b) : first(std::move(a)), second(std::move(b)) {
    const std::uint64_t shape1[] = {first.size()}, shape2[] = {2, second.size() / 2};
    EXPECT_EQ(sparclStateCreate(&state), sparclSuccess);
    EXPECT_EQ(sparclStateAdd(state, "layer.weight", first.data(), sparclBfloat16, 1, shape1),
              sparclSuccess);
    EXPECT_EQ(sparclStateAdd(state, "layer.bias", second.data(), sparclFloat32, 2, shape2),
              sparclSuccess);
  }
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;
  Model(Model&& other) noexcept
      : first(std::move(other.first)),
        second(std::move(other.second)),
        state(std::exchange(other.state, nullptr)) {}
  ~Model() { EXPECT_EQ(sparclStateDestroy(state), sparclSuccess); }

  // In place: the state knows the tensor by its address.
  void set_first(const Bits& bits) { std::copy(bits.begin(), bits.end(), first.begin()); }

  std::array<std::uint8_t, 16> hash() const {
    std::array<std::uint8_t, 16> bytes{};
    EXPECT_EQ(sparclStateHash(state, bytes.data()), sparclSuccess);
    return bytes;
  }
};

std::vector<Model> models(int ranks, std::size_t count) {
  std::vector<Model> all;
  for (int rank = 0; rank < ranks; ++rank) {
    all.emplace_back(random_bits(count, static_cast<unsigned>(rank)),
                     std::vector<float>(64, static_cast<float>(rank)));
  }
  return all;
}

std::vector<sparclResult_t> update(ThreadRanks& party, std::vector<Model>& all,
                                   std::uint64_t version, int root) {
  return party.run([&](int rank, sparclComm_t comm) {
    return sparclBroadcastUpdate(all[static_cast<std::size_t>(rank)].state,
                                 rank == 1 && root != 1 ? 0 : version, root, nullptr, comm,
                                 nullptr);
  });
}

void expect_equal(const std::vector<Model>& all, std::uint64_t version) {
  for (const Model& model : all) {
    EXPECT_EQ(model.first, all[0].first);
    EXPECT_EQ(model.second, all[0].second);
    EXPECT_EQ(model.hash(), all[0].hash());
    std::uint64_t held = 0;
    EXPECT_EQ(sparclStateVersion(model.state, &held), sparclSuccess);
    EXPECT_EQ(held, version);
  }
}

TEST(BroadcastUpdateApi, FirstCallSendsAllLaterOnesWhatChanged) {
  ThreadRanks party(3);
  std::vector<Model> all = models(3, 200'000);
  for (std::uint64_t version = 1; version <= 5; ++version) {
    if (version > 1) {
      all[0].set_first(changed(all[0].first, 0.01, static_cast<unsigned>(version)));
      all[0].second[version] += 1;
    }
    EXPECT_THAT(update(party, all, version, 0), Each(sparclSuccess));
    expect_equal(all, version);
    sparclReport_t report = SPARCL_REPORT_INITIALIZER;
    EXPECT_EQ(sparclCommLastReport(party.comm(2), &report), sparclSuccess);
    if (version == 1) {
      EXPECT_GE(report.bytes_received, 400'000u);
    } else {
      EXPECT_LT(report.bytes_received, 10'000u);
    }
  }
}

TEST(BroadcastUpdateApi, AnotherRootSendsAllAndTheFirstRootAfterIt) {
  ThreadRanks party(3);
  std::vector<Model> all = models(3, 1000);
  std::uint64_t version = 0;
  for (const int root : {0, 2, 0, 1}) {
    all[static_cast<std::size_t>(root)].set_first(
        random_bits(1000, 100 + static_cast<unsigned>(version)));
    const Bits expected = all[static_cast<std::size_t>(root)].first;
    EXPECT_THAT(update(party, all, ++version, root), Each(sparclSuccess));
    expect_equal(all, version);
    EXPECT_EQ(all[0].first, expected);
  }
}

// The library follows a state's hash from update to update. What a caller does to his own tensors
// in between must not make an error of it, as long as the changed elements hold what the root
// believes.
TEST(BroadcastUpdateApi, OwnWritesBetweenUpdatesAreNoErrorOfTheTrackedHash) {
  ThreadRanks party(3);
  std::vector<Model> all = models(3, 5000);
  EXPECT_THAT(update(party, all, 1, 0), Each(sparclSuccess));
  const Bits first = all[0].first;
  all[1].first[4999] ^= 1;  // where the next update has no change
  for (std::size_t i = 0; i < 50; ++i) all[0].first[i] ^= 1;
  EXPECT_THAT(update(party, all, 2, 0), Each(sparclSuccess));
  EXPECT_EQ(all[1].first[4999], first[4999] ^ 1) << "nobody looked there";
  EXPECT_NE(all[1].hash(), all[0].hash()) << "the hash is of the bytes, not of the updates";
  all[1].first[4999] ^= 1;

  // Another state object with the same bytes has followed nothing, or something else: as in double
  // buffering.
  Model aside = std::move(all[2]);
  all.pop_back();
  all.push_back(std::move(models(1, 5000)[0]));
  all[2].set_first(all[0].first);
  std::copy(all[0].second.begin(), all[0].second.end(), all[2].second.begin());
  for (std::size_t i = 100; i < 150; ++i) all[0].first[i] ^= 1;
  EXPECT_THAT(update(party, all, 3, 0), Each(sparclSuccess));
  expect_equal(all, 3);
  all.pop_back();
  all.push_back(std::move(aside));  // has followed to version 2
  all[2].set_first(all[0].first);
  for (std::size_t i = 200; i < 250; ++i) all[0].first[i] ^= 1;
  EXPECT_THAT(update(party, all, 4, 0), Each(sparclSuccess));
  expect_equal(all, 4);
}

TEST(BroadcastUpdateApi, ARefusedUpdateLeavesTheBaseWhereItWas) {
  ThreadRanks party(2);
  std::vector<Model> all = models(2, 1000);
  ASSERT_THAT(update(party, all, 1, 0), Each(sparclSuccess));
  const Bits old = all[1].first;
  all[0].set_first(changed(all[0].first, 0.2, 1));
  all[1].first[5] ^= 1;  // a replica has strayed
  const bool touched = all[0].first[5] != old[5];
  if (!touched) all[0].first[5] ^= 2;
  EXPECT_THAT(update(party, all, 2, 0), Each(sparclWrongBase));
  for (int rank = 0; rank < 2; ++rank)
    EXPECT_THAT(
        sparclGetLastError(party.comm(rank)),
        AllOf(HasSubstr(": sparclBroadcastUpdate: "), HasSubstr("(in block 0 of 'layer.weight')"),
              HasSubstr("an update that sends all: the first of another root or communicator")));
  all[1].set_first(old);
  EXPECT_THAT(update(party, all, 2, 0), Each(sparclSuccess));
  expect_equal(all, 2);
}

TEST(BroadcastUpdateApi, AStateInFlightIsInvalidUsageOnEveryRankAndTheCommStaysUsable) {
  ThreadRanks party(2);
  std::vector<Model> all = models(3, 1000);
  const auto results = party.run([&](int rank, sparclComm_t comm) {
    sparclRequest_t first = nullptr, second = nullptr;
    const sparclState_t again = all[rank == 0 ? 0 : 2].state;  // rank 1 does nothing wrong
    EXPECT_EQ(sparclIBroadcastUpdate(all[static_cast<std::size_t>(rank)].state, 1, 0, nullptr, comm,
                                     nullptr, &first),
              sparclSuccess);
    EXPECT_EQ(sparclIBroadcastUpdate(again, 1, 0, nullptr, comm, nullptr, &second), sparclSuccess);
    EXPECT_EQ(sparclWait(&first, nullptr), sparclSuccess);
    return sparclWait(&second, nullptr);
  });
  EXPECT_THAT(results, Each(sparclInvalidUsage));
  EXPECT_THAT(sparclGetLastError(party.comm(1)),
              HasSubstr("rank 0 refused: sparclIBroadcastUpdate: a broadcast of this state"));
  EXPECT_EQ(all[1].first, all[0].first);
  EXPECT_THAT(update(party, all, 2, 0), Each(sparclSuccess));
}

TEST(BroadcastUpdateApi, NamedChangesAreSentAndSurviveARefusal) {
  ThreadRanks party(2);
  std::vector<Model> all = models(2, 100'000);
  ASSERT_THAT(update(party, all, 1, 0), Each(sparclSuccess));
  for (std::uint64_t i : {7u, 70'000u, 99'999u}) all[0].first[i] ^= 1;
  const std::uint64_t indices[] = {7, 70'000}, more[] = {7, 99'999};
  EXPECT_EQ(sparclStateMarkIndices(all[0].state, "layer.weight", indices, 2), sparclSuccess);
  all[1].first[7] ^= 4;
  EXPECT_THAT(update(party, all, 2, 0), Each(sparclWrongBase));
  all[1].first[7] ^= 4;
  EXPECT_EQ(sparclStateMarkIndices(all[0].state, "layer.weight", more, 2), sparclSuccess);
  EXPECT_THAT(update(party, all, 2, 0), Each(sparclSuccess));
  expect_equal(all, 2);

  all[0].first[64'321] ^= 8;
  std::vector<std::uint64_t> bitmap(100'000 / 1000 / 64 + 1, 0);
  bitmap[1] = 1;  // elements 64,000 to 64,999
  EXPECT_EQ(sparclStateMarkBlocks(all[0].state, "layer.weight", bitmap.data(), 1000),
            sparclSuccess);
  EXPECT_THAT(update(party, all, 3, 0), Each(sparclSuccess));
  expect_equal(all, 3);
}

TEST(BroadcastUpdateApi, MarksAreAPromiseThatIsTakenAtItsWord) {
  ThreadRanks party(2);
  std::vector<Model> all = models(2, 1000);
  ASSERT_THAT(update(party, all, 1, 0), Each(sparclSuccess));
  all[0].first[3] ^= 1;
  const std::uint64_t elsewhere[] = {4};
  EXPECT_EQ(sparclStateMarkIndices(all[0].state, "layer.weight", elsewhere, 1), sparclSuccess);
  EXPECT_THAT(update(party, all, 2, 0), Each(sparclSuccess));
  EXPECT_NE(all[0].first, all[1].first);
  EXPECT_THAT(update(party, all, 3, 0),
              Each(sparclSuccess));  // marks hold for one update: this one compares all
  expect_equal(all, 3);
}

TEST(BroadcastUpdateApi, StatesThatDifferInANameAreAMismatch) {
  ThreadRanks party(2);
  Bits data(8);
  const std::uint64_t shape[] = {8};
  const auto results = party.run([&](int rank, sparclComm_t comm) {
    sparclState_t state = nullptr;
    EXPECT_EQ(sparclStateCreate(&state), sparclSuccess);
    EXPECT_EQ(sparclStateAdd(state, rank == 0 ? "a" : "b", data.data(), sparclBfloat16, 1, shape),
              sparclSuccess);
    const sparclResult_t result = sparclBroadcastUpdate(state, 1, 0, nullptr, comm, nullptr);
    EXPECT_EQ(sparclStateDestroy(state), sparclSuccess);
    return result;
  });
  EXPECT_THAT(results, Each(sparclMismatch));
  EXPECT_THAT(sparclGetLastError(party.comm(0)), HasSubstr("first in tensor 0, here 'a' "));
  EXPECT_THAT(sparclGetLastError(party.comm(1)), HasSubstr("first in tensor 0, here 'b' "));
}

TEST(BroadcastSparseApi, EntriesArriveAtEveryIndexUpTo64Bits) {
  for (const int ranks : kRankCounts) {
    ThreadRanks party(ranks);
    std::vector<std::uint64_t> indices{0,
                                       1,
                                       65'535,
                                       65'536,
                                       1u << 31,
                                       std::uint64_t{1} << 32,
                                       (std::uint64_t{1} << 40) + 3,
                                       UINT64_MAX - 1};
    std::vector<float> values(indices.size());
    std::iota(values.begin(), values.end(), -3.0f);
    values[3] = -0.0f;
    const auto results = party.run([&](int rank, sparclComm_t comm) {
      if (rank == 0) {
        std::size_t nnz = indices.size();
        return sparclBroadcastSparse(values.data(), indices.data(), &nnz, nnz, sparclFloat32, 0,
                                     nullptr, comm, nullptr);
      }
      std::vector<std::uint64_t> got_indices(20, 99);
      std::vector<float> got_values(20, 99);
      std::size_t nnz = 0;
      const sparclResult_t result =
          sparclBroadcastSparse(got_values.data(), got_indices.data(), &nnz, 20, sparclFloat32, 0,
                                nullptr, comm, nullptr);
      got_indices.resize(nnz);
      EXPECT_EQ(got_indices, indices);
      EXPECT_EQ(std::memcmp(got_values.data(), values.data(), values.size() * sizeof(float)), 0);
      return result;
    });
    EXPECT_THAT(results, Each(sparclSuccess));
  }
}

TEST(BroadcastSparseApi, TooSmallACapacityIsTruncatedEverywhere) {
  ThreadRanks party(3);
  const auto results = party.run([&](int rank, sparclComm_t comm) {
    std::vector<std::uint64_t> indices{5, 6, 7};
    std::vector<double> values{1, 2, 3};
    std::size_t nnz = rank == 0 ? 3 : 0;
    if (rank != 0) std::fill(indices.begin(), indices.end(), 99);
    const sparclResult_t result =
        sparclBroadcastSparse(values.data(), indices.data(), &nnz, rank == 2 ? 2 : 3, sparclFloat64,
                              0, nullptr, comm, nullptr);
    EXPECT_EQ(nnz, 3u);
    EXPECT_TRUE(rank == 0 || std::all_of(indices.begin(), indices.end(),
                                         [](std::uint64_t i) { return i == 99; }));
    return result;
  });
  EXPECT_THAT(results, Each(sparclTruncated));
  EXPECT_THAT(sparclGetLastError(party.comm(0)), HasSubstr("rank 2"));
}

TEST(BroadcastSparseApi, IndicesThatDoNotAscendAreRefusedEverywhere) {
  for (const std::vector<std::uint64_t>& bad :
       {std::vector<std::uint64_t>{1, 1}, std::vector<std::uint64_t>{2, 1}}) {
    ThreadRanks party(2);
    const auto results = party.run([&](int rank, sparclComm_t comm) {
      std::vector<std::uint64_t> indices = bad;
      std::vector<float> values(2);
      std::size_t nnz = rank == 0 ? 2 : 0;
      return sparclBroadcastSparse(values.data(), indices.data(), &nnz, 2, sparclFloat32, 0,
                                   nullptr, comm, nullptr);
    });
    EXPECT_THAT(results, Each(sparclInvalidArgument));
    EXPECT_THAT(sparclGetLastError(party.comm(1)), HasSubstr("ascend"));
  }
}

}  // namespace
}  // namespace sparcl::test
