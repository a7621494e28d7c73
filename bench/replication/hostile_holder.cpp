#include "bench/replication/hostile_holder.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>
#include <vector>

#include "src/codec/wire.hpp"
#include "src/model/schema.hpp"
#include "src/net/host_port.hpp"
#include "src/replication/message_link.hpp"
#include "src/replication/service_security.hpp"

namespace sparcl::bench {
namespace {

using replication::MessageType;

constexpr double kAliveSeconds = 0.5;
constexpr double kRetrySeconds = 0.02;

// One connection: says what a replica would say, and keeps nothing of what it is sent.
class Hostile {
 public:
  // part: rows that it leaves out; 0: it asks for all bytes, and comes again.
  Hostile(const HostileOptions& options, std::uint64_t part, net::NetAddress to,
          const replication::ClientSecurity& security)
      : options_(options), part_(part), to_(to), security_(security) {
    const std::vector<std::uint64_t> shape{options.rows, kRowElements};
    schema_ = {{kTensorName, DataType::kBfloat16, shape}};
    if (part_ > 0)
      schema_[0].slice = model::TensorSlice{{0, 0}, {options.rows - part_, kRowElements}};
  }

  pollfd entry() const {
    return {link_ != nullptr ? link_->fd() : -1, link_ != nullptr ? link_->events() : short{0}, 0};
  }
  void step(double now) {
    if (link_ == nullptr || !link_->is_open()) return connect(now);
    if (!link_->flush()) return;
    while (link_->is_open()) {
      const auto nowhere = [](const replication::ChunkHead&, std::size_t) { return Buffer(); };
      if (link_->receive(nowhere) != replication::MessageLink::Progress::kMessage) break;
      answer();
    }
    if (now - spoke_ > kAliveSeconds) {
      spoke_ = now;
      if (is_welcome_) link_->queue(MessageType::kAlive, replication::Alive{held_.version});
    }
    (void)link_->flush();
  }

 private:
  void connect(double now) {
    if (now - connected_ < kRetrySeconds) return;
    connected_ = now;
    is_welcome_ = false;
    Result<net::Socket> socket = net::start_connect(to_);
    if (!socket.ok()) return;
    link_ = std::make_unique<replication::MessageLink>(std::move(*socket), security_.tls);
    link_->allow(MessageType::kModelReply);
    if (security_.tls == nullptr) say_hello();
  }
  void say_hello() {
    replication::Hello hello;
    hello.schema_hash = model::schema_hash(schema_);
    hello.wire_version = codec::kWireVersion;
    hello.held = hello.tip = held_;
    hello.held_is_vouched = hello.tip_is_vouched = held_.version > 0;
    hello.silence_ms = 5000;
    hello.name = fmt::format("host h, pid {}", ++names);
    link_->queue(MessageType::kHello, hello);
  }
  void answer() {
    switch (link_->type()) {
      case MessageType::kProof:
        return say_hello();
      case MessageType::kSchemaWanted:
        return link_->queue(MessageType::kSchema,
                            std::span<const std::byte>(model::serialise(schema_)));
      case MessageType::kWelcome:
        is_welcome_ = true;
        return;
      case MessageType::kOffer:
        return request();
      case MessageType::kCommit:
        return acknowledge();
      default:
        return;
    }
  }
  void request() {
    const Result<replication::Offer> offer = replication::parse_offer(link_->content());
    if (!offer.ok()) return;
    offered_ = offer->commit;
    // A label has no bytes, and is requested all the same.
    link_->queue(MessageType::kRequest,
                 replication::Request{{offered_.base_version, offered_.version}, 0});
  }
  void acknowledge() {
    held_ = {offered_.version, offered_.target_hash};
    link_->queue(MessageType::kAck, replication::Ack{replication::AckStage::kStaged, held_, true});
    link_->queue(MessageType::kAck, replication::Ack{replication::AckStage::kHeld, held_, true});
    if (part_ > 0) return;
    (void)link_->flush();
    held_ = {};  // and again
    link_->close();
  }

  static inline int names = 0;
  const HostileOptions& options_;
  std::uint64_t part_;
  net::NetAddress to_;
  const replication::ClientSecurity& security_;
  model::Schema schema_;
  std::unique_ptr<replication::MessageLink> link_;
  replication::HeldVersion held_;
  model::Commit offered_;
  bool is_welcome_ = false;
  double connected_ = -1, spoke_ = 0;
};

}  // namespace

void attack(const HostileOptions& options) {
  const Result<replication::ClientSecurity> security =
      replication::load_client_security(options.secret_path, trust::Role::kReplicate);
  const Result<net::HostPort> where = net::parse_host_port(options.address);
  if (!security.ok() || !where.ok()) std::exit(1);
  const net::NetAddress to = net::resolve(*where)->front();
  std::vector<std::unique_ptr<Hostile>> all;
  for (int i = 0; i < options.anchors; ++i)
    all.push_back(std::make_unique<Hostile>(options, 0, to, *security));
  for (int i = 0; i < options.parts; ++i)
    all.push_back(
        std::make_unique<Hostile>(options, static_cast<std::uint64_t>(i) + 1, to, *security));
  std::vector<pollfd> entries;
  while (true) {
    entries.clear();
    for (const auto& each : all) entries.push_back(each->entry());
    const double now = net::monotonic_seconds();
    net::poll_until(entries, now + kRetrySeconds);
    for (const auto& each : all) each->step(net::monotonic_seconds());
  }
}

}  // namespace sparcl::bench
