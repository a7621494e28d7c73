#pragma once
// The epoch of a publisher's life: larger than those of all lives before, also where the clock was
// set back meanwhile.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "src/replication/message.hpp"
#include "src/trust/signing_keys.hpp"

namespace sparcl::replication {

using WallClock = std::function<std::uint64_t()>;  // nanoseconds since 1970
std::uint64_t system_nanoseconds();
std::string epoch_text(std::uint64_t epoch);  // "2026-11-25 21:24:13 UTC", "term 7"

class PublisherEpoch {
 public:
  // The clock, or one more than the epoch in the file at `path`, whichever is later. path: "" keeps
  // nothing. A file that is missing, damaged or cannot be written is a warning at most: replicas
  // say which epoch they know.
  PublisherEpoch(std::string path, WallClock clock);
  // A term of a witness (witness.hpp), and later ones where replicas have made them necessary: no
  // clock is asked.
  PublisherEpoch(std::uint64_t term, WallClock clock);

  std::uint64_t value() const { return value_; }

  // latest: the latest version that a replica has applied. True: it is of a later life than this
  // publisher's, and this publisher's epoch is now later still. An error says why replicas that
  // hold it cannot be served. keys: a signing publisher believes only commits with its own
  // signature. Without keys (nullptr), epochs count up to a year after the clock, each time after a
  // longer pause. An unauthenticated peer therefore cannot keep replicas from their updates.
  // With a witness it is RemoteError until a later term is taken there.
  Result<bool> learn(const LatestHeld& latest, const std::string& model_id,
                     const trust::SigningKeys* keys, double now);

  // The term that learn() has found necessary, if there is a witness. It must be taken
  // there before it counts.
  std::uint64_t wanted_term() const { return wanted_; }
  void take_term(std::uint64_t term) { value_ = term; }

  // Writes the file anew where the value is not in it. May take long.
  void save();

 private:
  Status check_word(std::uint64_t epoch) const;
  Status check_pause(std::uint64_t epoch, double now) const;
  void load();

  std::string path_;
  WallClock clock_;
  bool is_by_clock_ = true;
  std::uint64_t value_ = 0;
  std::uint64_t wanted_ = 0;
  std::uint64_t begun_at_ = 0;  // the first value: unsigned epochs are measured by it
  std::uint64_t saved_ = 0;
  int signed_raises_ = 0;
  double raised_at_ = 0;  // by an unsigned word, or one of many signed ones
  double pause_s_ = 0;    // until the next such word counts
};

}  // namespace sparcl::replication
