#pragma once
// How old the version of a replica may be. The replica asks its publisher from time to time which
// version is the newest, by a CHALLENGE that the signed answer repeats. An old answer is therefore
// none, and neither end needs the time of day (docs/reference/protocol.md).

#include <cstdint>
#include <deque>
#include <optional>

#include "src/replication/message.hpp"

namespace sparcl::replication {

class Freshness {
 public:
  // max_age_s: since what is held was the newest version; 0: any age.
  explicit Freshness(double max_age_s) : max_age_s_(max_age_s) {}

  bool is_on() const { return max_age_s_ > 0; }
  double max_age_s() const { return max_age_s_; }

  // A challenge to send now; nothing: it is not time yet. An error if there is no random number.
  Result<std::optional<Challenge>> next_challenge(double now);
  // The answer, whose signatures are checked. False: it is not to the last challenge.
  bool on_answer(const Fresh& answer);
  // Answers of another life of the publisher say nothing of what is held from now on.
  void on_new_epoch();
  // By the clock. is_of_epoch: what is held is of the epoch of the answers.
  void on_tick(const HeldVersion& held, bool is_of_epoch, double now);

  bool is_stale(double now) const { return is_on() && age_s(now) > max_age_s_; }
  double age_s(double now) const { return started_ ? now - current_at_ : 0; }
  // The last answer; nothing: there is none yet.
  const std::optional<HeldVersion>& newest() const { return newest_; }

 private:
  struct Word {
    HeldVersion newest;
    double at;  // it was the newest then, or later
  };

  double max_age_s_;
  bool started_ = false;
  double current_at_ = 0;  // what is held was the newest then, or later
  std::optional<Challenge> asked_;
  double asked_at_ = -1e9;
  std::optional<HeldVersion> newest_;
  std::deque<Word> words_;  // of versions that are not held yet
};

}  // namespace sparcl::replication
