#pragma once
// Processes that meet by a unique id and share a GPU: this program, started once for each rank with
// its number.

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "sparcl/sparcl.h"
#include "tests/support/process_party.hpp"

namespace sparcl::test {

inline std::string hex_of(const sparclUniqueId& id) {
  std::string hex;
  for (const char byte : id.internal) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x",
                  static_cast<unsigned>(static_cast<unsigned char>(byte)));
    hex += digits;
  }
  return hex;
}

inline sparclUniqueId id_of(const std::string& hex) {
  sparclUniqueId id{};
  for (std::size_t i = 0; i < sizeof id.internal && 2 * i + 1 < hex.size(); ++i)
    id.internal[i] = static_cast<char>(std::strtoul(hex.substr(2 * i, 2).c_str(), nullptr, 16));
  return id;
}

inline std::string this_program;  // set by main_of_ranks()

// The arguments of a rank's process: --rank R N ID.
template <class Check>
int run_rank(int argc, char** argv, Check check) {
  if (argc != 5) return 2;
  const int rank = std::atoi(argv[2]), ranks = std::atoi(argv[3]);
  sparclComm_t comm = nullptr;
  if (sparclCommInitRank(&comm, ranks, id_of(argv[4]), rank, nullptr) != sparclSuccess) {
    std::fprintf(stderr, "rank %d: %s\n", rank, sparclGetLastError(nullptr));
    return 3;
  }
  const int failed = check(comm, rank, ranks);
  return sparclCommDestroy(comm) == sparclSuccess && failed == 0 ? 0 : 1;
}

// check: of one rank, in its own process; how many of its checks have failed.
template <class Check>
int main_of_ranks(int argc, char** argv, Check check) {
  if (argc > 1 && std::string(argv[1]) == "--rank") return run_rank(argc, argv, check);
  this_program = argv[0];
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

// This process serves the id; the ranks end within a minute.
inline void expect_ranks_agree(int ranks) {
  sparclUniqueId id;
  if (sparclGetUniqueId(&id) != sparclSuccess)
    GTEST_SKIP() << "skipped: " << sparclGetLastError(nullptr);
  ProcessParty party;
  for (int rank = 0; rank < ranks; ++rank) {
    ASSERT_GE(party.start({{this_program, "--rank", std::to_string(rank), std::to_string(ranks),
                            hex_of(id)},
                           {}}),
              0)
        << party.trouble();
  }
  EXPECT_TRUE(party.finish(60));
  for (int rank = 0; rank < ranks; ++rank) {
    const ProcessRecord& record = party.record(rank);
    EXPECT_TRUE(record.exited_with(0))
        << "rank " << rank << " " << record.describe_end() << ": " << record.errors;
  }
}

}  // namespace sparcl::test
