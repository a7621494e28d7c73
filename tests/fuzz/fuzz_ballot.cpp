// The messages of an agreement: refused, or merged into a verdict that names ranks and errors that there are.

#include <algorithm>

#include "collectives/agreement/ballot.hpp"
#include "src/base/bytes.hpp"
#include "src/base/checksum.hpp"
#include "tests/fuzz/fuzz_target.hpp"

namespace sparcl::fuzz {
namespace {

using collectives::Ballot;
using collectives::CallFingerprint;
using collectives::kBallotBytes;

constexpr int kRanks = 5;
const CallFingerprint kCall{1, 0, 1000, 7, 9, 1};
const CallFingerprint kMaskedCall{4, 0, 1000, 7, 9, 1};
const collectives::MaskSketch kMask{collectives::MaskKind::kRandom, 100, 7, 0, 0.1, 5, 3};

void merge_with(const Ballot& theirs, const Status& mine, const CallFingerprint& call, const collectives::Subject& subject) {
  Ballot ballot = collectives::cast(1, call, mine, subject);
  collectives::merge(ballot, theirs);
  Ballot counted = ballot;
  collectives::count_from(counted, 3, kRanks);
  for (const std::int32_t rank :
       {counted.least_rank, counted.most_rank, counted.refusing_rank, counted.extents.least_capacity_rank}) {
    require(rank == collectives::kNobody || (rank >= 0 && rank < kRanks), "a rank that is named is one");
  }
  const Status verdict = collectives::verdict_of(ballot, 1, mine, subject);
  require(is_code(static_cast<int>(verdict.code())), "a verdict has a code that there is");
  require(verdict.ok() == verdict.message().empty(), "an error has a text, and success has none");
  require(mine.ok() || !verdict.ok(), "a refusal is never lost");
  Ballot again = ballot;
  collectives::merge(again, theirs);
  require(again.refusing_rank == ballot.refusing_rank && again.least == ballot.least && again.most == ballot.most,
          "merging once more changes nothing");
  Bytes bytes(kBallotBytes);
  collectives::write_ballot(ballot, bytes.data());
  require(collectives::read_ballot(bytes, kRanks).has_value(), "what was merged can be passed on");
}

void run(std::span<const std::byte> input) {
  const auto theirs = collectives::read_ballot(input, kRanks);
  if (!theirs) return;
  for (const Status& mine : {Status(), Status(Code::kInvalidArgument, "no")}) {
    merge_with(*theirs, mine, kCall, {});
    merge_with(*theirs, mine, kMaskedCall, {.mask = &kMask});
  }
}

std::vector<Bytes> seeds() {
  std::vector<Bytes> all;
  for (const Status& mine : {Status(), Status(Code::kMismatch, "the shapes differ")}) {
    for (const int rank : {0, 4}) {
      Bytes bytes(kBallotBytes);
      CallFingerprint call = kCall;
      call.count += static_cast<std::uint64_t>(rank);
      collectives::write_ballot(collectives::cast(rank, call, mine), bytes.data());
      all.push_back(std::move(bytes));
    }
  }
  for (const std::uint64_t seed : {4, 6}) {
    collectives::MaskSketch mask = kMask;
    mask.seed = seed;
    CallFingerprint call = kMaskedCall;
    call.detail = seed;
    Bytes bytes(kBallotBytes);
    collectives::write_ballot(collectives::cast(2, call, Status(), {.mask = &mask}), bytes.data());
    all.push_back(std::move(bytes));
  }
  return all;
}

Bytes mutate(const Bytes& input, ByteMutation mutate_bytes, Random& random) {
  Bytes bytes = input;
  bytes.resize(std::max(bytes.size(), kBallotBytes) + 16);
  bytes.resize(mutate_bytes(bytes.data(), std::min(input.size(), bytes.size()), bytes.size()));
  if (random() % 8 == 0) return bytes;
  bytes.resize(kBallotBytes);
  store_le(bytes.data() + kBallotBytes - 4, crc32c(std::span(bytes).first(kBallotBytes - 4)));
  return bytes;
}

const Registration registration({"ballot", run, seeds, mutate});

}  // namespace
}  // namespace sparcl::fuzz
