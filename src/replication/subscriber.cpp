#include "src/replication/subscriber.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <new>
#include <thread>

#include "src/base/log.hpp"
#include "src/codec/wire.hpp"
#include "src/replication/process_name.hpp"

namespace sparcl::replication {
namespace {

constexpr std::uint64_t kBlocksPerCheck =
    16;  // checked while the lock is held, and others wait for bytes: half a millisecond or so
constexpr double kQuietSeconds =
    0.0001;  // without a byte, then there is time for checks; both heuristic (bench_replication)
constexpr double kLastRetry = 1;  // seconds
constexpr double kLastRefusedRetry =
    16;  // the same, after what waiting alone does not cure; heuristic
constexpr double kTickSeconds = 0.1;
constexpr double kLookupPatience = 2;  // seconds, then users hear that the resolver is at it
constexpr std::size_t kMaxAhead =
    2;  // updates that a parent sends before it hears that they are applied (Session)
constexpr double kLongestUnchecked = 0.005;  // seconds, while bytes come

// It lasts until somebody changes this replica, or the publisher.
bool is_lasting(Code trouble) {
  return trouble == Code::kMismatch || trouble == Code::kUnauthorized ||
         trouble == Code::kUnsupported;
}

}  // namespace

Subscriber::~Subscriber() { (void)thread_.stop(); }

// --- what users call ---

Subscriber::Versions Subscriber::versions() const {
  const std::lock_guard lock(mutex_);
  return {holds_published_ ? shown_version() : 0, newest_};
}

Subscriber::Incoming Subscriber::incoming() const {
  const std::lock_guard lock(mutex_);
  if (incoming_ == nullptr) return {};
  return {incoming_->commit().version, incoming_->received_bytes(),
          incoming_->commit().stream_bytes};
}

const std::byte* Subscriber::array(std::size_t i) const {
  const std::lock_guard lock(mutex_);
  return buffers_ != nullptr ? buffers_->front()[i] : state_.arrays[i];
}

Status Subscriber::pin(std::uint64_t version) {
  const std::lock_guard lock(mutex_);
  const bool is_held = holds_published_ && version == held_.version;
  if (version != 0 && !is_held && way_back_.to() && version == way_back_.to()->version &&
      !is_applying_) {
    back_ = Back::kWanted;
  } else if (version != 0 && holds_published_ && version < held_.version) {
    const std::string back =
        is_applying_     ? "and is going on to a newer one"
        : way_back_.to() ? fmt::format("and can go back to version {} alone, which it held before",
                                       way_back_.to()->version)
                         : fmt::format("and there is no way back: {}", way_back_.why());
    return Status(Code::kInvalidUsage,
                  fmt::format("version {} is past: this replica holds version {} already, {}",
                              version, held_.version, back));
  } else if (back_ != Back::kThere || !is_held) {
    back_ = Back::kNo;
  }
  if (std::exchange(pin_, version) != version && version != 0) drop_past_pin();
  came_.notify_all();
  wake_.wake();
  return {};
}

// What leads past it from before it, and what comes after that: the publisher may have a way that
// does not pass it by.
void Subscriber::drop_past_pin() {
  std::uint64_t before = held_.version;
  std::size_t kept = 0;
  const auto passes = [&](const StagedUpdate& update) {
    const std::uint64_t version = update.commit().version;
    return std::exchange(before, version) < pin_ && version > pin_;
  };
  while (kept < staged_.size() && !passes(*staged_[kept])) ++kept;
  if (kept == staged_.size() && (incoming_ == nullptr || !passes(*incoming_))) return;
  staged_.resize(std::max<std::size_t>(kept, is_applying_ ? 1 : 0));  // next() is at the first
  incoming_ = nullptr;
  is_requested_ = false;
  is_elsewhere_ = true;
}

LatestHeld Subscriber::latest() const {
  const std::lock_guard lock(mutex_);
  return latest_held();
}

Status Subscriber::trouble() const {
  const std::lock_guard lock(mutex_);
  return trouble_;
}

std::string Subscriber::publisher() const {
  const std::lock_guard lock(mutex_);
  return publisher_.name();
}

// --- the thread ---

void Subscriber::serve(const net::ServiceThread::Stop& stop) {
  std::vector<pollfd> entries;
  while (!stop.is_asked()) {
    try {
      turn(stop, entries);
    } catch (const std::exception& error) {
      try {
        recover(error);
      } catch (const std::exception&) {  // the next turn begins anew
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
    }
  }
  const std::lock_guard lock(mutex_);
  if (is_elsewhere_)
    begin_anew(clock_.now());  // a goodbye would say that it holds what it does not
  acknowledge();
  publisher_.leave();
  parent_.leave();
  relay_.close();
}

void Subscriber::turn(const net::ServiceThread::Stop& stop, std::vector<pollfd>& entries) {
  double until = 0;
  std::unique_ptr<StagedUpdate> applied;
  {
    const std::lock_guard lock(mutex_);
    applied = std::move(applied_);
    const double now = clock_.look();
    if (publisher_.is_apart() && now >= retry_at_ && !lookup_.is_under_way())
      look_publisher_up(now);
    entries.assign({{stop.fd(), POLLIN, 0},
                    {wake_.fd(), POLLIN, 0},
                    {lookup_.fd(), POLLIN, 0},
                    {publisher_.fd(), publisher_.events(), 0},
                    {parent_.fd(), parent_.events(), 0}});
    relay_.add_entries(entries, now);
    until = now + kTickSeconds;
    if (publisher_.is_apart() && !lookup_.is_under_way()) until = std::min(until, retry_at_);
    if (has_checks())
      until = std::min(until, std::max(checks_from_, is_requested_ ? now + kQuietSeconds : now));
    if (may_sweep()) until = std::min(until, std::max(now, sweep_.due()));
    if (may_compare())
      until = std::min(until, now + kQuietSeconds);  // in which next() may have its turn
  }
  applied = nullptr;  // its memory, without the lock
  const bool is_quiet = clock_.poll(entries, until) == 0;
  const std::lock_guard lock(mutex_);
  if (entries[1].revents != 0) wake_.drain();
  const double now = clock_.look();
  if (is_elsewhere_) begin_anew(now);
  // Bytes first, as others may wait for them; but not for ever.
  if (is_quiet || now - checked_at_ > kLongestUnchecked) {
    check_on(now);
    checked_at_ = now;
  }
  if (lookup_.is_under_way()) connect_publisher(now);
  move_on(std::span(entries).subspan(3), now);
  sweep_on(now);
  compare_on(now);
}

// For want of memory, as likely as not: what was coming is given up, and asked for again a little
// later.
void Subscriber::recover(const std::exception& error) {
  const std::lock_guard lock(mutex_);
  const double now = clock_.look();
  incoming_ = nullptr;
  is_elsewhere_ = true;
  begin_anew(now);
  retry_at_ = now + kLastRetry;
  const bool is_memory = dynamic_cast<const std::bad_alloc*>(&error) != nullptr;
  try {
    trouble_ = is_memory ? Status(Code::kOutOfMemory,
                                  "there is no memory for what comes; it is asked for again")
                         : Status(Code::kSystemError,
                                  fmt::format("what comes could not be taken: {}", error.what()));
    const std::uint64_t times = warnings_.count(trouble_.message(), now);
    if (times > 0) log_error("replication: {}{}", trouble_.message(), times_text(times));
  } catch (const std::bad_alloc&) {
    trouble_ = no_memory();
  }
}

// What all others know of this replica is wrong: those that take from it, who find others, and the
// publisher.
void Subscriber::begin_anew(double now) {
  relay_.start_over();
  relay_.close();
  parent_.leave();
  publisher_.leave(true);
  has_parent_ = is_requested_ = false;
  retry_at_ = now;
  retry_s_ = kFirstRetry;
  is_elsewhere_ = false;
}

bool Subscriber::may_sweep() const {
  return holds_published_ && !is_applying_ && !is_going_back_ && !has_checks();
}

// What is found damaged is no version: the blocks that are not are asked for, or all of it.
void Subscriber::sweep_on(double now) {
  if (!may_sweep() || now < sweep_.due()) return;
  try {
    damage_ = sweep_.step(state_, held_, way_back_, now);
  } catch (const std::bad_alloc&) {
    return sweep_.rest(now + kLastRetry);
  }
  if (damage_.ok()) return;
  way_back_.lose("what the tensors held was found damaged");
  held_ = {0, sweep_.found()};
  holds_published_ = false;
  trust_ = Trust::kDamaged;
  back_ = Back::kNo;
  staged_.clear();
  incoming_ = nullptr;
  is_elsewhere_ = true;
  came_.notify_all();
  log_error("replication: {}", damage_.message());
}

// What it holds is what the sweep has found, and no update is to come after it.
bool Subscriber::can_be_repaired() const {
  return !holds_published_ && staged_.empty() && !sweep_.block_hashes().empty() &&
         held_.hash == sweep_.found();
}

void Subscriber::look_publisher_up(double now) {
  looked_up_at_ = now;
  if (const Status status = lookup_.start(where_); !status.ok()) miss_publisher(status, now);
}

// To one of its addresses each time.
void Subscriber::connect_publisher(double now) {
  net::Addresses found =
      Status(Code::kSystemError,
             fmt::format("publisher {}: the system's resolver has no answer yet", address_));
  if (!lookup_.take(found)) {
    if (trouble_.ok() && now - looked_up_at_ > kLookupPatience) trouble_ = found.status();
    return;
  }
  if (!found.ok()) return miss_publisher(found.status(), now);
  Result<net::Socket> socket = start_connect((*found)[attempts_++ % found->size()]);
  if (!socket.ok()) return miss_publisher(socket.status(), now);
  publisher_.connect(std::move(*socket), address_, now);
}

void Subscriber::miss_publisher(const Status& why, double now) {
  publisher_.connect(net::Socket(), address_, now);
  publisher_.part(why, now);
}

void Subscriber::move_on(std::span<const pollfd> entries, double now) {
  publisher_.step(entries[0].revents, now);
  parent_.step(entries[1].revents, now);
  acknowledge();
  say_pin();
  if (holds_published_) relay_.hold(held_);
  relay_.step(entries.subspan(2), now);
  tick(now);
}

void Subscriber::tick(double now) {
  publisher_.tick(held_.version, now);
  parent_.tick(held_.version, now);
  leave_parent_whose_offer_is_unknown(now);
  progress_.want(wants_from_parent(), now);
  if (!has_parent_ || tip().version == newest_)
    return;  // more than the newest: of an earlier publisher's
  const double since = parent_.is_ready() ? parent_.heard() : parent_since_;
  if (now - since > ParentProgress::kPatience) {
    const Code code = parent_.is_ready()
                          ? Code::kTimeout
                          : Code::kRemoteError;  // it cannot be reached from here, maybe
    leave_parent(
        Status(code, fmt::format("{}: nothing came for {:g} s, and there is a newer version",
                                 parent_.who(), ParentProgress::kPatience)),
        now);
  }
}

// Another parent might give it.
bool Subscriber::wants_from_parent() const {
  return has_parent_ && newest_ > tip().version && staged_.size() < kMaxAhead;
}

Hello Subscriber::hello(const Upstream& to) {
  const bool is_damaged = &to == &publisher_ && can_be_repaired();
  said_damage_.clear();
  if (is_damaged) said_damage_ = serialise(Damage{sweep_.wanted(), sweep_.block_hashes()});
  if (const Result<net::NetAddress> own = publisher_.own_address(); options_.passes_on && own.ok())
    relay_.open(*own);
  said_held_ = held_;
  said_pin_ = pin_;
  return {
      kProtocolVersion,
      options_.model_id,
      state_.schema_hash,
      codec::kWireVersion,
      held_,
      tip(),
      ahead(),
      to_ms(options_.silence_s),
      relay_.port(),
      options_.shares_memory && publisher_.shares_memory() && parent_.shares_memory(),
      name_.text(),
      pin_,
      is_damaged,
      is_vouched(),
      tip_is_vouched(),
      options_.holds_copy && may_ask_for_blocks_ && trust_ == Trust::kUnknown && staged_.empty(),
      latest_held(),
      &to == &publisher_ ? receipt_ : Receipt{}};
}

LatestHeld Subscriber::latest_held() const {
  return {latest_epoch_, latest_version_,
          proof_ != nullptr ? std::optional(*proof_) : std::nullopt};
}

// What has come stays: the rest of an update is asked for when the publisher is back, or of it
// where a parent fails.
void Subscriber::parted(Upstream& from, const Status& why, double now) {
  if (&from == &source()) is_requested_ = false;
  if (&from == &parent_) return leave_parent(why, now);
  if (from.was_refused()) {
    const std::uint64_t times = warnings_.count(why.message(), now);
    if (times > 0) log_warn("replication: {}{}", why.message(), times_text(times));
    retry_s_ = std::max(retry_s_, kLastRetry);
  }
  trouble_ = why;
  if (is_lasting(why.code())) {
    lasting_ = why;
    came_.notify_all();
  }
  const double longest = is_lasting(why.code()) ? kLastRefusedRetry : kLastRetry;
  retry_s_ = std::min(retry_s_, longest);
  retry_at_ = now + retry_s_;
  retry_s_ = std::min(2 * retry_s_, longest);
  relay_.close();  // or two replicas might come to take from each other
}

void Subscriber::leave_parent(const Status& why, double now) {
  if (has_parent_) come_back(why, now);
}

// What it takes comes from the publisher again, which is told.
void Subscriber::come_back(const Status& why, double now) {
  parent_.leave();
  has_parent_ = false;
  is_requested_ = false;
  awaited_offer_.reset();
  progress_.begin();
  if (!publisher_.is_ready()) return;
  publisher_.link().queue(MessageType::kOrphan, Orphan{placements_, tip(), ahead(), why.code(),
                                                       why.message(), tip_is_vouched()});
  publisher_.flush(now);
}

// A parent's word for it is none.
void Subscriber::hear_of(const Upstream& from, std::uint64_t version) {
  if (&from == &publisher_) newest_ = std::max(newest_, version);
}

Status Subscriber::take_welcome(Upstream& from, const Welcome& welcome) {
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
  if (&from == &publisher_ && !said_damage_.empty()) {
    from.link().queue(MessageType::kDamage,
                      std::span<const std::byte>(std::exchange(said_damage_, {})));
  }
  if (&from == &parent_) {
    // Applied since the hello.
    if (held_ != said_held_)
      parent_.link().queue(MessageType::kAck, Ack{AckStage::kHeld, held_, is_vouched()});
    return {};
  }
  // The publisher knows nothing of a parent that it may have given before.
  parent_.leave();
  has_parent_ = is_requested_ = false;
  placements_ = 0;
  announced_.clear();
  awaited_offer_.reset();
  comparison_ = nullptr;
  newest_ = welcome.newest;
  receipt_ = welcome.receipt;
  forget_other_epochs(welcome.epoch);
  forget_trouble();
  has_news_ = holds_published_;
  log_info("replication: connected to {}, whose newest version is {}", publisher_.who(), newest_);
  return {};
}

Status Subscriber::take(Upstream& from, double now) {
  const bool is_source = &from == &source();
  switch (from.link().type()) {
    case MessageType::kOffer:
      if (!is_source) break;
      return take_offer(now);
    case MessageType::kLeaves:
      if (!is_source) break;
      return take_leaves(now);
    case MessageType::kChunk:
      if (!is_source) break;
      return take_chunk(now);
    case MessageType::kCommit:
      if (!is_source) break;
      return take_commit();
    case MessageType::kParent:
      if (&from != &publisher_) break;
      return take_parent(now);
    case MessageType::kAnnounce:
      if (&from != &publisher_) break;
      return take_announce(now);
    case MessageType::kIdentity:
      if (&from != &publisher_) break;
      return take_identity();
    default:
      break;
  }
  return Status(Code::kCorrupt, fmt::format("a message of type {} is out of place here",
                                            static_cast<int>(from.link().type())));
}

// What waits here is of an earlier publisher, and so is what others could take from here: the one
// that is listened to now may have gone on from somewhere else. It was told of what waits: it is
// told anew.
void Subscriber::forget_other_epochs(std::uint64_t epoch) {
  relay_.set_epoch(epoch);
  if (std::exchange(publisher_epoch_, epoch) == epoch) return;
  relay_.start_over();
  incoming_ = nullptr;
  if (staged_.empty()) return;
  staged_.resize(is_applying_ ? 1 : 0);  // next() is at the first
  is_elsewhere_ = true;
}

Status Subscriber::take_parent(double now) {
  const Result<Parent> placed = parse_parent(publisher_.link().content());
  if (!placed.ok()) return placed.status();
  placements_ = placed->number;
  if (!placed->address) {
    // Even if it has left its parent just now: the publisher waits for the answer to this message.
    const Status verdict =
        has_parent_
            ? progress_.verdict(newest_, now).with_prefix(fmt::format("{}: ", parent_.who()))
            : Status();
    come_back(verdict, now);
    return {};
  }
  parent_.leave();
  has_parent_ = true;
  is_requested_ = false;
  awaited_offer_.reset();
  progress_.begin();
  parent_since_ = now;
  Result<net::Socket> socket = start_connect(*placed->address);
  parent_.connect(socket.ok() ? std::move(*socket) : net::Socket(), to_text(*placed->address), now);
  if (!socket.ok()) parent_.part(socket.status(), now);
  return {};
}

// The messages have a byte for it.
std::uint8_t Subscriber::ahead() const {
  return static_cast<std::uint8_t>(std::min<std::size_t>(staged_.size(), UINT8_MAX));
}

HeldVersion Subscriber::tip() const {
  return staged_.empty() ? held_ : staged_.back()->update().target();
}

// Each that waits leads on from the one before: only bytes of the publisher's own are accepted.
bool Subscriber::tip_is_vouched() const { return is_vouched() || !staged_.empty(); }

// To the publisher, which counts; to a parent, which need not wait before it sends more.
void Subscriber::tell(const Ack& ack) {
  if (publisher_.is_ready()) publisher_.link().queue(MessageType::kAck, ack);
  if (parent_.is_ready()) parent_.link().queue(MessageType::kAck, ack);
}

// It is of no use, and so is what came after it.
void Subscriber::refuse(const UpdateName& update, Status why, bool wants_anchor) try {
  relay_.start_over();
  staged_.resize(
      std::min<std::size_t>(staged_.size(), is_applying_ ? 1 : 0));  // next() is at the first
  incoming_ = nullptr;
  is_requested_ = false;
  const Status told = why.with_prefix(fmt::format("version {} is refused: ", update.version));
  const std::uint64_t times = warnings_.count(told.message(), clock_.now());
  if (times > 0) log_error("replication: {}{}", told.message(), times_text(times));
  if (has_parent_)
    return leave_parent(told, clock_.now());  // its fault: the publisher will know another way
  trouble_ = told;
  if (publisher_.is_ready())
    publisher_.link().queue(MessageType::kNack,
                            Nack{update, why.code(), wants_anchor, why.message()});
} catch (const std::bad_alloc&) {
  is_elsewhere_ = true;  // who could not be told learns it by a new hello
}

bool Subscriber::has_checks() const {
  if (is_applying_ || is_going_back_) return false;
  const StagedUpdate* first =
      staged_.empty() ? (is_requested_ ? incoming_.get() : nullptr) : staged_.front().get();
  return first != nullptr && first->has_checks();
}

// Checks a piece of what has come, if its base is what is held: so that next() has little to do.
void Subscriber::check_on(double now) {
  if (!has_checks() || now < checks_from_) return;
  StagedUpdate& first = staged_.empty() ? *incoming_ : *staged_.front();
  bool more = false;
  Status status = first.check(state_, held_, kBlocksPerCheck, more);
  if (status.code() == Code::kOutOfMemory) {
    trouble_ = std::move(status);
    checks_from_ = now + kLastRetry;
    return;
  }
  if (!status.ok()) return refuse(first.update().name(), std::move(status), true);
  if (std::exchange(checks_from_, 0) > 0 && trouble_.code() == Code::kOutOfMemory) trouble_ = {};
  if (!staged_.empty() && staged_.front()->is_checked()) came_.notify_all();
}

void Subscriber::say_pin() {
  if (!publisher_.is_ready() || said_pin_ == pin_) return;
  publisher_.link().queue(MessageType::kPin, Pin{pin_});
  said_pin_ = pin_;
}

void Subscriber::forget_trouble() { trouble_ = lasting_ = {}; }

void Subscriber::acknowledge() {
  if (publisher_.is_ready() && std::exchange(has_news_, false))
    tell(Ack{AckStage::kHeld, held_, is_vouched()});
}

}  // namespace sparcl::replication
