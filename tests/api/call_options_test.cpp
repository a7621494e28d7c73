// Options of one call: they count before the communicator's settings, for this call alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "sparcl/sparcl.hpp"
#include "thread_ranks.hpp"

namespace sparcl::test {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

constexpr std::size_t kCount = 70'000;

// One collective, made with the algorithm of that name; nullptr: without options.
using Made = std::function<sparclResult_t(int rank, sparclComm_t comm, const char* algorithm)>;

class CallOptions : public ::testing::Test {
 protected:
  static constexpr int kRanks = 4;

  std::vector<sparclResult_t> make(const Made& call, const char* algorithm) {
    return party_.run([&](int rank, sparclComm_t comm) { return call(rank, comm, algorithm); });
  }

  // "options.algorithm = 'none': expected auto, chain, ..., or NULL for SPARCL_ALGO_...".
  std::vector<std::string> names_of(const Made& call) {
    EXPECT_THAT(make(call, "none"), Each(sparclInvalidArgument));
    const std::string text = sparclGetLastError(party_.comm(0));
    EXPECT_THAT(text, AllOf(HasSubstr("options.algorithm = 'none': expected auto, "),
                            HasSubstr(", or NULL for SPARCL_ALGO_")));
    std::vector<std::string> names;
    std::size_t at = text.find("auto, ") + 6;
    const std::size_t end = text.find(", or NULL");
    while (at < end) {
      const std::size_t comma = std::min(text.find(", ", at), end);
      names.push_back(text.substr(at, comma - at));
      at = comma + 2;
    }
    return names;
  }

  std::string algorithm_of_last() {
    sparclReport_t report = SPARCL_REPORT_INITIALIZER;
    EXPECT_EQ(sparclCommLastReport(party_.comm(0), &report), sparclSuccess);
    return report.algorithm;
  }

  // not_here: names that a communicator of threads takes as auto.
  void expect_named_algorithm(const Made& call, const std::vector<std::string>& not_here = {}) {
    for (int turn = 0; turn < 2; ++turn)  // the first sparse sum learns the size of the union
      ASSERT_THAT(make(call, nullptr), Each(sparclSuccess));
    const std::string automatic = algorithm_of_last();
    const std::vector<std::string> names = names_of(call);
    ASSERT_GE(names.size(), 2u);
    for (const std::string& name : names) {
      ASSERT_THAT(make(call, name.c_str()), Each(sparclSuccess)) << name;
      const bool is_here = std::ranges::find(not_here, name) == not_here.end();
      EXPECT_EQ(algorithm_of_last(), is_here ? name : automatic);
    }
    ASSERT_THAT(make(call, nullptr), Each(sparclSuccess));
    EXPECT_EQ(algorithm_of_last(), automatic) << "an option outlived its call";
    const std::string odd = names[0] == automatic ? names[1] : names[0];
    const auto results = party_.run([&](int rank, sparclComm_t comm) {
      return call(rank, comm, rank == 2 ? odd.c_str() : automatic.c_str());
    });
    EXPECT_THAT(results, Each(sparclMismatch)) << odd << ", " << automatic;
    EXPECT_THAT(make(call, nullptr), Each(sparclSuccess));
  }

