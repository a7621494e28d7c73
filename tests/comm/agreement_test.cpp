#include "src/comm/agreement/agreement.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collectives/broadcast/part_list.hpp"
#include "src/base/data_type.hpp"
#include "src/codec/update.hpp"
#include "src/sparse/mask/mask_sketch.hpp"
#include "tests/support/sim_party.hpp"

namespace sparcl::comm {
namespace {

using test::SimParty;
using ::testing::HasSubstr;

constexpr transport::Channel kAgreementChannel{9, 0};
const CallFingerprint kCall{static_cast<std::uint32_t>(CallKind::kBroadcastDelta), 0, 1000, 7,
                            static_cast<std::uint32_t>(DataType::kBfloat16),       1};

struct Round {
  std::vector<CallFingerprint> calls;
  std::vector<Status> refusals;
  std::vector<Status> verdicts;

  explicit Round(int ranks)
      : calls(static_cast<std::size_t>(ranks), kCall),
        refusals(calls.size()),
        verdicts(calls.size(), Status(Code::kInternalError, "unset")) {}

  void run(SimParty& party, const std::vector<collectives::broadcast::PartList>* parts = nullptr) {
    const transport::SimOutcome outcome = party.run([&](int rank) {
      const auto r = static_cast<std::size_t>(rank);
      return agree(
          party.engine(rank), kAgreementChannel, calls[r], refusals[r], verdicts[r],
          collectives::broadcast::PartList::subject(parts != nullptr ? &(*parts)[r] : nullptr));
    });
    ASSERT_TRUE(outcome.ok()) << outcome.report;
    for (int rank = 0; rank < party.size(); ++rank) EXPECT_TRUE(party.result(rank).ok());
  }
};

TEST(Agreement, EqualCallsAgreeForEveryRankCount) {
  for (const int ranks : test::rank_counts()) {
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
      SimParty party(ranks, seed);
      Round round(ranks);
      round.run(party);
      for (const Status& verdict : round.verdicts) EXPECT_TRUE(verdict.ok()) << verdict.message();
    }
  }
}

TEST(Agreement, AnyFieldOfAnyRankIsSeenByAllAndNamed) {
  struct Row {
    const char* what;
    void (*change)(CallFingerprint&);
  };
  const Row rows[] = {
      {"operations",
       [](CallFingerprint& c) {
         c.operation = static_cast<std::uint32_t>(CallKind::kBroadcastSparse);
       }},
      {"roots", [](CallFingerprint& c) { c.root = 1; }},
      {"counts", [](CallFingerprint& c) { c.count = 1001; }},
      {"data types",
       [](CallFingerprint& c) { c.datatype = static_cast<std::uint32_t>(DataType::kFloat32); }},
      {"options", [](CallFingerprint& c) { c.detail = 8; }},
      {"SPARCL_ALGO_BROADCAST binomial_tree", [](CallFingerprint& c) { c.algorithm = 2; }},
      {"SPARCL_ALGO_BROADCAST unknown", [](CallFingerprint& c) { c.algorithm = 200; }},
      {"SPARCL_VERIFY full",
       [](CallFingerprint& c) { c.verify = static_cast<std::uint8_t>(codec::Verify::kFull); }},
      {"SPARCL_VERIFY unknown", [](CallFingerprint& c) { c.verify = 77; }},
      {"SPARCL_FRAGMENT_BYTES 131072", [](CallFingerprint& c) { c.fragment_log2 = 17; }},
  };
  for (const int ranks : {2, 3, 4, 5, 7, 8}) {
    for (int odd = 0; odd < ranks; ++odd) {
      for (const Row& row : rows) {
        SimParty party(ranks, static_cast<std::uint64_t>(odd));
        Round round(ranks);
        row.change(round.calls[static_cast<std::size_t>(odd)]);
        round.run(party);
        for (const Status& verdict : round.verdicts) {
          EXPECT_EQ(verdict.code(), Code::kMismatch);
          EXPECT_THAT(verdict.message(), HasSubstr(row.what));
          EXPECT_THAT(verdict.message(), HasSubstr("rank " + std::to_string(odd)));
          EXPECT_EQ(verdict.message(), round.verdicts[0].message());
        }
      }
    }
  }
}

// Where arrays are, and how masked sums between GPUs are made.
TEST(Agreement, SumsBetweenGpusAreNamed) {
  struct Row {
    std::uint8_t own, other;
    const char *what, *others;
  };
  const Row rows[] = {
      {0, kDeviceAlgorithm, "arrays in the host's memory", "arrays in device memory"},
      {2, kCanonicalOnDevice, "arrays in the host's memory", "arrays in device memory"},
      {kDeviceAlgorithm, kCanonicalOnDevice + 1, "sums in NCCL's order", "canonical sums"},
      {kCanonicalOnDevice, kCanonicalOnDevice + 2, "SPARCL_ALGO_ALLREDUCE auto",
       "SPARCL_ALGO_ALLREDUCE owner"},
      {kCanonicalOnDevice + 1, kCanonicalOnDevice + 9, "SPARCL_ALGO_ALLREDUCE direct",
       "SPARCL_ALGO_ALLREDUCE unknown"},
  };
  for (const Row& row : rows) {
    SimParty party(3, 1);
    Round round(3);
    for (CallFingerprint& call : round.calls) {
      call.operation = static_cast<std::uint32_t>(CallKind::kAllReduceMasked);
      call.algorithm = row.own;
    }
    round.calls[1].algorithm = row.other;
    round.run(party);
    for (const Status& verdict : round.verdicts) {
      EXPECT_EQ(verdict.code(), Code::kMismatch);
      EXPECT_THAT(verdict.message(), ::testing::AllOf(HasSubstr(row.what), HasSubstr(row.others)));
    }
  }
}

// Lists of up to 40 parts; one rank's differs at `at`.
TEST(Agreement, TheFirstPartThatDiffersIsNamedOnAllRanks) {
  for (const int ranks : {2, 3, 5, 8}) {
    for (const std::uint64_t at : {0u, 3u, 9u, 39u}) {
      for (int odd = 0; odd < ranks; ++odd) {
        SimParty party(ranks, at);
        Round round(ranks);
        std::vector<collectives::broadcast::PartList> parts(static_cast<std::size_t>(ranks));
        for (int rank = 0; rank < ranks; ++rank) {
          std::vector<std::uint64_t> hashes(40);
          for (std::size_t i = 0; i < hashes.size(); ++i)
            hashes[i] = i * i + (rank == odd && i == at ? 1 : 0);
          parts[static_cast<std::size_t>(rank)] = {
              collectives::broadcast::sketch_of(hashes), hashes.size(),
              [](std::uint64_t i) { return std::string("p").append(std::to_string(i)); }};
        }
        round.calls[static_cast<std::size_t>(odd)].detail = 8;
        round.run(party, &parts);
        const std::string named = at == 0   ? "tensor 0, here p0"
                                  : at == 3 ? "tensor 3, here p3"
                                  : at == 9 ? "from 8 to 11, here p8 to p11"
                                            : "from 32 to 39, here p32 to p39";
        for (const Status& verdict : round.verdicts) {
          EXPECT_EQ(verdict.code(), Code::kMismatch);
          EXPECT_THAT(verdict.message(), HasSubstr(named));
          EXPECT_THAT(verdict.message(), HasSubstr("rank " + std::to_string(odd)));
        }
      }
    }
  }
}

TEST(Agreement, BothMasksAreDescribedOnAllRanks) {
  for (const int ranks : {2, 3, 5, 8}) {
    for (int odd = 0; odd < ranks; ++odd) {
      SimParty party(ranks, static_cast<std::uint64_t>(odd));
      Round round(ranks);
      std::vector<sparse::MaskSketch> masks(
          round.calls.size(),
          sparse::MaskSketch{sparse::MaskKind::kBlocks, 640, 1, 64, 0.25, 7, 3});
      for (CallFingerprint& call : round.calls)
        call.operation = static_cast<std::uint32_t>(CallKind::kAllReduceMasked);
      const auto at = static_cast<std::size_t>(odd);
      masks[at] = sparse::MaskSketch{sparse::MaskKind::kBlocks, 1280, 2, 128, 0.25, 7, UINT64_MAX};
      round.calls[at].detail = 8;
      const transport::SimOutcome outcome = party.run([&](int rank) {
        const auto r = static_cast<std::size_t>(rank);
        return agree(party.engine(rank), kAgreementChannel, round.calls[r], Status(),
                     round.verdicts[r], Subject{std::as_bytes(std::span(&masks[r], 1)), nullptr});
      });
      ASSERT_TRUE(outcome.ok()) << outcome.report;
      for (const Status& verdict : round.verdicts) {
        EXPECT_EQ(verdict.code(), Code::kMismatch);
        EXPECT_THAT(verdict.message(), HasSubstr("differ in their masks (block, step): "));
        EXPECT_THAT(verdict.message(),
                    HasSubstr("mask: blocks of 64, density 0.25, 640 elements, seed 7, step 3)"));
        EXPECT_THAT(verdict.message(), HasSubstr("mask: blocks of 128, density 0.25, 1280 "
                                                 "elements, seed 7, step 18446744073709551615)"));
        EXPECT_THAT(verdict.message(), HasSubstr("rank " + std::to_string(odd) + " called"));
      }
    }
  }
}

TEST(Agreement, AMaskOfNoKindIsDescribedAllTheSame) {
  const sparse::MaskSketch hostile{static_cast<sparse::MaskKind>(99), 0, 0, 0, 0, 0, 0};
  EXPECT_EQ(sparse::describe(hostile), "of an unknown kind");
  EXPECT_EQ(sparse::what_differs(hostile, sparse::MaskSketch{}), "kind");
}

TEST(Agreement, ARefusalGoesBeforeAPartThatDiffers) {
  SimParty party(4, 1);
  Round round(4);
  std::vector<collectives::broadcast::PartList> parts(4);
  for (std::uint64_t rank = 0; rank < 4; ++rank) {
    round.calls[rank].detail = rank;
    parts[rank] = {collectives::broadcast::sketch_of(std::span(&rank, 1)), 1,
                   [](std::uint64_t) { return std::string("p"); }};
  }
  round.refusals[2] = Status(Code::kInvalidUsage, std::string(170, 'x'));
  round.run(party, &parts);
  for (const Status& verdict : round.verdicts) {
    EXPECT_EQ(verdict.code(), Code::kInvalidUsage);
    EXPECT_THAT(verdict.message(), HasSubstr(std::string(170, 'x')));
  }
}

TEST(Agreement, ARefusalReachesAllWithItsCodeRankAndText) {
  for (const int ranks : test::rank_counts()) {
    for (int odd = 0; odd < ranks; ++odd) {
      SimParty party(ranks, 1);
      Round round(ranks);
      round.refusals[static_cast<std::size_t>(odd)] =
          Status(Code::kInvalidArgument, "weights is NULL");
      round.calls[static_cast<std::size_t>(odd)].count =
          5;  // does not count: its arguments are bad anyway
      round.run(party);
      for (int rank = 0; rank < ranks; ++rank) {
        const Status& verdict = round.verdicts[static_cast<std::size_t>(rank)];
        EXPECT_EQ(verdict.code(), Code::kInvalidArgument);
        EXPECT_THAT(verdict.message(), HasSubstr("weights is NULL"));
        const std::string named = rank != odd ? "rank " + std::to_string(odd) : "";
        EXPECT_THAT(verdict.message(), HasSubstr(named));
      }
    }
  }
}

TEST(Agreement, WhoSpeaksFirstCanBeChosen) {
  for (int first = 0; first < 5; ++first) {
    SimParty party(5, static_cast<std::uint64_t>(first));
    std::vector<Status> verdicts(5);
    const std::vector<Status> refusals{Status(), Status(Code::kWrongBase, "one"), Status(),
                                       Status(Code::kTruncated, "three"), Status()};
    const transport::SimOutcome outcome = party.run([&](int rank) {
      const auto r = static_cast<std::size_t>(rank);
      return agree(party.engine(rank), kAgreementChannel, kCall, refusals[r], verdicts[r], {},
                   first);
    });
    ASSERT_TRUE(outcome.ok()) << outcome.report;
    const int speaker = first == 2 || first == 3 ? 3 : 1;
    for (int rank = 0; rank < 5; ++rank) {
      const Status& verdict = verdicts[static_cast<std::size_t>(rank)];
      EXPECT_EQ(verdict.code(), speaker == 3 ? Code::kTruncated : Code::kWrongBase);
      EXPECT_THAT(verdict.message(), HasSubstr(speaker == 3 ? "three" : "one"));
      const std::string named =
          rank != speaker ? "rank " + std::to_string(speaker) + " refused" : "";
      EXPECT_THAT(verdict.message(), HasSubstr(named));
    }
  }
}

TEST(Agreement, TheLeastCapacityComesWithTheLowestRankThatHasIt) {
  for (const int ranks : test::rank_counts()) {
    for (int least = 0; least < ranks; ++least) {
      SimParty party(ranks, static_cast<std::uint64_t>(least));
      std::vector<Status> verdicts(static_cast<std::size_t>(ranks));
      std::vector<Extents> extents(verdicts.size());
      const transport::SimOutcome outcome = party.run([&](int rank) {
        const auto r = static_cast<std::size_t>(rank);
        extents[r].min_capacity = rank < least ? 8 : 7;
        return agree(party.engine(rank), kAgreementChannel, kCall, Status(), verdicts[r], {},
                     ranks / 2, &extents[r]);
      });
      ASSERT_TRUE(outcome.ok()) << outcome.report;
      // The lowest as the round counts, from ranks / 2 on.
      const int expected = least <= ranks / 2 ? ranks / 2 : least;
      for (const Extents& all : extents) {
        EXPECT_EQ(all.min_capacity, 7U);
        EXPECT_EQ(all.min_capacity_rank, expected) << ranks << " ranks, from " << least << " on";
      }
    }
  }
}

TEST(Agreement, OfSeveralRefusalsTheLowestRankSpeaks) {
  SimParty party(5, 1);
  Round round(5);
  round.refusals[3] = Status(Code::kTruncated, "three");
  round.refusals[1] = Status(Code::kWrongBase, "one");
  round.run(party);
  for (const Status& verdict : round.verdicts) {
    EXPECT_EQ(verdict.code(), Code::kWrongBase);
    EXPECT_THAT(verdict.message(), HasSubstr("one"));
  }
}

}  // namespace
}  // namespace sparcl::comm
