#pragma once
// A replica that says that it has all that there is, and that it passes it on; and does neither. It
// runs in a thread of its own. With a secret it is a holder of role replicate.

#include <unistd.h>

#include <atomic>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "src/replication/query.hpp"
#include "src/replication/relay_ticket.hpp"
#include "tests/replication/rogue_support.hpp"

namespace sparcl::replication {

enum class Lie : std::uint8_t { kGivesNothing, kGivesSlowly, kGivesGarbage };

class LyingParent {
 public:
  LyingParent(const std::string& publisher, const Hash128& schema_hash, Lie lie,
              const std::string& name, const std::string& model_id = kModelId)
      : listener_(std::move(*net::listen_at(net::loopback_address(), 8))),
        lie_(lie),
        model_id_(model_id),
        upstream_(RawPeer::connect(publisher)) {
    held_ = newest_of(publisher);
    acknowledged_ = held_.version;
    Hello hello = hello_with(held_, schema_hash, local_address(listener_)->port);
    hello.name = name;
    hello.model_id = model_id;
    upstream_.say(MessageType::kHello, hello);
    thread_ = std::thread([this] { run(); });
  }
  ~LyingParent() {
    ends_ = true;
    thread_.join();
  }
  LyingParent(const LyingParent&) = delete;
  LyingParent& operator=(const LyingParent&) = delete;

  // Replicas that were told to take updates from it.
  int victims() const { return victims_; }
  // Versions that it has said it has.
  std::uint64_t acknowledged() const { return acknowledged_; }

 private:
  // Which everybody is told, once there is a version.
  static HeldVersion newest_of(const std::string& publisher) {
    nlohmann::json report;
    std::string hex;
    for (const double begin = net::monotonic_seconds();
         hex.empty() && net::monotonic_seconds() - begin < 20; usleep(20'000)) {
      const Result<std::string> status = query_status(publisher, 20, RawPeer::client_security());
      EXPECT_TRUE(status.ok()) << status.status().message();
      report = nlohmann::json::parse(*status);
      hex = report["hash"];
    }
    std::vector<std::byte> bytes;
    for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
      bytes.push_back(static_cast<std::byte>(std::stoi(hex.substr(i, 2), nullptr, 16)));
    }
    HeldVersion newest{report["version"], {}};
    ByteReader reader(bytes);
    EXPECT_TRUE(reader.read(newest.hash.low) && reader.read(newest.hash.high));
    return newest;
  }

  struct Child {
    Child(net::Socket socket, net::TlsEndpointRef tls) : link(std::move(socket), std::move(tls)) {}
    MessageLink link;
    std::uint64_t offered = 0;
    std::optional<std::uint64_t> next_byte;  // it has asked
  };

  void run() {
    while (!ends_) {
      std::vector<pollfd> entries{{upstream_.link().fd(), POLLIN, 0}, {listener_.fd(), POLLIN, 0}};
      for (const auto& child : children_) entries.push_back({child->link.fd(), POLLIN, 0});
      net::poll_until(entries, net::monotonic_seconds() + 0.05);
      net::Socket socket(::accept4(listener_.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (socket.is_open()) children_.push_back(std::make_unique<Child>(std::move(socket), tls_));
      listen_to(upstream_.link(), [this](MessageLink& link) { hear_publisher(link); });
      for (const auto& child : children_) {
        listen_to(child->link, [&](MessageLink& link) { hear_child(*child, link); });
        tell(*child);
      }
      std::erase_if(children_, [](const auto& child) { return !child->link.is_open(); });
      say_alive(upstream_.link());
    }
  }

  template <class Hear>
  static void listen_to(MessageLink& link, Hear&& hear) {
    const auto nowhere = [](const ChunkHead&, std::size_t) { return Buffer(); };
    while (link.is_open() && link.receive(nowhere) == MessageLink::Progress::kMessage) hear(link);
    if (link.is_open()) (void)link.flush();
  }
  static void say_alive(MessageLink& link) {
    if (!link.is_open()) return;
    link.queue(MessageType::kAlive, Alive{1});
    (void)link.flush();
  }

  void hear_publisher(MessageLink& link) {
    if (link.type() == MessageType::kWelcome) {
      epoch_ = parse_welcome(link.content())->epoch;
      *own_key_ = parse_welcome(link.content())->relay_key;
    }
    if (link.type() == MessageType::kOffer) {  // it has all the bytes already, it says
      commit_ = parse_offer(link.content())->commit;
      link.queue(MessageType::kRequest,
                 Request{{commit_.base_version, commit_.version}, commit_.stream_bytes, true});
    }
    if (link.type() == MessageType::kParent) {  // it takes nothing from anybody
      const Result<Parent> parent = parse_parent(link.content());
      if (!parent->address)
        link.queue(MessageType::kOrphan,
                   Orphan{parent->number, held_, 0, Code::kSuccess, "", true});
    }
    if (link.type() == MessageType::kAnnounce) commit_ = parse_offer(link.content())->commit;
    if (link.type() != MessageType::kCommit && link.type() != MessageType::kAnnounce) return;
    held_ = {commit_.version, commit_.target_hash};
    link.queue(MessageType::kAck, Ack{AckStage::kStaged, held_, true});
    link.queue(MessageType::kAck, Ack{AckStage::kHeld, held_, true});
    acknowledged_ = held_.version;
  }

  void hear_child(Child& child, MessageLink& link) {
    if (link.type() == MessageType::kHello) {
      ++victims_;
      link.queue(MessageType::kWelcome,
                 Welcome{kProtocolVersion, model_id_, epoch_, 1, 5000, "an honest replica", {}});
    }
    if (link.type() == MessageType::kRequest)
      child.next_byte = parse_request(link.content())->first_byte;
  }

  void tell(Child& child) {
    say_alive(child.link);
    if (lie_ == Lie::kGivesNothing || commit_.stream_bytes == 0 || !child.link.is_open()) return;
    if (child.offered != commit_.version) {
      child.offered = commit_.version;
      child.next_byte.reset();
      child.link.queue(MessageType::kOffer, Offer{commit_, {}});
    }
    if (!child.next_byte || leaf_count(commit_.stream_bytes) != 1) return (void)child.link.flush();
    const std::uint64_t left = commit_.stream_bytes - *child.next_byte;
    const auto count = static_cast<std::size_t>(
        std::min<std::uint64_t>(left, lie_ == Lie::kGivesSlowly ? 20 : left));
    if (count > 0) child.link.queue_chunk({commit_.version, *child.next_byte}, noise_of(count));
    *child.next_byte += count;
    (void)child.link.flush();
  }

  // With a secret its children come with tickets of the publisher.
  std::shared_ptr<std::optional<RelayKey>> own_key_ = std::make_shared<std::optional<RelayKey>>();
  net::TlsEndpointRef tls_ = test_secret().empty() ? nullptr : *ticket_server(own_key_);
  net::Socket listener_;
  Lie lie_;
  std::string model_id_;
  RawPeer upstream_;
  std::uint64_t epoch_ = 0;
  HeldVersion held_;
  Commit commit_;  // the last that it was offered
  std::vector<std::unique_ptr<Child>> children_;
  std::atomic<int> victims_ = 0;
  std::atomic<std::uint64_t> acknowledged_ = 0;
  std::atomic<bool> ends_ = false;
  std::thread thread_;
};

}  // namespace sparcl::replication