  ThreadRanks party_{kRanks};
};

sparclResult_t broadcast(int rank, sparclComm_t comm, const sparclBroadcastOptions_t* options) {
  std::vector<float> weights(kCount, rank == 1 ? 2.0f : 1.0f);
  const std::vector<float> base(kCount, 1.0f);
  const sparclResult_t result = sparclBroadcastDelta(weights.data(), base.data(), kCount,
                                                     sparclFloat32, 1, options, comm, nullptr);
  if (result == sparclSuccess) {
    EXPECT_THAT(weights, Each(2.0f));
  }
  return result;
}

TEST_F(CallOptions, BroadcastDeltaTakesTheNamedAlgorithm) {
  expect_named_algorithm(
      [](int rank, sparclComm_t comm, const char* algorithm) {
        sparclBroadcastOptions_t options = SPARCL_BROADCAST_OPTIONS_INITIALIZER;
        options.algorithm = algorithm;
        return broadcast(rank, comm, &options);
      },
      {"nccl"});
}

TEST_F(CallOptions, BroadcastUpdateTakesTheNamedAlgorithm) {
  std::vector<std::vector<float>> models(kRanks, std::vector<float>(kCount));
  std::vector<State> states(kRanks);
  for (std::size_t r = 0; r < states.size(); ++r) states[r].add("w", models[r], {kCount});
  std::vector<std::uint64_t> versions(kRanks);
  expect_named_algorithm(
      [&](int rank, sparclComm_t comm, const char* algorithm) {
        const auto r = static_cast<std::size_t>(rank);
        sparclUpdateOptions_t options = SPARCL_UPDATE_OPTIONS_INITIALIZER;
        options.algorithm = algorithm;
        ++versions[r];
        if (rank == 0) models[0][versions[0] % kCount] += 1;
        return sparclBroadcastUpdate(states[r].get(), versions[r], 0, &options, comm, nullptr);
      },
      {"nccl"});
  EXPECT_THAT(models, Each(models[0]));
}

TEST_F(CallOptions, BroadcastSparseTakesTheNamedAlgorithm) {
  expect_named_algorithm(
      [](int rank, sparclComm_t comm, const char* algorithm) {
        sparclBroadcastOptions_t options = SPARCL_BROADCAST_OPTIONS_INITIALIZER;
        options.algorithm = algorithm;
        std::vector<float> values(100, rank == 3 ? 5.0f : 0.0f);
        std::vector<std::uint64_t> indices(100);
        std::iota(indices.begin(), indices.end(), rank == 3 ? 7u : 0u);
        std::size_t nnz = 100;
        const sparclResult_t result = sparclBroadcastSparse(
            values.data(), indices.data(), &nnz, 100, sparclFloat32, 3, &options, comm, nullptr);
        if (result == sparclSuccess) {
          EXPECT_EQ(indices[99], 106u);
        }
        return result;
      },
      {"nccl", "dense"});
}

TEST_F(CallOptions, AllReduceMaskedTakesTheNamedAlgorithm) {
  const Mask mask = Mask::random(kCount, 0.3, 1);
  expect_named_algorithm([&](int, sparclComm_t comm, const char* algorithm) {
    sparclMaskedOptions_t options = SPARCL_MASKED_OPTIONS_INITIALIZER;
    options.algorithm = algorithm;
    std::vector<float> data(kCount, 1.0f);
    return sparclAllReduceMasked(data.data(), data.data(), kCount, sparclFloat32, sparclSum,
                                 mask.get(), nullptr, &options, comm, nullptr);
  });
}

Made top_k_in(sparclTopKMode_t mode) {
  return [mode](int rank, sparclComm_t comm, const char* algorithm) {
    sparclTopKOptions_t options = SPARCL_TOPK_OPTIONS_INITIALIZER;
    options.mode = mode;
    options.algorithm = algorithm;
    std::vector<float> data(kCount, static_cast<float>(rank + 1));
    return sparclAllReduceTopK(data.data(), data.data(), kCount, 100, sparclFloat32, sparclSum,
                               nullptr, &options, comm, nullptr);
  };
}

TEST_F(CallOptions, AllReduceTopKTakesTheNamedAlgorithm) {
  // All ranks are on one machine.
  expect_named_algorithm(top_k_in(sparclTopKSelected), {"two_level"});
  expect_named_algorithm(top_k_in(sparclTopKGlobal), {"two_level"});
}

TEST_F(CallOptions, InModeUnionTheAlgorithmIsOfTheDenseSum) {
  const Mask mask = Mask::random(kCount, 0.3, 1);
  const Made masked = [&](int, sparclComm_t comm, const char* algorithm) {
    sparclMaskedOptions_t options = SPARCL_MASKED_OPTIONS_INITIALIZER;
    options.algorithm = algorithm;
    std::vector<float> data(kCount, 1.0f);
    return sparclAllReduceMasked(data.data(), data.data(), kCount, sparclFloat32, sparclSum,
                                 mask.get(), nullptr, &options, comm, nullptr);
  };
  const Made top_k = top_k_in(sparclTopKUnion);
  for (const std::string& name : names_of(masked)) {
    ASSERT_THAT(make(top_k, name.c_str()), Each(sparclSuccess)) << name;
    EXPECT_EQ(algorithm_of_last(), name);
  }
  for (const std::string& name : names_of(top_k_in(sparclTopKSelected)))
    EXPECT_THAT(make(top_k, name.c_str()), Each(sparclSuccess)) << name;
}

// Values of one rank's sparse vector: what bfloat16 and 8 bits do not hold exactly.
float value_of(int rank, std::size_t i) {
  return 1.0f + static_cast<float>(i % 97) / 128 + static_cast<float>(rank) / 3;
}

struct SparseResult {
  sparclResult_t result = sparclSuccess;
  std::vector<float> values;
  std::vector<std::uint64_t> indices;
  sparclReport_t report = SPARCL_REPORT_INITIALIZER;
};

// Each rank has every (rank + 2)-th element, those of rank 1 twice: halves.
SparseResult sum_sparse(int rank, sparclComm_t comm, const sparclSparseOptions_t* options,
                        sparclRedOp_t op = sparclSum) {
  constexpr std::size_t kLength = 3'000;
  std::vector<float> values;
  std::vector<std::uint64_t> indices;
  for (std::size_t i = 0; i < kLength; i += static_cast<std::size_t>(rank) + 2) {
    for (int turn = 0; turn < (rank == 1 ? 2 : 1); ++turn) {
      values.push_back(rank == 1 ? value_of(rank, i) / 2 : value_of(rank, i));
      indices.push_back(i);
    }
  }
  SparseResult made;
  made.values.resize(kLength);
  made.indices.resize(kLength);
  std::size_t nnz = 0;
  made.result = sparclAllReduceSparse(values.data(), indices.data(), values.size(), kLength,
                                      made.values.data(), made.indices.data(), &nnz, kLength,
                                      sparclFloat32, op, options, comm, nullptr);
  made.values.resize(nnz);
  made.indices.resize(nnz);
  (void)sparclCommLastReport(comm, &made.report);
  return made;
}

TEST_F(CallOptions, AllReduceSparseTakesTheNamedAlgorithm) {
  expect_named_algorithm(
      [](int rank, sparclComm_t comm, const char* algorithm) {
        sparclSparseOptions_t options = SPARCL_SPARSE_OPTIONS_INITIALIZER;
        options.algorithm = algorithm;
        return sum_sparse(rank, comm, &options).result;
      },
      {"two_level"});
}

float to_bfloat16(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, 4);
  bits += 0x7fff + (bits >> 16 & 1);
  bits &= 0xffff0000;
  std::memcpy(&value, &bits, 4);
  return value;
}

