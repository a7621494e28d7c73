#pragma once
// A session's machine without a connection: events go in, actions come out.

#include <algorithm>

#include "src/codec/wire.hpp"
#include "src/model/schema.hpp"
#include "src/replication/session_machine.hpp"

namespace sparcl::replication {

inline const std::string kDrivenModel = "m";
inline constexpr Hash128 kSchema{11, 12};
inline constexpr std::uint64_t kBlocks = 2;
inline const net::NetAddress kPeerAddress{net::NetAddress::Family::kIpv4, 4711, {std::byte{10}}};

inline HeldVersion version_of(std::uint64_t number) { return {number, {number, 7}}; }

inline std::shared_ptr<Update> update_of(std::uint64_t from, std::uint64_t to, std::uint64_t bytes,
                                         bool is_anchor = false) {
  auto made = std::make_shared<Update>();
  made->commit.base_version = is_anchor ? 0 : from;
  made->commit.base_hash = is_anchor ? Hash128() : version_of(from).hash;
  made->commit.version = to;
  made->commit.target_hash = version_of(to).hash;
  made->commit.stream_bytes = bytes;
  made->commit.is_anchor = is_anchor;
  made->bytes.reserve(bytes);
  made->leaves.resize(leaf_count(bytes));
  return made;
}

// A machine, the feed that it serves from, and what it has asked for.
class DrivenSession {
 public:
  DrivenSession() {
    feed_->schema_hash = kSchema;
    feed_->store = &store;
    feed_->fan_out = &fan_out;
    feed_->block_count = kBlocks;
    feed_->tensor_bytes = kTensorBytes;
    feed_->request_anchor = [this] { ++anchors_asked; };
    feed_->request_composed = [this](const HeldVersion&) { ++composed_asked; };
    feed_->request_repair = [this](const RepairRef& repair) { asked_repair = repair; };
    feed_->identify = [this](const Hash128& hash, const std::optional<std::uint64_t>& nearly) {
      return hash == identity.of || nearly ? identity : IdentityAnswer{};
    };
    context.model_id = kDrivenModel;
    context.epoch = 5;
    context.name = "a test";
    context.find_feed = [this](const Hash128& hash) {
      return hash == kSchema ? feed_ : SessionFeedRef();
    };
    context.find_session = [this](std::uint64_t id) { return id == 1 ? other : nullptr; };
    context.status_report = [] { return std::string("{}"); };
    context.max_schema_bytes = [] { return std::size_t{1} << 20; };
    context.model_reply.emplace(MessageType::kModelReply, std::vector<std::byte>(10));
    context.side_files = files_of({});
    context.on_departure = [this](const SessionMachine&) { ++departures; };
    machine.emplace(SessionMachine::Peer{2, kPeerAddress, false}, context, memory, counts, 0.0);
    store.begin(update_of(1, 1, 0));
    store.add(update_of(1, 2, 1000), update_of(2, 2, 0));
  }
  DrivenSession(const DrivenSession&) = delete;
  DrivenSession& operator=(const DrivenSession&) = delete;

  static constexpr std::uint64_t kTensorBytes = std::uint64_t{1} << 16;

  // The types of the messages that the machine sends, since the last call.
  std::vector<MessageType> said() {
    std::vector<MessageType> types;
    for (session_action::Any& each : machine->actions()) {
      if (const auto* send = std::get_if<session_action::Send>(&each)) {
        types.push_back(send->type);
        said_bytes += kHeadBytes + send->content.size();
      }
      if (std::holds_alternative<session_action::SendChunk>(each))
        types.push_back(MessageType::kChunk);
      if (const auto* whole = std::get_if<session_action::SendWhole>(&each)) {
        types.push_back(parse_head(whole->message.head)->type);
        const std::span<const std::byte> content = whole->message.content.bytes();
        last_whole.assign(content.begin(), content.end());
        said_bytes += kHeadBytes + content.size();
      }
      if (std::holds_alternative<session_action::Close>(each)) is_closed = true;
      if (std::holds_alternative<session_action::Prove>(each)) is_proven = true;
      if (auto* send = std::get_if<session_action::Send>(&each))
        last_content = std::move(send->content);
    }
    machine->clear_actions();
    return types;
  }
  std::vector<MessageType> hear(MessageType type, std::vector<std::byte> content = {}) {
    machine->on_message(type, content, now);
    machine->serve(now);
    return said();
  }
  template <class Message>
  std::vector<MessageType> hear(MessageType type, const Message& message) {
    return hear(type, serialise(message));
  }

  Hello hello(std::uint64_t held = 1) const {
    Hello hello;
    hello.model_id = kDrivenModel;
    hello.schema_hash = kSchema;
    hello.wire_version = codec::kWireVersion;
    hello.held = hello.tip = version_of(held);
    hello.silence_ms = 5000;
    hello.name = "a replica";
    hello.held_is_vouched = hello.tip_is_vouched = true;
    hello.latest = {5, held, {}};
    return hello;
  }

