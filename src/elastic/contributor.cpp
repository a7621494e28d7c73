#include "src/elastic/contributor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>
#include <random>
#include <utility>

#include "src/base/log.hpp"
#include "src/net/name_lookup.hpp"
#include "src/net/socket.hpp"
#include "src/replication/connect_text.hpp"

namespace sparcl::elastic {
namespace {

using aggregate::Answer;
using replication::MessageLink;
using replication::MessageType;

constexpr double kFirstPause = 0.1, kLastPause = 2;  // seconds between two tries
constexpr double kContributorTick = 0.05;            // seconds, at most between two looks
constexpr double kEarlyPause = 0.2;                  // seconds until an early one is offered again

aggregate::WorkerId random_worker() {
  std::random_device device;
  return static_cast<std::uint64_t>(device()) << 32 | device();
}

Result<std::vector<net::HostPort>> parse_addresses(const std::string& text) {
  std::vector<net::HostPort> addresses;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    SPARCL_ASSIGN_OR_RETURN(net::HostPort one, net::parse_host_port(text.substr(at, comma - at)));
    addresses.push_back(std::move(one));
    at = comma + 1;
  }
  return addresses;
}

std::string text_of(const net::HostPort& where) {
  const bool is_v6 = where.host.find(':') != std::string::npos;
  return is_v6 ? fmt::format("[{}]:{}", where.host, where.port)
               : fmt::format("{}:{}", where.host, where.port);
}

}  // namespace

Result<std::unique_ptr<Contributor>> Contributor::create(const ContributorOptions& options) {
  SPARCL_ASSIGN_OR_RETURN(std::vector<net::HostPort> addresses, parse_addresses(options.addresses));
  std::unique_ptr<Contributor> made(new Contributor(options));
  made->addresses_ = std::move(addresses);
  SPARCL_ASSIGN_OR_RETURN(made->wake_, net::WakeEvent::create());
  Contributor* const it = made.get();
  SPARCL_RETURN_IF_ERROR(made->thread_.start(
      "a worker", [it](const net::ServiceThread::Stop& stop) { it->run(stop); }));
  return made;
}

Contributor::Contributor(const ContributorOptions& options)
    : options_(options), worker_(random_worker()), clock_(net::clock_slack_s(options.silence_s)) {}

Contributor::~Contributor() { (void)thread_.stop(); }

// --- the user's thread ---

Result<std::string> Contributor::results_address(double seconds) {
  std::unique_lock lock(mutex_);
  (void)changed_.wait_for(lock, std::chrono::duration<double>(seconds),
                          [&] { return !results_.empty(); });
  if (results_.empty()) return trouble_;
  return results_;
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
  wake_.wake();
}

std::vector<Packed> Contributor::take_refused() {
  const std::lock_guard lock(mutex_);
  return std::exchange(refused_, {});
}

Status Contributor::wait_all(double seconds) {
  std::unique_lock lock(mutex_);
  rests_ = true;
  wake_.wake();
  (void)changed_.wait_for(lock, std::chrono::duration<double>(seconds),
                          [&] { return pending_.empty(); });
  if (pending_.empty()) return {};
  return Status(Code::kTimeout,
                fmt::format("{} contributions are in no committed round yet{}{}", pending_.size(),
                            trouble_.ok() ? "" : ": ", trouble_.message()));
}

Contributor::Counts Contributor::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

Status Contributor::trouble() const {
  const std::lock_guard lock(mutex_);
  return trouble_;
}

Contributor::Pending* Contributor::find(std::uint64_t round) {
  const auto found = std::ranges::find(pending_, round, &Pending::round);
  return found == pending_.end() ? nullptr : &*found;
}

// --- the thread ---

void Contributor::run(const net::ServiceThread::Stop& stop) {
  while (!stop.is_asked()) {
    try {
      serve(stop);
    } catch (const std::bad_alloc&) {  // later there may be some
      pause(kLastPause, stop);
    }
  }
}

