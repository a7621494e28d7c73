#include "src/transport/loopback/loopback_core.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <exception>
#include <thread>

namespace sparcl::transport {

using loopback::Completion;
using loopback::Mailbox;
using loopback::MailboxKey;
using loopback::Parcel;
using loopback::ParcelKind;

namespace {

std::string host_and_pid() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '?';
  return fmt::format("host {}, pid {}", host.data(), ::getpid());
}

Buffer copy_of(const Buffer& source) {
  Buffer copy = Buffer::allocate(source.size());
  if (source.size() > 0) std::memcpy(copy.data(), source.data(), source.size());
  return copy;
}

}  // namespace

LoopbackCore::LoopbackCore(int ranks, const LoopbackOptions& options)
    : options_(options), random_(options.seed) {
  endpoints_.reserve(static_cast<std::size_t>(ranks));
  if (options.deterministic)
    roused_.reserve(static_cast<std::size_t>(ranks));  // each is listed once
  for (int rank = 0; rank < ranks; ++rank) endpoints_.push_back(std::make_unique<Endpoint>());
  capabilities_.single_node = true;
  capabilities_.survives_peer_death = true;
  capabilities_.knows_peer_death = options.announce_death;
  oversubscribed_ =
      static_cast<unsigned>(ranks) > std::max(1u, std::thread::hardware_concurrency());
}

std::string LoopbackCore::describe(int rank) const {
  static const std::string process = host_and_pid();
  return fmt::format("{}, thread of rank {}", process, rank);
}

Status LoopbackCore::dead_peer_error(int peer) const {
  const char* how = endpoint(peer).has_left ? "has left the communicator" : "was killed or ended";
  return Status(Code::kRemoteError, fmt::format("rank {} ({}) {}", peer, describe(peer), how),
                Scope::kPeer);
}

bool LoopbackCore::knows_dead(int rank, int peer) {
  Endpoint& own = endpoint(rank);
  const std::lock_guard lock(own.mutex);
  return own.dead_peers.contains(peer);
}

bool LoopbackCore::sends_eagerly(std::size_t bytes) {
  return bytes <= options_.eager_bytes && (!options_.deterministic || random_.chance(0.5));
}

void LoopbackCore::submit(Letter letter) {
  if (!options_.deterministic) return deliver(std::move(letter));
  if (!letter.sender) letter.bytes = copy_of(letter.bytes);
  in_flight_.add({ParcelKind::kLetter, std::move(letter), {}});
}

void LoopbackCore::submit(int to, const Signal& signal) noexcept {
  tell_or_end(to, [&] {
    if (!options_.deterministic) return deliver(to, signal);
    Parcel parcel{ParcelKind::kSignal, {}, signal};
    parcel.letter.from = signal.from;
    parcel.letter.to = to;
    in_flight_.add(std::move(parcel));
  });
}

template <class Tell>
void LoopbackCore::tell_or_end(int rank, Tell&& tell) noexcept {
  try {
    tell();
  } catch (const std::exception&) {
    Endpoint& endpoint = this->endpoint(rank);
    const std::lock_guard lock(endpoint.mutex);
    endpoint.has_lost.store(true, std::memory_order_release);
    rouse(rank, endpoint);
  }
}

void LoopbackCore::dispatch(Parcel parcel) {
  switch (parcel.kind) {
    case ParcelKind::kLetter:
      return deliver(std::move(parcel.letter));
    case ParcelKind::kSignal:
      return deliver(parcel.letter.to, parcel.signal);
    case ParcelKind::kDeath:
      return deliver_death(parcel.letter.to, parcel.letter.from);
  }
}

void LoopbackCore::deliver(Letter letter) {
  Endpoint& to = endpoint(letter.to);
  std::unique_lock lock(to.mutex);
  if (!to.alive) {
    lock.unlock();
    return lose(letter);
  }
  const MailboxKey key{letter.from, letter.channel};
  const auto box = to.boxes.find(key);
  if (box != to.boxes.end() && !box->second.posted.empty()) {
    const LocalOperation receive = std::move(box->second.posted.front());
    box->second.posted.pop_front();
    if (box->second.empty()) to.boxes.erase(box);
    lock.unlock();
    complete(letter.to, hand_over(letter, receive));
    return finish_send(letter, {});
  }
  if (to.closed.contains(letter.channel)) {
    lock.unlock();
    return finish_send(letter, {});
  }
  if (!letter.sender && !options_.deterministic) letter.bytes = copy_of(letter.bytes);
  to.boxes[key].arrived.push_back(std::move(letter));
}

