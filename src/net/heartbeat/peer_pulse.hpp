#pragma once
// Liveness of one peer: pings, pongs, refusals and the time between. No sockets, no clock: the
// caller passes all events.

#include <cstdint>
#include <vector>

#include "src/net/net_address.hpp"

namespace sparcl::net {

class PeerPulse {
 public:
  PeerPulse() = default;
  // The addresses at which the peer may be reached; the sequence begins anywhere.
  PeerPulse(std::vector<NetAddress> paths, std::uint64_t first_sequence)
      : paths_(std::move(paths)), sent_(first_sequence), answered_(first_sequence) {}

  bool can_be_pinged() const { return !paths_.empty(); }
  // Whether a pong was ever received. Silence and refusals of a peer that never answered mean
  // nothing: a firewall may drop or refuse.
  bool has_answered() const { return best_ >= 0; }

  // The number of a new ping, to be sent on each of `paths`. That is the path that answered last.
  // It is all paths while none has answered, or after a silence of silence_s / 2.
  std::uint64_t ping(double silence_s);
  std::uint64_t last_ping() const { return sent_; }
  const std::vector<std::size_t>& ping_paths() const { return chosen_; }
  std::size_t path_count() const { return paths_.size(); }
  const NetAddress& path(std::size_t i) const { return paths_[i]; }
  std::size_t best_path() const { return best_ < 0 ? 0 : static_cast<std::size_t>(best_); }

  // Whether `sequence` is of a ping that was sent and is not answered yet.
  bool expects(std::uint64_t sequence) const {
    return sequence - answered_ - 1 < sent_ - answered_;
  }
  // A pong: false if it is not expected.
  bool pong(std::uint64_t sequence, std::size_t path);

  // A refusal from this address: its port is closed. Two in a row from the path that answered mean
  // that the process has ended. The first alone asks for another ping at once.
  enum class Refusal { kMeansNothing, kAskAgain, kHasEnded };
  Refusal refuse(const NetAddress& by);
  bool is_path(const NetAddress& address) const;

  // This much time of this process passed while the peer was watched. Not counted while no ping is
  // out.
  void pass(double seconds) { silent_s_ += sent_ != answered_ ? seconds : 0; }
  void forget_silence();  // it is not watched any more
  double silent_s() const { return silent_s_; }

 private:
  std::vector<NetAddress> paths_;
  std::vector<std::size_t> chosen_;
  std::uint64_t sent_ = 0;
  std::uint64_t answered_ = 0;
  int best_ = -1;
  int refusals_ = 0;
  double silent_s_ = 0;
};

}  // namespace sparcl::net