// Duplicates combine first; sums of up to 4 numbers of 8 bits are exact in float32.
TEST_F(CallOptions, SparseSumsAreOfTheRoundedValues) {
  for (const sparclRedOp_t op : {sparclSum, sparclAvg}) {
    std::vector<SparseResult> exact(kRanks), rounded(kRanks), scaled(kRanks);
    (void)party_.run([&](int rank, sparclComm_t comm) {
      const auto r = static_cast<std::size_t>(rank);
      sparclSparseOptions_t options = SPARCL_SPARSE_OPTIONS_INITIALIZER;
      options.algorithm = "gather";  // the cheapest depends on links, which a busy machine slows
      exact[r] = sum_sparse(rank, comm, &options, op);
      options.wire = sparclWireBfloat16;
      rounded[r] = sum_sparse(rank, comm, &options, op);
      options.wire = sparclWireInt8;
      scaled[r] = sum_sparse(rank, comm, &options, op);
      return sparclSuccess;
    });
    for (const auto* sums : {&exact, &rounded, &scaled}) {
      for (const SparseResult& sum : *sums) {
        ASSERT_EQ(sum.result, sparclSuccess) << sparclGetLastError(party_.comm(0));
        EXPECT_TRUE(sum.indices == exact[0].indices && sum.values == sums->front().values);
      }
    }
    bool differs = false;
    for (std::size_t i = 0; i < exact[0].indices.size(); ++i) {
      float expected = 0;
      for (int rank = 0; rank < kRanks; ++rank) {
        const std::size_t index = exact[0].indices[i], step = static_cast<std::size_t>(rank) + 2;
        if (index % step == 0) expected += to_bfloat16(value_of(rank, index));
      }
      if (op == sparclAvg) expected /= kRanks;
      ASSERT_EQ(rounded[0].values[i], expected) << "element " << exact[0].indices[i];
      ASSERT_NEAR(scaled[0].values[i], exact[0].values[i], 0.05);
      differs = differs || rounded[0].values[i] != exact[0].values[i];
    }
    EXPECT_TRUE(differs);
    EXPECT_EQ(exact[0].report.wire_datatype, sparclFloat32);
    EXPECT_EQ(rounded[0].report.wire_datatype, sparclBfloat16);
    // Results are float32 either way: what a rank sends of its own entries is half.
    EXPECT_LT(rounded[3].report.bytes_sent, exact[3].report.bytes_sent);
  }
}