  template <class Phase>
  bool is() const {
    return std::holds_alternative<Phase>(machine->phase());
  }
  template <class Stage>
  bool is_at() const {
    return is<session_phase::Serving>() &&
           std::holds_alternative<Stage>(std::get<session_phase::Serving>(machine->phase()).stage);
  }
  const session_phase::Serving& serving() const {
    return std::get<session_phase::Serving>(machine->phase());
  }

  // --- ways to each phase and stage ---

  // The connection is encrypted, and the session proves itself.
  void secure(trust::Role peer) {
    role = peer;
    machine->on_secured(peer, SessionProof());
  }

  void say_hello() { (void)hear(MessageType::kHello, hello()); }
  void become_idle() { (void)hear(MessageType::kHello, hello(2)); }
  void be_sent() {
    say_hello();
    (void)hear(MessageType::kRequest, Request{{1, 2}, 0, false});
  }
  void start_sending() {
    store.add(update_that_comes(), update_of(3, 3, 0));
    (void)hear(MessageType::kHello, hello(2));
    (void)hear(MessageType::kRequest, Request{{2, 3}, 0, true});
  }
  void await_list() {
    Hello other_tensors = hello();
    other_tensors.schema_hash = model::schema_hash(std::vector<std::byte>(3));
    (void)hear(MessageType::kHello, other_tensors);
  }
  void await_damage() {
    Hello damaged = hello();
    damaged.damaged = true;
    damaged.held_is_vouched = damaged.tip_is_vouched = false;
    damaged.held = damaged.tip = {0, kSchema + Hash128{3, 3} + Hash128{4, 4}};
    (void)hear(MessageType::kHello, damaged);
  }
  Damage damage() const { return {version_of(1), {{3, 3}, {4, 4}}}; }
  void await_repair() {
    await_damage();
    (void)hear(MessageType::kDamage, damage());
  }
  void come_with_bytes() {
    Hello brought = hello();
    brought.held_is_vouched = brought.tip_is_vouched = false;
    (void)hear(MessageType::kHello, brought);
  }
  void await_digest() {
    identity = {version_of(1).hash, {}, true};
    come_with_bytes();
  }
  void await_answer() {
    identity = {version_of(1).hash, identity_of(version_of(1)), false};
    come_with_bytes();
  }
  void take_a_parent() {
    other_machine.emplace(SessionMachine::Peer{1, kPeerAddress, false}, context, memory, counts,
                          0.0);
    if (role) other_machine->on_secured(*role, SessionProof());
    Hello passes_on = hello(2);
    passes_on.port = 4000;
    std::vector<std::byte> content = serialise(passes_on);
    other_machine->on_message(MessageType::kHello, content, now);
    other_machine->clear_actions();
    other = &*other_machine;
    fan_out.staged(1, 2, now);
    (void)hear(MessageType::kHello, hello(1));
  }

  // The set that a publisher tells.
  static SideFilesRef files_of(std::vector<model::SideFile> files, std::uint64_t since = 0) {
    SideFileSet set{kDrivenModel, 5, since, *model::digest_of(files), {}, {}};
    const std::vector<std::byte> bare = serialise(set);
    set.files.emplace();
    for (const model::SideFile& each : files) set.files->push_back(*model::pack(each));
    return std::make_shared<const SideFilesAnswer>(
        SideFilesAnswer{set.digest, WholeMessage(MessageType::kSideFiles, serialise(set)),
                        WholeMessage(MessageType::kSideFiles, bare)});
  }
  static Identity identity_of(const HeldVersion& of) {
    Identity made;
    made.model_id = kDrivenModel;
    made.version = of;
    made.schema_hash = kSchema;
    return made;
  }
  // Its bytes are still on their way here.
  static std::shared_ptr<Update> update_that_comes() {
    auto made = update_of(2, 3, 1000);
    made->missing_bytes = 1000;
    return made;
  }

  UpdateStore store{{64, 1 << 20}};
  FanOut fan_out{1};
  SessionContext context;
  SessionCounts counts;
  MemoryPieces memory{context.budget};
  std::optional<SessionMachine> machine;
  std::optional<SessionMachine> other_machine;
  const SessionMachine* other = nullptr;
  std::optional<trust::Role> role;
  IdentityAnswer identity;
  RepairRef asked_repair;
  int anchors_asked = 0, composed_asked = 0, departures = 0;
  bool is_closed = false, is_proven = false;
  std::vector<std::byte> last_content;
  std::vector<std::byte> last_whole;  // of a message that many are told
  std::uint64_t said_bytes = 0;       // of all messages but chunks
  double now = 1;

 private:
  std::shared_ptr<SessionFeed> feed_ = std::make_shared<SessionFeed>();
};

using MessageTypes = std::vector<MessageType>;

}  // namespace sparcl::replication
