#pragma once
// A replica: its arrays hold exactly one published version at any time, and are written only inside
// next() and commit(). With two sets of arrays, the set that is read is never written.
//
// A thread of its own keeps the connections and gives messages to the machine
// (replica_machine.hpp). It carries out the machine's actions, checks updates, and passes them on
// to other replicas.

#include <condition_variable>
#include <cstdint>
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
#include "src/replication/process_name.hpp"
#include "src/replication/relay.hpp"
#include "src/replication/replica_credentials.hpp"
#include "src/replication/replica_machine.hpp"
#include "src/replication/replicated_state.hpp"
#include "src/replication/rollback.hpp"
#include "src/replication/state_sweep.hpp"
#include "src/replication/upstream.hpp"

namespace sparcl::replication {

struct SubscriberOptions {
  std::string model_id;    // the publisher's
  std::string trust_path;  // of public keys; then only what one of them has signed is applied. "":
                           // anything that is sound
  std::size_t trust_threshold = 1;  // so many of them must have signed it
  // Files of keys and of the secret are read again when they change.
  // File with the secret of role replicate: connections are encrypted, and the publisher must have
  // the key that stands there. "": they are in the clear.
  std::string secret_path;
  // Folder with certificates in place of a secret, its own of role replicate: the publisher must
  // have one of role publish.
  std::string certificates_path;
  std::optional<ReplicaCredentials> credentials;  // the content of all these files, if they were
                                                  // read before
  double silence_s = 5;        // after which the publisher counts as stopped or cut off
  bool passes_on = true;       // to other replicas, at a port of its own
  bool gives_bytes = true;     // all bytes of what it holds, to replicas that have none; and takes
                               // them from such a replica
  bool shares_memory = true;   // with the publisher and replicas of its machine
  bool keeps_rollback = true;  // to the version before: up to a quarter of the model's bytes, and
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

  // For a replica that writes a folder: the digest (model::digest_of) of the files beside its
  // shards, or zeros. The publisher's are then asked for. Nothing: none are.
  std::optional<Digest256> side_files;

  // The publisher only tells of versions: bytes come by take_elsewhere(), until only_told(false).
  bool only_told = false;

  double max_age_s = 0;  // since what is held was the newest version: then next() says so
                         // (Freshness); 0: any
  double sweep_s = 300;  // between two looks at all that is held; 0: none
  std::uint64_t peer_bytes =
      0;  // that those who take updates from here may cause (PeerBudget); 0: as of a publisher

  // Something shows who the publisher is.
  bool has_proof() const {
    return !trust_path.empty() || !secret_path.empty() || !certificates_path.empty();
  }
  Status take_settings();  // SPARCL_LIVENESS_S, SPARCL_RELAY, SPARCL_SHARED_MEMORY, SPARCL_SWEEP_S,
                           // SPARCL_PEER_BYTES, SPARCL_SECRET, SPARCL_CERTIFICATES
};

class Subscriber final : private UpstreamOwner {
 public:
  // The publisher need not be there yet: the replica looks for it until it comes, and again
  // whenever it goes. The arrays may hold anything. If they hold one of the publisher's versions
  // byte for byte, only the changes since then travel. If some blocks differ from it, these travel,
  // too.
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
    bool from_store = false;           // by take_elsewhere()
    bool is_news() const { return updates > 0 || went_back; }
    double pause_s =
        0;  // in which the arrays were neither the old nor the new version; 0 with two sets of them
  };
  // The newest version that has come whole: applied when this returns. Timeout: there is none yet.
  // If updates were refused or the publisher cannot be reached, the error says this instead. An
  // error that waiting does not cure (is_lasting) is returned at once, and again when another try
  // has failed.
  Result<Swap> next(double seconds);

  // What commit() can show.
  struct Prepared {
    PreparedVersion shown;               // now; version 0: none
    std::vector<PreparedVersion> ready;  // in the order of the updates; the last is the newest
    bool can_show(const PreparedVersion& version) const;
    PreparedVersion newest() const;  // that it can show, or shows
  };
  // Waits for a version that can be shown, of `wanted` or later; with `wanted` as it is made, for
  // any. Writes no array. After `seconds` the result is what there is, maybe nothing. An error: as
  // of next(), but never because nothing came in time: nothing_newer() says why. Until commit() or
  // want_no_more(), updates up to the wanted version come at once.
  Result<Prepared> prepare(double seconds, const PreparedVersion& wanted = {});
  void want_no_more();
  Status nothing_newer(double seconds) const;
  // Shows exactly this version, which prepare() has told; of the shown one nothing changes. An
  // error leaves the arrays as they were, unless the steps that were made cannot be undone:
  // versions() then tells which version they hold.
  Result<Swap> commit(std::uint64_t version);