// The result has the call's type: float16 sums of bfloat16 values, rounded once. Integers are sent
// as they are.
TEST_F(CallOptions, AWireTypeLeavesTheTypeOfTheResult) {
  const auto results = party_.run([&](int rank, sparclComm_t comm) {
    sparclSparseOptions_t options = SPARCL_SPARSE_OPTIONS_INITIALIZER;
    options.wire = sparclWireBfloat16;
    const std::uint64_t index = 4;
    const std::uint16_t half = 0x3c01;  // 1 + 2^-10, in bfloat16 1
    std::uint16_t sum = 0;
    std::uint64_t at = 0;
    std::size_t nnz = 0;
    const sparclResult_t made = sparclAllReduceSparse(
        &half, &index, 1, 9, &sum, &at, &nnz, 1, sparclFloat16, sparclSum, &options, comm, nullptr);
    EXPECT_EQ(sum, 0x4400) << "4";
    EXPECT_EQ(at, 4u);
    const std::int32_t whole = 16'777'217 + rank;  // more than float32 holds
    std::int32_t total = 0;
    const sparclResult_t exact =
        sparclAllReduceSparse(&whole, &index, 1, 9, &total, &at, &nnz, 1, sparclInt32, sparclSum,
                              &options, comm, nullptr);
    EXPECT_EQ(total, 4 * 16'777'217 + 6);
    return made != sparclSuccess ? made : exact;
  });
  EXPECT_THAT(results, Each(sparclSuccess)) << sparclGetLastError(party_.comm(0));
}

TEST_F(CallOptions, SparseOptionsMustBeAlike) {
  struct Row {
    void (*change)(sparclSparseOptions_t&);
    sparclResult_t expected;
    const char *own, *theirs;
  };
  for (const Row& row :
       {Row{[](sparclSparseOptions_t& options) { options.wire = sparclWireInt8; }, sparclMismatch,
            "sum, wire 2)", "sum, wire 0)"},
        Row{[](sparclSparseOptions_t& options) { options.determinism = sparclDeterminismRuns; },
            sparclMismatch, "sum, determinism runs)", "sum, determinism canonical)"},
        Row{[](sparclSparseOptions_t& options) {
              options.determinism = sparclDeterminismCanonical;
            },
            sparclSuccess, "", ""},
        Row{[](sparclSparseOptions_t& options) { options.wire = static_cast<sparclWire_t>(5); },
            sparclInvalidArgument, "options.wire = 5 is no sparclWire_t", ""},
        Row{[](sparclSparseOptions_t& options) {
              options.determinism = static_cast<sparclDeterminism_t>(9);
            },
            sparclInvalidArgument, "options.determinism = 9 is no sparclDeterminism_t", ""},
        Row{[](sparclSparseOptions_t& options) { options.size = 0; }, sparclInvalidArgument,
            "options.size is 0", ""}}) {
    const auto results = party_.run([&](int rank, sparclComm_t comm) {
      sparclSparseOptions_t options = SPARCL_SPARSE_OPTIONS_INITIALIZER;
      if (rank == 2) row.change(options);
      return sum_sparse(rank, comm, &options).result;
    });
    EXPECT_THAT(results, Each(row.expected));
    if (row.expected != sparclSuccess) {
      EXPECT_THAT(sparclGetLastError(party_.comm(1)),
                  AllOf(HasSubstr(row.own), HasSubstr(row.theirs)));
    }
  }
}

