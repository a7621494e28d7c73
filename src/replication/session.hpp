#pragma once
// A publisher's end of one connection, or that of a replica that passes updates on: brings the
// replica at the other end to the newest version, one update after the other.
//
//   stranger ── hello ──► replica ── bye, silence, corrupt ──► over
//                           │  idle ── offer ──► offered ── request ──► sending ── commit ──► idle
//                           │   │                    └──── nack ─────► idle, by an anchor
//                           │   ├── parent ──► takes from another replica ── orphan ──► idle
//                           │   ├── damage ──► waits for a repair, or an anchor ──► idle
//                           │   └── not vouched for ──► identity ──► vouched for: idle;
//                           │                              else idle, by a repair or an anchor
//
// At most kMaxAhead updates are under way that the replica does not hold yet: one that does not
// come to apply them costs no more.

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "src/replication/fan_out.hpp"
#include "src/replication/identities.hpp"
#include "src/replication/memory_pieces.hpp"
#include "src/replication/message_link.hpp"
#include "src/replication/peer_budget.hpp"
#include "src/replication/peer_counts.hpp"
#include "src/replication/peer_warnings.hpp"
#include "src/replication/receipt_book.hpp"
#include "src/replication/repair.hpp"
#include "src/replication/replica_slots.hpp"
#include "src/replication/update_store.hpp"

namespace sparcl::replication {

class Session;

// What a replica is brought on by: updates of its list of tensors.
struct UpdateSource {
  Hash128 schema_hash;
  std::uint64_t tensor_bytes = 0;
  const UpdateStore* store = nullptr;
  FanOut* fan_out = nullptr;             // a publisher's
  std::function<void()> request_anchor;  // one is needed that the store does not have: it will be
                                         // made. Empty: it will not
  // One update from `base` to the newest version might be less than those between them. Empty: it
  // will not be made.
  std::function<void(const HeldVersion& base)> request_composed;
  // Blocks of a replica that are not those of a version: it is made known in the repair. Empty: it
  // will not be made.
  std::function<void(const RepairRef& repair)> request_repair;
  // The digest of the version with this state hash; if there is none, of version `nearly` or the
  // newest. Empty: none are made here.
  std::function<IdentityAnswer(const Hash128& hash, const std::optional<std::uint64_t>& nearly)>
      identify;
  std::uint64_t block_count = 0;  // of these tensors, where repairs are made
};
using UpdateSourceRef = std::shared_ptr<const UpdateSource>;

// What all sessions of a publisher, or of a replica that passes on, share.
struct SessionContext {
  std::string model_id;
  std::uint64_t epoch = 0;
  std::optional<WholeMessage> model_reply;  // what is published; nothing: not told here
  std::string name;                         // of this process: "host h1, pid 4711"
  double handshake_s = 5;                   // a stranger's time
  double silence_s = 5;                     // after which a peer counts as stopped or cut off
  double alive_s = 1e9;                     // between two signs of life, at most
  std::size_t max_replicas = SIZE_MAX;
  std::function<bool()> evict;  // ends the session of a replica that has not proven itself; false:
                                // there is none. May be empty
  std::string replica_limit_reason;  // "its descriptors allow: ulimit -n"
  bool shares_memory = false;        // with replicas of this machine
  // For replicas with these tensors; nullptr: there is none.
  std::function<UpdateSourceRef(const Hash128& schema_hash)> find_source;
  // What one that comes has applied last: an error says why it cannot be served. Empty: it is no
  // matter.
  std::function<Status(const LatestHeld& latest)> learn_epoch;
  // Of a list of tensors that is no known source's: it is asked for, and answered once somebody has
  // looked at it (list(), take_source()). Empty: no list is asked for.
  std::function<std::size_t()> max_schema_bytes;
  // Ends others until those that have proven nothing are within their part of the budget; false:
  // `asker` must go. Empty: nobody goes for another.
  std::function<bool(const Session& asker)> make_room;
  std::function<std::string()> status_report;                    // JSON, for who asks
  std::function<const Session*(std::uint64_t id)> find_session;  // a publisher's
  std::function<void(const Session& session)> on_arrival;        // of a replica; may be empty
  std::function<void(const Session& session)>
      on_farewell;     // a goodbye, after which what it held counts; may be empty
  std::string closed;  // why there is nothing for replicas here; empty: there is
  std::shared_ptr<ReceiptBook> receipts = std::make_shared<ReceiptBook>();
  std::shared_ptr<PeerWarnings> warnings = std::make_shared<PeerWarnings>();
  std::shared_ptr<PeerCounts> counts = std::make_shared<PeerCounts>();
  PeerBudgetRef budget = std::make_shared<PeerBudget>();
  std::shared_ptr<ReplicaSlots> slots = std::make_shared<ReplicaSlots>();
};

// RemoteError: it may come again.
Status no_room(const PeerBudget& budget);

// Of a server's sessions, never too few.
struct SessionCounts {
  std::size_t replicas = 0;
  std::size_t waiting = 0;  // strangers, and those that are told something more
};

class Session {
 public:
  // from: nothing where it is not known. id: from 1, of this server's sessions. memory: for
  // replicas of this machine; outlives it.
  Session(net::Socket socket, std::optional<net::NetAddress> from, std::uint64_t id,
          const SessionContext& context, MemoryPieces& memory, SessionCounts& counts, double now);

