#pragma once
// A replica: its arrays hold exactly one published version at any time, and are written only inside
// next(); with two sets of them those that are read are never written. A thread of its own keeps
// the connections, takes updates in, passes them on to other replicas and checks them meanwhile.
//
// The connection to the publisher is always kept: it says from whom to take updates, and hears what
// is held. They come from there, or from a parent, another replica; when that one fails, from the
// publisher again.

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "src/base/repeated_messages.hpp"
#include "src/net/host_port.hpp"
#include "src/net/name_lookup.hpp"
#include "src/net/run_clock.hpp"
#include "src/net/service_thread.hpp"
#include "src/replication/buffer_pair.hpp"
#include "src/replication/parent_progress.hpp"
#include "src/replication/process_name.hpp"
#include "src/replication/relay.hpp"
#include "src/replication/replicated_state.hpp"
#include "src/replication/staged_update.hpp"
#include "src/replication/state_digest.hpp"
#include "src/replication/state_sweep.hpp"
#include "src/replication/upstream.hpp"
#include "src/replication/way_back.hpp"
#include "src/trust/trusted_keys.hpp"

namespace sparcl::replication {

struct SubscriberOptions {
  std::string model_id;    // the publisher's
  std::string trust_path;  // of public keys; then only what one of them has signed is applied. "":
                           // anything that is sound
  double silence_s = 5;    // after which the publisher counts as stopped or cut off
  bool passes_on = true;   // to other replicas, at a port of its own
  bool shares_memory = true;   // with the publisher and replicas of its machine
  bool keeps_way_back = true;  // to the version before: up to a quarter of the model's bytes, and
                               // as much again while updates wait
  std::string record_path;  // with trusted keys: what was applied last is kept there for the next
                            // life (replica_record.hpp); "": nowhere
  bool holds_copy =
      false;  // what the arrays hold was a version once, and some of it may be damaged: a file
  std::optional<Offer>
      latest;  // the signed commit that it applied last in its life before: older ones are refused
  bool double_buffer =
      false;  // what was held stays as it is while next() works, and until it is called again
  std::function<void(std::uint64_t version)> on_swap;  // inside next(), once the arrays hold it

  double sweep_s = 300;  // between two looks at all that is held; 0: none
  std::uint64_t peer_bytes =
      0;  // that those who take updates from here may cause (PeerBudget); 0: as of a publisher

  Status take_settings();  // SPARCL_LIVENESS_S, SPARCL_RELAY, SPARCL_SHARED_MEMORY, SPARCL_SWEEP_S,
                           // SPARCL_PEER_BYTES
};

class Subscriber final : private UpstreamOwner {
 public:
  // The publisher need not be there yet: it is looked for until it comes, and again whenever it
  // goes. What the arrays hold may be anything. If the publisher finds a version of its own there,
  // byte for byte, only what has changed since then travels; if it finds one but for some blocks,
  // these travel, too.
  static Result<std::unique_ptr<Subscriber>> create(const ReplicatedState& state,
                                                    const std::string& address,
                                                    const SubscriberOptions& options);
  ~Subscriber();
  Subscriber(const Subscriber&) = delete;
  Subscriber& operator=(const Subscriber&) = delete;

  struct Swap {
    std::uint64_t version = 0;
    Hash128 hash;
    std::uint64_t changed = 0;       // elements
    std::uint64_t stream_bytes = 0;  // of the updates that led here
    int updates = 0;
    bool by_anchor = false;
    bool by_repair = false;  // of blocks that were damaged: `changed` counts their elements
    std::uint64_t damaged_blocks = 0;  // the same, of bytes that this replica came with
    bool went_back = false;            // to the version before
    bool is_news() const { return updates > 0 || went_back; }
    double pause_s =
        0;  // in which the arrays were neither the old nor the new version; 0 with two sets of them
  };
  // The newest version that has come whole: applied when this returns. Timeout: there is none yet;
  // where updates were refused or the publisher cannot be reached the error is that one. What
  // waiting does not cure (is_lasting) is said at once, and again when another try has failed.
  Result<Swap> next(double seconds);

  struct Versions {
    std::uint64_t held = 0;    // 0: none yet
    std::uint64_t newest = 0;  // as far as the publisher has said
  };
  Versions versions() const;
  // What is on its way: nothing where bytes is 0.
  struct Incoming {
    std::uint64_t version = 0;
    std::uint64_t received_bytes = 0;
    std::uint64_t bytes = 0;
  };
  Incoming incoming() const;

