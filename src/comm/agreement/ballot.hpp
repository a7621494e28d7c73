#pragma once
// The message of an agreement round: a rank's knowledge of all ranks' calls until now.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "src/comm/agreement/agreement.hpp"
#include "src/comm/engine/collective_descriptor.hpp"

namespace sparcl::comm {

constexpr std::int32_t kNobody = INT32_MAX;

// The message: the extremes seen until now. Merging is idempotent, commutative and associative.
struct Ballot {
  CallFingerprint lower, upper;  // with the lowest rank that holds each
  Extents extents;
  std::int32_t lower_rank = kNobody, upper_rank = kNobody;
  std::int32_t refusing_rank = kNobody;
  std::int32_t refusal = 0;  // a Code
  std::array<char, 172>
      text{};             // of a refusal; while no rank refuses, the subjects of lower and upper
  std::uint32_t crc = 0;  // of all bytes before: last
};
constexpr std::size_t kBallotBytes = 288;

// The ballot of one rank alone, by its number in the round. `mine`: its refusal, or success.
Ballot cast(int rank, const CallFingerprint& fingerprint, const Status& mine,
            const Subject& subject = {});

void merge(Ballot& into, const Ballot& other);

// out: kBallotBytes.
void write_ballot(Ballot ballot, std::byte* out);

// Reads a received message; nothing if it is damaged, or names ranks or errors that do not exist.
std::optional<Ballot> read_ballot(std::span<const std::byte> bytes, int ranks);

// Converts numbers in a round that began with rank `first` to ranks.
void count_from(Ballot& ballot, int first, int ranks);

// The verdict once all ranks are in the ballot: success, Mismatch, or the error of the first rank
// that refuses. `rank`, `mine` and `subject` are the caller's. table: names the calls.
Status verdict_of(const Ballot& ballot, int rank, const Status& mine, const Subject& subject = {},
                  CollectiveTable table = {});

}  // namespace sparcl::comm
