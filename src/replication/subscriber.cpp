#include "src/replication/subscriber.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <chrono>

#include "src/base/failpoint.hpp"
#include "src/base/log.hpp"
#include "src/codec/wire.hpp"
#include "src/replication/process_name.hpp"

namespace sparcl::replication {
namespace {

constexpr int kMessagesAtOnce = 32;          // then the clock is looked at
constexpr std::uint64_t kBlocksAtOnce = 64;  // checked while the lock is held: a millisecond or so; heuristic
constexpr double kFirstRetry = 0.05;         // seconds; twice as long each time
constexpr double kLastRetry = 1;
constexpr double kTickSeconds = 0.1;

// What an update of this state can be at most: all of it, with room for what frames it. More is a lie.
std::uint64_t most_stream_bytes(const codec::BlockMap& map) {
  return map.byte_count() + map.byte_count() / 8 + map.block_count() * 256 + (std::uint64_t{1} << 20);
}

}  // namespace

Result<std::unique_ptr<Subscriber>> Subscriber::create(const ReplicatedState& state, const std::string& address,
                                                       const SubscriberOptions& options) {
  const Result<HostPort> where = parse_host_port(address);
  if (!where.ok()) return where.status();
  std::unique_ptr<Subscriber> made(new Subscriber(state, options));
  made->where_ = *where;
  made->address_ = address;
  if (!options.trust_path.empty()) {
    Result<TrustedKeys> trusted = TrustedKeys::load(options.trust_path);
    if (!trusted.ok()) return trusted.status();
    made->trusted_ = std::move(*trusted);
  }
  Result<WakeEvent> wake = WakeEvent::create();
  if (!wake.ok()) return wake.status();
  made->wake_ = std::move(*wake);
  made->held_ = {0, state.hash()};
  Subscriber* own = made.get();
  SPARCL_RETURN_IF_ERROR(made->thread_.start("a subscriber", [own](const ServiceThread::Stop& stop) { own->serve(stop); }));
  return made;
}

Subscriber::Subscriber(const ReplicatedState& state, const SubscriberOptions& options)
    : state_(state), options_(options), retry_s_(kFirstRetry) {}

Subscriber::~Subscriber() { (void)thread_.stop(); }

// --- what users call ---

bool Subscriber::may_swap() const {
  return !staged_.empty() && staged_.front()->is_checked() && (pin_ == 0 || staged_.front()->commit().version <= pin_);
}

Result<Subscriber::Swap> Subscriber::next(double seconds) {
  const std::lock_guard one(using_);
  std::unique_lock lock(mutex_);
  const auto limit = std::chrono::duration<double>(std::clamp(seconds, 0.0, 1e8));
  Swap swap;
  if (came_.wait_for(lock, limit, [&] { return may_swap(); })) {
    Status status;
    // What came after it is checked here: its base is held only now.
    const auto leads_on = [&] { return !staged_.empty() && (pin_ == 0 || staged_.front()->commit().version <= pin_); };
    while (status.ok() && leads_on()) status = swap_front(lock, swap);
    wake_.wake();
    if (!status.ok() && swap.updates == 0) return status;
  }
  if (swap.updates > 0) {
    lock.unlock();
    if (options_.on_swap) options_.on_swap(swap.version);
    return swap;
  }
  if (!trouble_.ok()) return trouble_;
  return Status(Code::kTimeout, fmt::format("no newer version than {} has come within {:g} s{}", held_.version, seconds,
                                            pin_ != 0 ? fmt::format("; this replica is pinned to version {}", pin_) : ""));
}

// Applies the first of what is staged. An error leaves the arrays as they were; it is then gone, and what came after it.
Status Subscriber::swap_front(std::unique_lock<std::mutex>& lock, Swap& swap) {
  is_applying_ = true;
  StagedUpdate& front = *staged_.front();
  const HeldVersion held = held_;
  lock.unlock();
  Status status;
  for (bool more = true; status.ok() && more;) status = front.check(state_, held, UINT64_MAX, more);
  const double begin = monotonic_seconds();
  if (status.ok()) {
    SPARCL_FAILPOINT("subscriber.applying");
    status = front.apply();
  }
  swap.pause_s += monotonic_seconds() - begin;
  lock.lock();
  is_applying_ = false;
  const UpdateName name = front.update().name();
  if (!status.ok()) {
    refuse(name, status, true);
    return status;
  }
  held_ = front.update().target();
  epoch_ = front.commit().epoch;
  holds_published_ = has_news_ = true;
  newest_ = std::max(newest_, held_.version);
  swap.version = held_.version;
  swap.hash = held_.hash;
  swap.changed += front.commit().changed;
  swap.stream_bytes += front.commit().stream_bytes;
  swap.by_anchor = swap.by_anchor || front.commit().is_anchor;
  ++swap.updates;
  trouble_ = {};
  staged_.pop_front();
  return {};
}

Subscriber::Versions Subscriber::versions() const {
  const std::lock_guard lock(mutex_);
  return {holds_published_ ? held_.version : 0, newest_};
}

Status Subscriber::pin(std::uint64_t version) {
  const std::lock_guard lock(mutex_);
  if (version != 0 && holds_published_ && version < held_.version) {
    return Status(Code::kInvalidUsage,
                  fmt::format("version {} is past: this replica holds version {} already", version, held_.version));
  }
  pin_ = version;
  came_.notify_all();
  return {};
}

Status Subscriber::trouble() const {
  const std::lock_guard lock(mutex_);
  return trouble_;
}

std::string Subscriber::publisher() const {
  const std::lock_guard lock(mutex_);
  return publisher_;
}

// --- the thread ---

void Subscriber::serve(const ServiceThread::Stop& stop) {
  std::vector<pollfd> entries;
  while (!stop.is_asked()) {
    double until = 0;
    {
      std::unique_lock lock(mutex_);
      const double now = monotonic_seconds();
      if (phase_ == Phase::kApart && now >= retry_at_) {
        lock.unlock();
        look_for_publisher(now);  // the resolver may take its time
        lock.lock();
      }
      const short events = phase_ == Phase::kConnecting ? static_cast<short>(POLLOUT) : link_.events();
      entries.assign({{stop.fd(), POLLIN, 0}, {wake_.fd(), POLLIN, 0}, {link_.fd(), events, 0}});
      until = phase_ == Phase::kApart ? retry_at_ : now + kTickSeconds;
    }
    poll_until(entries, until);
    const std::lock_guard lock(mutex_);
    const double now = monotonic_seconds();
    if (entries[1].revents != 0) wake_.drain();
    step(entries[2].revents, now);
    check_on();
    tick(now);
  }
  const std::lock_guard lock(mutex_);
  if (phase_ == Phase::kReady) {
    link_.queue(MessageType::kBye, std::span<const std::byte>());
    (void)link_.flush();
  }
}

void Subscriber::look_for_publisher(double now) {
  const Result<std::vector<NetAddress>> found = resolve(where_);
  // One of its addresses each time.
  Result<Socket> socket = found.ok() ? start_connect((*found)[attempts_++ % found->size()]) : Result<Socket>(found.status());
  const std::lock_guard lock(mutex_);
  if (!socket.ok()) return part(socket.status(), now);
  send_at_once(*socket);
  link_ = MessageLink(std::move(*socket));
  phase_ = Phase::kConnecting;
  heard_ = now;
}

void Subscriber::step(short events, double now) {
  if (phase_ == Phase::kApart) return;
  if (phase_ == Phase::kConnecting && events != 0) {
    if (const int error = link_.connect_failure(); error != 0) {
      return part(Status(Code::kRemoteError, fmt::format("no connection: {}", error_text(error))), now);
    }
    say_hello(now);
  }
  if (phase_ == Phase::kGreeting || phase_ == Phase::kReady) {
    if (events != 0) read(now);
    if (phase_ == Phase::kReady) acknowledge();
  }
  if (phase_ == Phase::kApart || phase_ == Phase::kConnecting) return;
  if (link_.queued_bytes() > 0) spoke_ = now;
  if (!link_.flush()) part(link_.why(), now);
}

void Subscriber::tick(double now) {
  if (phase_ == Phase::kApart) return;
  if (now - heard_ > options_.silence_s) {
    return part(Status(Code::kTimeout,
                       fmt::format("it has not answered for {:g} s: it is stopped, or the link is cut", options_.silence_s)),
                now);
  }
  if (phase_ == Phase::kReady && now - spoke_ > alive_period_s_) {
    link_.queue(MessageType::kAlive, Alive{held_.version});
    spoke_ = now;
    if (!link_.flush()) part(link_.why(), now);
  }
}

void Subscriber::say_hello(double now) {
  link_.queue(MessageType::kHello, Hello{kProtocolVersion, options_.model_id, state_.schema_hash, codec::kWireVersion, held_, tip(),
                                         to_ms(options_.silence_s), process_name()});
  phase_ = Phase::kGreeting;
  heard_ = spoke_ = now;
}

// What has come stays: the rest of an update is asked for when the publisher is back.
void Subscriber::part(Status why, double now) {
  const std::string who = publisher_.empty() ? address_ : publisher_;
  if (phase_ == Phase::kReady) log_info("replication: publisher {}: {}", who, why.message());
  trouble_ = why.with_prefix(fmt::format("publisher {}: ", who));
  link_ = MessageLink();
  phase_ = Phase::kApart;
  is_requested_ = false;
  retry_at_ = now + retry_s_;
  retry_s_ = std::min(2 * retry_s_, kLastRetry);
}

void Subscriber::read(double now) {
  const auto place = [this](const ChunkHead& chunk, std::size_t count) { return place_of(chunk, count); };
  for (int i = 0; i < kMessagesAtOnce; ++i) {
    switch (link_.receive(place)) {
      case MessageLink::Progress::kMore:
        return;
      case MessageLink::Progress::kClosed:
      case MessageLink::Progress::kCorrupt:
        return part(link_.why(), now);
      case MessageLink::Progress::kMessage:
        break;
    }
    heard_ = now;
    if (Status status = handle(now); !status.ok()) {
      link_.queue(MessageType::kRefusal, Refusal{status.code(), status.message()});
      (void)link_.flush();
      return part(std::move(status), now);
    }
    if (phase_ == Phase::kApart) return;
  }
}

Status Subscriber::handle(double now) {
  const bool is_ready = phase_ == Phase::kReady;
  switch (link_.type()) {
    case MessageType::kWelcome:
      if (is_ready) break;
      return take_welcome();
    case MessageType::kRefusal: {
      const Result<Refusal> refusal = parse_refusal(link_.content());
      if (!refusal.ok()) return refusal.status();
      log_warn("replication: publisher {} refuses this replica: {}", address_, refusal->text);
      retry_s_ = kLastRetry;
      part(Status(refusal->code, fmt::format("it refuses this replica: {}", refusal->text)), now);
      return {};
    }
    case MessageType::kOffer:
      if (!is_ready) break;
      return take_offer();
    case MessageType::kChunk:
      if (!is_ready) break;
      return take_chunk();
    case MessageType::kCommit:
      if (!is_ready) break;
      return take_commit();
    case MessageType::kAlive: {
      const Result<Alive> alive = parse_alive(link_.content());
      if (!alive.ok()) return alive.status();
      newest_ = std::max(newest_, alive->version);
      return {};
    }
    case MessageType::kBye:
      part(Status(Code::kRemoteError, "it has left"), now);
      return {};
    default:
      break;
  }
  return Status(Code::kCorrupt, fmt::format("a message of type {} is out of place here", static_cast<int>(link_.type())));
}

Status Subscriber::take_welcome() {
  const Result<Welcome> welcome = parse_welcome(link_.content());
  if (!welcome.ok()) return welcome.status();
  if (welcome->protocol != kProtocolVersion || welcome->model_id != options_.model_id) {
    return Status(Code::kMismatch,
                  fmt::format("it has the model '{}' by version {} of the protocol", welcome->model_id, welcome->protocol));
  }
  publisher_ = fmt::format("{} ({})", welcome->name, address_);
  newest_ = welcome->newest;
  alive_period_s_ = alive_period_s(options_.silence_s, welcome->silence_ms);
  phase_ = Phase::kReady;
  trouble_ = {};
  has_news_ = holds_published_;
  log_info("replication: connected to publisher {}, whose newest version is {}", publisher_, newest_);
  return {};
}

HeldVersion Subscriber::tip() const { return staged_.empty() ? held_ : staged_.back()->update().target(); }

Status Subscriber::check_offer(const Offer& offer) const {
  const Commit& commit = offer.commit;
  if (trusted_) {
    if (!offer.signature) return Status(Code::kUnauthorized, "the commit is not signed, and this replica trusts signed ones only");
    SPARCL_RETURN_IF_ERROR(trusted_->verify(serialise(commit), offer.signature->key, offer.signature->signature));
  }
  if (commit.model_id != options_.model_id || commit.schema_hash != state_.schema_hash) {
    return Status(Code::kMismatch, "the commit is for another model");
  }
  if (commit.stream_bytes > most_stream_bytes(*state_.map)) {
    return Status(Code::kCorrupt, fmt::format("the commit claims {} bytes; no update of this model has more than {}",
                                              commit.stream_bytes, most_stream_bytes(*state_.map)));
  }
  const std::uint64_t epoch = staged_.empty() ? epoch_ : staged_.back()->commit().epoch;
  const HeldVersion last = tip();
  if (commit.epoch < epoch) {
    return Status(Code::kUnauthorized,
                  fmt::format("the commit of version {} is of an earlier publisher, which was replaced since", commit.version));
  }
  const bool has_last = holds_published_ || !staged_.empty();
  if (has_last && commit.epoch == epoch && commit.version <= last.version) {
    return Status(Code::kUnauthorized, fmt::format("the commit of version {} is an old one: version {} has been here already",
                                                   commit.version, last.version));
  }
  return {};
}

Status Subscriber::take_offer() {
  Result<Offer> offer = parse_offer(link_.content());
  if (!offer.ok()) return offer.status();
  SPARCL_RETURN_IF_ERROR(check_offer(*offer).with_prefix("an update is refused: "));
  newest_ = std::max(newest_, offer->commit.version);
  is_requested_ = false;
  const bool is_resumed = incoming_ != nullptr && incoming_->commit() == offer->commit;
  if (!is_resumed) {
    Update update;
    update.commit = std::move(offer->commit);
    update.signature = offer->signature;
    incoming_ = std::make_unique<StagedUpdate>(std::move(update));
    if (!incoming_->commit().is_anchor && incoming_->commit().base_hash != tip().hash) {
      const std::string text =
          fmt::format("it is for the state {}, held is {}", to_hex(incoming_->commit().base_hash), to_hex(tip().hash));
      refuse(incoming_->update().name(), Status(Code::kWrongBase, text), true);
      return {};
    }
  }
  is_requested_ = true;
  link_.queue(MessageType::kRequest, Request{incoming_->update().name(), incoming_->received_bytes()});
  return {};
}

std::span<std::byte> Subscriber::place_of(const ChunkHead& chunk, std::size_t count) {
  const bool is_wanted = phase_ == Phase::kReady && is_requested_ && incoming_ != nullptr &&
                         chunk.version == incoming_->commit().version && chunk.first_byte == incoming_->received_bytes();
  return is_wanted ? incoming_->place(count) : std::span<std::byte>();
}

Status Subscriber::take_chunk() {
  if (!is_requested_ || incoming_ == nullptr) return {};  // of an update that was refused meanwhile
  const ChunkHead& chunk = link_.chunk();
  if (chunk.version != incoming_->commit().version || chunk.first_byte != incoming_->received_bytes() ||
      link_.chunk_bytes() > incoming_->commit().stream_bytes - incoming_->received_bytes()) {
    return Status(Code::kCorrupt, fmt::format("bytes {} to {} of version {} are out of place: awaited is byte {} of version {}",
                                              chunk.first_byte, chunk.first_byte + link_.chunk_bytes(), chunk.version,
                                              incoming_->received_bytes(), incoming_->commit().version));
  }
  incoming_->received(link_.chunk_bytes());
  SPARCL_FAILPOINT("subscriber.receiving");
  return {};
}

Status Subscriber::take_commit() {
  const Result<CommitNote> note = parse_commit_note(link_.content());
  if (!note.ok()) return note.status();
  if (!is_requested_ || incoming_ == nullptr) return {};
  if (note->update != incoming_->update().name() || !incoming_->has_all_bytes()) {
    return Status(Code::kCorrupt, fmt::format("version {} is committed with {} of {} bytes", note->update.version,
                                              incoming_->received_bytes(), incoming_->commit().stream_bytes));
  }
  if (trusted_) SPARCL_RETURN_IF_ERROR(incoming_->check_digest());
  SPARCL_FAILPOINT("subscriber.staged");
  staged_.push_back(std::move(incoming_));
  is_requested_ = false;
  retry_s_ = kFirstRetry;
  link_.queue(MessageType::kAck, Ack{AckStage::kStaged, staged_.back()->update().target()});
  return {};
}

// It is of no use, and so is what came after it.
void Subscriber::refuse(const UpdateName& update, Status why, bool wants_anchor) {
  log_error("replication: version {} is refused: {}", update.version, why.message());
  trouble_ = why.with_prefix(fmt::format("version {} is refused: ", update.version));
  staged_.resize(std::min<std::size_t>(staged_.size(), is_applying_ ? 1 : 0));  // next() is at the first
  incoming_ = nullptr;
  is_requested_ = false;
  if (phase_ == Phase::kReady) link_.queue(MessageType::kNack, Nack{update, why.code(), wants_anchor, why.message()});
}

// Checks a piece of what has come, if its base is what is held: so that next() has little to do.
void Subscriber::check_on() {
  if (is_applying_) return;
  StagedUpdate* first = staged_.empty() ? (is_requested_ ? incoming_.get() : nullptr) : staged_.front().get();
  if (first != nullptr && !first->is_checked()) {
    bool more = false;
    if (Status status = first->check(state_, held_, kBlocksAtOnce, more); !status.ok()) {
      return refuse(first->update().name(), std::move(status), true);
    }
    if (more) wake_.wake();  // after what has come meanwhile
  }
  if (!staged_.empty() && staged_.front()->is_checked()) came_.notify_all();
}

void Subscriber::acknowledge() {
  if (!std::exchange(has_news_, false)) return;
  link_.queue(MessageType::kAck, Ack{AckStage::kHeld, held_});
}

}  // namespace sparcl::replication