void LoopbackCore::deliver(int to_rank, const Signal& signal) {
  Endpoint& to = endpoint(to_rank);
  const std::lock_guard lock(to.mutex);
  if (!to.alive) return;
  to.signals.push_back(signal);
  to.has_signals.store(true, std::memory_order_release);
  rouse(to_rank, to);
}

Completion LoopbackCore::hand_over(const Letter& letter, const LocalOperation& receive) const {
  const std::size_t bytes = letter.bytes.size();
  if (bytes > receive->buffer.size()) {
    return {receive, bytes,
            Status(Code::kCorrupt,
                   fmt::format("a message of {} bytes from rank {} ({}) on call {} lane {} is "
                               "larger than the {} bytes awaited",
                               bytes, letter.from, describe(letter.from), letter.channel.call,
                               letter.channel.lane, receive->buffer.size()))};
  }
  if (bytes > 0) std::memcpy(receive->buffer.data(), letter.bytes.data(), bytes);
  return {receive, bytes, {}};
}

void LoopbackCore::complete(int owner, Completion completion) {
  Endpoint& own = endpoint(owner);
  const std::lock_guard lock(own.mutex);
  if (!own.alive) return;
  own.inbox.push_back(std::move(completion));
  rouse(owner, own);
}

void LoopbackCore::finish_send(const Letter& letter, Status status) {
  if (letter.sender) complete(letter.from, {letter.sender, letter.bytes.size(), std::move(status)});
}

// A message to a dead rank: its send fails once the sender knows of the death. It never ends if
// deaths are silent.
void LoopbackCore::lose(const Letter& letter) {
  if (!letter.sender) return;
  Endpoint& from = endpoint(letter.from);
  const std::lock_guard lock(from.mutex);
  if (!from.alive || !options_.announce_death) return;
  if (!from.dead_peers.contains(letter.to)) {
    from.orphans[letter.to].push_back(letter.sender);
    return;
  }
  from.inbox.push_back({letter.sender, letter.bytes.size(), dead_peer_error(letter.to)});
  rouse(letter.from, from);
}

void LoopbackCore::post_receive(int rank, const LocalOperation& operation) {
  Endpoint& own = endpoint(rank);
  const MailboxKey key{operation->peer, operation->channel};
  std::unique_lock lock(own.mutex);
  const auto box = own.boxes.find(key);
  if (box == own.boxes.end() || box->second.arrived.empty()) {
    if (own.dead_peers.contains(operation->peer)) {
      lock.unlock();
      operation->done = true;
      operation->status = dead_peer_error(operation->peer);
      return;
    }
    own.boxes[key].posted.push_back(operation);
    return;
  }
  const Letter letter = std::move(box->second.arrived.front());
  box->second.arrived.pop_front();
  if (box->second.empty()) own.boxes.erase(box);
  lock.unlock();

  Completion completion = hand_over(letter, operation);
  finish_send(letter, {});
  if (reports_later()) return complete(rank, std::move(completion));
  operation->done = true;
  operation->bytes = completion.bytes;
  operation->status = std::move(completion.status);
}

void LoopbackCore::withdraw_receive(int rank, const LocalOperation& operation) {
  Endpoint& own = endpoint(rank);
  const std::lock_guard lock(own.mutex);
  const auto box = own.boxes.find({operation->peer, operation->channel});
  if (box == own.boxes.end()) return;
  box->second.posted.remove(operation);
  if (box->second.empty()) own.boxes.erase(box);
}

void LoopbackCore::close(int rank, Channel channel) {
  Endpoint& own = endpoint(rank);
  std::list<Letter> dropped;
  {
    const std::lock_guard lock(own.mutex);
    own.closed.add(channel);
    for (auto box = own.boxes.begin(); box != own.boxes.end();) {
      if (box->first.channel == channel) dropped.splice(dropped.end(), box->second.arrived);
      box = box->second.empty() ? own.boxes.erase(box) : std::next(box);
    }
  }
  for (const Letter& letter : dropped) finish_send(letter, {});
}

