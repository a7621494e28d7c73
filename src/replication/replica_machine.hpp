#pragma once
// A replica's protocol without connections, thread and arrays: messages, updates, versions. Events
// come in as calls, actions go out (replica_actions.hpp). It reads no clock and no socket. Its
// phases: replica_phases.hpp.
//
// The connection to the publisher is always kept: the publisher says where updates come from, and
// hears what is held. If a parent fails, updates come from the publisher again.

#include <compare>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/base/repeated_messages.hpp"
#include "src/replication/freshness.hpp"
#include "src/replication/replica_actions.hpp"
#include "src/replication/replica_phases.hpp"
#include "src/replication/side_file_book.hpp"
#include "src/trust/trusted_keys.hpp"

namespace sparcl::replication {

// This trouble lasts until a user changes the replica or the publisher.
bool is_lasting(Code trouble);

// A version that can be shown. Epochs come first: a later publisher's versions are newer, whatever
// their numbers.
struct PreparedVersion {
  std::uint64_t epoch = 0;
  std::uint64_t version = 0;  // 0: none
  friend auto operator<=>(const PreparedVersion&, const PreparedVersion&) = default;
};

class ReplicaMachine {
 public:
  struct Options {
    std::string model_id;
    Hash128 schema_hash;
    Digest256 schema_digest{};
    std::uint64_t max_stream_bytes = 0;    // that an update of these tensors can have
    std::uint64_t max_replaced_bytes = 0;  // that are kept of what an update replaces
    bool holds_copy = false;               // SubscriberOptions
    std::uint32_t silence_ms = 5000;
    std::string name;
    std::optional<trust::TrustedKeys> trusted;
    bool is_publisher_proven = false;  // its connection is encrypted, and signed by a trusted key
    std::optional<Offer> latest;       // applied in its life before
    double max_age_s = 0;              // of what is held (Freshness); 0: any
    bool gives_bytes = false;          // all bytes of what is held, to replicas that have none
    bool takes_bytes = false;          // from such a replica
    std::optional<Digest256> side_files{};  // SubscriberOptions
    bool only_told = false;                 // SubscriberOptions
  };
  ReplicaMachine(Options options, const UpstreamView& publisher, const UpstreamView& parent,
                 const Hash128& brought_hash);

  // --- events of connections; an error ends the connection ---

  struct HelloFacts {
    std::uint16_t port = 0;  // where others can take updates; 0: nowhere
    bool shares_memory = false;
  };
  Hello hello(UpstreamKind to, const HelloFacts& facts);
  Status on_welcome(UpstreamKind from, const Welcome& welcome);
  // Any message after that but those of an update.
  Status on_message(UpstreamKind from, MessageType type, std::span<const std::byte> content,
                    double now);
  // Those of the contract VersionReader.
  Status on_plan(UpstreamKind from, model::VersionPlan plan, double now);
  Status on_digests(UpstreamKind from, const model::LeafDigests& digests);
  Buffer destination(UpstreamKind from, const ChunkHead& chunk, std::size_t count) const;
  Status on_chunk(UpstreamKind from, const ChunkHead& chunk, std::size_t count,
                  bool has_destination, double now);
  Status on_memory(UpstreamKind from, const ChunkHead& at, Buffer memory, double now);
  Status on_end(UpstreamKind from, const UpdateName& update);
  // There is this version. A parent's word for it is none.
  void on_newest(UpstreamKind from, std::uint64_t version);
  // was_refused: the other side has ended it, and has said why.
  void on_parted(UpstreamKind from, const Status& why, bool was_refused, double now);

  // --- events of the thread ---

  void on_tick(double now);
  void on_turn();  // tells the publisher what it does not know yet
  // The peers' knowledge of this replica is wrong: it must leave all connections and say HELLO
  // again.
  bool must_begin_anew() const { return must_begin_anew_; }
  void on_begin_anew();  // they are left
  // A turn of the thread failed: there was no memory, as likely as not.
  void on_failed_turn(Status why);
  // Some actions could not be carried out: there was no memory.
  void on_lost_actions() { must_begin_anew_ = true; }
  void note_trouble(Status why) { trouble_ = std::move(why); }
  void log_trouble(double now);  // the same trouble not each time

  // An update that can be checked further; nullptr: none.
  StagedUpdate* to_check() const;
  void on_checked(Status status, double now);
  void on_memory_again();
  bool may_compare() const;
  // The digest that needs more blocks of what is held; nullptr: it is compared no more.
  model::StateIdentity* to_compare(double now);
  void on_digest(const Result<Digest256>& digest, double now);
  bool may_sweep() const;
  bool may_give() const { return holds_published() && is<replica_phase::Resting>(writer_); }
  void on_damage(Status why, const Hash128& found, const HeldVersion& wanted,
                 const std::vector<Hash128>& block_hashes);

