#include "src/replication/server.hpp"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <string>
#include <tuple>

#include "src/base/log.hpp"

namespace sparcl::replication {
namespace {

constexpr double kServerTickSeconds = 0.1;
constexpr double kProvingSeconds =
    1;  // a replica's time before it may be ended to make room; heuristic
constexpr double kTurnSeconds =
    0.005;  // of all sessions, then the users' threads have theirs; heuristic
constexpr double kEvictSeconds =
    0.25;  // time of an unauthenticated connection if there are too many; heuristic
constexpr double kEvictCrowdSeconds =
    0.03;                                  // the same if most of them are of one address; heuristic
constexpr double kMaxYieldSeconds = 0.25;  // of copies to a version; heuristic
constexpr double kFullSeconds = 0.01;      // until the next try to take a connection; heuristic

}  // namespace

std::size_t Server::max_replicas() {
  constexpr rlim_t kLeft = 64;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return SIZE_MAX;
  const rlim_t taken = std::max(limit.rlim_cur / 4, kLeft) + kMaxUnauthenticated;
  return limit.rlim_cur > taken ? static_cast<std::size_t>(limit.rlim_cur - taken) : 1;
}

Server::Server(net::Socket listener, const SessionContext& context)
    : listener_(std::move(listener)),
      context_(context),
      memory_(context.budget),
      copies_(context.copy_bytes) {
  if (context_.shares_memory) memory_.open();
}

void Server::add_entries(std::vector<pollfd>& entries, double now) const {
  entries.push_back({now >= accept_from_ ? listener_.fd() : -1, POLLIN, 0});
  for (const auto& session : sessions_) entries.push_back({session->fd(), session->events(), 0});
}

void Server::step(std::span<const pollfd> entries, double now) {
  context_.warnings->tick(now);
  if (const std::optional<std::string> line = flood_.look(*context_.counts, now))
    log_warn("replication: {}", *line);
  count();
  limit_copies(now);
  take_turns(entries.subspan(1), now);
  if (entries[0].revents != 0) accept_all(now);
  for (const auto& session : sessions_) session->tick(now);
  end_backed_off(now);
  for (const auto& session : sessions_) {
    if (session->is_over()) session->release();
  }
  memory_.forget_old(now);
  std::erase_if(sessions_, [](const auto& session) { return session->is_over(); });
}

// For a bounded time. Sessions that had no turn are first next time.
void Server::take_turns(std::span<const pollfd> entries, double now) {
  const std::size_t known = std::min(sessions_.size(), entries.size());  // accept_all appends
  const double end = net::monotonic_seconds() + kTurnSeconds;
  for (std::size_t k = 0, i = first_; k < known; ++k, ++i) {
    Session& session = *sessions_[i % known];
    if (entries[i % known].revents == 0 && !session.has_news() && !session.has_unread()) continue;
    const bool has_unread = session.has_unread();
    if (session.has_news()) session.publish(now);
    if (entries[i % known].revents != 0 || has_unread) session.step(now);
    first_ = (i + 1) % known;
    if (net::monotonic_seconds() > end) return;
  }
}

std::string Server::host_of(const Session& session) {
  return PeerScores::key_of(session.machine().from());
}

// A waiting connection may be of any peer of its address: it is not refused, but has less time.
void Server::end_backed_off(double now) {
  if (context_.scores->is_empty() || counts_.waiting == 0) return;
  for (const auto& each : sessions_) {
    if (!each->machine().is_unauthenticated() || !each->machine().process().empty() ||
        now - each->machine().born() < PeerScores::kBackedOffPatience ||
        context_.scores->backed_off_s(host_of(*each), now) <= 0)
      continue;
    context_.counts->count(RefusalReason::kBackedOff);
    each->drop(Status(Code::kTimeout, "its address has misbehaved, and it says nothing"));
  }
}

// Half of the time at most, so that a copy ends however fast versions come.
bool Server::copies_yield(double now) {
  const bool is_encoding = context_.is_encoding && context_.is_encoding();
  if (yields_since_ < 0 && is_encoding && now >= yields_from_) yields_since_ = now;
  if (yields_since_ < 0) return false;
  if (is_encoding && now - yields_since_ < kMaxYieldSeconds) return true;
  yields_from_ = now + (now - yields_since_);
  yields_since_ = -1;
  return false;
}

// Sessions of an address that takes all bytes again and again share a bounded rate.
// A publisher's alone: it chooses the replicas that take from another replica.
void Server::limit_copies(double now) {
  if (context_.copy_bytes == 0) return;
  for (const auto& each : sessions_) {
    if (each->takes_copy()) copies_.begin(host_of(*each), now);
  }
  const auto may_be_paused = [](const auto& each) {
    return each->machine().is_sent_copy() || each->is_paused();
  };
  if (copies_.is_empty() || std::ranges::none_of(sessions_, may_be_paused)) return;
  const bool yields = copies_yield(now);
  std::map<std::string, std::size_t> replicas;
  for (const auto& each : sessions_) {
    if (each->machine().is_replica()) ++replicas[host_of(*each)];
  }
  for (const auto& each : sessions_) {
    const std::uint64_t bytes = each->take_sent_bytes();
    if (!each->machine().is_sent_copy()) {
      each->pause(false);
      continue;
    }
    const std::string host = host_of(*each);
    const bool is_over = copies_.is_over(host, replicas[host], now);
    if (is_over) copies_.sent(host, bytes);
    each->pause(yields || (is_over && !copies_.may_send(host, now)));
  }
}

bool Server::evict_for(const SessionMachine& asker, double now) {
  return evict_unproven(now) || evict_excess(asker, now);
}

// Young sessions neither end nor count: those that prove nothing end by evict_unproven() soon, and
// until then a proven session of their address must not end because of them.
bool Server::evict_excess(const SessionMachine& asker, double now) {
  const auto counts = [now](const Session& each) {
    return each.machine().is_replica() && now - each.machine().born() >= kProvingSeconds;
  };
  std::map<std::string, std::size_t> of_host;
  for (const auto& each : sessions_) of_host[host_of(*each)] += counts(*each) ? 1 : 0;
  const auto most =
      std::ranges::max_element(of_host, {}, [](const auto& each) { return each.second; });
  if (most == of_host.end() || 2 * most->second <= context_.max_replicas ||
      most->first == PeerScores::key_of(asker.from()))
    return false;
  for (auto each = sessions_.rbegin(); each != sessions_.rend(); ++each) {
    if (!counts(**each) || host_of(**each) != most->first) continue;
    end_for_others(**each, RefusalReason::kSlots);
    --counts_.replicas;
    return true;
  }
  return false;
}

// If an address has more than half of the slots, its sessions that ask for nothing have less time.
bool Server::evict_unproven(double now) {
  std::map<std::string, std::size_t> of_host, of_name;
  const auto is_unproven = [](const Session& each) {
    return each.machine().is_replica() && !each.machine().is_proven();
  };
  for (const auto& each : sessions_) {
    of_host[host_of(*each)] += is_unproven(*each) ? 1 : 0;
    of_name[each->machine().score_key()] += is_unproven(*each) ? 1 : 0;
  }
  const auto is_candidate = [&](const Session& each) {
    const bool is_crowd = 2 * of_host[host_of(each)] > context_.max_replicas;
    const bool is_hasty = is_crowd && !each.machine().has_answered();
    return is_unproven(each) &&
           now - each.machine().born() >= (is_hasty ? kEvictCrowdSeconds : kProvingSeconds);
  };
  Session* chosen = nullptr;
  const auto rank = [&](const Session& each) {
    return std::tuple(of_host[host_of(each)], !each.machine().has_answered(),
                      of_name[each.machine().score_key()], -each.machine().born());
  };
  for (const auto& each : sessions_) {
    if (is_candidate(*each) && (chosen == nullptr || rank(*each) > rank(*chosen)))
      chosen = each.get();
  }
  if (chosen == nullptr) return false;
  end_for_others(*chosen, RefusalReason::kSlots);
  --counts_.replicas;
  return true;
}

bool Server::evict_taker() {
  const auto is_taker = [](const auto& each) {
    return each->machine().is_replica() && !each->machine().is_proven() &&
           each->machine().keeps_update(false);
  };
  const auto found = std::ranges::find_if(sessions_, is_taker);
  if (found == sessions_.end()) return false;
  end_for_others(**found, RefusalReason::kBudget);
  return true;
}

// Ends the session that has most bytes, of the address whose sessions have most, if it has had a
// moment.
bool Server::make_room(const Session* asker, double now, std::uint64_t bytes) {
  const auto is_unproven = [](const Session& each) {
    return !each.is_over() && !each.machine().is_proven();
  };
  while (!context_.budget->has_unproven_room(bytes)) {
    std::map<std::string, std::uint64_t> of_host;
    for (const auto& each : sessions_)
      of_host[host_of(*each)] += is_unproven(*each) ? each->own_bytes() : 0;
    Session* chosen = nullptr;
    const auto rank = [&](const Session& each) {
      return std::tuple(of_host[host_of(each)], each.own_bytes(), -each.machine().born());
    };
    for (const auto& each : sessions_) {
      if (!is_unproven(*each) || each.get() == asker ||
          now - each->machine().born() < kEvictSeconds)
        continue;
      if (chosen == nullptr || rank(*each) > rank(*chosen)) chosen = each.get();
    }
    if (chosen == nullptr) return false;
    end_for_others(*chosen, RefusalReason::kBudget);
  }
  return true;
}

// Ends the session of a proven replica only if it alone still needs an update: the replica connects
// again for the newest version.
void Server::keep_within_budget(double now) {
  (void)make_room(nullptr, now);
  for (const bool proven : {false, true}) {
    for (const auto& each : sessions_) {
      const bool may_end = each->machine().is_replica() && each->machine().is_proven() == proven &&
                           each->machine().keeps_update(true);
      if (context_.budget->is_over() && may_end) end_for_others(*each, RefusalReason::kBudget);
    }
  }
  if (context_.budget->is_over()) (void)evict_taker();
}

Session* Server::first_with_list() const {
  const auto found = std::ranges::find_if(sessions_, [](const auto& each) {
    return !each->is_over() && each->machine().list() != nullptr;
  });
  return found == sessions_.end() ? nullptr : found->get();
}

void Server::end_for_others(Session& session, RefusalReason reason) {
  ++context_.counts->evicted;
  context_.counts->count(reason);
  const std::string kind = "connections that have proven nothing end to make room for others";
  context_.warnings->say(kind, host_of(session),
                         fmt::format("{} is told to come again: there are too many others",
                                     session.machine().replica()));
  session.drop(Status());
}

void Server::spread_news() {
  for (const auto& session : sessions_) session->have_news();
}

void Server::call_back(std::vector<std::uint64_t> ids) {
  if (ids.empty()) return;
  std::ranges::sort(ids);
  for (const auto& session : sessions_) {
    if (std::ranges::binary_search(ids, session->machine().id())) session->call_back();
  }
}

void Server::publish(double now) {
  for (const auto& session : sessions_) session->publish(now);
}

void Server::withdraw(const UpdateRef& update) {
  for (const auto& session : sessions_) session->withdraw(update);
}

Session* Server::find(std::uint64_t id) const {
  const auto found = std::ranges::lower_bound(
      sessions_, id, {}, [](const auto& each) { return each->machine().id(); });
  return found == sessions_.end() || (*found)->machine().id() != id || (*found)->is_over()
             ? nullptr
             : found->get();
}

const SessionMachine* Server::find_machine(std::uint64_t id) const {
  const Session* found = find(id);
  return found != nullptr ? &found->machine() : nullptr;
}

double Server::next_tick(double now) const {
  const bool is_due = std::ranges::any_of(sessions_, [](const auto& session) {
    return session->has_news() || session->has_unread() || session->machine().list() != nullptr;
  });
  const double tick = now + kServerTickSeconds;
  const double accept = accept_from_ > now ? std::min(accept_from_, tick) : tick;
  return is_due ? now : accept;
}

std::size_t Server::end_revoked(const std::function<bool(int secret)>& knows) {
  std::size_t ended = 0;
  for (const auto& session : sessions_) {
    if (session->is_over() || !session->secret() || knows(*session->secret())) continue;
    session->drop(Status());
    ++ended;
  }
  return ended;
}

void Server::end_sessions() {
  for (const auto& session : sessions_) session->leave();
}

void Server::end_replicas() {
  for (const auto& session : sessions_) {
    if (!session->is_waiting() && !session->is_over()) session->leave();
  }
}

void Server::leave() {
  listener_.close();
  end_sessions();
}

void Server::accept_all(double now) {
  while (make_place(now)) {
    net::SocketAddress from;
    net::Socket socket(
        ::accept4(listener_.fd(), from.get(), &from.bytes, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket.is_open()) {
      const int error = errno;
      if (error == EAGAIN || error == EWOULDBLOCK) return;
      if (error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM) {
        const std::string kind = fmt::format("no connection can be taken: {}", error_text(error));
        context_.warnings->say(kind, "", kind);
        accept_from_ = now + 0.25;
        return;
      }
      continue;  // the one connection's: it was reset before we took it
    }
    send_at_once(socket);
    sessions_.push_back(std::make_unique<Session>(std::move(socket),
                                                  net::from_socket_address(from.get()), ++last_id_,
                                                  context_, memory_, counts_, now));
    ++counts_.waiting;
  }
}

void Server::count() {
  counts_ = {};
  for (const auto& session : sessions_) {
    if (session->is_over()) continue;
    ++(session->is_waiting() ? counts_.waiting : counts_.replicas);
  }
}

bool Server::make_place(double now) {
  if (counts_.waiting < kMaxUnauthenticated) return true;
  count();
  if (counts_.waiting < kMaxUnauthenticated) return true;
  // The oldest of the address with most of them ends. Connections that have proven a secret end
  // after all others.
  struct Host {
    std::size_t waiting = 0;
    bool is_backed_off = false;
  };
  std::map<std::string, Host> hosts;
  std::vector<std::pair<Session*, const Host*>> waiting;
  for (const auto& each : sessions_) {
    if (!each->is_waiting()) continue;
    const std::string name = host_of(*each);
    Host& host = hosts[name];
    if (++host.waiting == 1) host.is_backed_off = context_.scores->backed_off_s(name, now) > 0;
    waiting.emplace_back(each.get(), &host);
  }
  const auto rank = [](const auto& each) {
    const auto& [session, host] = each;
    return std::tuple(session->machine().role().has_value(), !host->is_backed_off,
                      -static_cast<double>(host->waiting), session->machine().waits_since());
  };
  const auto& [oldest, host] = *std::ranges::min_element(waiting, {}, rank);
  const bool is_crowd = 2 * host->waiting > kMaxUnauthenticated || host->is_backed_off;
  if (now - oldest->machine().waits_since() < (is_crowd ? kEvictCrowdSeconds : kEvictSeconds)) {
    accept_from_ = now + kFullSeconds;
    return false;
  }
  oldest->drop(Status(Code::kTimeout, "too many others are waiting"));
  ++context_.counts->evicted;
  context_.counts->count(RefusalReason::kCrowded);
  --counts_.waiting;
  return true;
}

}  // namespace sparcl::replication
