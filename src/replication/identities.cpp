#include "src/replication/identities.hpp"

#include <algorithm>
#include <utility>

#include "src/base/log.hpp"

namespace sparcl::replication {
namespace {

constexpr std::uint64_t kDigestedBlocks = 64;  // some milliseconds; heuristic
constexpr std::size_t kMaxWanted = 16;         // at once
constexpr std::size_t kMaxKept = 64;
constexpr int kMaxInterruptions = 16;  // of one digest: then all bytes are sent; heuristic

}  // namespace

IdentityAnswer Identities::find(const Hash128& hash, const std::optional<HeldVersion>& at_hand) {
  const auto is_of = [&](const Identity& each) { return each.version.hash == hash; };
  if (const auto made = std::ranges::find_if(made_, is_of); made != made_.end())
    return {hash, *made, false};
  if (making_ != nullptr && making_->of.hash == hash) return {hash, {}, true};
  if (std::ranges::find(wanted_, hash, &HeldVersion::hash) != wanted_.end())
    return {hash, {}, true};
  if (!at_hand || wanted_.size() >= kMaxWanted || std::ranges::count(given_up_, hash) > 0)
    return {};
  wanted_.push_back(*at_hand);
  return {hash, {}, true};
}

void Identities::begin(std::optional<UpdateMaker::Arrays> arrays) {
  if (making_ == nullptr) {
    making_.reset(new Making{wanted_.front(), model::StateIdentity(schema_digest_), {}, 0});
    wanted_.pop_front();
  }
  making_->arrays = std::move(arrays);
  if (!making_->arrays) give_up();
}

std::optional<Identity> Identities::work(const codec::BlockMap& map) {
  const Result<bool> whole = making_->digest.step(map, making_->arrays->input(), kDigestedBlocks);
  if (whole.ok() && !*whole) return {};
  const Result<Digest256> digest =
      whole.ok() ? making_->digest.finish() : Result<Digest256>(whole.status());
  if (!digest.ok()) {
    log_error("replication: version {} has no digest: {}", making_->of.version,
              digest.status().message());
    give_up();
    return {};
  }
  Identity made;
  made.version = making_->of;
  made.schema_hash = schema_hash_;
  made.digest = *digest;
  making_ = nullptr;
  return made;
}

void Identities::keep(Identity identity) {
  made_.push_back(std::move(identity));
  if (made_.size() > kMaxKept) made_.pop_front();
}

void Identities::rest(Rest why) {
  if (!is_at_work()) return;
  making_->arrays.reset();
  if (why == Rest::kForAVersion && ++making_->interruptions > kMaxInterruptions) give_up();
}

void Identities::give_up() {
  given_up_.push_back(making_->of.hash);
  if (given_up_.size() > kMaxKept) given_up_.pop_front();
  making_ = nullptr;
}

}  // namespace sparcl::replication
