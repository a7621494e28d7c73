#include "src/elastic/contributor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <utility>

#include "src/base/log.hpp"
#include "src/replication/service_security.hpp"

namespace sparcl::elastic {
namespace {

using aggregate::Answer;
using replication::MessageLink;
using replication::MessageType;

constexpr double kEarlyPause = 0.2;  // seconds until an early one is offered again

aggregate::WorkerId random_worker() {
  std::random_device device;
  return static_cast<std::uint64_t>(device()) << 32 | device();
}

}  // namespace

Result<std::unique_ptr<Contributor>> Contributor::create(UplinkOptions options,
                                                         const std::string& key_path) {
  options.enroll.worker = random_worker();
  std::unique_ptr<Contributor> made(new Contributor);
  made->said_ = options.enroll;
  made->key_file_ = FileStamp(key_path);  // before it is read
  if (!key_path.empty()) {
    SPARCL_ASSIGN_OR_RETURN(made->keys_, trust::SigningKeys::load(key_path));
  }
  SPARCL_ASSIGN_OR_RETURN(made->uplink_, Uplink::create(std::move(options), *made));
  SPARCL_RETURN_IF_ERROR(made->uplink_->start());
  return made;
}

Status Contributor::claim(std::uint64_t round) {
  const std::lock_guard lock(mutex_);
  if (round <= last_round_)
    return Status(Code::kInvalidUsage,
                  fmt::format("this worker has contributed to round {} already: get the next "
                              "version first",
                              round));
  last_round_ = round;
  return {};
}

bool Contributor::has_room() {
  const std::lock_guard lock(mutex_);
  if (pending_.size() < kMaxPending) return true;
  ++counts_.deferred;
  return false;
}

void Contributor::begin_anew() {
  const std::lock_guard lock(mutex_);
  pending_.clear();
  last_round_ = 0;
  changed_.notify_all();
}

void Contributor::contribute(std::uint64_t round, double weight, Packed packed) {
  const std::lock_guard lock(mutex_);
  rests_ = false;
  packed.offered.round = round;
  packed.offered.weight = weight;
  pending_.push_back({round, std::move(packed), false});
  ++counts_.offered;
  uplink_->wake();
}

std::vector<Packed> Contributor::take_refused() {
  const std::lock_guard lock(mutex_);
  return std::exchange(refused_, {});
}

Status Contributor::wait_all(double seconds) {
  std::unique_lock lock(mutex_);
  rests_ = true;
  uplink_->wake();
  const std::chrono::duration<double> wait(std::clamp(seconds, 0.0, 1e8));
  (void)changed_.wait_for(lock, wait, [&] { return pending_.empty(); });
  if (pending_.empty()) return {};
  const Status why = uplink_->trouble();
  return Status(Code::kTimeout, fmt::format("{} contributions are in no committed round yet{}{}",
                                            pending_.size(), why.ok() ? "" : ": ", why.message()));
}

Contributor::Counts Contributor::counts() const {
  const std::lock_guard lock(mutex_);
  Counts counts = counts_;
  counts.connects = uplink_->connections();
  return counts;
}

Contributor::Pending* Contributor::find(std::uint64_t round) {
  const auto found = std::ranges::find(pending_, round, &Pending::round);
  return found == pending_.end() ? nullptr : &*found;
}

// --- the uplink's thread ---

// A file that was changed is read again. One that cannot be used changes nothing.
void Contributor::look_at_keys() {
  if (!key_file_.has_changed()) return;
  Result<trust::SigningKeysRef> keys = trust::SigningKeys::load(key_file_.path());
  if (!keys.ok())
    return replication::warn_of_changed_file(troubles_, keys.status(), uplink_->clock().now());
  key_file_.keep();
  keys_ = std::move(*keys);
}

WorkerClaim Contributor::claim() const {
  return {nonce_, said_.model_id, said_.schema_hash, said_.worker};
}

Status Contributor::challenged(MessageLink& link) {
  SPARCL_ASSIGN_OR_RETURN(const NonceTold told, parse_nonce(link.content()));
  look_at_keys();
  nonce_ = told.nonce;
  Join join{++joins_, {}};
  if (keys_ != nullptr) join.signatures = keys_->sign(signed_bytes(claim(), said_.number, joins_));
  link.queue(MessageType::kJoin, std::span<const std::byte>(serialise(join)));
  return {};
}

void Contributor::connected(const Enrolled& /*enrolled*/, const std::string& /*results*/) {
  has_said_rest_ = false;
  in_transit_ = 0;
  const std::lock_guard lock(mutex_);
  for (Pending& each : pending_) each.is_offered = false;
}

Status Contributor::hear(MessageLink& link) {
  switch (link.type()) {
    case MessageType::kWanted: {
      SPARCL_ASSIGN_OR_RETURN(const Wanted wanted, parse_wanted(link.content()));
      send_bytes(link, wanted.round);
      return {};
    }
    case MessageType::kFate:
      return take_fate(link.content());
    default:
      return replication::out_of_place(link.type());
  }
}

// Contributions one after the other, in their order.
void Contributor::speak(MessageLink& link) {
  if (in_transit_ != 0 || uplink_->clock().now() < early_until_) return;
  const std::lock_guard lock(mutex_);
  const auto next = std::ranges::find(pending_, false, &Pending::is_offered);
  if (next == pending_.end()) {
    if (rests_ && !std::exchange(has_said_rest_, true))
      link.queue(MessageType::kRest, std::span<const std::byte>());
    return;
  }
  has_said_rest_ = false;
  next->is_offered = true;
  in_transit_ = next->round;
  Offered& offered = next->packed.offered;
  if (keys_ != nullptr) offered.signatures = keys_->sign(signed_bytes(claim(), offered));
  link.queue(MessageType::kContribution, std::span<const std::byte>(serialise(offered)));
}

void Contributor::send_bytes(MessageLink& link, std::uint64_t round) {
  const std::lock_guard lock(mutex_);
  const Pending* const pending = find(round);
  if (pending == nullptr) return;
  const Buffer& bytes = pending->packed.bytes;
  for (std::uint64_t at = 0; at < bytes.size(); at += replication::kMaxChunkBytes) {
    const std::size_t count =
        std::min<std::uint64_t>(replication::kMaxChunkBytes, bytes.size() - at);
    link.queue_chunk({round, at}, bytes.slice(at, count));
  }
}

Status Contributor::take_fate(std::span<const std::byte> content) {
  SPARCL_ASSIGN_OR_RETURN(const FateTold fate, parse_fate(content));
  const std::lock_guard lock(mutex_);
  if (fate.round == in_transit_) in_transit_ = 0;
  Pending* const pending = find(fate.round);
  if (pending == nullptr) return {};
  switch (fate.kind) {
    case Answer::Kind::kListed:  // and not committed yet
      return {};
    case Answer::Kind::kEarly:  // it was made for a version that this aggregator does not have yet
      pending->is_offered = false;
      early_until_ = uplink_->clock().now() + kEarlyPause;
      return {};
    case Answer::Kind::kCommitted:
      ++counts_.committed;
      counts_.late += fate.in_round > fate.round ? 1 : 0;
      break;
    case Answer::Kind::kRefused:
      ++counts_.refused;
      log_warn("aggregate: the contribution to round {} is refused: {}", fate.round, fate.reason);
      refused_.push_back(std::move(pending->packed));
      break;
    case Answer::Kind::kForgotten:  // it may have been counted: it is not sent again
      log_warn("aggregate: the contribution to round {} is so old that its fate is not known",
               fate.round);
      break;
  }
  std::erase_if(pending_, [&](const Pending& each) { return each.round == fate.round; });
  changed_.notify_all();
  return {};
}

}  // namespace sparcl::elastic
