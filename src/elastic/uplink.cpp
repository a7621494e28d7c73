#include "src/elastic/uplink.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

#include "src/base/log.hpp"
#include "src/net/name_lookup.hpp"
#include "src/net/socket.hpp"
#include "src/replication/connect_text.hpp"

namespace sparcl::elastic {
namespace {

using replication::MessageLink;
using replication::MessageType;

constexpr double kFirstPause = 0.1, kLastPause = 2;  // seconds between two tries
constexpr double kUplinkTick = 0.05;                 // seconds, at most between two looks

std::string text_of(const net::HostPort& where) {
  const bool is_v6 = where.host.find(':') != std::string::npos;
  return is_v6 ? fmt::format("[{}]:{}", where.host, where.port)
               : fmt::format("{}:{}", where.host, where.port);
}

std::string prefix_of(const net::HostPort& where) {
  return fmt::format("aggregator {}: ", text_of(where));
}

}  // namespace

Result<std::unique_ptr<Uplink>> Uplink::create(UplinkOptions options, UplinkUser& user) {
  SPARCL_ASSIGN_OR_RETURN(std::vector<net::HostPort> addresses,
                          net::parse_host_ports(options.addresses));
  std::unique_ptr<Uplink> made(new Uplink(std::move(options), user));
  made->addresses_ = std::move(addresses);
  SPARCL_ASSIGN_OR_RETURN(made->wake_, net::WakeEvent::create());
  return made;
}

Status Uplink::start() {
  return thread_.start("a connection to an aggregator",
                       [this](const net::ServiceThread::Stop& stop) { run(stop); });
}

Uplink::Uplink(UplinkOptions options, UplinkUser& user)
    : options_(std::move(options)),
      user_(user),
      clock_(net::clock_slack_s(options_.silence_s)),
      random_(options_.enroll.worker ^
              xxh3_64(std::as_bytes(std::span<const char>(options_.enroll.name)))) {}

Result<std::string> Uplink::results_address(double seconds) {
  std::unique_lock lock(mutex_);
  const std::chrono::duration<double> wait(std::clamp(seconds, 0.0, 1e8));
  (void)changed_.wait_for(lock, wait, [&] { return !results_.empty(); });
  if (results_.empty()) return trouble_;
  return results_;
}

Status Uplink::trouble() const {
  const std::lock_guard lock(mutex_);
  return trouble_;
}

Status Uplink::refusal() const {
  const std::lock_guard lock(mutex_);
  return refusal_;
}

std::uint64_t Uplink::connections() const {
  const std::lock_guard lock(mutex_);
  return connections_;
}

// --- the thread ---

void Uplink::run(const net::ServiceThread::Stop& stop) {
  while (!stop.is_asked()) {
    try {
      serve(stop);
    } catch (const std::bad_alloc&) {  // later there may be some
      pause(kLastPause, stop);
    }
  }
}

void Uplink::serve(const net::ServiceThread::Stop& stop) {
  double wait = kFirstPause;
  for (std::size_t next = 0; !stop.is_asked(); ++next) {
    const double begun = clock_.look();
    const Status why = serve_one(addresses_[next % addresses_.size()], stop);
    if (stop.is_asked()) return;
    if (is_enrolled_ && clock_.look() - begun > kLastPause) wait = kFirstPause;
    user_.lost(why);
    note_trouble(why);
    if ((next + 1) % addresses_.size() == 0 || is_enrolled_) {
      pause(wait, stop);
      wait = std::min(2 * wait, kLastPause);
    }
  }
}

// Between a half and one and a half of that: many that lost an aggregator come back apart.
void Uplink::pause(double seconds, const net::ServiceThread::Stop& stop) {
  pollfd entry{stop.fd(), POLLIN, 0};
  const double share = 0.5 + random_.unit();
  (void)net::poll_until(std::span(&entry, 1), net::monotonic_seconds() + share * seconds);
}

void Uplink::note_trouble(const Status& why) {
  const std::lock_guard lock(mutex_);
  trouble_ = why;
  const std::uint64_t times = troubles_.count(why.message(), clock_.now());
  if (times > 0) log_warn("aggregate: {}{}", why.message(), times_text(times));
}

// Memory that runs out ends the connection: the next one may have some.
Status Uplink::serve_one(const net::HostPort& where, const net::ServiceThread::Stop& stop) try {
  is_proven_ = is_enrolled_ = has_said_who_ = is_challenged_ = false;
  const std::string prefix = prefix_of(where);
  Result<MessageLink> link = connect(where, stop);
  if (!link.ok()) return link.status().with_prefix(prefix);
  return exchange(*link, where, stop).with_prefix(prefix);
} catch (const std::bad_alloc&) {
  return no_memory();
}

Result<MessageLink> Uplink::connect(const net::HostPort& where,
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
    if (stop.is_asked()) return Status(Code::kRemoteError, "this process ends");
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

Status Uplink::exchange(MessageLink& link, const net::HostPort& where,
                        const net::ServiceThread::Stop& stop) {
  double heard = clock_.look(), spoke = heard;
  while (true) {
    const double now = clock_.look();
    // First, so that a refusal is read from a connection that is closed for writing.
    const std::uint64_t before = link.heard_bytes();
    SPARCL_RETURN_IF_ERROR(receive_all(link, where));
    if (link.heard_bytes() > before) heard = now;
    if (stop.is_asked()) {
      if (is_enrolled_) link.queue(MessageType::kBye, replication::Bye{});
      (void)link.flush();
      return Status(Code::kRemoteError, "this process ends");
    }
    const bool is_known = is_proven_ || !options_.security.publisher_key;
    if (!has_said_who_ && link.stream().is_ready() && is_known) {
      has_said_who_ = true;
      link.queue(MessageType::kEnroll, std::span<const std::byte>(serialise(options_.enroll)));
    }
    if (is_enrolled_) user_.speak(link);
    if (is_enrolled_ && now - spoke > replication::alive_period_s(options_.silence_s, silence_ms_))
      link.queue(MessageType::kAlive, replication::Alive{});
    if (link.queued_bytes() > 0) spoke = now;
    if (!link.flush()) return link.why();
    if (now - heard > options_.silence_s)
      return Status(Code::kTimeout, fmt::format("it has not answered for {:g} s: it is stopped, or "
                                                "the link is cut",
                                                options_.silence_s));
    pollfd entries[] = {
        {link.fd(), link.events(), 0}, {stop.fd(), POLLIN, 0}, {wake_.fd(), POLLIN, 0}};
    clock_.poll(entries, now + kUplinkTick);
    if (entries[2].revents != 0) wake_.drain();
  }
}

Status Uplink::receive_all(MessageLink& link, const net::HostPort& where) {
  const auto nowhere = [](const replication::ChunkHead&, std::size_t) { return Buffer(); };
  while (true) {
    switch (link.receive(nowhere)) {
      case MessageLink::Progress::kMessage:
        SPARCL_RETURN_IF_ERROR(handle(link, where));
        break;
      case MessageLink::Progress::kMore:
        return {};
      default:
        return closed_early(link.why());
    }
  }
}

// Adds what the user can do about a connection that ended before there was an answer.
Status Uplink::closed_early(const Status& why) const {
  if (why.code() != Code::kRemoteError || is_challenged_ || is_enrolled_) return why;
  if (options_.security.tls != nullptr)
    return has_said_who_ ? why : replication::closed_in_handshake(why);
  return replication::closed_before_answer(
      why, options_.enroll.is_aggregator ? trust::Role::kPublish : trust::Role::kReplicate);
}

Status Uplink::handle(MessageLink& link, const net::HostPort& where) {
  switch (link.type()) {
    case MessageType::kProof:
      if (is_proven_ || !options_.security.publisher_key) break;
      SPARCL_RETURN_IF_ERROR(
          replication::check_proof(link, link.content(), *options_.security.publisher_key));
      is_proven_ = true;
      return {};
    case MessageType::kNonce:
      if (is_enrolled_ || !has_said_who_ || std::exchange(is_challenged_, true)) break;
      return user_.challenged(link);
    case MessageType::kEnrolled:
      if (is_enrolled_ || !has_said_who_) break;
      if (!options_.enroll.is_aggregator && !is_challenged_) break;
      return take_enrolled(link.content(), where);
    case MessageType::kRefusal:
      return take_refusal(link.content(), where);
    case MessageType::kBye:
      return Status(Code::kRemoteError, "it has left");
    case MessageType::kAlive: {
      SPARCL_ASSIGN_OR_RETURN(const replication::Alive alive,
                              replication::parse_alive(link.content()));
      if (is_enrolled_) user_.opened(alive.version);
      return {};
    }
    default:
      if (is_enrolled_) return user_.hear(link);
      break;
  }
  return replication::out_of_place(link.type());
}

Status Uplink::take_refusal(std::span<const std::byte> content, const net::HostPort& where) {
  SPARCL_ASSIGN_OR_RETURN(const replication::Refusal refusal, replication::parse_refusal(content));
  const Status why(
      refusal.code,
      fmt::format("it refuses this {}: {}", options_.enroll.is_aggregator ? "aggregator" : "worker",
                  refusal.text));
  if (refusal.code != Code::kUnauthorized) return why;
  const std::lock_guard lock(mutex_);
  refusal_ = Status(why).with_prefix(prefix_of(where));
  return why;
}

// An address without a host is on the aggregator's own.
Status Uplink::take_enrolled(std::span<const std::byte> content, const net::HostPort& where) {
  SPARCL_ASSIGN_OR_RETURN(const Enrolled enrolled, parse_enrolled(content));
  if (enrolled.protocol != kWorkerProtocol)
    return Status(Code::kUnsupported,
                  fmt::format("it speaks version {} of the protocol of workers, and this process "
                              "version {}: use the same version of sparcl",
                              enrolled.protocol, kWorkerProtocol));
  is_enrolled_ = true;
  silence_ms_ = enrolled.silence_ms;
  SPARCL_ASSIGN_OR_RETURN(net::HostPort results, net::parse_host_port(enrolled.results));
  if (results.host.empty()) results.host = where.host;
  {
    const std::lock_guard lock(mutex_);
    results_ = text_of(results);
    trouble_ = refusal_ = {};
    ++connections_;
    changed_.notify_all();
  }
  user_.connected(enrolled, text_of(results));
  return {};
}

}  // namespace sparcl::elastic
