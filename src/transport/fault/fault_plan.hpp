#pragma once
// Planned faults: kind, location and time. Every decision follows from the seed and from the rank's
// operations, not from timing.

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/seeded_random.hpp"
#include "src/transport/transport.hpp"

namespace sparcl::transport {

enum class Fault : std::uint8_t {
  kDrop,   // a message is lost; its send succeeds
  kDelay,  // a message leaves up to `seconds` later; later messages on its channel stay behind it
  kDuplicate,  // a message is sent twice
  kReorder,    // a message leaves after later ones to other peers or channels, at the latest after
               // `seconds`: legal
  kCorrupt,    // one to three bits of a message are flipped
  kTruncate,   // a message loses its end
  kKill,       // the rank does nothing any more
  kStop,       // the rank does nothing for `seconds`, its clock included, and then goes on
  kCut,  // from a point on no message between two ranks arrives, signals included; a send succeeds
         // or never ends
  kHalfOpen,  // the same in one direction only: from `rank` to `peer`
  kSlow,      // each message leaves late, by `seconds` times a seeded factor of 0.5 to 1.5
};

// An outgoing message, which faults of messages change.
struct Outgoing {
  Buffer message;
  int copies = 1;
  double held_seconds = 0;
  std::uint64_t held_sends =
      0;  // leaves at the latest after so many further messages of this rank; 0: by time only
};

struct FaultRule {
  Fault fault = Fault::kDrop;
  double probability =
      0;  // of each message that the rule is for; for kKill and kStop of each posted operation
  // In addition: the rank's at-th message or operation, from 0. A link is cut from then on; each
  // end counts its own operations.
  std::uint64_t at = std::numeric_limits<std::uint64_t>::max();
  double seconds = 0.001;  // a link without `at` is cut from this time on, by the rank's clock
  int rank = -1;           // the rank with the fault; -1: any
  int peer = -1;           // the receiver of the message; -1: any
  int lane = -1;           // of the message's channel; -1: any
};

enum class FaultOf : std::uint8_t { kMessage, kRank, kLink };

// A fault is a row here. To add one: the enumerator, and its row in fault_plan.cpp.
struct FaultRow {
  Fault fault;
  std::string_view name;
  FaultOf of;
  bool harmless;  // a correct program gives the same result, only later
  // Changes the message; empty for faults of ranks and links.
  void (*apply)(Outgoing& outgoing, const FaultRule& rule, SeededRandom& random);
};

std::span<const FaultRow> fault_rows();
const FaultRow& row_of(Fault fault);

struct FaultPlan {
  std::uint64_t seed = 0;
  std::vector<FaultRule> rules;

  // "seed 17: drop p=0.01; kill at 57 on rank 2".
  std::string describe() const;

  // One to three rules of the allowed faults, each on one rank or on all. `operations`: about how
  // many a rank posts, so that a fault at one of them happens.
  static FaultPlan random(std::uint64_t seed, int ranks, std::uint64_t operations,
                          std::span<const Fault> allowed);
};

}  // namespace sparcl::transport
