#include "src/replication/server.hpp"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "src/base/log.hpp"

namespace sparcl::replication {
namespace {

constexpr double kServerTickSeconds = 0.1;
constexpr double kEvictSeconds = 0.25;  // a stranger's time where there are too many: a replica speaks at once; heuristic

}  // namespace

std::size_t Server::most_replicas() {
  constexpr rlim_t kLeft = 64;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return SIZE_MAX;
  const rlim_t taken = std::max(limit.rlim_cur / 4, kLeft) + kMostStrangers;
  return limit.rlim_cur > taken ? static_cast<std::size_t>(limit.rlim_cur - taken) : 1;
}

Server::Server(Socket listener, const SessionContext& context) : listener_(std::move(listener)), context_(context) {
  if (context_.shares_memory) memory_.open();
}

void Server::add_entries(std::vector<pollfd>& entries, double now) const {
  entries.push_back({now >= accept_from_ ? listener_.fd() : -1, POLLIN, 0});
  for (const auto& session : sessions_) entries.push_back({session->fd(), session->events(), 0});
}

void Server::step(std::span<const pollfd> entries, double now) {
  count();
  const std::size_t known = std::min(sessions_.size(), entries.size() - 1);  // accept_all appends
  for (std::size_t i = 0; i < known; ++i) {
    if (entries[1 + i].revents != 0) sessions_[i]->step(now);
  }
  if (entries[0].revents != 0) accept_all(now);
  for (const auto& session : sessions_) session->tick(now);
  for (const auto& session : sessions_) {
    if (session->is_over()) session->give_up_place();
  }
  memory_.forget_old(now);
  context_.warnings->tick(now);
  std::erase_if(sessions_, [](const auto& session) { return session->is_over(); });
}

void Server::call_back(std::vector<std::uint64_t> ids) {
  if (ids.empty()) return;
  std::ranges::sort(ids);
  for (const auto& session : sessions_) {
    if (std::ranges::binary_search(ids, session->id())) session->call_back();
  }
}

void Server::publish(double now) {
  for (const auto& session : sessions_) session->publish(now);
}

void Server::withdraw(const UpdateRef& update) {
  for (const auto& session : sessions_) session->withdraw(update);
}

const Session* Server::find(std::uint64_t id) const {
  const auto found = std::ranges::lower_bound(sessions_, id, {}, [](const auto& each) { return each->id(); });
  return found == sessions_.end() || (*found)->id() != id || (*found)->is_over() ? nullptr : found->get();
}

double Server::next_tick(double now) const { return now + kServerTickSeconds; }

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
  while (make_room(now)) {
    SocketAddress from;
    Socket socket(::accept4(listener_.fd(), from.get(), &from.bytes, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket.is_open()) {
      const int error = errno;
      if (error == EAGAIN || error == EWOULDBLOCK) return;
      if (error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM) {
        const std::string kind = fmt::format("no connection can be taken: {}", error_text(error));
        context_.warnings->say(kind, "", kind, now);
        accept_from_ = now + 0.25;
        return;
      }
      continue;  // the one connection's: it was reset before we took it
    }
    send_at_once(socket);
    sessions_.push_back(
        std::make_unique<Session>(std::move(socket), from_socket_address(from.get()), ++last_id_, context_, memory_, counts_, now));
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

bool Server::make_room(double now) {
  if (counts_.waiting < kMostStrangers) return true;
  count();
  if (counts_.waiting < kMostStrangers) return true;
  const auto since = [](const auto& session) { return session->is_waiting() ? session->waits_since() : 1e300; };
  const auto oldest = std::ranges::min_element(sessions_, {}, since);
  if (now - (*oldest)->waits_since() < kEvictSeconds) {
    accept_from_ = now + 0.05;
    return false;
  }
  (*oldest)->drop(Status(Code::kTimeout, "too many others are waiting"));
  ++context_.counts->evicted;
  --counts_.waiting;
  return true;
}

}  // namespace sparcl::replication