void Contributor::serve(const net::ServiceThread::Stop& stop) {
  double wait = kFirstPause;
  for (std::size_t next = 0; !stop.is_asked(); ++next) {
    const Status why = serve_one(addresses_[next % addresses_.size()], stop);
    if (stop.is_asked()) return;
    if (is_enrolled_) wait = kFirstPause;
    note_trouble(why);
    if ((next + 1) % addresses_.size() == 0 || is_enrolled_) {
      pause(wait, stop);
      wait = std::min(2 * wait, kLastPause);
    }
  }
}

void Contributor::pause(double seconds, const net::ServiceThread::Stop& stop) const {
  pollfd entry{stop.fd(), POLLIN, 0};
  (void)net::poll_until(std::span(&entry, 1), net::monotonic_seconds() + seconds);
}

void Contributor::note_trouble(const Status& why) {
  const std::lock_guard lock(mutex_);
  trouble_ = why;
  const std::uint64_t times = troubles_.count(why.message(), clock_.now());
  if (times > 0) log_warn("aggregate: {}{}", why.message(), times_text(times));
}

// Memory that runs out ends the connection: the next one may have some.
Status Contributor::serve_one(const net::HostPort& where,
                              const net::ServiceThread::Stop& stop) try {
  is_proven_ = is_enrolled_ = has_said_rest_ = false;
  in_transit_ = 0;
  const std::string prefix = fmt::format("aggregator {}: ", text_of(where));
  Result<MessageLink> link = connect(where, stop);
  if (!link.ok()) return link.status().with_prefix(prefix);
  {
    const std::lock_guard lock(mutex_);
    for (Pending& each : pending_) each.is_offered = false;
  }
  return exchange(*link, where, stop).with_prefix(prefix);
} catch (const std::bad_alloc&) {
  return no_memory();
}

Result<MessageLink> Contributor::connect(const net::HostPort& where,
                                         const net::ServiceThread::Stop& stop) {
  const double until = net::monotonic_seconds() + options_.silence_s;
  SPARCL_ASSIGN_OR_RETURN(const std::vector<net::NetAddress> found, resolve_until(where, until));
  Status why(Code::kRemoteError, "it has no address");
  for (const net::NetAddress& each : found) {
    Result<net::Socket> socket = start_connect(each);
    if (!socket.ok()) {
      why = socket.status();
      continue;
    }
    pollfd entries[] = {{socket->fd(), POLLOUT, 0}, {stop.fd(), POLLIN, 0}};
    // One that does not answer leaves time for the others.
    const double share = options_.silence_s / static_cast<double>(found.size());
    const int ready = net::poll_until(entries, net::monotonic_seconds() + share);
    if (stop.is_asked()) return Status(Code::kRemoteError, "this worker ends");
    const int error = ready == 0 ? ETIMEDOUT : connect_error(*socket);
    if (error != 0) {
      why = replication::no_connection(error, "aggregator");
      continue;
    }
    send_at_once(*socket);
    if (options_.security.tls != nullptr) options_.security.tls->look_again();
    return MessageLink(std::move(*socket), options_.security.tls);
  }
  return why;
}