  // Writes a version into the arrays, which hold `held`, or anything. The result's version, hash,
  // changed, stream_bytes, updates and by_anchor are its own. After an error the arrays are as
  // before.
  using ElsewhereWriter = std::function<Result<Swap>(const ReplicatedState& into,
                                                     const std::optional<HeldVersion>& held)>;
  // Brings the arrays to a version that does not come from the publisher, such as one of a store,
  // and shows it. InvalidUsage: not now, because versions are pinned. The publisher is asked again
  // then, with this version.
  Result<Swap> take_elsewhere(const ElsewhereWriter& write);

  // SubscriberOptions: from now on. The publisher hears it over a new connection.
  void only_told(bool is_on);
  struct Told {
    bool is_connected = false;
    std::uint64_t held = 0, newest = 0;  // Versions
    double newest_at = 0;                // monotonic seconds: the publisher told of it
    bool is_asked = false;               // it sends bytes: only_told(false)
    std::uint64_t epoch = 0;             // of the publisher
    bool is_of_epoch = false;            // what is held
    Hash128 hash = {};                   // of what is held
    bool is_newer() const { return newest > held; }
  };
  Told told() const;
  // Until the publisher tells of a newer version than this one, or next() has something.
  void wait_until_told(std::uint64_t known, double seconds);

  struct Versions {
    std::uint64_t held = 0;    // 0: none yet
    std::uint64_t newest = 0;  // as far as the publisher has said
  };
  Versions versions() const;
  // The update on its way; nothing if bytes is 0.
  struct Incoming {
    std::uint64_t version = 0;
    std::uint64_t received_bytes = 0;
    std::uint64_t bytes = 0;
  };
  Incoming incoming() const;

  // next() goes up to this version and no further; 0: as far as it can. The version before, where
  // the values that led away from it are still there: next() goes back to it.
  Status pin(std::uint64_t version);

  // Array i of the version that is held. With two sets of arrays: not written to before
  // the next but one next().
  const std::byte* array(std::size_t i) const;

  // False in a child of fork(), which must call nothing else.
  bool is_own_process() const { return thread_.is_own_process(); }

  // The latest version that was applied, in this life or in the one before.
  LatestHeld latest() const;

  // The files beside the shards for a version that is held.
  struct SideFilesView {
    // The publisher has told of this version, and before that of its files.
    bool is_settled = false;
    std::optional<SideFileBook::Entry> entry{};  // nothing: none are known
  };
  SideFilesView side_files(std::uint64_t version) const;

  // Why nothing comes; ok where there is only nothing new.
  Status trouble() const;

  std::string publisher()
      const;  // "host h1, pid 4711 (10.0.0.7:4711)"; empty before the first connection

 private:
  // Between two tries to reach the publisher.
  struct Retry {
    static constexpr double kFirstPause = 0.05;  // seconds; twice as long each time
    double at = 0;
    double pause_s = kFirstPause;
    std::uint64_t attempts = 0;
  };

  Subscriber(const ReplicatedState& state, const SubscriberOptions& options,
             ReplicaMachine::Options machine, ReplicaCredentials credentials);

  // The thread.
  void serve(const net::ServiceThread::Stop& stop);
  void turn(const net::ServiceThread::Stop& stop, std::vector<pollfd>& entries);
  double wait_until(double now) const;
  void move_on(std::span<const pollfd> entries, double now);
  void recover(const std::exception& error);
  void begin_anew(double now);
  void look_publisher_up(double now);
  void connect_publisher(double now);
  void warn_of_clear(const net::NetAddress& address);
  void look_for_new_trust();
  void miss_publisher(const Status& why, double now);
  void check_on(double now);
  void sweep_on(double now);
  void compare_on(double now);
  void give_on(double now);

  // Calls of the upstreams.
  Hello hello(const Upstream& to) override;
  std::span<const std::byte> schema() const override { return state_.schema; }
  Status take_welcome(Upstream& from, const Welcome& welcome) override;
  Status take(Upstream& from, double now) override;
  Status on_plan(model::VersionSource& from, model::VersionPlan plan, double now) override;
  Status on_digests(model::VersionSource& from, const model::LeafDigests& digests) override;
  Buffer destination(const model::VersionSource& from, const ChunkHead& at,
                     std::size_t count) override;
  Status on_chunk(model::VersionSource& from, const ChunkHead& at, std::size_t count,
                  bool has_destination, double now) override;
  Status on_memory(model::VersionSource& from, const ChunkHead& at, Buffer memory,
                   double now) override;
  Status on_end(model::VersionSource& from, const UpdateName& update) override;
  void on_newest(const model::VersionSource& from, std::uint64_t version) override;
  void on_closed(model::VersionSource& from, const Status& why, double now) override;

