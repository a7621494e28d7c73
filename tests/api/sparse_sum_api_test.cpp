// Sums of sparse vectors as users reach them: the C interface of the shared library, ranks as
// threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>

#include "sparcl/sparcl.hpp"
#include "tests/support/sparse_parties.hpp"
#include "thread_ranks.hpp"

namespace sparcl::test {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

constexpr const char* kAlgorithms[] = {"auto", "gather", "doubling", "split", "two_level"};

TEST(AllReduceSparseApi, EveryAlgorithmTypeSupportAndRankCount) {
  std::uint64_t seed = 0;
  for (const char* algorithm : kAlgorithms) {
    setenv("SPARCL_ALGO_ALLREDUCE_SPARSE", algorithm, 1);
    for (const int ranks : {1, 2, 3, 4, 5, 7, 8}) {
      ThreadRanks party(ranks);
      ASSERT_EQ(party.created(), sparclSuccess);
      std::vector<std::string> wrong(static_cast<std::size_t>(ranks));
      for (const Supports supports : kAllSupports) {
        const sparclDataType_t type = kSparseTypes[++seed % std::size(kSparseTypes)];
        (void)party.run([&](int rank, sparclComm_t comm) {
          wrong[static_cast<std::size_t>(rank)] =
              check_sparse_sum(comm, supports, 20'000, type, seed, seed % 3 == 0);
          return sparclSuccess;
        });
        ASSERT_THAT(wrong, Each("")) << algorithm << ", " << ranks << " ranks, support "
                                     << static_cast<int>(supports) << ", type " << type;
      }
    }
  }
  unsetenv("SPARCL_ALGO_ALLREDUCE_SPARSE");
}

TEST(AllReduceSparseApi, SeveralAreInFlightAtOnce) {
  ThreadRanks party(4);
  ASSERT_EQ(party.created(), sparclSuccess);
  const auto results = party.run([&](int rank, sparclComm_t comm) {
    constexpr std::size_t kCalls = 4;
    std::vector<SparseVector> own;
    std::vector<std::vector<unsigned char>> values;
    std::vector<std::vector<std::uint64_t>> indices(kCalls, std::vector<std::uint64_t>(5'000));
    std::vector<std::vector<float>> sums(kCalls, std::vector<float>(5'000));
    std::size_t nnz[kCalls] = {};
    sparclRequest_t requests[kCalls] = {};
    for (std::size_t c = 0; c < kCalls; ++c) {
      own.push_back(vector_of(Supports::kSparse, 200'000, rank, 4, c));
      values.push_back(own.back().values(sparclFloat32));
    }
    for (std::size_t c = 0; c < kCalls; ++c) {
      EXPECT_EQ(
          sparclIAllReduceSparse(values[c].data(), own[c].indices.data(), own[c].indices.size(),
                                 200'000, sums[c].data(), indices[c].data(), &nnz[c], 5'000,
                                 sparclFloat32, sparclSum, nullptr, comm, nullptr, &requests[c]),
          sparclSuccess);
    }
    for (std::size_t c = kCalls; c-- > 0;) {
      if (const sparclResult_t result = sparclWait(&requests[c], nullptr); result != sparclSuccess)
        return result;
      const SparseVector expected = sum_of(Supports::kSparse, 200'000, 4, c);
      indices[c].resize(nnz[c]);
      EXPECT_EQ(indices[c], expected.indices);
      for (std::size_t i = 0; i < nnz[c]; ++i)
        EXPECT_EQ(sums[c][i], static_cast<float>(expected.numbers[i]));
    }
    return sparclSuccess;
  });
  EXPECT_THAT(results, Each(sparclSuccess)) << sparclGetLastError(party.comm(0));
}

TEST(AllReduceSparseApi, TruncatedSaysHowManyThereAre) {
  ThreadRanks party(3);
  ASSERT_EQ(party.created(), sparclSuccess);
  const auto results = party.run([](int rank, sparclComm_t comm) {
    const std::uint64_t own[] = {static_cast<std::uint64_t>(rank), 50};
    const float values[] = {1, 1};
    std::uint64_t indices[10];
    float sums[10] = {-1};
    std::size_t nnz = 0;
    const sparclResult_t result =
        sparclAllReduceSparse(values, own, 2, 100, sums, indices, &nnz, rank == 1 ? 3 : 10,
                              sparclFloat32, sparclSum, nullptr, comm, nullptr);
    EXPECT_EQ(nnz, 4U);
    EXPECT_EQ(sums[0], -1);
    EXPECT_THAT(sparclGetLastError(comm),
                AllOf(HasSubstr("sparclAllReduceSparse: the sum has 4 entries, and rank 1 ("),
                      HasSubstr("pid "),
                      HasSubstr(rank == 1 ? ") has room for 3 only (this one)"
                                          : ") has room for 3 only (this one for 10)")));
    return result;
  });
  EXPECT_THAT(results, Each(sparclTruncated));
}

TEST(AllReduceSparseApi, BadArgumentsOfOneRankAreToldToAll) {
  struct Row {
    const char* text;
    sparclResult_t (*call)(sparclComm_t comm);
  };
  static std::uint64_t index = 3, out_index[2];
  static float value = 1, out_value[2];
  static std::size_t nnz;
  const Row rows[] = {
      {"values or indices is NULL",
       [](sparclComm_t c) {
         return sparclAllReduceSparse(nullptr, &index, 1, 10, out_value, out_index, &nnz, 2,
                                      sparclFloat32, sparclSum, nullptr, c, nullptr);
       }},
      {"out_nnz is NULL",
       [](sparclComm_t c) {
         return sparclAllReduceSparse(&value, &index, 1, 10, out_value, out_index, nullptr, 2,
                                      sparclFloat32, sparclSum, nullptr, c, nullptr);
       }},
      {"out_values or out_indices is NULL",
       [](sparclComm_t c) {
         return sparclAllReduceSparse(&value, &index, 1, 10, nullptr, out_index, &nnz, 2,
                                      sparclFloat32, sparclSum, nullptr, c, nullptr);
       }},
      {"overlap",
       [](sparclComm_t c) {
         return sparclAllReduceSparse(&value, &index, 1, 10, &value, out_index, &nnz, 1,
                                      sparclFloat32, sparclSum, nullptr, c, nullptr);
       }},
      {"99 is no data type",
       [](sparclComm_t c) {
         return sparclAllReduceSparse(&value, &index, 1, 10, out_value, out_index, &nnz, 2,
                                      static_cast<sparclDataType_t>(99), sparclSum, nullptr, c,
                                      nullptr);
       }},
      {"9 is no reduction",
       [](sparclComm_t c) {
         return sparclAllReduceSparse(&value, &index, 1, 10, out_value, out_index, &nnz, 2,
                                      sparclFloat32, static_cast<sparclRedOp_t>(9), nullptr, c,
                                      nullptr);
       }},
      {"sparclAllReduceSparse: indices[0] = 3, but there are 3 elements",
       [](sparclComm_t c) {
         return sparclAllReduceSparse(&value, &index, 1, 3, out_value, out_index, &nnz, 2,
                                      sparclFloat32, sparclSum, nullptr, c, nullptr);
       }},
      {"out_indices overlaps values: inputs are read while outputs are written",
       [](sparclComm_t c) {
         return sparclAllReduceSparse(&value, &index, 1, 10, out_value,
                                      reinterpret_cast<std::uint64_t*>(&value), &nnz, 2,
                                      sparclFloat32, sparclSum, nullptr, c, nullptr);
       }},
      {"indices are below 2^63", [](sparclComm_t c) {
         return sparclAllReduceSparse(&value, &index, 1, SIZE_MAX, out_value, out_index, &nnz, 2,
                                      sparclFloat32, sparclSum, nullptr, c, nullptr);
       }}};
  ThreadRanks party(3);
  ASSERT_EQ(party.created(), sparclSuccess);
  for (const Row& row : rows) {
    const auto results = party.run([&](int rank, sparclComm_t comm) {
      if (rank == 2) return row.call(comm);
      std::uint64_t own = 3, indices[2];
      float one = 1, sums[2];
      std::size_t size = 0;
      return sparclAllReduceSparse(&one, &own, 1, 10, sums, indices, &size, 2, sparclFloat32,
                                   sparclSum, nullptr, comm, nullptr);
    });
    EXPECT_THAT(results, Each(sparclInvalidArgument)) << row.text;
    EXPECT_THAT(sparclGetLastError(party.comm(0)), HasSubstr(row.text));
  }
}

TEST(AllReduceSparseApi, InCpp) {
  std::vector<Comm> comms = Comm::local(2);
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < comms.size(); ++rank) {
    threads.emplace_back([rank, &comm = comms[rank]] {
      const std::vector<double> values{1.5, 2.5};
      const std::vector<std::uint64_t> indices{7, 10 + rank};
      std::vector<double> sums(4);
      std::vector<std::uint64_t> where(4);
      const Report report = comm.all_reduce_sparse<double>(values, indices, 100, sums, where);
      EXPECT_EQ(sums, (std::vector<double>{3, 2.5, 2.5}));
      EXPECT_EQ(where, (std::vector<std::uint64_t>{7, 10, 11}));
      EXPECT_EQ(report.nnz_out, 3U);
      // What the vectors can hold is their capacity, whatever came back before.
      const std::vector<std::uint64_t> apart{20 + rank, 30 + rank};
      comm.all_reduce_sparse<double>(values, apart, 100, sums, where);
      EXPECT_EQ(where, (std::vector<std::uint64_t>{20, 21, 30, 31}));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(AllReduceSparseApi, ARankThatCannotCallInCppTellsTheOthersWhy) {
  std::vector<Comm> comms = Comm::local(3);
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < comms.size(); ++rank) {
    threads.emplace_back([rank, &comm = comms[rank]] {
      const std::vector<double> values(rank == 1 ? 1 : 2);
      const std::vector<std::uint64_t> indices{7, 10};
      std::vector<double> sums(4, 5);
      std::vector<std::uint64_t> where(4, 5);
      try {
        comm.all_reduce_sparse<double>(values, indices, 100, sums, where);
        ADD_FAILURE() << "rank " << rank;
      } catch (const Error& error) {
        EXPECT_EQ(error.result(), sparclInvalidArgument);
        EXPECT_THAT(error.what(),
                    HasSubstr("all_reduce_sparse: values and indices differ in length"));
        EXPECT_EQ(std::string(error.what()).find("rank 1 refused") != std::string::npos, rank != 1)
            << error.what();
      }
      EXPECT_EQ(sums, std::vector<double>(4, 5));
      const std::vector<double> two{1, 1};
      comm.all_reduce_sparse<double>(two, indices, 100, sums, where);
      EXPECT_EQ(sums, (std::vector<double>{3, 3}));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace sparcl::test
