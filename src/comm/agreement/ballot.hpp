#pragma once
// The message of an agreement round: what a rank has heard so far of all ranks' calls.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "src/comm/agreement/agreement.hpp"
#include "src/comm/engine/collective_descriptor.hpp"

namespace sparcl::comm {

constexpr std::int32_t kNobody = INT32_MAX;

// What travels: the extremes seen so far. Merging is idempotent, commutative and associative.
struct Ballot {
  CallFingerprint lower, upper;  // with the lowest rank that holds each
  Extents extents;
  std::int32_t lower_rank = kNobody, upper_rank = kNobody;
  std::int32_t refusing_rank = kNobody;
  std::int32_t refusal = 0;  // a Code
  std::array<char, 172>
      text{};             // of a refusal; while nobody refuses, what lower's and upper's are about
  std::uint32_t crc = 0;  // of all bytes before: last
};
constexpr std::size_t kBallotBytes = 288;

// Of one rank alone, by its number in the round. `mine`: its refusal, or success.
Ballot cast(int rank, const CallFingerprint& fingerprint, const Status& mine,
            const Subject& subject = {});

void merge(Ballot& into, const Ballot& other);

// out: kBallotBytes.
void write_ballot(Ballot ballot, std::byte* out);

// Of a message as it came in; nothing if it is damaged, or names ranks or errors that there are
// none of.
std::optional<Ballot> read_ballot(std::span<const std::byte> bytes, int ranks);

// From numbers in a round that began with rank `first` to ranks.
void count_from(Ballot& ballot, int first, int ranks);

// Once all ranks are in it: success, Mismatch, or the error of the first rank that refuses. `rank`,
// `mine`, `subject`: of the caller. table: names the calls.
Status verdict_of(const Ballot& ballot, int rank, const Status& mine, const Subject& subject = {},
                  CollectiveTable table = {});

}  // namespace sparcl::comm