  // next() goes up to this version and no further; 0: as far as it can. The version before, where
  // the values that led away from it are still there: next() goes back to it.
  Status pin(std::uint64_t version);

  // Where array i of the version that is held lies. With two sets of arrays: not written to before
  // the next but one next().
  const std::byte* array(std::size_t i) const;

  // False in a child of fork(), which must call nothing else.
  bool is_own_process() const { return thread_.is_own_process(); }

  // The latest version that was applied, in this life or in the one before.
  LatestHeld latest() const;

  // Why nothing comes; ok where there is only nothing new.
  Status trouble() const;

  std::string publisher()
      const;  // "host h1, pid 4711 (10.0.0.7:4711)"; empty before the first connection

 private:
  static constexpr double kFirstRetry =
      0.05;  // seconds until the publisher is looked for again; twice as long each time

  Subscriber(const ReplicatedState& state, const SubscriberOptions& options);
  void serve(const net::ServiceThread::Stop& stop);
  void look_publisher_up(double now);
  void connect_publisher(double now);
  void miss_publisher(const Status& why, double now);
  void move_on(std::span<const pollfd> entries, double now);
  void tick(double now);

  // What the upstreams hear.
  Hello hello(const Upstream& to) override;
  std::span<const std::byte> schema() const override { return state_.schema; }
  Status take_welcome(Upstream& from, const Welcome& welcome) override;
  Status take(Upstream& from, double now) override;
  Status take_memory(Upstream& from, const Piece& piece, Buffer memory, double now) override;
  Buffer place_of(const Upstream& from, const ChunkHead& chunk, std::size_t count) override;
  void hear_of(const Upstream& from, std::uint64_t version) override;
  void parted(Upstream& from, const Status& why, double now) override;

  Status take_offer(double now);
  Status check_offer(const Offer& offer) const;
  Status accept_offer(Offer offer, double now);
  Status check_base(const Commit& commit) const;
  Status take_leaves(double now);
  Status take_chunk(double now);
  Status take_commit();
  Status take_parent(double now);
  Status take_announce(double now);
  bool is_announced(const Commit& commit) const;
  void leave_parent_whose_offer_is_unknown(double now);
  bool wants_from_parent() const;
  Status take_identity();
  bool may_compare() const;
  bool may_repair_unknown(const Commit& commit) const;
  Status check_repaired(const ReplicatedState& written, Swap& swap) const;
  void tell_why_all_bytes(const Commit& commit);
  void compare_on(double now);
  void forget_other_epochs(std::uint64_t epoch);
  void leave_parent(const Status& why, double now);
  void come_back(const Status& why, double now);
  Upstream& source() { return has_parent_ ? parent_ : publisher_; }
  void tell(const Ack& ack);
  void refuse(const UpdateName& update, Status why, bool wants_anchor);
  bool has_checks() const;
  void drop_past_pin();
  void check_on(double now);
  void acknowledge();
  LatestHeld latest_held() const;
  Status take_trust();
  void keep_record(const Offer* latest);
  void forget_trouble();
  void say_pin();
  HeldVersion tip() const;
  bool tip_is_vouched() const;
  bool is_vouched() const { return trust_ == Trust::kVouched; }
  std::uint8_t ahead() const;
  bool may_swap() const;
  bool may_lead_on(const StagedUpdate& update) const;
  bool wait_for_news(std::unique_lock<std::mutex>& lock, double deadline);
  Status climb_as_far_as_it_goes(std::unique_lock<std::mutex>& lock, Swap& swap, double deadline);
  Status climb(std::unique_lock<std::mutex>& lock, Swap& swap, double deadline);
  Status swap_front(std::unique_lock<std::mutex>& lock, Swap& swap);
  Status apply_front(StagedUpdate& front, const HeldVersion& held, Swap& swap, bool is_unknown);
  void give_up_repair(const Commit& commit);
  ReplicatedState begin_writing(bool is_first);
  void show_written();
  Status show_on_device(std::unique_lock<std::mutex>& lock, const Swap& swap);
  std::uint64_t shown_version() const;
  Status go_back(std::unique_lock<std::mutex>& lock, Swap& swap);
  Status write_back(const HeldVersion& held, Swap& swap);
  void begin_anew(double now);
  void turn(const net::ServiceThread::Stop& stop, std::vector<pollfd>& entries);
  void recover(const std::exception& error);
  Status nothing_newer(double seconds) const;
  bool may_sweep() const;
  void sweep_on(double now);
  bool can_be_repaired() const;

