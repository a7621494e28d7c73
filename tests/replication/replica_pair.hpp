#pragma once
// A small model of two arrays, and raw connections that say what they like.

#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <random>
#include <string_view>
#include <vector>

#include "src/codec/block_map.hpp"
#include "src/net/host_port.hpp"
#include "src/replication/message_link.hpp"
#include "src/replication/publisher.hpp"
#include "src/replication/service_security.hpp"
#include "src/replication/subscriber.hpp"
#include "tests/model/model_support.hpp"
#include "tests/support/test_authority.hpp"

namespace sparcl::replication {

class SmallModel {
 public:
  explicit SmallModel(std::uint16_t fill = 0, std::uint64_t count = 200'000)
      : weights_(count, fill), bias_(100, 0.0F) {
    const codec::ArraySpec arrays[2] = {{DataType::kBfloat16, count}, {DataType::kFloat32, 100}};
    map_.emplace(arrays);
    data_ = {reinterpret_cast<std::byte*>(weights_.data()),
             reinterpret_cast<std::byte*>(bias_.data())};
  }
  SmallModel(const SmallModel&) = delete;
  SmallModel& operator=(const SmallModel&) = delete;

  ReplicatedState view() const {
    ReplicatedState view;
    view.map = &*map_;
    view.schema_hash = {11, 12};
    view.arrays = data_;
    view.kernels = &kernels::cpu_kernels();
    return view;
  }
  operator ReplicatedState() const { return view(); }
  Hash128 hash() const { return view().hash(); }
  void step(std::uint64_t seed, int changes = 2000) { step(seed, changes, weights_.size()); }
  // Of the first `among` elements.
  void step(std::uint64_t seed, int changes, std::size_t among) {
    std::mt19937_64 random(seed);
    for (int i = 0; i < changes; ++i) ++weights_[random() % among];
    bias_[random() % bias_.size()] += 1.0F;
  }

  // Byte for byte: a state hash can be that of others (forged_state.hpp).
  bool is_same_as(const SmallModel& other) const {
    return weights_ == other.weights_ &&
           std::memcmp(bias_.data(), other.bias_.data(), bias_.size() * sizeof(float)) == 0;
  }
  void copy_from(const SmallModel& other) {
    std::ranges::copy(other.weights_, weights_.begin());
    std::ranges::copy(other.bias_, bias_.begin());
  }
  std::byte* first_block() { return data_[0]; }

  std::uint16_t at(std::size_t i) const { return weights_[i]; }
  void poke(std::size_t i, std::uint16_t bits) { weights_[i] = bits; }

 private:
  std::vector<std::uint16_t> weights_;
  std::vector<float> bias_;
  std::optional<codec::BlockMap> map_;
  std::vector<std::byte*> data_;
};

inline const std::string kModelId = "m";  // no literals below: g++ 12 warns of their assignment
inline const std::string kAnyPort = "127.0.0.1:0";

// A new secret's file of role publish; those of the other roles lie beside it.
inline std::string new_secret(const test::TempFolder& folder) {
  const Result<trust::RoleSecret> secret = trust::RoleSecret::generate();
  EXPECT_TRUE(secret.ok() && secret->save(folder / "secret").ok());
  return folder / "secret";
}

inline bool tests_are_secured_by(std::string_view what) {
  const char* asked = std::getenv("SPARCL_TEST_SECURE");
  return asked != nullptr && asked == what;
}
// The file of a secret that all publishers and replicas of the process have, if
// SPARCL_TEST_SECURE is "secret": the same tests then run over encrypted connections. Else "".
inline const std::string& test_secret() {
  static const test::TempFolder folder;
  static const std::string path = tests_are_secured_by("secret") ? new_secret(folder) : "";
  return path;
}

// The same with certificates: the folder of this role, if it is "certificates".
inline std::string test_certificates(const std::string& role) {
  if (!tests_are_secured_by("certificates")) return "";
  static const test::TempFolder folder;
  static const test::TestAuthority authority;
  static const std::map<std::string, std::string> paths{
      {"publish", authority.write(folder / "publish", "publish")},
      {"replicate", authority.write(folder / "replicate", "replicate")}};
  return paths.at(role);
}

inline PublisherOptions local_options() {
  PublisherOptions options;
  options.secret_path = test_secret();
  options.certificates_path = test_certificates("publish");
  options.listen = kAnyPort;
  options.model_id = kModelId;
  return options;
}

inline SubscriberOptions replica_options() {
  SubscriberOptions options;
  options.secret_path = test_secret();
  options.certificates_path = test_certificates("replicate");
  options.model_id = kModelId;
  return options;
}

inline std::unique_ptr<Publisher> open_publisher(
    const ReplicatedState& state, const PublisherOptions& options = local_options()) {
  Result<std::unique_ptr<Publisher>> made = Publisher::create(state, options);
  EXPECT_TRUE(made.ok()) << made.status().message();
  return std::move(*made);
}

inline std::unique_ptr<Subscriber> open_replica(
    const ReplicatedState& state, const std::string& address,
    const SubscriberOptions& options = replica_options()) {
  Result<std::unique_ptr<Subscriber>> made = Subscriber::create(state, address, options);
  EXPECT_TRUE(made.ok()) << made.status().message();
  return std::move(*made);
}

// Of this process.
inline int open_descriptors() {
  int count = 0;
  for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd"))
    count += each.path().empty() ? 0 : 1;
  return count;
}

// One end of a connection, driven by a test; every wait ends.
class RawPeer {
 public:
  static constexpr double kPatience = 20;

