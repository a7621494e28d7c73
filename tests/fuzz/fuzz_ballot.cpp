// The messages of an agreement: refused, or merged into a verdict that names ranks and errors that
// there are.

#include <algorithm>

#include "collectives/table/collective_table.hpp"
#include "src/base/bytes.hpp"
#include "src/base/checksum.hpp"
#include "src/comm/agreement/ballot.hpp"
#include "src/sparse/mask/mask_sketch.hpp"
#include "tests/fuzz/fuzz_target.hpp"

namespace sparcl::fuzz {
namespace {

using comm::Ballot;
using comm::CallFingerprint;
using comm::kBallotBytes;

constexpr int kRanks = 5;
const CallFingerprint kCall{1, 0, 1000, 7, 9, 1};
const CallFingerprint kMaskedCall{4, 0, 1000, 7, 9, 1};
const sparse::MaskSketch kMask{sparse::MaskKind::kRandom, 100, 7, 0, 0.1, 5, 3};

void merge_with(const Ballot& theirs, const Status& mine, const CallFingerprint& call,
                const comm::Subject& subject) {
  Ballot ballot = comm::cast(1, call, mine, subject);
  comm::merge(ballot, theirs);
  Ballot counted = ballot;
  comm::count_from(counted, 3, kRanks);
  for (const std::int32_t rank : {counted.lower_rank, counted.upper_rank, counted.refusing_rank,
                                  counted.extents.min_capacity_rank}) {
    require(rank == comm::kNobody || (rank >= 0 && rank < kRanks), "a rank that is named is one");
  }
  const Status verdict =
      comm::verdict_of(ballot, 1, mine, subject, collectives::collective_table());
  require(is_code(static_cast<int>(verdict.code())), "a verdict has a code that there is");
  require(verdict.ok() == verdict.message().empty(), "an error has a text, and success has none");
  require(mine.ok() || !verdict.ok(), "a refusal is never lost");
  Ballot again = ballot;
  comm::merge(again, theirs);
  require(again.refusing_rank == ballot.refusing_rank && again.lower == ballot.lower &&
              again.upper == ballot.upper,
          "merging once more changes nothing");
  Bytes bytes(kBallotBytes);
  comm::write_ballot(ballot, bytes.data());
  require(comm::read_ballot(bytes, kRanks).has_value(), "what was merged can be passed on");
}

void run(std::span<const std::byte> input) {
  const auto theirs = comm::read_ballot(input, kRanks);
  if (!theirs) return;
  for (const Status& mine : {Status(), Status(Code::kInvalidArgument, "no")}) {
    merge_with(*theirs, mine, kCall, {});
    merge_with(*theirs, mine, kMaskedCall, {.sketch = std::as_bytes(std::span(&kMask, 1))});
  }
}

std::vector<Bytes> seeds() {
  std::vector<Bytes> all;
  for (const Status& mine : {Status(), Status(Code::kMismatch, "the shapes differ")}) {
    for (const int rank : {0, 4}) {
      Bytes bytes(kBallotBytes);
      CallFingerprint call = kCall;
      call.count += static_cast<std::uint64_t>(rank);
      comm::write_ballot(comm::cast(rank, call, mine), bytes.data());
      all.push_back(std::move(bytes));
    }
  }
  for (const std::uint64_t seed : {4, 6}) {
    sparse::MaskSketch mask = kMask;
    mask.seed = seed;
    CallFingerprint call = kMaskedCall;
    call.detail = seed;
    Bytes bytes(kBallotBytes);
    comm::write_ballot(
        comm::cast(2, call, Status(), {.sketch = std::as_bytes(std::span(&mask, 1))}),
        bytes.data());
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
