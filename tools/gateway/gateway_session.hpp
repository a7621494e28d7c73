#pragma once
// One client's stream, without a socket: messages of the client and times come in, messages for it
// go out. Its owner sends one of them at a time, and asks for the next when that one is gone. So a
// slow client causes no queue.

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "src/trust/sha256.hpp"
#include "tools/gateway/version_shelf.hpp"

namespace sparcl::gateway {

struct SessionLimits {
  double hello_s = 10;    // from the beginning of the stream to HELLO
  double answer_s = 300;  // from an OFFER to REQUEST, and from a COMMIT to ACK
};

// How a stream ends, by the codes of gRPC.
enum class EndCode : std::uint8_t {
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kPermissionDenied = 7,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kAborted = 10,
  kInternal = 13,
  kUnavailable = 14,
};
struct Ending {
  EndCode code;
  std::string text;  // for the client
};

class GatewaySession {
 public:
  // The shelf outlives it.
  GatewaySession(VersionShelf& shelf, std::string model_id, const SessionLimits& limits, double now)
      : shelf_(shelf),
        model_id_(std::move(model_id)),
        limits_(limits),
        deadline_(now + limits.hello_s) {}

  void on_message(const v1::ClientMessage& message);
  void on_time(double now);
  // The next message for the client; nullopt: there is none now.
  std::optional<v1::ServerMessage> next_message(double now);
  // Ends it, unless it has ended.
  void end(EndCode code, std::string text);

  // Nothing more is to be sent then.
  const std::optional<Ending>& ending() const { return ending_; }
  const std::string& name() const { return name_; }  // of the client, fit to be shown

  struct Counts {
    std::uint64_t anchors = 0, steps = 0;  // that were acknowledged
    std::uint64_t bytes = 0;               // of positions and values that were sent
    std::uint64_t nacks = 0;
  };
  const Counts& counts() const { return counts_; }

 private:
  struct Greeting {};   // HELLO has not come
  struct Welcoming {};  // it has: MODEL comes next
  struct Waiting {};    // for a version
  struct Offered {
    ShipmentRef offer;
  };  // for REQUEST
  struct Sending {
    ShipmentRef offer;
    std::uint64_t next;
    std::unique_ptr<trust::Sha256> digests;  // of the chunks
  };
  struct Judged {  // for ACK
    model::HeldVersion target;
    bool is_anchor;
  };
  using Phase = std::variant<Greeting, Welcoming, Waiting, Offered, Sending, Judged>;

  void take(const v1::Hello& hello);
  void take(const v1::Request& request);
  void take(const v1::Ack& ack);
  void take(const v1::Nack& nack);
  bool is_current(std::uint64_t offer, const char* message);
  v1::ServerMessage model_message();
  std::optional<v1::ServerMessage> offer_message(double now);
  std::optional<v1::ServerMessage> chunk_message(double now);
  std::optional<v1::ServerMessage> commit_message(double now);
  bool end_if_revoked();

  VersionShelf& shelf_;
  std::string model_id_;
  SessionLimits limits_;
  double deadline_;  // of the present phase; of Waiting and Sending: none
  Phase phase_;
  VersionShelf::Wish wish_;
  std::string name_;
  std::uint64_t offers_ = 0;
  int nacks_ = 0;  // since the last ACK
  std::optional<Ending> ending_;
  Counts counts_;
};

}  // namespace sparcl::gateway
