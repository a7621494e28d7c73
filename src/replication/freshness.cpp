#include "src/replication/freshness.hpp"

#include <algorithm>

#include "src/trust/keyed_hash.hpp"

namespace sparcl::replication {
namespace {

constexpr double kChallengesPerAge = 4;
constexpr double kMinPause = 0.25;      // seconds between two challenges
constexpr double kMaxPause = 60;        // all heuristic
constexpr std::size_t kMaxWords = 256;  // more than there are pauses in an age

}  // namespace

Result<std::optional<Challenge>> Freshness::next_challenge(double now) {
  const double pause = std::clamp(max_age_s_ / kChallengesPerAge, kMinPause, kMaxPause);
  if (!is_on() || now - asked_at_ < pause) return std::optional<Challenge>();
  Challenge made{};
  SPARCL_RETURN_IF_ERROR(trust::fill_random(made));
  asked_ = made;
  asked_at_ = now;
  return std::optional(made);
}

bool Freshness::on_answer(const Fresh& answer) {
  if (!asked_ || answer.challenge != *asked_) return false;
  asked_.reset();
  newest_ = answer.newest;
  if (!words_.empty() && words_.back().newest == answer.newest) words_.pop_back();
  words_.push_back({answer.newest, asked_at_});
  if (words_.size() > kMaxWords) words_.pop_front();
  return true;
}

void Freshness::on_new_epoch() {
  words_.clear();
  asked_.reset();
  asked_at_ = -1e9;
}

void Freshness::on_tick(const HeldVersion& held, bool is_of_epoch, double now) {
  if (!is_on()) return;
  if (!started_) current_at_ = now;  // it has an age's time to hear of the publisher
  started_ = true;
  const auto is_held = [&](const Word& word) {
    return held.hash == word.newest.hash || (is_of_epoch && held.version > word.newest.version);
  };
  for (const Word& word : words_) {
    if (is_held(word)) current_at_ = std::max(current_at_, word.at);
  }
  std::erase_if(words_,
                [&](const Word& word) { return is_held(word) || now - word.at > max_age_s_; });
}

}  // namespace sparcl::replication