void LoopbackCore::leave(int rank, Leave how) noexcept {
  Endpoint& own = endpoint(rank);
  decltype(own.boxes) boxes;
  {
    const std::lock_guard lock(own.mutex);
    if (!own.alive) return;
    own.alive = false;
    own.has_left = how == Leave::kOrderly;
    boxes.swap(own.boxes);
    own.inbox.clear();
    own.orphans.clear();
    rouse(rank, own);
  }
  for (const auto& [key, box] : boxes) {
    for (const Letter& letter : box.arrived) {
      tell_or_end(letter.from, [&] { lose(letter); });
    }
  }
  if (how == Leave::kAbrupt) {
    in_flight_.lose_from(rank, random_);
    for (int other = 0; other < size(); ++other) drop_unfetched(other, rank);
  }
  if (!options_.announce_death) return;
  for (int other = 0; other < size(); ++other) {
    if (other == rank) continue;
    tell_or_end(other, [&] { tell_death(other, rank); });
  }
}

void LoopbackCore::tell_death(int to, int dead) {
  if (!options_.deterministic) return deliver_death(to, dead);
  Parcel news{ParcelKind::kDeath, {}, {}};
  news.letter.from = dead;
  news.letter.to = to;
  in_flight_.add(std::move(news));
}

// Messages whose bytes were still in the dead rank's memory are gone with it.
void LoopbackCore::drop_unfetched(int holder, int dead) {
  Endpoint& own = endpoint(holder);
  const std::lock_guard lock(own.mutex);
  for (auto box = own.boxes.begin(); box != own.boxes.end();) {
    if (box->first.from == dead)
      box->second.arrived.remove_if([](const Letter& letter) { return letter.sender != nullptr; });
    box = box->second.empty() ? own.boxes.erase(box) : std::next(box);
  }
}

void LoopbackCore::deliver_death(int to_rank, int dead) {
  Endpoint& to = endpoint(to_rank);
  const std::lock_guard lock(to.mutex);
  if (!to.alive) return;
  to.dead_peers.insert(dead);
  const auto fail = [&](const LocalOperation& operation) {
    to.inbox.push_back({operation, 0, dead_peer_error(dead)});
  };
  for (auto box = to.boxes.begin(); box != to.boxes.end();) {
    if (box->first.from == dead) {
      for (const LocalOperation& receive : box->second.posted) fail(receive);
      box->second.posted.clear();
    }
    box = box->second.empty() ? to.boxes.erase(box) : std::next(box);
  }
  if (const auto orphans = to.orphans.find(dead); orphans != to.orphans.end()) {
    for (const LocalOperation& send : orphans->second) fail(send);
    to.orphans.erase(orphans);
  }
  rouse(to_rank, to);
}

void LoopbackCore::rouse(int rank, Endpoint& endpoint) {
  endpoint.news.store(true, std::memory_order_release);
  if (endpoint.sleeping) endpoint.roused.notify_one();
  if (!options_.deterministic || endpoint.listed) return;
  endpoint.listed = true;
  roused_.push_back(rank);
}

bool LoopbackCore::deliver_one(SeededRandom& random) {
  if (in_flight_.count() == 0) return false;
  dispatch(in_flight_.take(random));
  return true;
}

double LoopbackCore::now() const {
  if (options_.deterministic) return virtual_now_;
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void LoopbackCore::advance_to(double seconds) { virtual_now_ = std::max(virtual_now_, seconds); }

void LoopbackCore::take_roused(std::vector<int>& ranks) {
  for (const int rank : roused_) endpoint(rank).listed = false;
  ranks.insert(ranks.end(), roused_.begin(), roused_.end());
  roused_.clear();
}

void loopback::ClosedChannels::add(Channel channel) {
  if (!set_.insert(channel).second) return;
  order_.push_back(channel);
  if (order_.size() <= kRemembered) return;
  set_.erase(order_.front());
  order_.pop_front();
}

}  // namespace sparcl::transport
