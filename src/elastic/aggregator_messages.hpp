#pragma once
// The messages between a branch, an aggregator that has a parent, and the parent: the layouts of
// docs/reference/protocol.md.
// The parent decides what counts, by contributions without their entries. The branch keeps
// the entries, and sends sums of them once a round has ended.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/aggregate/sum/facts.hpp"
#include "src/aggregate/sum/slot_tree.hpp"
#include "src/elastic/worker_messages.hpp"

namespace sparcl::elastic {

constexpr std::size_t kMaxCollectItems = 1000;  // spans and clips of one message each

// Branch: a worker is there, also when it has connected again; or it is not awaited any more.
struct MemberTold {
  enum class State : std::uint8_t { kAwaited, kResting, kGone };
  aggregate::WorkerId worker = 0;
  State state = State::kAwaited;
  aggregate::Seat seat;
  std::string name;
  Join join{};  // what the worker has said
};

// Parent: the worker does not take part here.
struct TurnedAway {
  aggregate::WorkerId worker = 0;
  Code code = Code::kMismatch;
  std::string text;
};

// Branch: a contribution without its entries.
struct GivenTold {
  aggregate::WorkerId worker = 0;
  aggregate::ContributionFacts facts;
  std::uint64_t entries = 0;
  Offered offered;  // as the worker said it
};

// Parent: the state of a contribution, which counts with these factors if it is listed.
struct Verdict {
  aggregate::WorkerId worker = 0;
  bool is_new = false;  // listed just now: the entries of the answered GIVEN count
  std::uint32_t slot = 0;
  float weight = 1;
  float clip = 1;  // if sums are made at once
  FateTold fate;
};

// Parent: the sums of the round's contributions in these spans of slots are wanted. Several
// messages may say it, up to the one that is last. If they are not wanted, they are dropped.
struct Collect {
  struct Span {
    std::uint64_t rounds_late = 0;
    aggregate::SlotSpan slots;
  };
  struct Clip {
    aggregate::ContributionId id;
    float factor = 1;
  };
  std::uint64_t round = 0;
  bool is_wanted = true;
  bool is_last = true;
  double wait_s = 0;  // that the branch may wait for the sums of its own branches
  std::vector<Span> spans;
  std::vector<Clip> clips;  // those that are not 1, if sums are not made at once
};

// Branch: a sum T of the subtree, as a part with float32 values.
struct SubtreeTold {
  std::uint64_t round = 0;
  bool is_of_weights = false;
  std::uint64_t rounds_late = 0;
  aggregate::Subtree subtree;
  std::uint64_t bytes = 0;
  model::Digest256 digest{};  // digest_of() the bytes
};

struct Collected {
  std::uint64_t round = 0;
};

struct Withdrawn {
  aggregate::ContributionId id;
};

std::vector<std::byte> serialise(const MemberTold& member);
std::vector<std::byte> serialise(const TurnedAway& away);
std::vector<std::byte> serialise(const GivenTold& given);
std::vector<std::byte> serialise(const Verdict& verdict);
std::vector<std::byte> serialise(const Collect& collect);
std::vector<std::byte> serialise(const SubtreeTold& subtree);
std::vector<std::byte> serialise(const Collected& collected);
std::vector<std::byte> serialise(const Withdrawn& withdrawn);

// Each an error (Corrupt) unless the bytes are a whole message of this type and nothing else.
Result<MemberTold> parse_member(std::span<const std::byte> bytes);
Result<TurnedAway> parse_turned_away(std::span<const std::byte> bytes);
Result<GivenTold> parse_given(std::span<const std::byte> bytes);
Result<Verdict> parse_verdict(std::span<const std::byte> bytes);
Result<Collect> parse_collect(std::span<const std::byte> bytes);
Result<SubtreeTold> parse_subtree(std::span<const std::byte> bytes);
Result<Collected> parse_collected(std::span<const std::byte> bytes);
Result<Withdrawn> parse_withdrawn(std::span<const std::byte> bytes);

}  // namespace sparcl::elastic
