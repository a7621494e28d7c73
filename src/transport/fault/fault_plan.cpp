#include "src/transport/fault/fault_plan.hpp"

#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <cstring>

namespace sparcl::transport {
namespace {

constexpr std::uint64_t kNoMessage = std::numeric_limits<std::uint64_t>::max();

void drop(Outgoing& outgoing, const FaultRule&, SeededRandom&) { outgoing.copies = 0; }

void delay(Outgoing& outgoing, const FaultRule& rule, SeededRandom& random) {
  outgoing.held_seconds += rule.seconds * random.unit();
}

void duplicate(Outgoing& outgoing, const FaultRule&, SeededRandom&) { ++outgoing.copies; }

void reorder(Outgoing& outgoing, const FaultRule& rule, SeededRandom& random) {
  outgoing.held_seconds += rule.seconds;
  outgoing.held_sends = 1 + random.below(4);
}

// The sender's own memory is not changed.
void corrupt(Outgoing& outgoing, const FaultRule&, SeededRandom& random) {
  const std::size_t size = outgoing.message.size();
  if (size == 0) return;
  const Buffer damaged = Buffer::allocate(size);
  std::memcpy(damaged.data(), outgoing.message.data(), size);
  const std::uint64_t flips = 1 + random.below(3);
  for (std::uint64_t i = 0; i < flips; ++i) {
    const std::uint64_t bit = random.below(size * 8);
    damaged.data()[bit / 8] ^= std::byte{1} << (bit % 8);
  }
  outgoing.message = damaged;
}

void truncate(Outgoing& outgoing, const FaultRule&, SeededRandom& random) {
  if (outgoing.message.size() > 0)
    outgoing.message = outgoing.message.slice(0, random.below(outgoing.message.size()));
}

void slow(Outgoing& outgoing, const FaultRule& rule, SeededRandom& random) {
  outgoing.held_seconds += rule.seconds * (0.5 + random.unit());
}

constexpr std::array kRows{
    FaultRow{Fault::kDrop, "drop", FaultOf::kMessage, false, drop},
    FaultRow{Fault::kDelay, "delay", FaultOf::kMessage, true, delay},
    FaultRow{Fault::kDuplicate, "duplicate", FaultOf::kMessage, false, duplicate},
    FaultRow{Fault::kReorder, "reorder", FaultOf::kMessage, true, reorder},
    FaultRow{Fault::kCorrupt, "corrupt", FaultOf::kMessage, false, corrupt},
    FaultRow{Fault::kTruncate, "truncate", FaultOf::kMessage, false, truncate},
    FaultRow{Fault::kKill, "kill", FaultOf::kRank, false, nullptr},
    FaultRow{Fault::kStop, "stop", FaultOf::kRank, true, nullptr},
    FaultRow{Fault::kCut, "cut", FaultOf::kLink, false, nullptr},
    FaultRow{Fault::kHalfOpen, "half_open", FaultOf::kLink, false, nullptr},
    FaultRow{Fault::kSlow, "slow", FaultOf::kMessage, true, slow},
};

}  // namespace

std::span<const FaultRow> fault_rows() { return kRows; }

const FaultRow& row_of(Fault fault) {
  for (const FaultRow& row : kRows) {
    if (row.fault == fault) return row;
  }
  std::abort();  // an enumerator without a row is a bug of this file
}

std::string FaultPlan::describe() const {
  std::string text = fmt::format("seed {}", seed);
  const char* separator = ": ";
  for (const FaultRule& rule : rules) {
    const bool has_seconds = rule.fault == Fault::kDelay || rule.fault == Fault::kReorder ||
                             rule.fault == Fault::kStop || rule.fault == Fault::kSlow;
    text += fmt::format("{}{}", separator, row_of(rule.fault).name);
    if (rule.probability > 0) text += fmt::format(" p={:.6g}", rule.probability);
    if (rule.at != kNoMessage) text += fmt::format(" at {}", rule.at);
    if (row_of(rule.fault).of == FaultOf::kLink && rule.at == kNoMessage)
      text += fmt::format(" from {:.6g} s on", rule.seconds);
    if (has_seconds) text += fmt::format(" for {:.6g} s", rule.seconds);
    if (rule.rank >= 0) text += fmt::format(" on rank {}", rule.rank);
    if (rule.peer >= 0) text += fmt::format(" to rank {}", rule.peer);
    if (rule.lane >= 0) text += fmt::format(" on lane {}", rule.lane);
    separator = "; ";
  }
  return text;
}

FaultPlan FaultPlan::random(std::uint64_t seed, int ranks, std::uint64_t operations,
                            std::span<const Fault> allowed) {
  FaultPlan plan{seed, {}};
  if (allowed.empty()) return plan;
  SeededRandom random(mix64(seed));
  const std::uint64_t count = 1 + random.below(3);
  for (std::uint64_t i = 0; i < count; ++i) {
    FaultRule rule;
    rule.fault = allowed[random.below(allowed.size())];
    rule.seconds = 0.0001 * static_cast<double>(1 + random.below(1'000));
    const FaultOf of = row_of(rule.fault).of;
    // A rank that dies or stops at every n-th operation leaves nothing to observe. A slow rank is
    // slow all the time.
    if (rule.fault == Fault::kSlow) {
      rule.probability = 1;
    } else if (of != FaultOf::kMessage || random.chance(0.5)) {
      rule.at = random.below(operations + 1);
    } else {
      rule.probability = 0.002 * static_cast<double>(1 + random.below(100));
    }
    if (of != FaultOf::kMessage || random.chance(0.5))
      rule.rank = static_cast<int>(random.below(static_cast<std::uint64_t>(ranks)));
    if (of == FaultOf::kLink && ranks > 1) {
      rule.peer =
          (rule.rank + 1 + static_cast<int>(random.below(static_cast<std::uint64_t>(ranks - 1)))) %
          ranks;
    }
    plan.rules.push_back(rule);
  }
  return plan;
}

}  // namespace sparcl::transport