  // The user trusts other keys.
  void on_new_trust(std::optional<trust::TrustedKeys> trusted);

  // --- events of the user ---

  // before: the version that next() can go back to; else why there is none.
  Status on_pin(std::uint64_t version, const std::optional<HeldVersion>& before, const char* why);
  // Updates are not taken any more, or again: the publisher tells of versions only.
  void on_only_told(bool only_told);
  bool is_only_told() const { return only_told_; }
  // All updates up to this version are wanted now, though none of them is applied meanwhile. 0: as
  // many as usual.
  void on_want(std::uint64_t version);

  // --- prepare() and commit() ---

  // The versions that commit() could show, in the order of the updates; empty: none.
  std::vector<PreparedVersion> ready() const;
  // The updates that lead to one of them; 0: it is none of them.
  std::size_t steps_to(std::uint64_t version) const;
  bool may_come_more() const;  // updates, before one of them is applied
  bool is_prepared_as_far_as_it_goes() const;

  // --- next() ---

  bool has_reason() const;  // to look
  bool has_trouble_to_tell() const { return !damage_.ok() || !lasting_.ok() || tells_age_; }
  bool may_apply() const;    // the first of what is staged, which is checked
  bool may_lead_on() const;  // the first of what is staged, checked or not
  bool wants_back() const { return pin_.to == replica_phase::Pin::To::kBack; }
  bool is_as_far_as_it_goes() const;
  // may_lead_on(): the first update is next()'s until one of the three.
  replica_phase::Applying& begin_applying();
  void on_applied_nothing();  // there was no memory: it can be tried again
  // writes_in_place: the arrays may have been written to.
  void on_not_applied(const Status& why, bool writes_in_place, double now);
  // Answers with the update, which is needed no more. system_ns: by the wall clock.
  std::unique_ptr<StagedUpdate> on_applied(std::uint64_t system_ns);
  // Another source than the publisher brings a version, which is held then as a published one.
  bool may_take_elsewhere() const;
  void begin_taking();
  void on_taken(const HeldVersion& held);
  void on_not_taken() { writer_ = replica_phase::Resting{}; }
  void begin_restoring();
  void on_restored(const HeldVersion& held, std::uint64_t epoch);
  void on_not_restored(const Status& why, const std::optional<HeldVersion>& before);
  Status take_damage_report() { return std::exchange(damage_, Status()); }
  Status take_lasting_trouble() { return std::exchange(lasting_, Status()); }
  // An error: the held version has become too old, or is so still.
  Status take_age_report();
  Status nothing_newer(double seconds) const;  // or why nothing comes

  // Each is done once; in this order.
  ReplicaActions take_actions() { return std::exchange(actions_, {}); }

  // --- what is known ---

  bool has_trusted_keys() const { return options_.trusted.has_value(); }
  const HeldVersion& held() const { return held_; }
  bool holds_published() const { return is<replica_phase::Published>(bytes_); }
  std::uint64_t epoch() const { return epoch_; }
  std::uint64_t publisher_epoch() const { return publisher_epoch_; }
  std::uint64_t newest() const { return newest_; }
  LatestHeld latest() const;
  const std::shared_ptr<const Offer>& proof() const { return proof_; }
  const Status& trouble() const { return trouble_; }
  Status why_nothing_comes() const { return is_stale_ ? stale_error() : trouble_; }
  const Status& damage() const { return damage_; }
  const Status& lasting_trouble() const { return lasting_; }
  const StagedUpdate* incoming() const;
  bool is_receiving() const { return is<replica_phase::Receiving>(transfer_); }

  const SideFileBook& side_files() const { return side_files_; }

  const replica_phase::Source& source() const { return source_; }
  const replica_phase::Transfer& transfer() const { return transfer_; }
  const replica_phase::Bytes& bytes() const { return bytes_; }
  const replica_phase::Writer& writer() const { return writer_; }
  const replica_phase::Pin& pin() const { return pin_; }
  std::size_t staged() const { return staged_.size(); }

 private:
  template <class Phase, class Group>
  static bool is(const Group& group) {
    return std::holds_alternative<Phase>(group);
  }
  replica_phase::FromParent* parent() { return std::get_if<replica_phase::FromParent>(&source_); }
  const replica_phase::FromParent* parent() const {
    return std::get_if<replica_phase::FromParent>(&source_);
  }
  UpstreamKind sender() const {
    return parent() != nullptr ? UpstreamKind::kParent : UpstreamKind::kPublisher;
  }
  StagedUpdate* received_from(UpstreamKind from) const;

  template <class Action>
  void act(Action action) {
    actions_.push_back(std::move(action));
  }
  template <class Message>
  void send(UpstreamKind to, MessageType type, const Message& message) {
    act(replica_action::Send{to, type, serialise(message)});
  }
  void tell(const Ack& ack);