  int fd() const { return link_.fd(); }
  short events() const;
  bool is_over() const { return phase_ == Phase::kOver; }
  bool is_stranger() const { return phase_ == Phase::kStranger; }
  bool is_waiting() const { return phase_ == Phase::kStranger || phase_ == Phase::kLeaving; }
  double waits_since() const { return phase_ == Phase::kStranger ? born_ : heard_; }
  const UpdateSourceRef& source() const { return source_; }  // nullptr: of a stranger
  std::uint64_t id() const { return id_; }

  // Its list of tensors, which waits for take_source(); nullptr: none does. The bytes stay as they
  // are until then.
  const std::vector<std::byte>* list() const { return list_ ? &*list_ : nullptr; }
  const Hash128& list_hash() const { return hello_->schema_hash; }
  // What replicas with these tensors are served from, or why they are not.
  void take_source(Result<UpdateSourceRef> source, double now);

  // Reads what has come and answers; sends on.
  void step(double now);
  // By the clock alone.
  void tick(double now);
  void leave();  // says goodbye
  void drop(Status why);
  void give_up_place();  // in the plan of who takes from whom
  // The store has something new, or more of what is on its way.
  void publish(double now);
  // The same, in its next turn.
  void have_news() { has_news_ = true; }
  bool has_news() const { return has_news_; }
  // It is to take its updates from here again.
  void call_back();
  // Of no use after all; sessions that send it end.
  void withdraw(const UpdateRef& update);
  const std::optional<net::NetAddress>& serves_at() const { return serves_at_; }  // others

  // For the publisher's counts and the status report.
  const std::string& replica() const { return replica_; }  // its name, and where it comes from
  const std::string& process() const { return process_; }  // its name alone
  const ReplicaLabel& label() const { return label_; }
  const std::optional<net::NetAddress>& from() const { return from_; }
  bool is_replica() const { return phase_ == Phase::kReplica; }
  bool is_proven() const { return is_proven_; }  // it has held a version whose bytes it was sent
  bool has_answered() const { return has_answered_; }
  double born() const { return born_; }
  // Memory that this session alone causes, of the budget of peers.
  std::uint64_t own_bytes() const { return charge_.bytes(); }
  // It is being sent an update that takes of the budget. is_lost: which is kept for those alone who
  // are being sent it.
  bool keeps_update(bool is_lost) const;
  const std::optional<HeldVersion>& held() const { return held_; }
  bool has_confirmed() const {
    return has_confirmed_;
  }  // that it holds a version of this publisher's, which is vouched for
  bool is_vouched() const { return held_is_vouched_; }  // by its own word, too
  std::uint64_t staged_version() const { return staged_version_; }
  // The versions that count for those who wait for acknowledgements: its word, as far as it was
  // given them. 0: none.
  std::uint64_t acknowledged_version() const {
    return has_confirmed_ && held_->version <= given_.version ? held_->version : 0;
  }
  std::uint64_t received_version() const {
    return staged_version_ <= given_.version ? staged_version_ : 0;
  }
  const Receipt& last_receipt() const {
    return last_receipt_;
  }  // of its session before, in this life; zeros: none
  const Receipt& receipt() const { return receipt_; }
  std::uint64_t bytes_sent() const { return link_.bytes_sent(); }
  std::uint64_t bytes_shared() const { return bytes_shared_; }  // as memory
  std::uint64_t refused() const { return refused_; }
  const char* state() const;

 private:
  enum class Phase : std::uint8_t { kStranger, kReplica, kLeaving, kOver };
  static constexpr int kMaxAhead = 2;
  // Whether what it came with is what the publisher has published.
  enum class Identifying : std::uint8_t { kNot, kAwaitsDigest, kAwaitsWord, kIsAnother };