  ReplicatedState state_;  // its arrays are those that hold held_: of two sets the front ones, but
                           // the back ones while a next() is at it
  std::unique_ptr<BufferPair> buffers_;
  SubscriberOptions options_;
  std::optional<trust::TrustedKeys> trusted_;
  net::HostPort where_;
  std::string address_;
  ReplicaName name_;
  net::WakeEvent wake_;

  std::mutex using_;  // one next() at a time; taken before mutex_

  // Guards all below. While is_applying_ is set the arrays, the first of staged_ and what way_back_
  // has kept are next()'s alone, without it; while is_going_back_ is, the arrays and what way_back_
  // has kept.
  mutable std::mutex mutex_;
  std::condition_variable came_;
  net::RunClock clock_;  // all times of the service
  HeldVersion held_;
  bool holds_published_ = false;
  // Where the bytes that are held come from.
  enum class Trust : std::uint8_t {
    kUnknown,  // this replica came with them: whatever their state hash is, somebody may have
               // chosen them
    kVouched,  // the publisher's own updates, or its SHA-256, have led to them
    kDamaged,  // they were vouched for, and some have changed by accident: what repairs them is
               // vouched for again
  };
  Trust trust_ = Trust::kUnknown;
  struct Comparison {
    Identity with;
    StateDigest digest;
  };
  std::unique_ptr<Comparison> comparison_;  // of what is held
  // What is held is not that version, and the blocks that differ were asked for. next()'s alone
  // while is_applying_ is set.
  std::unique_ptr<Comparison> unlike_;
  bool may_ask_for_blocks_ = true;  // they have not led to the version
  std::uint64_t epoch_ = 0;         // of what is held
  std::uint64_t publisher_epoch_ =
      0;  // by its last welcome: what comes is of this one, whoever passes it on
  std::uint64_t latest_epoch_ =
      0;  // that something was applied of: earlier ones are not listened to
  std::uint64_t latest_version_ = 0;    // of that epoch
  std::shared_ptr<const Offer> proof_;  // a signed commit of that epoch
  Receipt receipt_{};                   // of the publisher's last welcome
  std::uint64_t newest_ = 0;
  std::uint64_t pin_ = 0;
  std::uint64_t said_pin_ = 0;  // to this publisher
  enum class Back : std::uint8_t { kNo, kWanted, kThere };
  Back back_ = Back::kNo;  // the pin is on the version before; it is held again
  WayBack way_back_;
  StateSweep sweep_;
  Status damage_;                       // that it has found, and next() has not said yet
  std::vector<std::byte> said_damage_;  // a DAMAGE, which a hello has promised
  std::deque<std::unique_ptr<StagedUpdate>>
      staged_;                              // whole ones, each from the target of the one before
  std::unique_ptr<StagedUpdate> incoming_;  // from the last of these
  bool is_requested_ = false;
  struct AwaitedOffer {
    Offer offer;
    double since;
  };
  std::optional<AwaitedOffer> awaited_offer_;  // a parent's: the publisher has not announced it yet
  Swap unshown_;  // of tensors in device memory: what their mirror holds already, and they do not
  std::uint64_t shown_version_ = 0;  // that they hold
  bool is_applying_ = false;
  bool is_going_back_ = false;
  bool is_elsewhere_ = false;  // than what all others know: they are to be told by a new hello
  bool has_news_ = false;      // to be acknowledged: what is held
  bool has_told_of_signatures_ = false;
  Status trouble_;  // why nothing comes
  Status lasting_;  // such a one that waiting does not cure, and next() has not said yet
  RepeatedMessages warnings_;
  Upstream publisher_;
  Upstream parent_;
  bool has_parent_ = false;       // updates come from it
  ParentProgress progress_;       // of it
  std::deque<Commit> announced_;  // by the publisher, since there is a parent
  HeldVersion said_held_;         // by the last hello
  double checked_at_ = 0;
  double checks_from_ = 0;                 // there was no memory to check with
  double parent_since_ = 0;                // it was to be connected to
  std::uint32_t placements_ = 0;           // number of the last PARENT message
  std::unique_ptr<StagedUpdate> applied_;  // the last one, until the thread gives its memory back
  Relay relay_;
  net::NameLookup lookup_;
  double looked_up_at_ = 0;
  std::uint64_t attempts_ = 0;  // of connections to the publisher
  double retry_at_ = 0;
  double retry_s_ = 0;

  net::ServiceThread thread_;  // last: it ends first
};

}  // namespace sparcl::replication