  // Where updates come from.
  Status take_parent(const Parent& placed, double now);
  Status take_announce(Offer announced, double now);
  void leave_parent(const Status& why);  // if there is one
  void come_back(const Status& why);
  void leave_if_not_announced();
  void leave_if_not_given(double now);
  void leave_if_silent(double now);
  bool wants_from_parent() const;

  // The update that comes.
  using IdentityRef = std::shared_ptr<const Identity>;  // nullptr: the publisher has made it
  Status accept_offer(Offer offer, const IdentityRef& identity, double now);
  Status check_offer(const Offer& offer, bool is_given) const;
  std::unique_ptr<StagedUpdate> take_partial_of(const Offer& offer, const IdentityRef& identity);
  IdentityRef identity_of(const Commit& commit) const;
  Status check_order(const Commit& commit) const;
  Status check_base(const Commit& commit) const;
  bool may_repair_brought(const Commit& commit) const;
  void tell_why_all_bytes(const Commit& commit);
  void refuse(const UpdateName& update, const Status& why, bool wants_anchor, double now);
  std::unique_ptr<StagedUpdate> take_partial();
  void interrupt();
  void drop_past_pin();
  std::uint64_t tell_stop();
  bool has_room(std::uint64_t stream_bytes) const;
  void forget_other_epochs(std::uint64_t epoch);

  // Counts a held version no more whose keys are not trusted any more.
  void forget_untrusted();

  // The age of what is held.
  Status take_fresh(const Fresh& fresh);
  Status take_side_files(SideFileSet set);
  void look_at_age(double now);
  Status stale_error() const;

  // The bytes that are held.
  Status check_identity(const Identity& identity) const;
  Status take_identity(Identity identity);
  Status take_vouch(Identity identity, double now);
  void refuse_comparison(const std::string& why, double now);
  void ask_for_blocks(const std::string& why, double now);
  bool is_vouched() const {
    return is<replica_phase::Vouched>(bytes_) || is<replica_phase::Published>(bytes_);
  }
  bool may_lead_on(const StagedUpdate& update) const;
  void forget_trouble() { trouble_ = lasting_ = {}; }

  // The state once all staged updates were applied.
  const StagedUpdate* last_staged() const;
  std::size_t chain_length() const;
  HeldVersion tip() const;
  bool tip_is_vouched() const { return is_vouched() || last_staged() != nullptr; }
  std::uint8_t ahead() const;

  Options options_;
  const UpstreamView& publisher_;
  const UpstreamView& parent_view_;
  ReplicaActions actions_;

  replica_phase::Source source_;
  replica_phase::Transfer transfer_;
  replica_phase::Bytes bytes_;
  replica_phase::Writer writer_;
  replica_phase::Pin pin_;
  // Whole updates, each from the target of the one before; the first from what is held, or from
  // the update that is applied now.
  std::vector<std::unique_ptr<StagedUpdate>> staged_;
  std::optional<Comparison> comparison_;  // of what is held

  HeldVersion held_;
  std::uint64_t epoch_ = 0;  // of what is held
  // Something was applied of this epoch: earlier ones are not listened to.
  std::uint64_t latest_epoch_ = 0;
  std::uint64_t latest_version_ = 0;    // of that epoch
  std::shared_ptr<const Offer> proof_;  // a signed commit of that epoch
  IdentityRef given_by_;                // signed: what is held rests on it, and on no signed commit

  std::uint64_t publisher_epoch_ = 0;  // by its last WELCOME: what comes is of this one
  std::uint64_t newest_ = 0;
  Receipt receipt_{};                   // of the publisher's last WELCOME
  std::uint32_t placements_ = 0;        // number of the publisher's last PARENT
  std::deque<Commit> announced_;        // by this publisher: what parents may offer
  HeldVersion told_held_;               // by the last HELLO
  std::uint64_t told_pin_ = 0;          // to this publisher
  std::uint64_t wanted_ = 0;            // on_want()
  bool has_told_stop_ = false;          // a peer may send more updates than usual
  std::vector<std::byte> told_damage_;  // a DAMAGE, which a HELLO has promised
  bool has_news_ = false;               // to be acknowledged: what is held
  bool must_begin_anew_ = false;

  SideFileBook side_files_;
  Freshness freshness_;
  bool is_stale_ = false;   // by the last tick
  bool tells_age_ = false;  // next() has not said so yet
  double stale_age_s_ = 0;
  double stale_told_at_ = 0;
  Status trouble_;  // why nothing comes
  Status lasting_;  // such a one that waiting does not cure, and next() has not said yet
  Status damage_;   // that the sweep has found, and next() has not said yet
  RepeatedMessages warnings_;
  bool has_told_of_signatures_ = false;
  bool was_misled_ = false;  // by a giver: the publisher is to give all bytes
  bool only_told_ = false;   // of versions: on_only_told()
};

}  // namespace sparcl::replication