// The base of rank 2 is another one at an element that changes (touched), or at one that does not
// (full).
TEST_F(CallOptions, ABroadcastChecksWhatTheCallSays) {
  struct Row {
    sparclVerify_t verify;
    std::size_t damaged;  // element 0 changes
    sparclResult_t expected;
  };
  for (const Row& row :
       {Row{sparclVerifyDefault, 0, sparclWrongBase}, Row{sparclVerifyOff, 0, sparclSuccess},
        Row{sparclVerifyTouched, 0, sparclWrongBase}, Row{sparclVerifyTouched, 5, sparclSuccess},
        Row{sparclVerifyFull, 5, sparclWrongBase}}) {
    const auto results = party_.run([&](int rank, sparclComm_t comm) {
      const std::vector<float> base(kCount, 1.0f);
      std::vector<float> weights = base;
      if (rank == 2) weights[row.damaged] = 3;
      if (rank == 0) weights[0] = 2;
      sparclBroadcastOptions_t options = SPARCL_BROADCAST_OPTIONS_INITIALIZER;
      options.verify = row.verify;
      const sparclResult_t result = sparclBroadcastDelta(weights.data(), base.data(), kCount,
                                                         sparclFloat32, 0, &options, comm, nullptr);
      EXPECT_EQ(weights[0], rank == 0 || result == sparclSuccess ? 2
                            : rank == 2 && row.damaged == 0      ? 3
                                                                 : 1);
      return result;
    });
    EXPECT_THAT(results, Each(row.expected)) << row.verify << ", element " << row.damaged;
  }
}

TEST_F(CallOptions, AnUpdateChecksWhatTheCallSays) {
  for (const sparclVerify_t verify : {sparclVerifyTouched, sparclVerifyFull}) {
    std::vector<std::vector<float>> models(kRanks, std::vector<float>(kCount));
    std::vector<State> states(kRanks);
    for (std::size_t r = 0; r < states.size(); ++r) states[r].add("w", models[r], {kCount});
    const auto update = [&](std::uint64_t version, sparclVerify_t checked) {
      return party_.run([&](int rank, sparclComm_t comm) {
        sparclUpdateOptions_t options = SPARCL_UPDATE_OPTIONS_INITIALIZER;
        options.verify = checked;
        return sparclBroadcastUpdate(states[static_cast<std::size_t>(rank)].get(), version, 0,
                                     &options, comm, nullptr);
      });
    };
    ASSERT_THAT(update(1, sparclVerifyDefault), Each(sparclSuccess));
    models[0][0] = 1;
    models[3][9] = 7;  // not touched
    EXPECT_THAT(update(2, verify),
                Each(verify == sparclVerifyFull ? sparclWrongBase : sparclSuccess));
  }
}

TEST_F(CallOptions, RanksMustCheckAlike) {
  const auto results = party_.run([&](int rank, sparclComm_t comm) {
    sparclBroadcastOptions_t options = SPARCL_BROADCAST_OPTIONS_INITIALIZER;
    options.verify = rank == 3 ? sparclVerifyFull : sparclVerifyDefault;
    return broadcast(rank, comm, &options);
  });
  EXPECT_THAT(results, Each(sparclMismatch));
  EXPECT_THAT(sparclGetLastError(party_.comm(0)), HasSubstr("SPARCL_VERIFY full"));
}