  explicit RawPeer(net::Socket socket, net::TlsEndpointRef tls = nullptr)
      : link_(std::move(socket), std::move(tls)) {}
  static RawPeer connect(const std::string& address) { return connect(address, client_security()); }
  static RawPeer connect(const std::string& address, const ClientSecurity& security) {
    Result<net::Socket> socket =
        net::start_connect(net::resolve(*net::parse_host_port(address))->front());
    if (socket.ok()) send_at_once(*socket);
    RawPeer peer(socket.ok() ? std::move(*socket) : net::Socket(), security.tls);
    pollfd entry{peer.link_.fd(), POLLOUT, 0};
    net::poll_until(std::span(&entry, 1), net::monotonic_seconds() + kPatience);
    if (security.publisher_key) {
      EXPECT_EQ(peer.hear(), MessageType::kProof);
    } else if (security.tls != nullptr) {
      (void)peer.shake();  // what is said next shows whether it is over
    }
    return peer;
  }
  static ClientSecurity client_security() {
    return *load_client_security(test_secret(), trust::Role::kReplicate,
                                 test_certificates("replicate"));
  }
  // Until the handshake of an encrypted connection is over.
  bool shake(double seconds = kPatience) {
    const double until = net::monotonic_seconds() + seconds;
    while (link_.flush() && !link_.stream().is_ready()) {
      if (link_.receive(nowhere) != MessageLink::Progress::kMore) return false;
      if (link_.stream().is_ready()) break;
      pollfd entry{link_.fd(), POLLIN, 0};
      if (net::poll_until(std::span(&entry, 1), until) == 0) return false;
    }
    return link_.is_open();
  }

  MessageLink& link() { return link_; }
  void send_bytes(std::span<const std::byte> bytes) {
    while (!bytes.empty() && link_.is_open()) {
      const ssize_t sent = ::send(link_.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent > 0) bytes = bytes.subspan(static_cast<std::size_t>(sent));
      if (sent < 0 && errno != EAGAIN && errno != EINTR) return;
    }
  }
  template <class Message>
  void say(MessageType type, const Message& message) {
    link_.queue(type, message);
    (void)link_.flush();
  }

  // The next message that is no sign of life; nothing if the other side ends the connection, or
  // says nothing for so long.
  std::optional<MessageType> hear(double seconds = kPatience,
                                  const MessageLink::ChunkDestination& place = nowhere) {
    const double until = net::monotonic_seconds() + seconds;
    while (link_.is_open()) {
      switch (link_.receive(place)) {
        case MessageLink::Progress::kMessage:
          if (link_.type() == MessageType::kAlive) continue;
          return link_.type();
        case MessageLink::Progress::kMore:
          break;
        default:
          return {};
      }
      pollfd entry{link_.fd(), POLLIN, 0};
      if (net::poll_until(std::span(&entry, 1), until) == 0) return {};
    }
    return {};
  }
  // Until the other side has ended the connection.
  bool is_dropped(double seconds = kPatience) {
    const double until = net::monotonic_seconds() + seconds;
    while (net::monotonic_seconds() < until && link_.is_open())
      (void)hear(until - net::monotonic_seconds());
    return !link_.is_open();
  }

 private:
  static Buffer nowhere(const ChunkHead&, std::size_t) { return {}; }
  MessageLink link_;
};

// A port where a test plays the publisher.
class RawPublisher {
 public:
  RawPublisher() : listener_(std::move(*net::listen_at(net::loopback_address(), 8))) {}
  std::string address() const { return to_text(*local_address(listener_)); }
  RawPeer accept_any() {
    pollfd entry{listener_.fd(), POLLIN, 0};
    net::poll_until(std::span(&entry, 1), net::monotonic_seconds() + RawPeer::kPatience);
    net::Socket socket(::accept4(listener_.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    RawPeer peer(std::move(socket), security_.tls);
    if (security_.tls != nullptr && peer.shake() && security_.secrets != nullptr)
      peer.say(MessageType::kProof,
               *security_.secrets->prove(PeerTag::of(*peer.link().stream().peer_tag()),
                                         *peer.link().stream().exporter()));
    return peer;
  }
  // The next subscriber that comes, after its HELLO.
  RawPeer accept(Hello* hello = nullptr) {
    RawPeer peer = accept_any();
    if (peer.hear() == MessageType::kHello && hello != nullptr)
      *hello = *parse_hello(peer.link().content());
    return peer;
  }

 private:
  net::Socket listener_;
  ServerSecurity security_ = *load_server_security(test_secret(), test_certificates("publish"));
};

}  // namespace sparcl::replication