Status Contributor::exchange(MessageLink& link, const net::HostPort& where,
                             const net::ServiceThread::Stop& stop) {
  const auto nowhere = [](const replication::ChunkHead&, std::size_t) { return Buffer(); };
  double heard = clock_.look(), spoke = heard;
  bool has_said_who = false;
  while (true) {
    const double now = clock_.look();
    if (stop.is_asked()) {
      if (is_enrolled_) link.queue(MessageType::kBye, replication::Bye{});
      (void)link.flush();
      return Status(Code::kRemoteError, "this worker ends");
    }
    const bool is_known = is_proven_ || !options_.security.publisher_key;
    if (!has_said_who && link.stream().is_ready() && is_known) {
      has_said_who = true;
      link.queue(MessageType::kEnroll,
                 std::span<const std::byte>(serialise(
                     Enroll{kWorkerProtocol, options_.model_id, options_.schema_hash, worker_,
                            replication::to_ms(options_.silence_s), options_.name})));
    }
    if (is_enrolled_) offer_next(link);
    if (is_enrolled_ && now - spoke > replication::alive_period_s(options_.silence_s, silence_ms_))
      link.queue(MessageType::kAlive, replication::Alive{});
    if (link.queued_bytes() > 0) spoke = now;
    if (!link.flush()) return link.why();
    const std::uint64_t before = link.heard_bytes();
    for (bool is_more = true; is_more;) {
      switch (link.receive(nowhere)) {
        case MessageLink::Progress::kMessage:
          if (const Status status = handle(link, where); !status.ok()) return status;
          break;
        case MessageLink::Progress::kMore:
          is_more = false;
          break;
        default:
          return has_said_who || options_.security.tls == nullptr
                     ? link.why()
                     : replication::closed_in_handshake(link.why());
      }
    }
    if (link.heard_bytes() > before) heard = now;
    if (now - heard > options_.silence_s)
      return Status(Code::kTimeout, fmt::format("it has not answered for {:g} s: it is stopped, or "
                                                "the link is cut",
                                                options_.silence_s));
    pollfd entries[] = {
        {link.fd(), link.events(), 0}, {stop.fd(), POLLIN, 0}, {wake_.fd(), POLLIN, 0}};
    clock_.poll(entries, now + kContributorTick);
    if (entries[2].revents != 0) wake_.drain();
  }
}

Status Contributor::handle(MessageLink& link, const net::HostPort& where) {
  switch (link.type()) {
    case MessageType::kProof:
      if (is_proven_ || !options_.security.publisher_key) break;
      SPARCL_RETURN_IF_ERROR(
          replication::check_proof(link, link.content(), *options_.security.publisher_key));
      is_proven_ = true;
      return {};
    case MessageType::kEnrolled:
      if (is_enrolled_) break;
      return take_enrolled(link.content(), where);
    case MessageType::kRefusal: {
      SPARCL_ASSIGN_OR_RETURN(const replication::Refusal refusal,
                              replication::parse_refusal(link.content()));
      return Status(refusal.code, fmt::format("it refuses this worker: {}", refusal.text));
    }
    case MessageType::kBye:
      return Status(Code::kRemoteError, "it has left");
    case MessageType::kAlive:
      return replication::parse_alive(link.content()).status();
    case MessageType::kWanted: {
      if (!is_enrolled_) break;
      SPARCL_ASSIGN_OR_RETURN(const Wanted wanted, parse_wanted(link.content()));
      send_bytes(link, wanted.round);
      return {};
    }
    case MessageType::kFate:
      if (!is_enrolled_) break;
      return take_fate(link.content());
    default:
      break;
  }
  return corrupt(
      fmt::format("a message of type {} is out of place here", static_cast<int>(link.type())));
}

// An address without a host is on the aggregator's own.
Status Contributor::take_enrolled(std::span<const std::byte> content, const net::HostPort& where) {
  SPARCL_ASSIGN_OR_RETURN(const Enrolled enrolled, parse_enrolled(content));
  if (enrolled.protocol != kWorkerProtocol)
    return Status(Code::kUnsupported,
                  fmt::format("it speaks version {} of the protocol of workers, and this worker "
                              "version {}: use the same version of sparcl",
                              enrolled.protocol, kWorkerProtocol));
  is_enrolled_ = true;
  silence_ms_ = enrolled.silence_ms;
  SPARCL_ASSIGN_OR_RETURN(net::HostPort results, net::parse_host_port(enrolled.results));
  if (results.host.empty()) results.host = where.host;
  const std::lock_guard lock(mutex_);
  results_ = text_of(results);
  trouble_ = {};
  ++counts_.connects;
  changed_.notify_all();
  return {};
}

// One after the other, in their order.
void Contributor::offer_next(MessageLink& link) {
  if (in_transit_ != 0 || clock_.now() < early_until_) return;
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
  link.queue(MessageType::kContribution,
             std::span<const std::byte>(serialise(next->packed.offered)));
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
      early_until_ = clock_.now() + kEarlyPause;
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
