#pragma once
// A replica's machine without connections, thread and arrays: events go in, actions come out.

#include <algorithm>

#include "src/replication/fan_out.hpp"  // before its names are those of constants below (-Wshadow)
#include "src/replication/replica_machine.hpp"

namespace sparcl::replication {

inline const std::string kDrivenReplicaModel = "m";
inline constexpr std::uint64_t kDrivenEpoch = 5;
inline constexpr Hash128 kDrivenSchema{11, 12};
inline constexpr UpstreamKind kPublisher = UpstreamKind::kPublisher;
inline constexpr UpstreamKind kParent = UpstreamKind::kParent;

inline HeldVersion state_of(std::uint64_t number) { return {number, {number, 7}}; }

class FakeUpstream final : public UpstreamView {
 public:
  bool is_ready() const override { return ready; }
  double heard() const override { return heard_at; }
  std::string who() const override { return "a peer"; }
  bool ready = false;
  double heard_at = 0;
};

class DrivenReplica {
 public:
  explicit DrivenReplica(bool holds_copy = false, double max_age_s = 0,
                         const std::optional<Digest256>& side_files = {},
                         std::optional<trust::TrustedKeys> trusted = {}) {
    ReplicaMachine::Options options;
    options.model_id = kDrivenReplicaModel;
    options.schema_hash = kDrivenSchema;
    options.max_stream_bytes = 1 << 20;
    options.holds_copy = holds_copy;
    options.max_age_s = max_age_s;
    options.side_files = side_files;
    options.trusted = std::move(trusted);
    options.name = "a test";
    machine.emplace(std::move(options), publisher, parent, state_of(1).hash);
  }
  DrivenReplica(const DrivenReplica&) = delete;
  DrivenReplica& operator=(const DrivenReplica&) = delete;

  // --- what the machine asks for, since the last call ---

  struct Said {
    UpstreamKind to;
    MessageType type;
    friend bool operator==(const Said&, const Said&) = default;
  };
  std::vector<Said> said() {
    take_actions();
    return std::exchange(said_, {});
  }
  template <class Action>
  bool was_asked() {
    take_actions();
    const bool is_there = std::ranges::any_of(
        actions_, [](const auto& each) { return std::holds_alternative<Action>(each); });
    return is_there;
  }
  void forget() {
    take_actions();
    actions_.clear();
    said_.clear();
  }
  const std::vector<std::byte>& last_content() const { return last_content_; }

  // --- events ---

  template <class Message>
  Status hear(UpstreamKind from, MessageType type, const Message& message) {
    return machine->on_message(from, type, serialise(message), now);
  }
  Status welcome(UpstreamKind from, std::uint64_t newest = 2, std::uint64_t epoch = kDrivenEpoch) {
    (void)machine->hello(from, {});
    (from == kPublisher ? publisher : parent).ready = true;
    return machine->on_welcome(
        from, {kProtocolVersion, kDrivenReplicaModel, epoch, newest, 5000, "a test", {}, {}});
  }
  static Commit commit(std::uint64_t from, std::uint64_t to, std::uint64_t bytes = 100) {
    Commit made;
    made.model_id = kDrivenReplicaModel;
    made.epoch = kDrivenEpoch;
    made.schema_hash = kDrivenSchema;
    made.version = to;
    made.target_hash = state_of(to).hash;
    made.stream_bytes = bytes;
    made.is_anchor = from == 0;
    if (from == 0) return made;
    made.base_version = from;
    made.base_hash = state_of(from).hash;
    return made;
  }
  Status offer(UpstreamKind from, const Commit& commit) {
    return machine->on_plan(from, Offer{commit, {}}, now);
  }
  // All bytes of what is asked for.
  Status give(UpstreamKind from, const Commit& commit) {
    const ChunkHead head{commit.version, 0};
    const bool has_destination = machine->destination(from, head, commit.stream_bytes).size() > 0;
    SPARCL_RETURN_IF_ERROR(
        machine->on_chunk(from, head, commit.stream_bytes, has_destination, now));
    return machine->on_end(from, {commit.base_version, commit.version});
  }
  void stage(const Commit& commit) {
    (void)offer(kPublisher, commit);
    (void)give(kPublisher, commit);
  }
  void apply() {
    (void)machine->begin_applying();
    (void)machine->on_applied(0);
  }
  Status take_parent(std::uint32_t number = 1) {
    return hear(kPublisher, MessageType::kParent,
                Parent{number, net::NetAddress{net::NetAddress::Family::kIpv4, 4711, {}}, "p"});
  }
  Identity identity(std::uint64_t version) const {
    Identity made;
    made.model_id = kDrivenReplicaModel;
    made.epoch = kDrivenEpoch;
    made.version = state_of(version);
    made.schema_hash = kDrivenSchema;
    return made;
  }

  // --- ways to the phases ---

  void publish() {  // it holds version 1
    (void)welcome(kPublisher);
    stage(commit(0, 1));
    apply();
    forget();
  }
  void follow_a_parent() {
    publish();
    (void)take_parent();
    (void)welcome(kParent);
    forget();
  }
  void damage() {
    publish();
    machine->on_damage(Status(Code::kCorrupt, "damaged"), {9, 9}, state_of(1), {{1, 1}});
    machine->on_begin_anew();
    forget();
  }

  template <class Phase, class Group>
  static bool is(const Group& group) {
    return std::holds_alternative<Phase>(group);
  }

  FakeUpstream publisher, parent;
  std::optional<ReplicaMachine> machine;
  double now = 1;

 private:
  void take_actions() {
    for (replica_action::Any& each : machine->take_actions()) {
      if (auto* send = std::get_if<replica_action::Send>(&each)) {
        said_.push_back({send->to, send->type});
        last_content_ = send->content;
      }
      note(std::get_if<replica_action::Offer>(&each));
      note(std::get_if<replica_action::Chunks>(&each));
      note(std::get_if<replica_action::Refuse>(&each));
      actions_.push_back(std::move(each));
    }
  }
  void note(const replica_action::Offer* each) {
    if (each == nullptr) return;
    said_.push_back({each->to, MessageType::kAck});
    last_content_ = serialise(each->have);
  }
  void note(const replica_action::Chunks* each) {
    if (each != nullptr) said_.push_back({each->of, MessageType::kRequest});
  }
  void note(const replica_action::Refuse* each) {
    if (each == nullptr) return;
    said_.push_back({each->of, MessageType::kNack});
    last_content_ = serialise(each->why);
  }

  std::vector<Said> said_;
  std::vector<replica_action::Any> actions_;
  std::vector<std::byte> last_content_;
};

using ReplicaSaid = std::vector<DrivenReplica::Said>;

}  // namespace sparcl::replication
