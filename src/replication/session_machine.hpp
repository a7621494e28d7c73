#pragma once
// The sender's end of one connection, without the connection itself. The sender is a publisher, or
// a replica that passes updates on. It brings the replica at the other end to the newest version,
// one update after the other. Events come in as calls, actions go out (session_actions.hpp). It
// reads no clock and no socket. Its phases: session_phases.hpp.
//
// At most kMaxAhead updates are under way that the replica does not hold yet: a replica that does
// not apply them costs no more.

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "src/replication/memory_pieces.hpp"
#include "src/replication/session_actions.hpp"
#include "src/replication/session_context.hpp"
#include "src/replication/session_phases.hpp"
#include "src/trust/role_secret.hpp"

namespace sparcl::replication {

class SessionMachine {
 public:
  static constexpr int kMaxAhead = kMaxUpdatesAhead;
  static constexpr int kMaxAheadToPin = kMaxUpdatesToPin;

  struct Peer {
    std::uint64_t id = 0;                 // from 1, of this server's sessions
    std::optional<net::NetAddress> from;  // nothing: not known
    bool is_same_host = false;            // its address is the one that it has connected to
  };
  // memory: for replicas of this host; outlives the machine, as context and counts do.
  SessionMachine(const Peer& peer, const SessionContext& context, MemoryPieces& memory,
                 SessionCounts& counts, double now);

  // --- events ---

  // The connection is encrypted, and the peer has the secret of this role. proof: goes out before
  // anything else.
  void on_secured(trust::Role role, const std::optional<SessionProof>& proof);
  // content: may be taken.
  void on_message(MessageType type, std::vector<std::byte>& content, double now);
  void on_bytes(double now) { heard_ = now; }  // a part of a message is a sign of life, too
  void on_no_room();                           // for the message that comes
  // bytes: all that the connection has sent until now.
  void on_sent(std::uint64_t bytes, double now);
  // Nothing new of an update is sent for now: the peer is not to blame.
  void on_pause(double now);
  // taken: bytes that the peer's machine has. True: something is to be sent.
  bool on_tick(std::uint64_t taken, double now);
  // The store has something new, or more of what is on its way.
  void on_news(double now);
  // The feed for the tensors of list(), or why there is none.
  void on_feed(Result<SessionFeedRef> feed);
  // The update is of no use after all.
  void on_withdrawal(const UpdateRef& update);
  void on_call_back();  // it is to take its updates from here again
  void on_leave();      // says goodbye
  // The bytes that came are no message, or no handshake. Its connection ends.
  void on_broken(Status why, RefusalReason reason, double now);
  void drop(Status why);  // ok: without a word in the log

  // The machine's turns: what is to be offered, and the bytes that there is room for.
  void serve(double now);
  void send_on(double now);
  // A piece of memory is to be told of before the next one is made: send_on() has more to do.
  bool wants_turn() const { return wants_turn_; }

  // --- actions since clear_actions() ---

  SessionActions& actions() { return actions_; }
  void clear_actions() { actions_.clear(); }

  // --- what it is at ---

  const session_phase::Any& phase() const { return phase_; }
  bool is_over() const { return is<session_phase::Over>(); }
  bool is_leaving() const { return is<session_phase::Leaving>(); }
  bool is_replica() const { return is<session_phase::Serving>(); }
  bool is_unauthenticated() const { return !is_over() && !is_leaving() && !is_replica(); }
  // Messages are read in this phase.
  bool is_listening() const { return is_replica() || (is_unauthenticated() && list() == nullptr); }
  // Since when this phase lasts: of an unauthenticated connection, or of an answer that goes out.
  double waits_since() const { return is_unauthenticated() ? born_ : heard_; }

  // The list of tensors that waits for on_feed(); nullptr: none does. It stays where it is until
  // then.
  const std::vector<std::byte>* list() const;
  const Hash128& list_hash() const;

