#pragma once
// Publishes versions of a state to any number of replicas, which come and go. A thread of its own
// serves them; none of them can hold publish() up.

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "src/base/fair_mutex.hpp"
#include "src/base/files/file_stamp.hpp"
#include "src/base/repeated_messages.hpp"
#include "src/model/schema.hpp"
#include "src/model/snapshot.hpp"
#include "src/model/version_sink.hpp"
#include "src/net/run_clock.hpp"
#include "src/net/service_thread.hpp"
#include "src/replication/feed.hpp"
#include "src/replication/listener.hpp"
#include "src/replication/publisher_epoch.hpp"
#include "src/replication/replicated_state.hpp"
#include "src/replication/report_fields.hpp"
#include "src/replication/server.hpp"
#include "src/replication/service_security.hpp"
#include "src/replication/witness.hpp"

namespace sparcl::replication {

struct PublisherOptions {
  std::string listen;  // "HOST:PORT"; "": any port of the loopback interface
  // File with the secret of role publish: connections are encrypted, and replicas need a secret,
  // too. "": they are in the clear.
  std::string secret_path;
  // Folder with certificates (net::CertificateFolder) in place of a secret, its own of role
  // publish.
  std::string certificates_path;
  // The content of one of them, if it was read before.
  std::optional<ServerSecurity> security;
  bool is_insecure = false;  // without a secret, it may listen beyond the loopback interface
  std::string model_id;      // replicas name the same
  std::vector<std::byte> description;  // how the tensors lie in files, for a MODEL_QUERY
  // File of Ed25519 keys that sign commits. It is read again when it changes, as secret_path is.
  // "": the secrets' keys sign; without a secret, none.
  std::string key_path;
  std::string
      state_path;  // the last epoch is kept there for the next life (PublisherEpoch); "": nowhere
  // All publishers of the model take their epochs there (Witness), instead of from the clock and
  // state_path. "": they do not.
  std::string witness_path;
  WallClock clock;         // empty: the system's
  std::size_t queue = 64;  // versions kept for replicas that are behind
  int fan_out = 0;       // replicas that each one, and the publisher, sends to; 0: chains (FanOut)
  double silence_s = 5;  // after which a replica counts as stopped or cut off
  bool shares_memory = true;                 // with replicas of this machine
  std::vector<model::VersionSink*> sinks{};  // versions also go there; they outlive the publisher
  std::uint64_t peer_bytes =
      0;  // that peers may cause (PeerBudget); 0: twice as many as the model has, 64 MiB at least

  Reach reach() const {
    const bool is_secure = !secret_path.empty() || !certificates_path.empty();
    return is_insecure || is_secure ? Reach::kNetwork : Reach::kThisMachine;
  }
  // SPARCL_LIVENESS_S, SPARCL_FAN_OUT, SPARCL_SHARED_MEMORY; SPARCL_PEER_BYTES if
  // peer_bytes is 0, SPARCL_SECRET and SPARCL_CERTIFICATES if neither path is given.
  Status take_settings();
};

class Publisher {
 public:
  static Result<std::unique_ptr<Publisher>> create(const ReplicatedState& state,
                                                   const PublisherOptions& options);

  // The same with a listener that is there already. No replica is served before start_serving().
  // Versions published until then are one step for new replicas, which never meet the versions in
  // between. Once.
  static Result<std::unique_ptr<Publisher>> create(const ReplicatedState& state,
                                                   const PublisherOptions& options,
                                                   Listener listener);
  Status start_serving();

  // Says goodbye to the replicas, which keep what they hold.
  ~Publisher();
  Publisher(const Publisher&) = delete;
  Publisher& operator=(const Publisher&) = delete;

  // "10.0.0.7:4711", for replicas on other hosts where there is an interface for them.
  const std::string& address() const { return address_; }

  struct PublishReport {
    std::uint64_t changed = 0;
    std::uint64_t stream_bytes = 0;
    Hash128 hash;
    double seconds = 0;
  };
  // The content of the arrays becomes `version`, which is larger than all before. On return they
  // may change again. hints: what has changed, where the caller knows (codec::EncodeOptions);
  // trusted.
  Result<PublishReport> publish(std::uint64_t version,
                                std::span<const codec::ChangedHint* const> hints = {});

  // The files beside the shards of the version that publish() makes next, and of all later ones, in
  // the order of their names. Unsupported: they are more than replicas can be told.
  Status set_side_files(std::span<const model::SideFile> files);

  // Waits until so many replicas hold `version` or a later one, or held it when they said goodbye.
  // A replica counts by its own word, if it was given the version: its identity is not proven.
  // Timeout says how many do.
  Status wait(std::uint64_t version, int replicas, double seconds);
  // Waits until they have all its bytes, though they may not have applied them.
  Status wait_staged(std::uint64_t version, int replicas, double seconds);

  // Replicas connected, and those of them that hold `version` or a later one.
  struct Count {
    int connected = 0;
    int holding = 0;
    int staged = 0;  // have all its bytes, or hold it
    int left = 0;    // held it when they said goodbye, and have not come back
  };
  Count count(std::uint64_t version) const;

  // False in a child of fork(), which must call nothing else.
  bool is_own_process() const { return thread_.is_own_process(); }

  // JSON: each replica's version, lag, bytes, state.
  std::string status() const;

