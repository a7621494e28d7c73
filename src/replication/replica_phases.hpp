#pragma once
// The phases of a replica. It is in one phase of each of these five groups at a time; each phase
// has its own data.
//
// Source:    FromPublisher ── PARENT ──► FromParent ── its end, PARENT (none) ──► FromPublisher
//
// Transfer:  NoUpdate ── OFFER ──► Receiving ── COMMIT ──► NoUpdate, and the update is staged
//               │                     └── the sender is gone ──► Partial ── the same OFFER ──►
//               Receiving └── a parent's OFFER ──► AwaitsAnnouncement ── ANNOUNCE, or IDENTITY
//                             of all bytes that the parent makes itself ──► Receiving
//
// Bytes:     Brought ── IDENTITY, equal ──► Vouched ── a label ──► Published
//               └── an anchor, or another replica's anchor or a repair, with the right SHA-256
//                                                                            ──► Published
//            Published ── the sweep ──► Damaged ── a repair, or an anchor ──► Published
//
// Writer:    Resting ── next() ──► Applying, Restoring ──► Resting
// Pin:       None; Ahead, up to a version; Back, to the version before; Held, after that

#include <cstdint>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "src/model/state_identity.hpp"
#include "src/replication/message.hpp"
#include "src/replication/parent_progress.hpp"
#include "src/replication/staged_update.hpp"

namespace sparcl::replication {

// A comparison of the bytes that are held with a version, by SHA-256.
struct Comparison {
  Identity with;
  model::StateIdentity digest;
};

namespace replica_phase {

// --- where updates come from ---

struct FromPublisher {};
// The parent makes all bytes of a version that it holds. They count if they have the publisher's
// SHA-256 of that version.
struct Giver {
  static constexpr std::size_t kMaxIdentities = 8;  // a publisher sends fewer
  double until = 0;                                 // then they are to come
  std::vector<std::shared_ptr<const Identity>> identities;
};
struct FromParent {
  double since = 0;  // the connection to it was begun
  ParentProgress progress;
  std::optional<Giver> giver{};  // until the bytes are staged
};
using Source = std::variant<FromPublisher, FromParent>;

// --- the update that comes, from the last that is staged ---

struct NoUpdate {};
struct Partial {
  std::unique_ptr<StagedUpdate> update;
};
struct Receiving {
  std::unique_ptr<StagedUpdate> update;
};
struct AwaitsAnnouncement {  // nothing is asked for that the publisher has not announced
  Offer offer;
  double since = 0;
  std::unique_ptr<StagedUpdate> partial;  // of an earlier sender; nullptr: none
};
using Transfer = std::variant<NoUpdate, Partial, Receiving, AwaitsAnnouncement>;

// --- where the bytes that are held come from ---

// The replica came with them. Their state hash proves nothing: they may be chosen to have it.
struct Brought {
  bool may_ask_for_blocks = true;   // false: the blocks that differ have not led to the version
  std::optional<Comparison> asked;  // they are not this version: the blocks that differ were asked
};
struct Vouched {};    // the publisher's SHA-256 is theirs; they have no version yet
struct Published {};  // a version: the publisher's own updates have led there
// They were a version, and some have changed by accident. A repair makes them vouched for again.
struct Damaged {
  Damage blocks;  // no hashes if there are too many blocks to tell
};
using Bytes = std::variant<Brought, Vouched, Published, Damaged>;

// --- what next() does with the arrays ---

struct Resting {};
struct Applying {  // the update is next()'s alone
  std::unique_ptr<StagedUpdate> update;
  // Of all bytes, after a repair of what the replica came with, or after a giver's anchor.
  std::optional<Comparison> expected;
};
struct Restoring {};  // the version before
using Writer = std::variant<Resting, Applying, Restoring>;

// --- how far next() goes ---

struct Pin {
  enum class To : std::uint8_t {
    kAhead,
    kBack,  // the version before: next() goes back to it
    kHeld,  // it has gone back
  };
  std::uint64_t version = 0;  // 0: as far as it can
  To to = To::kAhead;
};

}  // namespace replica_phase
}  // namespace sparcl::replication
