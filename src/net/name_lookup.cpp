#include "src/net/name_lookup.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <exception>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

namespace sparcl::net {
namespace {

// No exception may leave the thread.
Addresses guarded(NameLookup::Resolver resolver, const HostPort& where) try {
  return resolver(where);
} catch (const std::exception&) {
  return no_memory();
}

}  // namespace

struct NameLookup::UnderWay {  // shared by both threads
  explicit UnderWay(WakeEvent event) : done(std::move(event)) {}

  WakeEvent done;
  std::mutex mutex;
  std::optional<Addresses> answer;
};

Status NameLookup::start(const HostPort& where) {
  SPARCL_ASSIGN_OR_RETURN(WakeEvent event, WakeEvent::create());
  auto under_way = std::make_shared<UnderWay>(std::move(event));
  if (const std::optional<NetAddress> numeric = numeric_address(where)) {
    under_way->answer.emplace(std::vector<NetAddress>{*numeric});
    under_way->done.wake();
    under_way_ = std::move(under_way);
    return {};
  }
  try {
    std::thread([under_way, where, resolver = resolver_] {
      sigset_t all;  // signals are for the program's own threads
      sigfillset(&all);
      pthread_sigmask(SIG_SETMASK, &all, nullptr);
      Addresses answer = guarded(resolver, where);
      {
        const std::lock_guard lock(under_way->mutex);
        under_way->answer.emplace(std::move(answer));
      }
      under_way->done.wake();
    }).detach();
  } catch (const std::system_error& error) {
    return Status(Code::kSystemError, fmt::format("no thread to look up the host '{}' with: {}",
                                                  where.host, error.what()));
  }
  under_way_ = std::move(under_way);
  return {};
}

int NameLookup::fd() const { return is_under_way() ? under_way_->done.fd() : -1; }

bool NameLookup::take(Addresses& answer) {
  if (!is_under_way()) return false;
  {
    const std::lock_guard lock(under_way_->mutex);
    if (!under_way_->answer) return false;
    answer = std::move(*under_way_->answer);
  }
  under_way_ = nullptr;
  return true;
}

Addresses resolve_until(const HostPort& where, double deadline, NameLookup::Resolver resolver) {
  if (const std::optional<NetAddress> numeric = numeric_address(where))
    return std::vector<NetAddress>{*numeric};
  const double begin = monotonic_seconds();
  NameLookup lookup(resolver);
  SPARCL_RETURN_IF_ERROR(lookup.start(where));
  pollfd entry{lookup.fd(), POLLIN, 0};
  poll_until(std::span(&entry, 1), deadline);
  Addresses answer = Status(Code::kTimeout,
                            fmt::format("the system's resolver has no answer for the host '{}' "
                                        "after {:.2g} s: give an address instead, or check its DNS",
                                        where.host, std::max(deadline - begin, 0.0)));
  (void)lookup.take(answer);
  return answer;
}

}  // namespace sparcl::net