  void step_on(double now);
  void read(double now);
  Status handle(double now);
  Status take_model_query();
  Status take_hello();
  Status take_schema();
  bool has_room(std::size_t more);
  std::uint64_t memory() const;
  void let_go();
  Status enter(const Hello& hello);
  Status take_request(double now);
  Status take_ack(double now);
  Status take_nack();
  Status take_pin(double now);
  Status take_orphan(double now);
  Status take_damage();
  Status take_blocks();
  bool awaits_damage() const { return said_damaged_ && source_->request_repair; }
  void join(const Hello& hello, bool is_near);
  bool is_neighbour() const;
  void announce(double now, std::uint64_t after = 0);
  bool identify();
  void confirm(double now);
  void note_given(const ReceiptBook::Given& given);
  void note_given_by_parent();
  bool is_placed_elsewhere(const UpdateStore::Step& next, double now);
  UpdateStore::Step next_step() const;
  void offer_next(double now);
  void offer(UpdateRef update, double now);
  void send_on(double now);
  void send_ready(double now);
  std::size_t next_piece() const;
  bool pass(std::size_t count, double now);
  bool send_leaves();
  void refuse(Status why);
  void warn(const std::string& text,
            const std::string& kind);  // of one kind and peer not each time
  Status take_bye();
  std::string identity() const;
  void end_without_way();
  void tell_of_loss(const Status& why);
  bool owes() const;
  void drop_where_nothing_moves(double now);

  const UpdateStore& store() const { return *source_->store; }
  FanOut* fan_out() const { return source_->fan_out; }

  const SessionContext& context_;
  UpdateSourceRef source_;
  MessageLink link_;
  Phase phase_ = Phase::kStranger;
  std::optional<Hello> hello_;                  // of a stranger whose tensors are asked for
  std::optional<std::vector<std::byte>> list_;  // of these
  std::optional<net::NetAddress> from_;
  std::uint64_t id_;
  std::string replica_;
  std::string process_;
  ReplicaLabel label_;  // once it is a replica
  double born_;
  double heard_;
  double spoke_;
  double alive_period_s_ = 1;

  std::optional<HeldVersion> held_;  // by its own word
  bool held_is_vouched_ = false;
  bool has_confirmed_ = false;
  bool tip_is_ours_ = false;  // it came of this publisher since the replica came; what it came with
                              // may be another's
  HeldVersion tip_;           // what it will hold once it has applied all that it was sent
  bool tip_is_vouched_ = false;
  Identifying identifying_ = Identifying::kNot;
  Hash128 identity_of_;  // the state hash whose digest it is compared with, or may be
  std::optional<std::uint64_t>
      nearly_;  // it says that what it came with is nearly this version, or some other
  std::uint64_t staged_version_ = 0;
  ReceiptBook::Given given_;          // from here, or from a parent that was given them
  bool is_asked_whole_ = false;       // what is offered, from its first byte
  std::uint64_t oldest_taken_ = 0;    // versions before this one it refuses
  bool is_of_another_epoch_ = false;  // what it came with: a label makes it this publisher's
  Receipt receipt_{};
  Receipt last_receipt_{};
  UpdateRef update_;  // offered, or being sent
  struct Sending {
    UpdateRef update;
    std::uint64_t end;  // among the bytes of the connection
  };
  std::deque<Sending> sending_;  // all of it is queued
  bool is_requested_ = false;
  std::uint64_t next_leaf_ = 0;  // of its digests, that go before its bytes
  std::uint64_t next_byte_ = 0;
  double progress_at_ = 0;        // of update_
  std::uint64_t update_end_ = 0;  // among the bytes of the connection: of what was said of updates
  std::uint64_t arrived_ = 0;     // bytes that its machine has
  double moved_at_ = 0;  // it has taken something that it was sent, or nothing was left to take
  int ahead_ = 0;        // updates that it was sent whole and does not hold yet
  bool needs_anchor_ = false;
  bool awaits_composed_ = false;
  bool said_damaged_ = false;  // a DAMAGE is to come, before anything else
  RepairRef repair_;           // that it waits for where it would need all bytes
  bool repair_is_asked_ = false;
  std::uint64_t pin_ = 0;      // it will stop there; 0: nowhere
  std::uint64_t refused_ = 0;  // updates, by it
  int refused_in_a_row_ = 0;

  MemoryPieces& memory_;
  PeerBudget::Charge charge_;
  SessionCounts& counts_;
  bool has_news_ = false;
  bool is_proven_ = false;
  bool has_answered_ = false;  // to what it was sent since its welcome
  bool was_invited_ = false;
  bool shares_memory_ = false;              // pieces can be sent
  std::deque<SealedMemoryRef> pieces_out_;  // that it has not taken: they must stay reachable
  std::uint64_t bytes_shared_ = 0;

  std::optional<net::NetAddress> serves_at_;
  bool is_placed_ = false;        // with another replica, from which it takes updates
  std::uint32_t placements_ = 0;  // PARENT messages, so far
  std::uint64_t announced_ =
      0;  // while it is placed: of what the store has made, up to this number
  std::uint64_t announced_version_ = 0;  // of these the newest
  std::uint64_t said_newest_ = 0;
};

}  // namespace sparcl::replication
