#include "src/comm/agreement/ballot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "src/base/checksum.hpp"
#include "src/base/data_type.hpp"
#include "src/codec/update.hpp"

namespace sparcl::comm {
namespace {

static_assert(std::is_trivially_copyable_v<Ballot> && sizeof(CallFingerprint) == 32);
static_assert(sizeof(Ballot) == kBallotBytes && offsetof(Ballot, crc) == 284 &&
                  sizeof(Extents) == 32,
              "no padding: the bytes are sent and summed");

std::uint32_t checksum(const Ballot& ballot) {
  return crc32c(std::as_bytes(std::span(&ballot, 1)).first(offsetof(Ballot, crc)));
}

// The text holds the subject of each side's call here.
static_assert(kSketchBytes == sizeof(Ballot::text) / 2);
enum class Side : std::size_t { kLower = 0, kUpper = kSketchBytes };

std::span<const std::byte> sketch_in(const Ballot& ballot, Side side) {
  return std::as_bytes(std::span(ballot.text))
      .subspan(static_cast<std::size_t>(side), kSketchBytes);
}

void put_sketch(Ballot& ballot, std::span<const std::byte> sketch) {
  if (sketch.empty()) return;
  for (const Side side : {Side::kLower, Side::kUpper}) {
    std::memcpy(ballot.text.data() + static_cast<std::size_t>(side), sketch.data(),
                std::min(sketch.size(), kSketchBytes));
  }
}

void copy_sketch(Ballot& into, const Ballot& from, Side side) {
  const auto at = static_cast<std::size_t>(side);
  std::memcpy(into.text.data() + at, from.text.data() + at, kSketchBytes);
}

std::string_view verify_name(std::uint8_t verify) {
  switch (static_cast<codec::Verify>(verify)) {
    case codec::Verify::kOff:
      return "off";
    case codec::Verify::kTouched:
      return "touched";
    case codec::Verify::kFull:
      return "full";
  }
  return "unknown";
}

std::string describe_algorithm(const CollectiveDescriptor* collective, const CallFingerprint& call,
                               const CallFingerprint& other) {
  if (collective == nullptr || collective->choice == nullptr)
    return fmt::format(", algorithm {}", call.algorithm);
  std::string location =
      collective->location != nullptr ? collective->location(call, other) : std::string();
  if (!location.empty()) return location;
  return fmt::format(", SPARCL_{} {}", collective->choice(call.algorithm).setting,
                     collective->algorithm(call.algorithm));
}

// The settings of `a` that differ from those of `b`. The numbers come from the wire and may be any.
std::string describe_settings(const CollectiveDescriptor* collective, const CallFingerprint& a,
                              const CallFingerprint& b) {
  std::string text;
  if (a.algorithm != b.algorithm) text += describe_algorithm(collective, a, b);
  if (a.fragment_log2 != b.fragment_log2)
    text += fmt::format(", SPARCL_FRAGMENT_BYTES {}", std::uint64_t{1} << (a.fragment_log2 % 64));
  if (a.verify != b.verify) text += fmt::format(", SPARCL_VERIFY {}", verify_name(a.verify));
  return text;
}

std::string describe(const CollectiveDescriptor* collective, const CallFingerprint& call,
                     const std::string& more) {
  const DataTypeInfo* type = find_data_type(static_cast<int>(call.datatype));
  const std::string argument = collective != nullptr && collective->has_root
                                   ? fmt::format("root {}", call.root)
                                   : std::string(reduction_name(call.reduction));
  return fmt::format("{}(count {}, {}, {}{})",
                     collective != nullptr ? collective->name : "an unknown operation", call.count,
                     type ? type->name : "mixed types", argument, more);
}

// The same on all ranks, except for the names of the part that differs.
CallDifference difference_of(const CollectiveDescriptor* collective, const CallPair& calls) {
  const CallFingerprint &a = calls.lower, &b = calls.upper;
  if (a.operation != b.operation) return {"operations", {}, {}};
  if (a.root != b.root) return {"roots", {}, {}};
  const bool has_subject =
      collective != nullptr && collective->subject != nullptr && calls.own != nullptr;
  if (std::string where = has_subject ? collective->subject(calls) : std::string(); !where.empty())
    return {std::move(where), {}, {}};
  if (a.count != b.count) return {"counts", {}, {}};
  if (a.datatype != b.datatype) return {"data types", {}, {}};
  if (a.reduction != b.reduction) return {"reductions", {}, {}};
  if (a.detail != b.detail) {
    return collective != nullptr && collective->detail != nullptr
               ? collective->detail(calls)
               : CallDifference{"options", {}, {}};
  }
  // If arguments differ, settings differ as a result, and are not named.
  return {"settings", describe_settings(collective, a, b), describe_settings(collective, b, a)};
}

Status difference(const Ballot& ballot, const Subject& subject, CollectiveTable table) {
  const CollectiveDescriptor* const lower = find_collective(table, ballot.lower.operation);
  const CollectiveDescriptor* const upper = find_collective(table, ballot.upper.operation);
  const CallDifference in =
      difference_of(lower, {ballot.lower, ballot.upper, sketch_in(ballot, Side::kLower),
                            sketch_in(ballot, Side::kUpper), subject.own});
  return Status(
      Code::kMismatch,
      fmt::format("the ranks' calls differ in their {}: rank {} called {}, rank {} called {}",
                  in.what, ballot.lower_rank, describe(lower, ballot.lower, in.lower),
                  ballot.upper_rank, describe(upper, ballot.upper, in.upper)));
}

bool is_rank(std::int32_t number, int ranks) {
  return number == kNobody || (number >= 0 && number < ranks);
}

// A refusal and its code come together: a code without a name would reach the user as a number.
bool is_refusal(const Ballot& ballot) {
  const bool refuses = ballot.refusal != static_cast<std::int32_t>(Code::kSuccess);
  return refuses == (ballot.refusing_rank != kNobody) && is_code(ballot.refusal);
}

}  // namespace

Ballot cast(int rank, const CallFingerprint& fingerprint, const Status& mine,
            const Subject& subject) {
  Ballot ballot;
  if (mine.ok()) {
    ballot.lower = ballot.upper = fingerprint;
    ballot.lower_rank = ballot.upper_rank = rank;
    put_sketch(ballot, subject.sketch);
    return ballot;
  }
  ballot.refusing_rank = rank;
  ballot.refusal = static_cast<std::int32_t>(mine.code());
  const std::size_t length = std::min(mine.message().size(), ballot.text.size() - 1);
  std::memcpy(ballot.text.data(), mine.message().data(), length);
  return ballot;
}

void merge(Ballot& into, const Ballot& other) {
  const bool has_sketches = into.refusing_rank == kNobody && other.refusing_rank == kNobody;
  if (other.lower_rank != kNobody &&
      (into.lower_rank == kNobody ||
       std::pair(other.lower, other.lower_rank) < std::pair(into.lower, into.lower_rank))) {
    into.lower = other.lower;
    into.lower_rank = other.lower_rank;
    if (has_sketches) copy_sketch(into, other, Side::kLower);
  }
  if (other.upper_rank != kNobody &&
      (into.upper_rank == kNobody || other.upper > into.upper ||
       (other.upper == into.upper && other.upper_rank < into.upper_rank))) {
    into.upper = other.upper;
    into.upper_rank = other.upper_rank;
    if (has_sketches) copy_sketch(into, other, Side::kUpper);
  }
  into.extents.max_entries = std::max(into.extents.max_entries, other.extents.max_entries);
  const auto room = [](const Extents& extents) {
    return std::pair(extents.min_capacity, extents.min_capacity_rank);
  };
  if (room(other.extents) < room(into.extents)) {
    into.extents.min_capacity = other.extents.min_capacity;
    into.extents.min_capacity_rank = other.extents.min_capacity_rank;
  }
  into.extents.min_scratch_mib =
      std::min(into.extents.min_scratch_mib, other.extents.min_scratch_mib);
  into.extents.has_duplicates |= other.extents.has_duplicates;
  into.extents.has_device_arrays |= other.extents.has_device_arrays;
  into.extents.sends_dense |= other.extents.sends_dense;
  into.extents.union_share = std::max(into.extents.union_share, other.extents.union_share);
  if (other.refusing_rank < into.refusing_rank) {
    into.refusing_rank = other.refusing_rank;
    into.refusal = other.refusal;
    into.text = other.text;
  }
}

void write_ballot(Ballot ballot, std::byte* out) {
  ballot.crc = checksum(ballot);
  std::memcpy(out, &ballot, sizeof ballot);
}

std::optional<Ballot> read_ballot(std::span<const std::byte> bytes, int ranks) {
  Ballot ballot;
  if (bytes.size() != sizeof ballot) return std::nullopt;
  std::memcpy(&ballot, bytes.data(), sizeof ballot);
  if (ballot.crc != checksum(ballot) || !is_refusal(ballot)) return std::nullopt;
  for (const std::int32_t number : {ballot.lower_rank, ballot.upper_rank, ballot.refusing_rank,
                                    ballot.extents.min_capacity_rank}) {
    if (!is_rank(number, ranks)) return std::nullopt;
  }
  if (ballot.extents.min_capacity != UINT64_MAX && ballot.extents.min_capacity_rank == kNobody)
    return std::nullopt;
  if (ballot.refusing_rank != kNobody) ballot.text.back() = '\0';
  return ballot;
}

void count_from(Ballot& ballot, int first, int ranks) {
  for (std::int32_t* number : {&ballot.lower_rank, &ballot.upper_rank, &ballot.refusing_rank,
                               &ballot.extents.min_capacity_rank}) {
    if (*number != kNobody) *number = (*number + first) % ranks;
  }
}

Status verdict_of(const Ballot& ballot, int rank, const Status& mine, const Subject& subject,
                  CollectiveTable table) {
  if (ballot.refusing_rank == rank) return mine;
  if (ballot.refusing_rank != kNobody) {
    return Status(static_cast<Code>(ballot.refusal),
                  fmt::format("rank {} refused: {}", ballot.refusing_rank, ballot.text.data()));
  }
  return ballot.lower == ballot.upper ? Status() : difference(ballot, subject, table);
}

}  // namespace sparcl::comm