  const SessionFeedRef& feed() const { return feed_; }  // nullptr: it has none yet
  std::uint64_t id() const { return peer_.id; }
  const std::optional<net::NetAddress>& from() const { return peer_.from; }
  const std::optional<net::NetAddress>& serves_at() const { return serves_at_; }  // other replicas
  // The key of tickets for replicas that take from it; nothing: its connection is in the clear.
  const std::optional<trust::Role>& role() const { return role_; }  // nothing: in the clear
  const std::optional<RelayKey>& relay_key() const { return relay_key_; }
  const std::string& replica() const { return replica_; }  // its name, and where it comes from
  const std::string& process() const { return process_; }  // its name alone
  const ReplicaLabel& label() const { return label_; }
  double born() const { return born_; }
  // Its name for PeerScores. Before its HELLO all connections of one address are one peer.
  std::string score_key() const;
  bool is_proven() const { return standing_ == Standing::kProven; }
  bool has_answered() const { return standing_ != Standing::kNew; }
  const ReceiptBook::Given& given() const { return given_; }
  const Receipt& receipt() const { return receipt_; }
  const Receipt& last_receipt() const { return last_receipt_; }  // zeros: none
  std::uint64_t bytes_shared() const { return bytes_shared_; }   // as memory
  std::uint64_t refused() const { return refused_; }             // updates, by the replica
  // Memory that this machine alone has.
  std::uint64_t own_bytes() const;
  // It is being sent an update that takes of the budget. is_lost: which is kept only for the
  // sessions that send it.
  bool keeps_update(bool is_lost) const;
  bool is_sent_copy() const;  // all bytes of a version

  // 0 or false unless it is a replica.
  std::uint64_t held_version() const;
  bool is_held_known() const;  // held_version(): nothing, or a version that was published here
  std::uint64_t staged_version() const;
  bool is_vouched() const;  // what it holds, by its own word
  bool is_only_told() const { return is_replica() && serving()->only_told; }
  HeldVersion held() const;
  // The version that counts for Publisher::wait(): the replica's word, if it was given the version.
  // 0: none.
  std::uint64_t acknowledged_version() const;
  std::uint64_t received_version() const;
  const char* state() const;

 private:
  using Serving = session_phase::Serving;
  enum class Standing : std::uint8_t {
    kNew,
    kAnswered,  // to what it was sent since its WELCOME
    kProven,    // it has held a version whose bytes it was sent
  };
  enum class Memory : std::uint8_t { kNotShared, kInvited, kShared };
  struct SideFilesTold {
    Digest256 digest{};     // of the files that it has, or is being sent
    SideFilesRef last{};    // nullptr: it was told nothing yet
    std::uint64_t end = 0;  // of that message
  };

  template <class Phase>
  bool is() const {
    return std::holds_alternative<Phase>(phase_);
  }
  Serving* serving() { return std::get_if<Serving>(&phase_); }
  const Serving* serving() const { return std::get_if<Serving>(&phase_); }
  const UpdateStore& store() const { return *feed_->store; }
  FanOut* fan_out() const { return feed_->fan_out; }

  void act(session_action::Any action);
  void send(MessageType type, std::vector<std::byte> content);
  template <class Message>
  void send(MessageType type, const Message& message) {
    send(type, serialise(message));
  }
  void send_of_update(MessageType type, std::vector<std::byte> content);
  std::uint64_t waiting_bytes() const { return queued_ - sent_; }

  // Messages.
  Status take(MessageType type, std::vector<std::byte>& content, double now);
  Status check_role(MessageType type) const;
  Status take_greeting(MessageType type, std::vector<std::byte>& content);
  Status take_of_replica(Serving& at, MessageType type, std::span<const std::byte> content,
                         double now);
  Status take_hello(std::span<const std::byte> content);
  Status take_list(std::vector<std::byte>& content);
  Status take_status_query();
  Status take_model_query(std::span<const std::byte> content);
  Status take_refusal(std::span<const std::byte> content);
  Status take_bye(std::span<const std::byte> content);
  Status take_request(Serving& at, const Request& request, double now);
  Status take_ack(Serving& at, const Ack& ack, double now);
  Status take_nack(Serving& at, const Nack& nack);
  Status take_orphan(Serving& at, const Orphan& orphan, double now);
  Status take_damage(Serving& at, std::span<const std::byte> content);
  Status take_blocks(Serving& at, std::span<const std::byte> content);
  Status take_taken(double now);
  Status take_side_wanted(std::span<const std::byte> content);
  bool answer_challenge(double now);

