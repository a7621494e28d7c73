#include "src/net/heartbeat/peer_pulse.hpp"

#include <algorithm>

namespace sparcl::net {

std::uint64_t PeerPulse::ping(double silence_s) {
  chosen_.clear();
  if (has_answered() && silent_s_ < silence_s / 2) {
    chosen_.push_back(best_path());
  } else {
    for (std::size_t i = 0; i < paths_.size(); ++i) chosen_.push_back(i);
  }
  return ++sent_;
}

bool PeerPulse::pong(std::uint64_t sequence, std::size_t path) {
  if (!expects(sequence) || path >= paths_.size()) return false;
  answered_ = sequence;
  best_ = static_cast<int>(path);
  refusals_ = 0;
  silent_s_ = 0;
  return true;
}

PeerPulse::Refusal PeerPulse::refuse(const NetAddress& by) {
  if (!has_answered() || paths_[best_path()] != by) return Refusal::kMeansNothing;
  return ++refusals_ < 2 ? Refusal::kAskAgain : Refusal::kHasEnded;
}

bool PeerPulse::is_path(const NetAddress& address) const {
  return std::find(paths_.begin(), paths_.end(), address) != paths_.end();
}

// Pings that are out stay answerable, but the next silence begins with the next ping.
void PeerPulse::forget_silence() {
  silent_s_ = 0;
  refusals_ = 0;
}

}  // namespace sparcl::net
