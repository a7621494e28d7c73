#pragma once
// The digests of versions that replicas may have come with (docs/decisions/0027-vouched-states.md):
// made on demand, one at a time, beside all else, and kept for those that come later.

#include <deque>
#include <memory>
#include <optional>

#include "src/model/state_identity.hpp"
#include "src/replication/update_maker.hpp"

namespace sparcl::replication {

// The answer for the version with some state hash.
struct IdentityAnswer {
  Hash128 of;  // this state hash: that to ask for again
  std::optional<Identity> identity;
  bool is_coming = false;  // it is being made: ask again
};

class Identities {
 public:
  Identities(const Hash128& schema_hash, const Digest256& schema_digest)
      : schema_hash_(schema_hash), schema_digest_(schema_digest) {}

  // at_hand: this version, if its bytes can be had; else nothing will be made.
  IdentityAnswer find(const Hash128& hash, const std::optional<HeldVersion>& at_hand);

  bool wants_work() const { return !wanted_.empty() || making_ != nullptr; }
  bool is_at_work() const { return making_ != nullptr && making_->arrays.has_value(); }
  // Which version is to be read next, if wants_work().
  const HeldVersion& next() const { return making_ != nullptr ? making_->of : wanted_.front(); }
  // Its arrays; nothing: they are gone, and waiting replicas get all bytes.
  void begin(std::optional<UpdateMaker::Arrays> arrays);
  // Some milliseconds of work. A digest that is made, not signed yet.
  std::optional<Identity> work(const codec::BlockMap& map);
  void keep(Identity identity);
  // The arrays are not to be read any more. It goes on where it was.
  enum class Rest : std::uint8_t { kForOthers, kForAVersion };
  void rest(Rest why);
  void give_up();
  // The digests are of an earlier epoch: they are to be made anew.
  void forget() { made_.clear(); }

 private:
  struct Making {
    HeldVersion of;
    model::StateIdentity digest;
    std::optional<UpdateMaker::Arrays> arrays;  // nothing: it rests
    int interruptions = 0;                      // by new versions
  };

  Hash128 schema_hash_;
  Digest256 schema_digest_;
  std::deque<Identity> made_;
  std::deque<HeldVersion> wanted_;
  std::deque<Hash128> given_up_;
  std::unique_ptr<Making> making_;
};

}  // namespace sparcl::replication
