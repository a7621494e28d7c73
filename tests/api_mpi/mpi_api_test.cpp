// The C and C++ interfaces over MPI, as a user's program: every rank of mpirun runs these tests
// together.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "sparcl/sparcl.hpp"
#include "sparcl/sparcl_mpi.h"
#include "tests/support/mpi_end.hpp"
#include "tests/support/own_objects.hpp"
#include "tests/support/sparse_parties.hpp"
#include "tests/support/top_k_parties.hpp"

namespace sparcl::test {
namespace {

int world_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

int world_size() {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

std::vector<float> state_of(std::uint64_t version, std::size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 0.5f);
  for (std::uint64_t v = 2; v <= version; ++v) {
    for (std::size_t i = v; i < count; i += 97) values[i] += static_cast<float>(v);
  }
  return values;
}

TEST(MpiApi, DeltaReachesEveryRankFromEveryRoot) {
  Comm comm = Comm::mpi(MPI_COMM_WORLD);
  EXPECT_EQ(comm.rank(), world_rank());
  EXPECT_EQ(comm.size(), world_size());
  std::uint64_t version = 1;
  std::vector<float> held = state_of(1, 500'000);
  for (int root = 0; root < comm.size(); ++root, ++version) {
    const std::vector<float> base = state_of(version, held.size()),
                             target = state_of(version + 1, held.size());
    if (comm.rank() == root) held = target;
    const Report report =
        comm.broadcast_delta(std::span<float>(held), std::span<const float>(base), root);
    EXPECT_EQ(held, target);
    EXPECT_EQ(report.applied, 1);
  }
}

TEST(MpiApi, MaskedAllReduceSumsTheMaskAndLeavesTheRest) {
  Comm comm = Comm::mpi(MPI_COMM_WORLD);
  for (const std::size_t count : {std::size_t{1}, std::size_t{1'000}, std::size_t{1'000'000}}) {
    Mask mask = Mask::random(count, 0.3, 7);
    for (std::uint64_t step = 0; step < 3; ++step) {
      mask.set_step(step);
      std::vector<float> values(count);
      for (std::size_t i = 0; i < count; ++i)
        values[i] = static_cast<float>((i + static_cast<std::size_t>(world_rank())) % 100);
      std::vector<float> expected = values;
      for (const std::uint64_t i : mask.indices()) {
        expected[i] = 0;
        for (int rank = 0; rank < world_size(); ++rank)
          expected[i] += static_cast<float>((i + static_cast<std::size_t>(rank)) %
                                            100);  // whole: exact in any order
      }
      EXPECT_EQ(comm.all_reduce_masked(values, std::span(values), mask).nnz_out,
                mask.indices().size());
      EXPECT_TRUE(values == expected)
          << "rank " << world_rank() << ", count " << count << ", step " << step;
    }
  }
}

TEST(MpiApi, SparseVectorsAreSummedByEveryAlgorithm) {
  std::uint64_t seed = 0;
  for (const char* algorithm : {"auto", "gather", "doubling", "split", "two_level"}) {
    setenv("SPARCL_ALGO_ALLREDUCE_SPARSE", algorithm, 1);
    Comm comm = Comm::mpi(MPI_COMM_WORLD);
    for (const Supports supports : kAllSupports) {
      for (const sparclDataType_t type : kSparseTypes) {
        if (++seed % 2 == 0) continue;  // half of them: in time
        EXPECT_EQ(check_sparse_sum(comm.get(), supports, 6'000, type, seed, seed % 3 == 0), "")
            << algorithm << ", support " << static_cast<int>(supports) << ", type " << type;
      }
    }
    EXPECT_EQ(check_sparse_sum(comm.get(), Supports::kSparse, 1'000'000, sparclFloat32, 1, false),
              "")
        << algorithm;
  }
  unsetenv("SPARCL_ALGO_ALLREDUCE_SPARSE");
}

TEST(MpiApi, TopKWithFeedbackLosesNothing) {
  Comm comm = Comm::mpi(MPI_COMM_WORLD);
  for (const sparclTopKMode_t mode : {sparclTopKUnion, sparclTopKSelected, sparclTopKGlobal}) {
    EXPECT_EQ(check_top_k(comm.get(), mode, 20'000, 300, 1), "") << "mode " << mode;
    EXPECT_EQ(check_top_k(comm.get(), mode, 7, 3, 2), "") << "mode " << mode;
  }
}

TEST(MpiApi, ModelStaysInStepOverManyVersions) {
  Comm comm = Comm::mpi(MPI_COMM_WORLD);
  std::vector<float> weights(70'000);
  std::vector<std::uint16_t> bias(5);
  State state;
  state.add("weights", std::span<float>(weights), {700, 100});
  state.add("bias", std::span<std::uint16_t>(bias), {5});
  const int root = comm.size() - 1;
  for (std::uint64_t version = 1; version <= 8; ++version) {
    if (comm.rank() == root) {
      const std::vector<float> next = state_of(version, weights.size());
      std::copy(next.begin(), next.end(), weights.begin());
      bias[version % 5] = static_cast<std::uint16_t>(version);
    }
    comm.broadcast_update(state, version, root);
    EXPECT_EQ(weights, state_of(version, weights.size()));
    EXPECT_EQ(bias[version % 5], version);
    EXPECT_EQ(state.version(), version);
    Hash mine = state.hash(), first = mine;
    MPI_Bcast(first.data(), static_cast<int>(first.size()), MPI_BYTE, 0, MPI_COMM_WORLD);
    EXPECT_EQ(mine, first);
  }
}

TEST(MpiApi, SparseVectorAndTruncation) {
  Comm comm = Comm::mpi(MPI_COMM_WORLD);
  std::vector<double> values;
  std::vector<std::uint64_t> indices;
  if (comm.rank() == 0) {
    values = {1, -0.0, 3};
    indices = {2, 1u << 20, std::uint64_t{1} << 45};
  }
  comm.broadcast_sparse(values, indices, 3, 0);
  EXPECT_EQ(indices, (std::vector<std::uint64_t>{2, 1u << 20, std::uint64_t{1} << 45}));
  EXPECT_EQ(values, (std::vector<double>{1, -0.0, 3}));
  if (comm.size() == 1) return;
  try {
    comm.broadcast_sparse(values, indices, comm.rank() == comm.size() - 1 ? 1 : 3, 0);
    FAIL() << "an entry too many was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.result(), sparclTruncated);
  }
}

TEST(MpiApi, AMismatchIsAnErrorOnEveryRankAndTheCommGoesOn) {
  Comm comm = Comm::mpi(MPI_COMM_WORLD);
  if (comm.size() == 1) return;
  std::vector<float> held = state_of(1, 100);
  const std::size_t count = comm.rank() == 1 ? 99 : 100;
  EXPECT_EQ(sparclBroadcastDelta(held.data(), nullptr, count, sparclFloat32, 0, nullptr, comm.get(),
                                 nullptr),
            sparclMismatch);
  EXPECT_NE(std::string(sparclGetLastError(comm.get())).find("rank 1"), std::string::npos);
  EXPECT_EQ(sparclBroadcastDelta(held.data(), nullptr, 100, sparclFloat32, 0, nullptr, comm.get(),
                                 nullptr),
            sparclSuccess);
}

TEST(MpiApi, SeveralRequestsInFlight) {
  Comm comm = Comm::mpi(MPI_COMM_WORLD);
  std::vector<std::vector<float>> held(6, std::vector<float>(100'000, 0));
  std::vector<sparclRequest_t> requests(held.size());
  for (std::size_t i = 0; i < held.size(); ++i) {
    const int root = static_cast<int>(i) % comm.size();
    if (comm.rank() == root) std::fill(held[i].begin(), held[i].end(), static_cast<float>(i + 1));
    ASSERT_EQ(sparclIBroadcastDelta(held[i].data(), nullptr, held[i].size(), sparclFloat32, root,
                                    nullptr, comm.get(), nullptr, &requests[i]),
              sparclSuccess);
  }
  for (std::size_t i = held.size(); i-- > 0;)
    EXPECT_EQ(sparclWait(&requests[i], nullptr), sparclSuccess);  // in any order
  for (std::size_t i = 0; i < held.size(); ++i)
    EXPECT_EQ(held[i], std::vector<float>(100'000, static_cast<float>(i + 1)));
}

TEST(MpiApi, CommsOfSplitCommunicatorsDoNotMix) {
  const int color = world_rank() % 2;
  MPI_Comm half = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, color, 0, &half);
  {
    Comm comm = Comm::mpi(half);
    std::vector<int> held(1000, comm.rank() == 0 ? 5 + color : 0);
    comm.broadcast_delta(std::span<int>(held), std::span<const int>(), 0);
    EXPECT_EQ(held, std::vector<int>(1000, 5 + color));
  }
  MPI_Comm_free(&half);
}

TEST(MpiApi, CommsLeaveNothing) {
  constexpr std::size_t kComms = 12;
  const auto make_one = [] {
    const Comm comm = Comm::mpi(MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
  };
  for (int i = 0; i < 2; ++i) make_one();  // what the process keeps in any case
  const std::size_t before = own_objects().number;
  if (before == 0) GTEST_SKIP() << "a sanitizer has its own new, and its own search for leaks";
  for (std::size_t i = 0; i < kComms; ++i) make_one();
  EXPECT_LT(own_objects().number, before + kComms) << "each leaves an object behind";
}

std::size_t entries_of(const char* folder) {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    count += entry.path().empty() ? 0 : 1;
  return count;
}

std::size_t resident_bytes() {
  std::size_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

TEST(MpiApi, CommunicatorsThatAreAliveShareThreadsDescriptorsAndMemory) {
  constexpr std::size_t kComms = 16, kBytesEach = 200'000, kMpisOwn = 2 << 20;
  std::vector<float> held(100'000);
  std::vector<Comm> comms;
  const auto make_one = [&] {
    comms.push_back(Comm::mpi(MPI_COMM_WORLD));
    comms.back().broadcast_delta(std::span<float>(held), std::span<const float>(), 0);
  };
  // Two: once calls have taken pieces of the window, it keeps those of the next measurement.
  for (int i = 0; i < 2; ++i) make_one();
  const std::size_t descriptors = entries_of("/proc/self/fd"),
                    threads = entries_of("/proc/self/task"), bytes = resident_bytes();
  for (std::size_t i = 0; i < kComms; ++i) make_one();
  EXPECT_LE(entries_of("/proc/self/fd"), descriptors + 4) << "MPI may have opened some";
  EXPECT_EQ(entries_of("/proc/self/task"), threads);
  if (own_objects().number == 0) GTEST_SKIP() << "a sanitizer keeps what is freed";
  EXPECT_LE(resident_bytes(), bytes + kComms * kBytesEach + kMpisOwn);
}

TEST(MpiApi, BadArgumentsOfInitAreRefused) {
  sparclComm_t comm = nullptr;
  EXPECT_EQ(sparclCommInitMpi(nullptr, MPI_COMM_WORLD, nullptr), sparclInvalidArgument);
  EXPECT_EQ(sparclCommInitMpi(&comm, MPI_COMM_NULL, nullptr), sparclInvalidArgument);
  sparclConfig_t config = SPARCL_CONFIG_INITIALIZER;
  config.verify = static_cast<sparclVerify_t>(9);
  EXPECT_EQ(sparclCommInitMpi(&comm, MPI_COMM_SELF, &config), sparclInvalidArgument);
  EXPECT_EQ(std::string(sparclGetLastError(nullptr)),
            "rank 0: sparclCommInitMpi: config.verify = 9 is no sparclVerify_t");
  config.verify = sparclVerifyFull;
  config.transport = "pigeons";
  EXPECT_EQ(sparclCommInitMpi(&comm, MPI_COMM_WORLD, &config), sparclInvalidArgument);
  EXPECT_TRUE(std::string(sparclGetLastError(nullptr))
                  .starts_with("rank " + std::to_string(world_rank()) +
                               ": sparclCommInitMpi: config.transport = \"pigeons\""))
      << sparclGetLastError(nullptr);
  config.transport = nullptr;
  config.verify = sparclVerifyFull;
  config.timeout_s = 3;
  EXPECT_EQ(sparclCommInitMpi(&comm, MPI_COMM_SELF, &config), sparclSuccess);
  EXPECT_EQ(sparclCommDestroy(comm), sparclSuccess);
}

// What the caller does with errors of MPI is the caller's: not with ours.
int handler_calls = 0;
void count_errors(MPI_Comm*, int*, ...) { ++handler_calls; }
int refuse_to_be_copied(MPI_Comm, int, void*, void*, void*, int*) { return MPI_ERR_OTHER; }

TEST(MpiApi, AnErrorOfMpiIsOursAndTheCallersHandlerStays) {
  for (const bool is_fatal : {true, false}) {
    MPI_Comm own = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &own);
    MPI_Errhandler handler = MPI_ERRORS_ARE_FATAL, now = MPI_ERRHANDLER_NULL;
    if (!is_fatal) MPI_Comm_create_errhandler(count_errors, &handler);
    MPI_Comm_set_errhandler(own, handler);
    int key = MPI_KEYVAL_INVALID;
    MPI_Comm_create_keyval(refuse_to_be_copied, MPI_COMM_NULL_DELETE_FN, &key, nullptr);
    MPI_Comm_set_attr(own, key, nullptr);
    handler_calls = 0;
    sparclComm_t comm = nullptr;
    const sparclResult_t refused = sparclCommInitMpi(&comm, own, nullptr);
    const char* const transport = std::getenv("SPARCL_TRANSPORT");
    const bool duplicates = transport == nullptr || std::string(transport) != "ucx";
    if (duplicates) {
      EXPECT_EQ(refused, sparclSystemError);
      EXPECT_NE(std::string(sparclGetLastError(nullptr)).find("MPI_Comm_dup"), std::string::npos)
          << sparclGetLastError(nullptr);
    } else {
      EXPECT_EQ(sparclCommDestroy(comm), sparclSuccess);
    }
    EXPECT_EQ(handler_calls, 0);
    MPI_Comm_get_errhandler(own, &now);
    EXPECT_TRUE(now == handler) << "the caller's handler is not back";
    if (!is_fatal) {
      MPI_Comm_call_errhandler(own, MPI_ERR_OTHER);
      EXPECT_EQ(handler_calls, 1);
    }
    MPI_Comm_delete_attr(own, key);
    MPI_Comm_free_keyval(&key);
    EXPECT_EQ(sparclCommInitMpi(&comm, own, nullptr), sparclSuccess) << sparclGetLastError(nullptr);
    EXPECT_EQ(sparclCommDestroy(comm), sparclSuccess);
    MPI_Comm_free(&own);
  }
}

// What sparclCommInitMpi passes on where the program was compiled with another mpi.h.
TEST(MpiApi, AProgramOfAnotherMpiIsRefused) {
  const std::string other = std::string(SPARCL_MPI_FAMILY) == "Open MPI" ? "MPICH" : "Open MPI";
  sparclComm_t comm = nullptr;
  EXPECT_EQ(
      sparclInternalCommInitMpi(&comm, MPI_COMM_WORLD, nullptr, other.c_str(), sizeof(MPI_Comm)),
      sparclInvalidUsage);
  const std::string text = sparclGetLastError(nullptr);
  EXPECT_NE(text.find("compiled with the mpi.h of " + other), std::string::npos) << text;
  EXPECT_NE(text.find("was built for " + std::string(SPARCL_MPI_FAMILY)), std::string::npos)
      << text;
  EXPECT_EQ(sparclInternalCommInitMpi(&comm, MPI_COMM_WORLD, nullptr, "", sizeof(MPI_Comm) + 4),
            sparclInvalidUsage);
}

TEST(MpiApi, AnotherMpisLauncherIsNamed) {
  if (world_size() != 1) GTEST_SKIP() << "each process is a job of one rank then";
  const bool is_open_mpi = std::string(SPARCL_MPI_FAMILY) == "Open MPI";
  const char* const own = is_open_mpi ? "OMPI_COMM_WORLD_SIZE" : "PMI_SIZE";
  const char* const others = is_open_mpi ? "PMI_SIZE" : "OMPI_COMM_WORLD_SIZE";
  const char* const before = std::getenv(own);
  const std::string kept = before == nullptr ? "" : before;
  setenv(others, "4", 1);
  sparclComm_t comm = nullptr;
  if (before != nullptr) {
    EXPECT_EQ(sparclCommInitMpi(&comm, MPI_COMM_WORLD, nullptr), sparclSuccess)
        << "a job within a job";
    EXPECT_EQ(sparclCommDestroy(comm), sparclSuccess);
  }
  unsetenv(own);
  EXPECT_EQ(sparclCommInitMpi(&comm, MPI_COMM_WORLD, nullptr), sparclInvalidUsage);
  EXPECT_NE(std::string(sparclGetLastError(nullptr)).find("started 4 processes"), std::string::npos)
      << sparclGetLastError(nullptr);
  unsetenv(others);
  if (before != nullptr) setenv(own, kept.c_str(), 1);
}

TEST(MpiApi, RanksWithAndWithoutHeartbeatsAreAMismatch) {
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks == 1) GTEST_SKIP() << "takes two ranks";
  sparclConfig_t config = SPARCL_CONFIG_INITIALIZER;
  config.heartbeat = world_rank() == 0 ? sparclOff : sparclOn;
  sparclComm_t comm = nullptr;
  EXPECT_EQ(sparclCommInitMpi(&comm, MPI_COMM_WORLD, &config), sparclMismatch);
  EXPECT_NE(std::string(sparclGetLastError(nullptr)).find("SPARCL_HEARTBEAT"), std::string::npos)
      << sparclGetLastError(nullptr);
}

TEST(MpiApi, ACommunicatorOfTwoGroupsIsRefused) {
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks == 1) GTEST_SKIP() << "takes two ranks";
  MPI_Comm group = MPI_COMM_NULL, both = MPI_COMM_NULL;
  const bool is_first = world_rank() == 0;
  ASSERT_EQ(MPI_Comm_split(MPI_COMM_WORLD, is_first ? 0 : 1, 0, &group), MPI_SUCCESS);
  ASSERT_EQ(MPI_Intercomm_create(group, 0, MPI_COMM_WORLD, is_first ? 1 : 0, 7, &both),
            MPI_SUCCESS);
  sparclComm_t comm = nullptr;
  EXPECT_EQ(sparclCommInitMpi(&comm, both, nullptr), sparclInvalidArgument);
  EXPECT_NE(std::string(sparclGetLastError(nullptr)).find("MPI_Intercomm_merge"),
            std::string::npos);
  MPI_Comm_free(&both);
  MPI_Comm_free(&group);
}

}  // namespace
}  // namespace sparcl::test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank != 0)
    delete testing::UnitTest::GetInstance()->listeners().Release(
        testing::UnitTest::GetInstance()->listeners().default_result_printer());
  return sparcl::test::end_mpi(RUN_ALL_TESTS());
}