  // Actions of the machine.
  void carry_out(double now);
  void carry_out(replica_action::Any& action, double now);
  void connect_parent(const replica_action::ConnectParent& parent, double now);
  Upstream& upstream(UpstreamKind kind) {
    return kind == UpstreamKind::kPublisher ? publisher_ : parent_;
  }
  model::VersionSource& source(UpstreamKind kind) { return upstream(kind); }
  UpstreamKind kind_of(const model::VersionSource& source) const {
    return &source == &publisher_ ? UpstreamKind::kPublisher : UpstreamKind::kParent;
  }

  // prepare() and commit().
  Prepared prepared() const;
  bool has_prepared(const PreparedVersion& wanted) const;
  void wait_for_more(std::unique_lock<std::mutex>& lock, double deadline);
  Status climb_to(std::unique_lock<std::mutex>& lock, Swap& swap, std::uint64_t version);
  Status take_steps(std::unique_lock<std::mutex>& lock, Swap& swap, std::uint64_t version);
  Status undo(std::unique_lock<std::mutex>& lock);
  Status not_prepared(std::uint64_t version) const;

  Result<Swap> write_elsewhere(const ElsewhereWriter& write,
                               const std::optional<HeldVersion>& held);

  // next(), commit().
  bool wait_for_news(std::unique_lock<std::mutex>& lock, double deadline);
  Status climb_as_far_as_it_goes(std::unique_lock<std::mutex>& lock, Swap& swap, double deadline);
  Status climb(std::unique_lock<std::mutex>& lock, Swap& swap, double deadline);
  Status swap_front(std::unique_lock<std::mutex>& lock, Swap& swap);
  Status apply_front(replica_phase::Applying& front, const HeldVersion& held, Swap& swap);
  Status check_all(const ReplicatedState& written, const Comparison& expected, Swap& swap) const;
  void note_applied(replica_phase::Applying& front, Swap& swap);
  ReplicatedState begin_writing(bool is_first);
  void show_written();
  Result<Swap> show(std::unique_lock<std::mutex>& lock, const Swap& swap);
  Status show_on_device(std::unique_lock<std::mutex>& lock, const Swap& swap);
  std::uint64_t shown_version() const;
  Status go_back(std::unique_lock<std::mutex>& lock, Swap& swap);
  Status write_back(const HeldVersion& held, Swap& swap);
  void tell_repairs(const Swap& swap) const;
  void keep_record(const Offer* latest);

  ReplicatedState state_;  // its arrays hold the version: of two sets the front set, but the back
                           // set while next() works
  std::unique_ptr<BufferPair> buffers_;
  SubscriberOptions options_;
  net::HostPort where_;
  std::string address_;
  ReplicaName name_;
  ReplicaCredentials credentials_;  // of the publisher's connection
  RepeatedMessages file_troubles_;
  double trust_looked_at_ = 0;
  net::WakeEvent wake_;

  std::mutex using_;  // one next(), prepare() or commit() at a time; taken before mutex_

  // Guards all below. In the machine's phases Applying and Restoring the arrays, the update that is
  // applied and what rollback_ has kept are next()'s alone, without it.
  mutable std::mutex mutex_;
  std::condition_variable came_;
  net::RunClock clock_;  // all times of the service
  Rollback rollback_;
  StateSweep sweep_;
  Upstream publisher_;
  Upstream parent_;
  ReplicaMachine machine_;
  Relay relay_;
  Swap unshown_;  // of tensors in device memory: what their mirror holds already, and they do not
  std::uint64_t shown_version_ = 0;        // that they hold
  Prepared told_;                          // by the last prepare()
  std::unique_ptr<StagedUpdate> applied_;  // the last one, until the thread gives its memory back
  double checked_at_ = 0;
  double checks_from_ = 0;  // there was no memory to check with
  net::NameLookup lookup_;
  double looked_up_at_ = 0;
  bool has_warned_of_clear_ = false;
  double newest_at_ = 0;
  Retry retry_;

  net::ServiceThread thread_;  // last: it ends first
};

}  // namespace sparcl::replication