TEST_F(CallOptions, BroadcastOptionsAreCheckedOnAllRanks) {
  struct Row {
    void (*change)(sparclBroadcastOptions_t&);
    const char* text;
  };
  for (const Row& row :
       {Row{[](sparclBroadcastOptions_t& options) {
              options.verify = static_cast<sparclVerify_t>(4);
            },
            "options.verify = 4 is no sparclVerify_t"},
        Row{[](sparclBroadcastOptions_t& options) {
              options.commit = static_cast<sparclCommit_t>(3);
            },
            "options.commit = 3 is no sparclCommit_t"},
        Row{[](sparclBroadcastOptions_t& options) { options.size = 5; }, "options.size is 5"}}) {
    const auto results = party_.run([&](int rank, sparclComm_t comm) {
      sparclBroadcastOptions_t options = SPARCL_BROADCAST_OPTIONS_INITIALIZER;
      if (rank == 3) row.change(options);
      return broadcast(rank, comm, &options);
    });
    EXPECT_THAT(results, Each(sparclInvalidArgument));
    EXPECT_THAT(sparclGetLastError(party_.comm(0)), HasSubstr(row.text));
  }
}

// Whether a replica's array is seen partially written between two steps of its request: early
// writing takes many, staged writing one.
bool is_seen_partially_written(sparclCommit_t commit) {
  constexpr std::size_t kLong = 8'000'000, kLast = kLong - 100;
  ThreadRanks party(2);
  std::vector<float> base(kLong, 1.0f), target = base, held = base;
  for (std::size_t i = 0; i < kLong; i += 100) target[i] = 1.5f;
  sparclBroadcastOptions_t options = SPARCL_BROADCAST_OPTIONS_INITIALIZER;
  options.commit = commit;
  sparclRequest_t root = nullptr, replica = nullptr;
  EXPECT_EQ(sparclIBroadcastDelta(target.data(), base.data(), kLong, sparclFloat32, 0, &options,
                                  party.comm(0), nullptr, &root),
            sparclSuccess);
  EXPECT_EQ(sparclIBroadcastDelta(held.data(), nullptr, kLong, sparclFloat32, 0, &options,
                                  party.comm(1), nullptr, &replica),
            sparclSuccess);
  bool is_seen = false;
  for (int turn = 0; held[kLast] == 1.0f && turn < 10'000'000; ++turn) {
    is_seen = is_seen || held[0] == 1.5f;
    sparclResult_t health = sparclInternalError;  // asking for it is one step
    EXPECT_EQ(sparclCommGetAsyncError(party.comm(turn % 2), &health), sparclSuccess);
  }
  int root_done = 0, replica_done = 0;
  while (root_done == 0 || replica_done == 0) {
    EXPECT_EQ(sparclTest(&root, &root_done, nullptr), sparclSuccess);
    EXPECT_EQ(sparclTest(&replica, &replica_done, nullptr), sparclSuccess);
  }
  EXPECT_TRUE(held == target);
  return is_seen;
}

TEST(BroadcastCommit, TheCallSaysWhenReplicasWrite) {
  EXPECT_TRUE(is_seen_partially_written(sparclCommitEarly));
  EXPECT_FALSE(is_seen_partially_written(sparclCommitStaged));
  EXPECT_FALSE(is_seen_partially_written(sparclCommitDefault));  // of non-blocking calls
}

TEST(Version, TheHeaderAndTheLibraryAgree) {
  int version = 0;
  EXPECT_EQ(sparclGetVersion(&version), sparclSuccess);
  EXPECT_EQ(version, SPARCL_VERSION);
  EXPECT_TRUE(
      SPARCL_VERSION_AT_LEAST(SPARCL_VERSION_MAJOR, SPARCL_VERSION_MINOR, SPARCL_VERSION_PATCH));
  EXPECT_FALSE(SPARCL_VERSION_AT_LEAST(SPARCL_VERSION_MAJOR + 1, 0, 0));
}

}  // namespace
}  // namespace sparcl::test