 private:
  using FeedRef = std::shared_ptr<Feed>;
  Publisher(const ReplicatedState& state, const PublisherOptions& options,
            std::unique_ptr<Witness> witness);
  Status open(Listener listener);
  void describe();
  SideFilesRef describe_side_files(SideFileSet& set) const;
  void take_next_side_files(std::uint64_t version);
  Status learn_epoch(const LatestHeld& latest);
  void reissue();
  Status load_keys();
  void look_for_new_keys();
  void take_secrets(SecretRing secrets);
  void look_at_witness();
  void take_term(std::uint64_t term);
  void sign_by(const trust::SigningKeysRef& keys);
  void serve(const net::ServiceThread::Stop& stop);
  void turn(const net::ServiceThread::Stop& stop, std::vector<pollfd>& entries);
  void recover(const std::exception& error);
  class EncodingEnd {
   public:
    explicit EncodingEnd(Publisher& publisher) : publisher_(publisher) {}
    ~EncodingEnd();
    EncodingEnd(const EncodingEnd&) = delete;
    EncodingEnd& operator=(const EncodingEnd&) = delete;

   private:
    Publisher& publisher_;
  };

  // publish() takes mutex_ by it.
  class Awaited {
   public:
    explicit Awaited(Publisher& publisher) : publisher_(publisher) {
      publisher_.is_awaited_ = true;
    }
    ~Awaited() { publisher_.is_awaited_ = false; }
    Awaited(const Awaited&) = delete;
    Awaited& operator=(const Awaited&) = delete;

   private:
    Publisher& publisher_;
  };
  std::unique_lock<FairMutex> lock_to_publish() {
    const Awaited awaited(*this);
    return std::unique_lock(mutex_);
  }

  void work_on();
  FeedRef next_work();
  bool has_room_for(Feed& feed);
  void bound_parts();
  void drop_idle_feeds(double now);
  SessionFeedRef find_feed(const Hash128& schema_hash) const;
  void look_at_list();
  Status check_list(const Session& asker);
  Status make_part(std::span<const std::byte> list, FeedRef& feed) const;
  SessionFeedRef add_part(FeedRef feed);
  Result<PublishReport> publish_to_replicas(std::uint64_t version,
                                            std::span<const codec::ChangedHint* const> hints,
                                            model::VersionEdition& published);
  Result<Edition> encode(std::uint64_t version, std::span<const codec::ChangedHint* const> hints);
  Result<Edition> encode_next(std::uint64_t version,
                              std::span<const codec::ChangedHint* const> hints);
  void update_parts();
  bool has_room_for_next(Feed& feed);
  const std::string& cached_report();
  std::size_t max_schema_bytes();
  Status parse_held();
  Status wait_for(std::uint64_t version, int replicas, double seconds, int Count::*which,
                  const char* do_what);
  Count count_locked(std::uint64_t version) const;
  void note_departure(const SessionMachine& session);
  std::string status_locked() const;
  ReportFields report_of(const Session& each, std::uint64_t newest) const;

  ReplicatedState state_;
  PublisherOptions options_;
  std::unique_ptr<Witness> witness_;  // nullptr: none
  double witness_looked_at_ = 0;
  PublisherEpoch epoch_;
  ServerSecurity security_;
  FileStamp key_file_;
  double keys_looked_at_ = 0;
  Issuer issuer_;
  std::string address_;
  SessionContext context_;
  net::WakeEvent wake_;
  net::RunClock clock_;            // all times of the service
  model::Schema held_;             // the thread's: once a part is asked for
  RepeatedMessages failed_turns_;  // the thread's

  std::mutex publishing_;                       // one publish() at a time; taken before mutex_
  std::optional<SideFileSet> next_side_files_;  // guarded by publishing_
  std::atomic<bool> is_awaited_ = false;  // publish() waits for mutex_: the thread ends its turn

  // Guards all below. The thread holds it but while it waits for the network: for a bounded time in
  // each turn (Server), after which others have theirs.
  mutable FairMutex mutex_;
  std::condition_variable_any changed_;  // what replicas hold, or an update is made
  struct Part {
    FeedRef feed;
    double used_at;
    bool is_proven = false;  // a replica has held a version of it
  };
  std::vector<FeedRef> feeds() const;
  FeedRef whole_;
  SideFileSet side_files_;    // of the newest version
  std::vector<Part> parts_;   // of replicas that hold less
  model::Snapshot snapshot_;  // the newest version's bytes. publish() alone writes it, when nothing
                              // is being made of it
  FeedRef at_work_;           // of which something is being made of the snapshot
  bool is_encoding_ = false;  // publish() is at the snapshot
  struct Report {
    std::string text;
    double made_at = -1e9, took_s = 0;
  };
  double starved_since_ =
      -1;          // a part's update cannot be made: the budget is used up; -1: none waits
  Report report_;  // for a STATUS_QUERY
  std::unique_ptr<Server> server_;
  struct Departure {
    Receipt receipt;
    std::string process;
    std::optional<net::NetAddress> from;
    std::uint64_t version;
  };
  static bool is_again(const Departure& departure, const SessionMachine& session);
  std::deque<Departure> departures_;

  net::ServiceThread thread_;  // last: it ends first
};

}  // namespace sparcl::replication
