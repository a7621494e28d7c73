#pragma once
// The phases of a publisher's end of one connection, each with its own data.
//
//   Greeting ── HELLO ──► Serving ── BYE, silence, a corrupt message ──► Over
//      │  │                  └── a refusal ──► Leaving ── sent ──► Over
//      │  └ HELLO of unknown tensors ──► AwaitsList ── SCHEMA ──► HasList ── its feed ──► Serving
//      └── STATUS_QUERY, MODEL_QUERY ──► Leaving
//
// While a session is in the phase Serving, it is in one of these stages:
//
//   Idle ── OFFER ──► Offered ── REQUEST ──► Sending ── COMMIT ──► Idle
//    │                   └───────── NACK ───────┴─────► Idle, next by an anchor
//    ├── PARENT ──► HasParent ── ORPHAN ──► Idle. If the parent gives all bytes of what it holds,
//    │              their IDENTITY follows
//    ├── a composed update is being made: AwaitsComposed
//    └── not vouched for ──► AwaitsDigest ── IDENTITY ──► AwaitsAnswer
//
//   AwaitsAnswer ── ACK ──► Idle, vouched for ;  ── BLOCKS ──► AwaitsRepair
//   AwaitsDamage ── DAMAGE ──► AwaitsRepair ── made, or an anchor instead ──► Offered

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "src/replication/message.hpp"
#include "src/replication/repair.hpp"
#include "src/replication/update_store.hpp"

namespace sparcl::replication {

// Bytes that a replica holds, or will hold.
struct ReplicaBytes {
  HeldVersion version;
  bool is_vouched = false;  // by its own word: the publisher's updates or SHA-256 led there
  bool is_ours = false;     // a version of this publisher's life
};

namespace session_stage {

struct Idle {};
struct AwaitsDamage {};  // its HELLO has promised a DAMAGE, before anything else
struct AwaitsRepair {
  RepairRef repair;
  bool is_requested = false;
};
struct AwaitsDigest {                   // SHA-256 of the version that it may hold is being made
  std::optional<AwaitsRepair> instead;  // if no digest can be made
};
struct AwaitsAnswer {};  // it compares its bytes with that digest
struct AwaitsComposed {};
struct Offered {
  UpdateRef update;
  double progress_at;
};
struct Sending {
  UpdateRef update;
  double progress_at;
  std::uint64_t next_leaf;  // of its digests, which go before its bytes
  std::uint64_t next_byte;
  bool is_whole;  // it was asked for from its first byte
};
// A version that its parent may give it, by its state hash.
struct Vouch {
  HeldVersion of;
  bool is_told = false;  // its SHA-256
};
// It takes updates from another replica, and is told of each that it may take there.
struct HasParent {
  std::uint64_t announced = 0;  // of the updates that the store has made, up to this number
  std::vector<Vouch> vouches{};
};

using Any = std::variant<Idle, AwaitsDamage, AwaitsDigest, AwaitsAnswer, AwaitsRepair,
                         AwaitsComposed, Offered, Sending, HasParent>;

}  // namespace session_stage

namespace session_phase {

struct Greeting {};  // unauthenticated: it has not said what it wants
struct AwaitsList {  // the list of its tensors is asked for
  Hello hello;
};
struct HasList {  // the publisher has to find a feed for it
  Hello hello;
  std::vector<std::byte> list;
};
struct Serving {  // a replica
  ReplicaBytes held;
  ReplicaBytes tip;                // what it will hold once it has applied all that it was sent
  int ahead = 0;                   // updates that it was sent whole and does not hold yet
  std::uint64_t ahead_bytes = 0;   // of updates from a base, since it held all that it was sent
  std::uint64_t pin = 0;           // it will stop there; 0: nowhere
  std::uint64_t oldest_taken = 0;  // it refuses versions before this one
  std::uint64_t staged_version = 0;
  std::uint64_t announced_version = 0;  // the newest that it may take from a parent
  // The state hash that it came with, and another version that may be nearly the same.
  Hash128 brought_hash;
  std::optional<std::uint64_t> nearly;
  bool is_compared = false;          // and it is not that version
  bool is_of_another_epoch = false;  // a label makes it this publisher's
  bool needs_anchor = false;         // no other update is of use to it
  bool may_say_damage = false;
  bool takes_bytes = false;  // HELLO; a publisher sends it to a giver once
  bool only_told = false;    // HELLO: nothing is offered
  int refused_in_a_row = 0;
  std::uint64_t told_newest = 0;
  std::uint32_t placements = 0;  // PARENT messages until now
  double alive_period_s = 1;
  session_stage::Any stage;
};
struct Leaving {};  // its last answer goes out
struct Over {};

using Any = std::variant<Greeting, AwaitsList, HasList, Serving, Leaving, Over>;

}  // namespace session_phase
}  // namespace sparcl::replication
