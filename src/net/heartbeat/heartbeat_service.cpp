#include "src/net/heartbeat/heartbeat_service.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <new>
#include <thread>
#include <utility>

#include "src/base/log.hpp"
#include "src/base/process_own.hpp"
#include "src/net/heartbeat/heartbeat_peers.hpp"

namespace sparcl::net {
namespace {

constexpr int kDatagramsAtOnce = 4096;      // then the clock is read, even under a flood
constexpr std::size_t kMaxProcesses = 512;  // watched through the kernel: a descriptor each

}  // namespace

Result<std::shared_ptr<HeartbeatService>> HeartbeatService::of_process() {
  return shared_by_process<HeartbeatService>(create);
}

Result<std::shared_ptr<HeartbeatService>> HeartbeatService::create() {
  SPARCL_ASSIGN_OR_RETURN(DatagramSockets sockets, DatagramSockets::open());
  SPARCL_ASSIGN_OR_RETURN(WakeEvent wake, WakeEvent::create());
  std::shared_ptr<HeartbeatService> made(new HeartbeatService);
  made->sockets_ = std::move(sockets);
  made->wake_ = std::move(wake);
  made->own_ = own_identity();
  made->awake_ = monotonic_seconds();
  SPARCL_RETURN_IF_ERROR(made->thread_.start(
      "heartbeats",
      [service = made.get()](const ServiceThread::Stop& stop) { service->run(stop); }));
  return made;
}

void HeartbeatService::add(Peers& peers) {
  look_for_absence(monotonic_seconds());  // earlier pauses are no absence to the new communicator
  members_[{peers.token(), static_cast<std::uint32_t>(peers.rank())}] = &peers;
  wake();
}

void HeartbeatService::remove(Peers& peers, End end) {
  const Key key{peers.token(), static_cast<std::uint32_t>(peers.rank())};
  if (members_.erase(key) == 0 || end == End::kSilent || !peers.has_given_nobody_up()) return;
  left_[next_left_++ % left_.size()] = key;
}

std::shared_ptr<ProcessEnd> HeartbeatService::watch_end(const ProcessIdentity& process) {
  std::erase_if(process_ends_,
                [](const std::weak_ptr<ProcessEnd>& each) { return each.expired(); });
  for (const std::weak_ptr<ProcessEnd>& each : process_ends_) {
    if (std::shared_ptr<ProcessEnd> known = each.lock();
        known != nullptr && known->process == process)
      return known;
  }
  if (process_ends_.size() >= kMaxProcesses) return nullptr;
  auto made = std::make_shared<ProcessEnd>();
  made->process = process;
  const ProcessWatch found = watch_process(own_, process, made->descriptor);
  if (found == ProcessWatch::kUnknown) return nullptr;
  made->has_ended = found == ProcessWatch::kGone;
  process_ends_.push_back(made);
  return made;
}

void HeartbeatService::look_for_absence(double now) {
  const double seconds = now - std::exchange(awake_, now);
  for (const auto& [key, peers] : members_) peers->note_absence(seconds);
}

// All communicators of the process depend on this thread: the next turn makes up for a turn without
// memory.
void HeartbeatService::run(const ServiceThread::Stop& stop) {
  double next = 0;
  Ends watched;
  while (!stop.is_asked()) {
    try {
      const Ends ended = sleep(stop, watched, next);
      wake_.drain();
      const std::lock_guard held(mutex_);
      next = turn(ended);
      watched = open_ends();
    } catch (const std::bad_alloc&) {
      log_error("heartbeats: {}", no_memory().message());
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
}

double HeartbeatService::turn(const Ends& ended) {
  const double now = monotonic_seconds();
  look_for_absence(now);
  receive_all(now);
  take_refusals(now);
  // After the datagrams: a rank that said goodbye before its end was not killed.
  for (const std::shared_ptr<ProcessEnd>& end : ended) {
    end->has_ended = true;
    for (const auto& [key, peers] : members_) peers->take_end(*end);
    end->descriptor.close();
  }
  return take_turns(now);
}

HeartbeatService::Ends HeartbeatService::open_ends() {
  Ends open;
  for (const std::weak_ptr<ProcessEnd>& each : process_ends_) {
    if (std::shared_ptr<ProcessEnd> end = each.lock(); end != nullptr && end->descriptor.is_open())
      open.push_back(std::move(end));
  }
  return open;
}

// Returns the processes of this machine that have ended.
HeartbeatService::Ends HeartbeatService::sleep(const ServiceThread::Stop& stop, const Ends& watched,
                                               double until) const {
  const std::array<int, 2> sockets = sockets_.descriptors();
  std::vector<pollfd> entries{{stop.fd(), POLLIN, 0},
                              {wake_.fd(), POLLIN, 0},
                              {sockets[0], POLLIN, 0},
                              {sockets[1], POLLIN, 0}};
  const std::size_t first = entries.size();
  for (const std::shared_ptr<ProcessEnd>& end : watched)
    entries.push_back({end->descriptor.fd(), POLLIN, 0});
  poll_until(entries, until);
  Ends ended;
  for (std::size_t i = 0; i < watched.size(); ++i) {
    if (entries[first + i].revents != 0) ended.push_back(watched[i]);
  }
  return ended;
}

void HeartbeatService::receive_all(double now) {
  std::array<std::byte, kBeatBytes> space;
  for (int i = 0; i < kDatagramsAtOnce; ++i) {
    const std::optional<DatagramSockets::Datagram> datagram = sockets_.receive(space);
    if (!datagram) return;
    if (!datagram->whole) continue;
    if (const std::optional<Beat> beat = decode_beat(datagram->bytes))
      take(*beat, datagram->from, now);
  }
}

void HeartbeatService::take(const Beat& beat, const NetAddress& from, double now) {
  const Key key{beat.token, beat.to};
  if (const auto member = members_.find(key); member != members_.end())
    return member->second->take(beat, from, now);
  if (beat.kind == BeatKind::kPing && std::find(left_.begin(), left_.end(), key) != left_.end())
    sockets_.send(from, encode_beat(answer_to(beat, BeatKind::kBye)));
}

// One ping is repeated for all communicators that share the address.
void HeartbeatService::take_refusals(double now) {
  while (const std::optional<NetAddress> by = sockets_.next_refusal()) {
    bool may_ask = true;
    for (const auto& [key, peers] : members_) may_ask &= !peers->take_refusal(*by, may_ask, now);
  }
}

// After a long sleep the thread could not tell that its process was stopped.
double HeartbeatService::take_turns(double now) {
  constexpr double kWithoutMembers = 3600;
  double next = now + kWithoutMembers;
  for (const auto& [key, peers] : members_)
    next = std::min({next, peers->take_turn(now), now + peers->longest_sleep_s()});
  return next;
}

}  // namespace sparcl::net
