#include "src/replication/replica_machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <utility>

#include "src/base/log.hpp"
#include "src/codec/wire.hpp"

namespace sparcl::replication {
namespace {

constexpr std::size_t kMaxAnnounced = 1024;
constexpr std::size_t kStagedRoom = 4;  // more than are ever staged
// Until a giver offers all bytes of what it holds; both heuristic.
constexpr double kGiverPatience = 1;       // seconds
constexpr double kMakingRate = 128 << 20;  // bytes a second

}  // namespace

bool is_lasting(Code trouble) {
  return trouble == Code::kMismatch || trouble == Code::kUnauthorized ||
         trouble == Code::kUnsupported;
}

ReplicaMachine::ReplicaMachine(Options options, const UpstreamView& publisher,
                               const UpstreamView& parent, const Hash128& brought_hash)
    : options_(std::move(options)),
      publisher_(publisher),
      parent_view_(parent),
      held_{0, brought_hash},
      side_files_(options_.side_files),
      freshness_(options_.max_age_s),
      only_told_(options_.only_told) {
  staged_.reserve(kStagedRoom);  // so that an update goes back there without memory
  if (!options_.latest) return;
  latest_epoch_ = options_.latest->commit.epoch;
  latest_version_ = options_.latest->commit.version;
  proof_ = std::make_shared<const Offer>(*options_.latest);
}

// --- the held version, and the next ---

const StagedUpdate* ReplicaMachine::last_staged() const {
  if (!staged_.empty()) return staged_.back().get();
  const auto* applying = std::get_if<replica_phase::Applying>(&writer_);
  return applying != nullptr ? applying->update.get() : nullptr;
}

std::size_t ReplicaMachine::chain_length() const {
  return staged_.size() + (is<replica_phase::Applying>(writer_) ? 1 : 0);
}

HeldVersion ReplicaMachine::tip() const {
  const StagedUpdate* last = last_staged();
  return last != nullptr ? last->update().target() : held_;
}

// The messages have a byte for it.
std::uint8_t ReplicaMachine::ahead() const {
  return static_cast<std::uint8_t>(std::min<std::size_t>(chain_length(), UINT8_MAX));
}

LatestHeld ReplicaMachine::latest() const {
  return {latest_epoch_, latest_version_,
          proof_ != nullptr ? std::optional(*proof_) : std::nullopt};
}

const StagedUpdate* ReplicaMachine::incoming() const {
  if (const auto* at = std::get_if<replica_phase::Receiving>(&transfer_)) return at->update.get();
  if (const auto* at = std::get_if<replica_phase::Partial>(&transfer_)) return at->update.get();
  if (const auto* at = std::get_if<replica_phase::AwaitsAnnouncement>(&transfer_))
    return at->partial.get();
  return nullptr;
}

// --- greetings ---

Hello ReplicaMachine::hello(UpstreamKind to, const HelloFacts& facts) {
  const auto* brought = std::get_if<replica_phase::Brought>(&bytes_);
  const auto* damaged = std::get_if<replica_phase::Damaged>(&bytes_);
  const bool to_publisher = to == UpstreamKind::kPublisher;
  const bool says_damage = to_publisher && damaged != nullptr && chain_length() == 0 &&
                           !damaged->blocks.block_hashes.empty() && !only_told_;
  if (to_publisher) told_damage_.clear();
  if (says_damage) told_damage_ = serialise(damaged->blocks);
  const std::uint64_t stop = tell_stop();
  if (to_publisher) told_pin_ = stop;
  told_held_ = held_;
  return {kProtocolVersion,
          options_.model_id,
          options_.schema_hash,
          codec::kWireVersion,
          held_,
          tip(),
          ahead(),
          options_.silence_ms,
          facts.port,
          facts.shares_memory,
          options_.name,
          stop,
          says_damage,
          is_vouched(),
          tip_is_vouched(),
          options_.holds_copy && brought != nullptr && brought->may_ask_for_blocks &&
              chain_length() == 0,
          latest(),
          to_publisher ? receipt_ : Receipt{},
          to_publisher && options_.gives_bytes && facts.port != 0,
          to_publisher ? options_.takes_bytes && !was_misled_
                       : parent() != nullptr && parent()->giver.has_value(),
          to_publisher && only_told_};
}

Status ReplicaMachine::on_welcome(UpstreamKind from, const Welcome& welcome) {
  if (welcome.protocol != kProtocolVersion) {
    return Status(Code::kUnsupported,
                  fmt::format("it speaks version {} of the replication protocol, this replica "
                              "version {}: install the same sparcl on both sides",
                              welcome.protocol, kProtocolVersion));
  }
  if (welcome.model_id != options_.model_id) {
    return Status(Code::kMismatch, fmt::format("it has the model '{}', this replica wants '{}'",
                                               welcome.model_id, options_.model_id));
  }
  if (from == UpstreamKind::kParent) {
    // Applied since the HELLO.
    if (held_ != told_held_)
      act(replica_action::Offer{from, {AckStage::kHeld, held_, is_vouched()}});
    return {};
  }
  if (!told_damage_.empty())
    act(replica_action::Send{from, MessageType::kDamage, std::exchange(told_damage_, {})});
  // The publisher knows nothing of a parent that it may have given before.
  act(replica_action::Leave{UpstreamKind::kParent});
  source_ = replica_phase::FromPublisher{};
  interrupt();
  placements_ = 0;
  announced_.clear();
  comparison_.reset();
  newest_ = welcome.newest;
  if (only_told_) act(replica_action::WakeUser{});
  receipt_ = welcome.receipt;
  side_files_.on_welcome(welcome.epoch != publisher_epoch_);
  if (side_files_.is_on()) {
    const Digest256 known = side_files_.known();
    act(replica_action::Expect{from, MessageType::kSideFiles});
    act(replica_action::Send{from, MessageType::kSideWanted, {known.begin(), known.end()}});
  }
  if (welcome.relay_key) act(replica_action::SetRelayKey{*welcome.relay_key});
  forget_other_epochs(welcome.epoch);
  forget_trouble();
  has_news_ = holds_published();
  log_info("replication: connected to {}, whose newest version is {}", publisher_.who(), newest_);
  return {};
}

// The updates that wait here are of an earlier publisher, and so are those that others could take.
// This publisher may have gone on from another version. It was told of the updates that wait, so it
// is told anew.
void ReplicaMachine::forget_other_epochs(std::uint64_t epoch) {
  act(replica_action::SetEpoch{epoch});
  if (std::exchange(publisher_epoch_, epoch) == epoch) return;
  if (options_.only_told) on_only_told(true);  // another publisher was asked for updates
  freshness_.on_new_epoch();
  act(replica_action::StopPassingOn{});
  transfer_ = replica_phase::NoUpdate{};
  if (chain_length() == 0) return;
  staged_.clear();
  must_begin_anew_ = true;
}

void ReplicaMachine::on_newest(UpstreamKind from, std::uint64_t version) {
  if (from != UpstreamKind::kPublisher || version <= newest_) return;
  newest_ = version;
  if (only_told_) act(replica_action::WakeUser{});
}

// The publisher hears it by a new HELLO.
void ReplicaMachine::on_only_told(bool only_told) {
  if (std::exchange(only_told_, only_told) == only_told) return;
  staged_.clear();
  transfer_ = replica_phase::NoUpdate{};
  comparison_.reset();
  must_begin_anew_ = true;
}

// To the publisher, which counts; to a parent, which need not wait before it sends more.
void ReplicaMachine::tell(const Ack& ack) {
  if (publisher_.is_ready()) act(replica_action::Offer{UpstreamKind::kPublisher, ack});
  if (parent_view_.is_ready()) act(replica_action::Offer{UpstreamKind::kParent, ack});
}

void ReplicaMachine::on_turn() {
  if (!publisher_.is_ready()) return;
  if (std::exchange(has_news_, false)) tell(Ack{AckStage::kHeld, held_, is_vouched()});
  const std::uint64_t stop = tell_stop();
  if (std::exchange(told_pin_, stop) != stop)
    send(UpstreamKind::kPublisher, MessageType::kPin, replication::Pin{stop});
}

// --- messages ---

Status ReplicaMachine::on_message(UpstreamKind from, MessageType type,
                                  std::span<const std::byte> content, double now) {
  const auto parsed = [](auto message, auto&& use) {
    return message.ok() ? use(std::move(*message)) : message.status();
  };
  const bool is_publisher = from == UpstreamKind::kPublisher;
  if (type == MessageType::kParent && is_publisher)
    return parsed(parse_parent(content),
                  [&](const Parent& each) { return take_parent(each, now); });
  if (type == MessageType::kAnnounce && is_publisher)
    return parsed(parse_offer(content),
                  [&](Offer each) { return take_announce(std::move(each), now); });
  if (type == MessageType::kFresh && is_publisher)
    return parsed(parse_fresh(content), [&](const Fresh& each) { return take_fresh(each); });
  if (type == MessageType::kSideFiles && is_publisher && side_files_.is_on())
    return parsed(parse_side_file_set(content),
                  [&](SideFileSet each) { return take_side_files(std::move(each)); });
  if (type == MessageType::kIdentity && is_publisher)
    return parsed(parse_identity(content), [&](Identity each) {
      return each.placement != 0 ? take_vouch(std::move(each), now)
                                 : take_identity(std::move(each));
    });
  return out_of_place(type);
}

// --- where updates come from ---

Status ReplicaMachine::take_parent(const Parent& placed, double now) {
  if (only_told_) return out_of_place(MessageType::kParent);
  placements_ = placed.number;
  if (!placed.address) {
    // Even if it has left its parent just now: the publisher waits for the answer to this message.
    const replica_phase::FromParent* at = parent();
    come_back(at != nullptr ? at->progress.verdict(newest_, now)
                                  .with_prefix(fmt::format("{}: ", parent_view_.who()))
                            : Status());
    return {};
  }
  act(replica_action::Leave{UpstreamKind::kParent});
  interrupt();
  source_ = replica_phase::FromParent{now, {}, {}};
  if (placed.gives_bytes) {
    const double seconds = static_cast<double>(options_.max_stream_bytes) / kMakingRate;
    parent()->giver = replica_phase::Giver{now + kGiverPatience + seconds, {}};
  }
  act(replica_action::ConnectParent{*placed.address, placed.ticket});
  return {};
}

Status ReplicaMachine::take_announce(Offer announced, double now) {
  on_newest(UpstreamKind::kPublisher, announced.commit.version);
  announced_.push_back(std::move(announced.commit));
  if (announced_.size() > kMaxAnnounced) announced_.pop_front();
  auto* awaits = std::get_if<replica_phase::AwaitsAnnouncement>(&transfer_);
  if (awaits == nullptr || awaits->offer.commit != announced_.back()) return {};
  if (options_.trusted) return {};  // it is not signed: it waits for an IDENTITY
  Offer offer = std::move(awaits->offer);
  interrupt();
  const Status status = accept_offer(std::move(offer), nullptr, now);
  if (!status.ok() && parent() != nullptr) act(replica_action::Part{UpstreamKind::kParent, status});
  return {};
}

void ReplicaMachine::leave_parent(const Status& why) {
  if (parent() != nullptr) come_back(why);
}

// Updates come from the publisher again, which is told.
void ReplicaMachine::come_back(const Status& why) {
  act(replica_action::Leave{UpstreamKind::kParent});
  source_ = replica_phase::FromPublisher{};
  interrupt();
  if (!publisher_.is_ready()) return;
  send(UpstreamKind::kPublisher, MessageType::kOrphan,
       Orphan{placements_, tip(), ahead(), why.code(), why.message(), tip_is_vouched()});
  act(replica_action::Flush{UpstreamKind::kPublisher});
}

// The bytes that have come stay. The rest of the update is asked for when the publisher is back, or
// from the publisher if a parent fails.
void ReplicaMachine::on_parted(UpstreamKind from, const Status& why, bool was_refused, double now) {
  if (from == sender()) interrupt();
  if (from == UpstreamKind::kParent) return leave_parent(why);
  if (was_refused) {
    const std::uint64_t times = warnings_.count(why.message(), now);
    if (times > 0) log_warn("replication: {}{}", why.message(), times_text(times));
  }
  trouble_ = why;
  if (!is_lasting(why.code())) return;
  lasting_ = why;
  act(replica_action::WakeUser{});
}

// --- the thread ---

void ReplicaMachine::on_tick(double now) {
  leave_if_not_announced();
  leave_if_not_given(now);
  if (replica_phase::FromParent* at = parent())
    at->progress.want(at->giver ? is_receiving() : wants_from_parent(), now);
  leave_if_silent(now);
  look_at_age(now);
}

// The announcement comes by itself, and soon. A publisher that is not heard any more says nothing
// against the offer.
void ReplicaMachine::leave_if_not_announced() {
  const auto* awaits = std::get_if<replica_phase::AwaitsAnnouncement>(&transfer_);
  if (awaits == nullptr || publisher_.heard() - awaits->since <= ParentProgress::kPatience) return;
  if (parent() != nullptr && parent()->giver) return;  // it has a deadline of its own
  leave_parent(Status(
      Code::kUnauthorized,
      fmt::format("{}: it offers version {} by an update that the publisher has not announced",
                  parent_view_.who(), awaits->offer.commit.version)));
}

void ReplicaMachine::leave_if_silent(double now) {
  const replica_phase::FromParent* at = parent();
  // More than the newest: of an earlier publisher's.
  if (at == nullptr || tip().version == newest_) return;
  const bool is_ready = parent_view_.is_ready();
  const double since = is_ready ? parent_view_.heard() : at->since;
  if (now - since <= ParentProgress::kPatience) return;
  leave_parent(
      Status(is_ready ? Code::kTimeout : Code::kRemoteError,  // it may be out of reach from here
             fmt::format("{}: nothing came for {:g} s, and there is a newer version",
                         parent_view_.who(), ParentProgress::kPatience)));
}

// Another parent might give it.
bool ReplicaMachine::wants_from_parent() const {
  return newest_ > tip().version && may_come_more();
}

void ReplicaMachine::on_begin_anew() {
  source_ = replica_phase::FromPublisher{};
  interrupt();
  must_begin_anew_ = false;
}

void ReplicaMachine::on_failed_turn(Status why) {
  transfer_ = replica_phase::NoUpdate{};
  trouble_ = std::move(why);
}

void ReplicaMachine::log_trouble(double now) {
  const std::uint64_t times = warnings_.count(trouble_.message(), now);
  if (times > 0) log_error("replication: {}{}", trouble_.message(), times_text(times));
}

}  // namespace sparcl::replication
