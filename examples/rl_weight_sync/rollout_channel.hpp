#pragma once
// Messages from a worker to the trainer, over a pair of Unix sockets that keep their bounds
// (SOCK_SEQPACKET).

#include <array>
#include <cstdint>
#include <language_model/layer_maths.hpp>
#include <optional>
#include <vector>

namespace training {

enum class MessageKind : std::uint32_t { kSwapped = 1, kRollout = 2, kGoodbye = 3 };

struct RolloutMessage {
  struct Head {
    MessageKind kind = MessageKind::kSwapped;
    std::uint32_t token_count = 0;
    std::uint64_t version = 0;  // held; of a rollout: the version that sampled it
    double pause_s = 0;         // swapped: inside next(); of the first version: 0
    std::int64_t at_ns = 0;     // swapped: by the clock that all processes of a machine share
    std::array<std::uint8_t, 16> hash{};  // goodbye: of the weights held
  };
  Head head;
  std::vector<Token> tokens;  // rollout: context x kSequences, time-major
};

class RolloutChannel {
 public:
  explicit RolloutChannel(int descriptor) : descriptor_(descriptor) {}
  ~RolloutChannel();
  RolloutChannel(RolloutChannel&& other) noexcept;
  RolloutChannel& operator=(RolloutChannel&& other) noexcept;

  int descriptor() const { return descriptor_; }

  // Never blocks. False: there is no room, or no receiver; the message is lost.
  bool send(const RolloutMessage& message) const;
  // The next message, if there is one. Throws std::runtime_error if it is not a worker's.
  std::optional<RolloutMessage> receive();
  // The other end is closed, or sends no more.
  bool is_over() const { return is_over_; }
  // Waits until there is a message, or so many milliseconds.
  void wait(int milliseconds) const;
  // Makes is_over() true at the other end.
  void say_no_more() const;

 private:
  int descriptor_;
  bool is_over_ = false;
};

struct ChannelPair {
  RolloutChannel mine;
  RolloutChannel others;  // both are closed by exec
};
ChannelPair make_channel_pair();

// Nanoseconds of the clock that all processes of a machine share.
std::int64_t now_ns();

}  // namespace training