  // The way in.
  Status enter(const Hello& hello);
  Serving begin_serving(const Hello& hello) const;
  void join(const Hello& hello, bool shares_memory);
  Status welcome(const Serving& at, bool shares_memory);

  // Offers to the replica.
  void offer_next(Serving& at, double now);
  bool is_full(const Serving& at) const;
  void note_full(Serving& at, double now);
  void tell_newest(Serving& at, std::uint64_t known);
  bool compare(Serving& at);
  bool offer_repair(Serving& at, double now);
  bool hand_over(Serving& at, const UpdateStore::Step& next, double now);
  std::optional<std::uint64_t> anchor_for(const UpdateStore::Step& next) const;
  Result<RelayTicket> ticket_of(const SessionMachine* parent) const;
  std::vector<std::uint64_t> givable(const Serving& at, const UpdateStore::Step& next) const;
  bool begin_giving(Serving& at, const SessionMachine& giver, double now);
  bool vouch_for_giver(Serving& at);
  UpdateStore::Step next_step(const Serving& at) const;
  void offer_given(Serving& at, double now);
  void offer(Serving& at, UpdateRef update, double now);
  void announce(Serving& at, double now, std::uint64_t after);
  void tell_side_files();
  void send_ready(session_stage::Sending& stage, double now);
  bool send_leaves(session_stage::Sending& stage);
  std::size_t next_piece(const session_stage::Sending& stage) const;
  bool send_piece(session_stage::Sending& stage, std::size_t count, double now);
  void let_go(Serving& at);

  // The version that the replica is known to hold.
  void confirm(Serving& at, double now);
  void note_given(const ReceiptBook::Given& given);
  void note_given_by_parent();

  // The end.
  void refuse(Status why);  // the reason is that of its code
  void refuse(Status why, RefusalReason reason);
  RefusalReason reason_of(Code code) const;
  bool refuse_backed_off(double now);
  void end_without_path(const Serving& at);
  void tell_of_loss(const Status& why);
  void drop_if_nothing_moves(const Serving& at, std::uint64_t taken, double now);
  bool owes(const Serving& at) const;
  // Repeated warnings of one kind and peer are left out.
  void warn(const std::string& text, const std::string& kind);
  std::string identity() const;

  Peer peer_;
  const SessionContext& context_;
  MemoryPieces& memory_;
  SessionCounts& counts_;
  session_phase::Any phase_;
  SessionActions actions_;
  bool wants_turn_ = false;

  SessionFeedRef feed_;
  std::string replica_;
  std::string process_;
  ReplicaLabel label_;
  std::optional<net::NetAddress> serves_at_;
  std::optional<RelayKey> relay_key_;
  std::optional<trust::Role> role_;  // nothing: the connection is in the clear
  Standing standing_ = Standing::kNew;
  Receipt receipt_{};
  Receipt last_receipt_{};    // of its session before, in this life
  ReceiptBook::Given given_;  // from here, or from a parent that was given them
  std::uint64_t refused_ = 0;

  std::optional<Challenge> challenge_;  // not answered yet
  double answered_at_ = -1e9;           // the one before

  double born_;
  double heard_;
  double spoke_;
  double moved_at_;  // it has taken something that it was sent, or nothing was left to take

  // Bytes of the connection, counted from its beginning.
  std::uint64_t queued_ = 0;
  std::uint64_t sent_ = 0;
  std::uint64_t taken_ = 0;       // its host has them
  std::uint64_t update_end_ = 0;  // of what was said of updates
  struct InFlight {
    UpdateRef update;
    std::uint64_t end;
  };
  std::deque<InFlight> in_flight_;  // all of the update is queued

  std::optional<SideFilesTold> side_files_;  // it writes a folder, and asks for them

  Memory memory_state_ = Memory::kNotShared;
  std::deque<SealedMemoryRef> pieces_out_;  // not taken yet: they must stay reachable
  std::uint64_t bytes_shared_ = 0;
};

}  // namespace sparcl::replication
