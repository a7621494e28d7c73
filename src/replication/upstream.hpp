#pragma once
// A replica's end of the connection to where its updates come from: the publisher, or another
// replica that passes them on.

#include <string>

#include "src/replication/message_link.hpp"
#include "src/replication/service_security.hpp"
#include "src/replication/upstream_view.hpp"

namespace sparcl::replication {

class Upstream;

// The owner of a connection: reads versions, and takes all other messages.
class UpstreamOwner : public model::VersionReader {
 public:
  virtual Hello hello(const Upstream& to) = 0;
  // The list of tensors whose hash the HELLO has, as model::serialise() writes it.
  virtual std::span<const std::byte> schema() const = 0;
  virtual Status take_welcome(Upstream& from, const Welcome& welcome) = 0;
  // PARENT, ANNOUNCE, IDENTITY, or a message that is out of place. An error ends the connection:
  // the other side is told.
  virtual Status take(Upstream& from, double now) = 0;

 protected:
  ~UpstreamOwner() = default;
};

class Upstream final : public UpstreamView, public model::VersionSource {
 public:
  // silence_s: after which the other side counts as stopped or cut off.
  Upstream(UpstreamOwner& owner, UpstreamKind kind, double silence_s)
      : owner_(owner), kind_(kind), silence_s_(silence_s) {}

  // address: as users know it. With security.publisher_key nothing is said or heard before the
  // other side has signed the connection by that key.
  void connect(net::Socket socket, std::string address, const ClientSecurity& security, double now);
  void part(Status why, double now);
  void close();                          // without a word to anybody
  void leave(bool begins_anew = false);  // says goodbye
  void leave_for_good();                 // and waits a little until the other side has heard it

  std::uint64_t newest() const override { return newest_; }
  void offer(const model::VersionHave& have) override;
  void chunks(const model::ChunkRequest& plan) override;
  void refuse(const model::PlanRefusal& why) override;

  bool is_apart() const { return phase_ == Phase::kApart; }
  // Bytes have come of which poll() does not tell.
  bool has_unread() const { return !is_apart() && link_.has_unread(); }
  bool is_ready() const override { return phase_ == Phase::kReady; }
  int fd() const { return link_.fd(); }
  short events() const {
    return phase_ == Phase::kConnecting ? static_cast<short>(POLLOUT) : link_.events();
  }
  void step(short events, double now);
  void tick(std::uint64_t held, double now);
  void flush(double now);

  // If the other side is on this host, updates come as memory, until this fails once.
  bool shares_memory() const { return !memory_failed_; }

  MessageLink& link() { return link_; }
  double heard() const override { return heard_; }
  bool was_refused() const { return was_refused_; }  // by the other side: why it is over
  Result<net::NetAddress> own_address() const { return local_address(link_.socket()); }
  // "publisher host h1, pid 4711 (10.0.0.7:4711)", or without the name before the first welcome.
  std::string who() const override;
  const std::string& name() const {
    return name_;
  }  // of the last that said welcome, with its address

 private:
  enum class Phase : std::uint8_t { kApart, kConnecting, kSecuring, kGreeting, kReady };

  const char* what() const { return kind_ == UpstreamKind::kPublisher ? "publisher" : "replica"; }
  void read(double now);
  void greet_if_secured(double now);
  Status take_proof(double now);
  Status closed_early(Status why) const;
  void read_messages(double now);
  Status handle(double now);
  Status take_welcome();
  Status tell_schema();
  void try_memory(const MemoryInvitation& invitation);
  Status take_piece(double now);
  Status take_of_update(double now);
  void note_newest(std::uint64_t version);

  UpstreamOwner& owner_;
  UpstreamKind kind_;
  double silence_s_;
  MessageLink link_;
  std::int64_t memory_pid_ = 0;  // whose memory can be reached; 0: none
  bool memory_failed_ = false;
  Phase phase_ = Phase::kApart;
  bool is_encrypted_ = false;
  std::optional<trust::PublicKey> awaited_key_;  // of the PROOF that must come first
  std::string address_;
  std::string name_;
  std::uint64_t newest_ = 0;
  double heard_ = 0;
  double spoke_ = 0;
  double alive_period_s_ = 1;
  bool was_refused_ = false;
};

}  // namespace sparcl::replication
