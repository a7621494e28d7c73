// A replica's thread: its connections, and the work on the arrays beside them.

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <new>
#include <thread>

#include "src/base/log.hpp"
#include "src/base/overloaded.hpp"
#include "src/replication/subscriber.hpp"

namespace sparcl::replication {
namespace {

constexpr std::uint64_t kBlocksPerCheck =
    16;  // checked while the lock is held, and others wait for bytes: half a millisecond or so
constexpr std::uint64_t kBlocksCompared = 16;  // at once: a millisecond or so; heuristic
constexpr double kQuietSeconds =
    0.0001;  // without a byte, then there is time for checks; both heuristic (bench_replication)
constexpr double kLastRetry = 1;  // seconds
constexpr double kLastRefusedRetry =
    16;  // the same, after what waiting alone does not cure; heuristic
constexpr double kTickSeconds = 0.1;
constexpr double kLookupPatience = 2;  // seconds, then users hear that the resolver is at it
constexpr double kTrustPeriod = 1;     // seconds between two looks at files of keys; heuristic
constexpr double kLongestUnchecked = 0.005;  // seconds, while bytes come

}  // namespace

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
  if (machine_.must_begin_anew())
    begin_anew(clock_.now());  // a goodbye would say that it holds what it does not
  machine_.on_turn();
  carry_out(clock_.now());
  publisher_.leave_for_good();
  parent_.leave();
  relay_.close();
}

double Subscriber::wait_until(double now) const {
  double until = now + kTickSeconds;
  if (publisher_.is_apart() && !lookup_.is_under_way()) until = std::min(until, retry_.at);
  if (machine_.to_check() != nullptr) {
    const double quiet = machine_.is_receiving() ? now + kQuietSeconds : now;
    until = std::min(until, std::max(checks_from_, quiet));
  }
  if (machine_.may_sweep()) until = std::min(until, std::max(now, sweep_.due()));
  const bool may_work = machine_.may_compare() || (relay_.wants_to_give() && machine_.may_give());
  if (may_work) until = std::min(until, now + kQuietSeconds);  // in which next() may have its turn
  const bool has_unread = publisher_.has_unread() || parent_.has_unread();
  return has_unread ? now : std::min(until, relay_.next_tick(now));
}

void Subscriber::turn(const net::ServiceThread::Stop& stop, std::vector<pollfd>& entries) {
  double until = 0;
  bool may_connect = false;
  std::unique_ptr<StagedUpdate> applied;
  look_for_new_trust();
  {
    const std::lock_guard lock(mutex_);
    applied = std::move(applied_);
    const double now = clock_.look();
    if (publisher_.is_apart() && now >= retry_.at && !lookup_.is_under_way())
      look_publisher_up(now);
    entries.assign({{stop.fd(), POLLIN, 0},
                    {wake_.fd(), POLLIN, 0},
                    {lookup_.fd(), POLLIN, 0},
                    {publisher_.fd(), publisher_.events(), 0},
                    {parent_.fd(), parent_.events(), 0}});
    relay_.add_entries(entries, now);
    until = wait_until(now);
    may_connect = lookup_.is_under_way();
  }
  applied = nullptr;  // its memory, without the lock
  const bool is_silent = clock_.poll(entries, until) == 0;
  if (may_connect && credentials_.security().tls != nullptr)
    credentials_.security().tls->look_again();
  const std::lock_guard lock(mutex_);
  const bool is_quiet = is_silent && !publisher_.has_unread() && !parent_.has_unread();
  if (entries[1].revents != 0) wake_.drain();
  const double now = clock_.look();
  if (machine_.must_begin_anew()) begin_anew(now);
  // Bytes first, as others may wait for them; but not for ever.
  if (is_quiet || now - checked_at_ > kLongestUnchecked) {
    check_on(now);
    checked_at_ = now;
  }
  if (lookup_.is_under_way()) connect_publisher(now);
  move_on(std::span(entries).subspan(3), now);
  sweep_on(now);
  compare_on(now);
  give_on(now);
}

void Subscriber::move_on(std::span<const pollfd> entries, double now) {
  publisher_.step(entries[0].revents, now);
  parent_.step(entries[1].revents, now);
  machine_.on_turn();
  carry_out(now);
  if (machine_.holds_published()) relay_.hold(machine_.held());
  relay_.step(entries.subspan(2), now);
  publisher_.tick(machine_.held().version, now);
  parent_.tick(machine_.held().version, now);
  machine_.on_tick(now);
  carry_out(now);
}

// There was no memory, as likely as not: what was coming is given up, and asked for again a little
// later.
void Subscriber::recover(const std::exception& error) {
  const std::lock_guard lock(mutex_);
  const double now = clock_.look();
  (void)machine_.take_actions();  // they were for connections that end now
  machine_.on_lost_actions();     // if memory runs out again below, the next turn begins anew
  came_.notify_all();
  machine_.on_failed_turn({});
  begin_anew(now);
  retry_.at = now + kLastRetry;
  const bool is_memory = dynamic_cast<const std::bad_alloc*>(&error) != nullptr;
  try {
    const Status trouble =
        is_memory
            ? Status(Code::kOutOfMemory, "there is no memory for what comes; it is asked for again")
            : Status(Code::kSystemError,
                     fmt::format("what comes could not be taken: {}", error.what()));
    machine_.on_failed_turn(trouble);
    machine_.log_trouble(now);
  } catch (const std::bad_alloc&) {
    machine_.note_trouble(no_memory());
  }
}

// The peers' knowledge of this replica is wrong: that of the publisher, and that of replicas that
// take updates from here.
void Subscriber::begin_anew(double now) {
  relay_.start_over();
  relay_.close();
  parent_.leave();
  publisher_.leave(true);
  machine_.on_begin_anew();
  retry_.at = now;
  retry_.pause_s = Retry::kFirstPause;
}

// --- work on the arrays ---

// Checks a piece of the update if its base is held: next() then has little to do.
void Subscriber::check_on(double now) {
  StagedUpdate* const first = machine_.to_check();
  if (first == nullptr || now < checks_from_) return;
  bool more = false;
  Status status = first->check(state_, machine_.held(), kBlocksPerCheck, more);
  if (status.code() == Code::kOutOfMemory) {
    machine_.note_trouble(std::move(status));
    checks_from_ = now + kLastRetry;
    return;
  }
  if (status.ok() && std::exchange(checks_from_, 0) > 0) machine_.on_memory_again();
  machine_.on_checked(std::move(status), now);
  carry_out(now);
}

void Subscriber::sweep_on(double now) {
  if (!machine_.may_sweep() || now < sweep_.due()) return;
  Status damage;
  try {
    damage = sweep_.step(state_, machine_.held(), rollback_, now);
  } catch (const std::bad_alloc&) {
    return sweep_.rest(now + kLastRetry);
  }
  if (damage.ok()) return;
  rollback_.lose("the sweep found the tensors damaged");
  try {
    machine_.on_damage(std::move(damage), sweep_.found(), sweep_.wanted(), sweep_.block_hashes());
  } catch (const std::bad_alloc&) {
    sweep_.rest(now + kLastRetry);  // the damage is found again, and soon
    throw;
  }
  carry_out(now);
}

void Subscriber::compare_on(double now) {
  model::StateIdentity* const digest = machine_.to_compare(now);
  if (digest != nullptr) {
    const Result<bool> is_whole = digest->step(*state_.map, {state_.readable()}, kBlocksCompared);
    if (is_whole.ok() && !*is_whole) return;
    machine_.on_digest(is_whole.ok() ? digest->finish() : Result<Digest256>(is_whole.status()),
                       now);
  }
  carry_out(now);
}

// The arrays stay as they are between two calls of next().
void Subscriber::give_on(double now) {
  if (!relay_.wants_to_give() || !machine_.may_give()) return;
  if (relay_.give(state_, machine_.held(), now)) return;
  log_error("replication: all bytes of version {} are not given: the tensors hold something else",
            machine_.held().version);
  sweep_.look_now();
}

// --- the publisher ---

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
    if (machine_.trouble().ok() && now - looked_up_at_ > kLookupPatience)
      machine_.note_trouble(found.status());
    return;
  }
  if (!found.ok()) return miss_publisher(found.status(), now);
  const net::NetAddress& address = (*found)[retry_.attempts++ % found->size()];
  warn_of_clear(address);
  Result<net::Socket> socket = start_connect(address);
  if (!socket.ok()) return miss_publisher(socket.status(), now);
  publisher_.connect(std::move(*socket), address_, credentials_.security(), now);
}

void Subscriber::warn_of_clear(const net::NetAddress& address) {
  const bool is_believed = credentials_.security().tls == nullptr && !machine_.has_trusted_keys();
  if (!is_believed || net::is_loopback(address) || std::exchange(has_warned_of_clear_, true))
    return;
  log_warn(
      "replication: publisher {} is reached in the clear, and its versions are not checked for a "
      "signature: each program on the way can read and change the weights. Give both sides a "
      "secret (sparcl secret)",
      address_);
}

// Reads files that were changed, without the lock. A file that cannot be used changes nothing.
void Subscriber::look_for_new_trust() {
  const double now = net::monotonic_seconds();
  if (now - trust_looked_at_ < kTrustPeriod) return;
  trust_looked_at_ = now;
  if (!credentials_.have_changed()) return;
  Result<ReplicaCredentials> read = credentials_.read_again();
  if (!read.ok()) return warn_of_changed_file(file_troubles_, read.status(), now);
  const std::lock_guard lock(mutex_);
  credentials_ = std::move(*read);
  log_info("replication: the files of keys have changed: {} is connected to anew", address_);
  machine_.on_new_trust(credentials_.trusted());
  carry_out(clock_.now());
}

void Subscriber::miss_publisher(const Status& why, double now) {
  publisher_.connect(net::Socket(), address_, {}, now);
  publisher_.part(why, now);
}

// --- what the upstreams hear ---

Hello Subscriber::hello(const Upstream& to) {
  if (const Result<net::NetAddress> own = publisher_.own_address(); options_.passes_on && own.ok())
    relay_.open(*own);
  const bool shares_memory =
      options_.shares_memory && publisher_.shares_memory() && parent_.shares_memory();
  return machine_.hello(kind_of(to), {relay_.port(), shares_memory});
}

Status Subscriber::take_welcome(Upstream& from, const Welcome& welcome) {
  const std::uint64_t before = machine_.newest();
  Status status = machine_.on_welcome(kind_of(from), welcome);
  if (machine_.newest() > before) newest_at_ = net::monotonic_seconds();
  carry_out(clock_.now());
  return status;
}

Status Subscriber::take(Upstream& from, double now) {
  MessageLink& link = from.link();
  Status status = machine_.on_message(kind_of(from), link.type(), link.content(), now);
  carry_out(now);
  return status;
}

Status Subscriber::on_plan(model::VersionSource& from, model::VersionPlan plan, double now) {
  Status status = machine_.on_plan(kind_of(from), std::move(plan), now);
  carry_out(now);
  return status;
}

Status Subscriber::on_digests(model::VersionSource& from, const model::LeafDigests& digests) {
  Status status = machine_.on_digests(kind_of(from), digests);
  carry_out(clock_.now());
  return status;
}

Buffer Subscriber::destination(const model::VersionSource& from, const ChunkHead& at,
                               std::size_t count) {
  return machine_.destination(kind_of(from), at, count);
}

Status Subscriber::on_chunk(model::VersionSource& from, const ChunkHead& at, std::size_t count,
                            bool has_destination, double now) {
  Status status = machine_.on_chunk(kind_of(from), at, count, has_destination, now);
  carry_out(now);
  return status;
}

Status Subscriber::on_memory(model::VersionSource& from, const ChunkHead& at, Buffer memory,
                             double now) {
  Status status = machine_.on_memory(kind_of(from), at, std::move(memory), now);
  carry_out(now);
  return status;
}

Status Subscriber::on_end(model::VersionSource& from, const UpdateName& update) {
  Status status = machine_.on_end(kind_of(from), update);
  carry_out(clock_.now());
  return status;
}

void Subscriber::on_newest(const model::VersionSource& from, std::uint64_t version) {
  const std::uint64_t before = machine_.newest();
  machine_.on_newest(kind_of(from), version);
  if (machine_.newest() > before) newest_at_ = net::monotonic_seconds();
}

void Subscriber::on_closed(model::VersionSource& from, const Status& why, double now) {
  const bool was_refused = upstream(kind_of(from)).was_refused();
  machine_.on_parted(kind_of(from), why, was_refused, now);
  carry_out(now);
  if (kind_of(from) == UpstreamKind::kParent) return;
  if (was_refused) retry_.pause_s = std::max(retry_.pause_s, kLastRetry);
  const double longest = is_lasting(why.code()) ? kLastRefusedRetry : kLastRetry;
  retry_.pause_s = std::min(retry_.pause_s, longest);
  retry_.at = now + retry_.pause_s;
  retry_.pause_s = std::min(2 * retry_.pause_s, longest);
  relay_.close();  // or two replicas might come to take from each other
}

// --- what the machine asks for ---

// An action may cause others, which are done before those that follow.
void Subscriber::carry_out(double now) try {
  ReplicaActions actions = machine_.take_actions();
  for (replica_action::Any& each : actions) carry_out(each, now);
} catch (const std::bad_alloc&) {
  machine_.on_lost_actions();
  throw;
}

void Subscriber::carry_out(replica_action::Any& each, double now) {
  std::visit(
      Overloaded{
          [&](replica_action::Send& send) {
            if (upstream(send.to).is_ready())
              upstream(send.to).link().queue(send.type, std::span<const std::byte>(send.content));
          },
          [&](const replica_action::Offer& offer) { source(offer.to).offer(offer.have); },
          [&](const replica_action::Chunks& chunks) { source(chunks.of).chunks(chunks.plan); },
          [&](const replica_action::Refuse& refuse) { source(refuse.of).refuse(refuse.why); },
          [&](replica_action::Expect expect) { upstream(expect.from).link().allow(expect.type); },
          [&](replica_action::Flush flush) { upstream(flush.to).flush(now); },
          [&](replica_action::Leave leave) { upstream(leave.from).leave(); },
          [&](replica_action::Part& part) { upstream(part.from).part(std::move(part.why), now); },
          [&](const replica_action::ConnectParent& parent) { connect_parent(parent, now); },
          [&](replica_action::PassOn& pass) { relay_.pass_on(std::move(pass.update)); },
          [&](replica_action::PassBytesOn) { relay_.publish(now); },
          [&](const replica_action::Withdraw& back) { relay_.withdraw(back.update); },
          [&](replica_action::StopPassingOn) { relay_.start_over(); },
          [&](replica_action::SetEpoch set) { relay_.set_epoch(set.epoch); },
          [&](const replica_action::SetRelayKey& set) { relay_.set_key(set.key); },
          [&](replica_action::WakeUser) { came_.notify_all(); },
          [&](replica_action::NoteProgress) { retry_.pause_s = Retry::kFirstPause; },
      },
      each);
}

// A connection to a parent is as secure as the one to the publisher.
void Subscriber::connect_parent(const replica_action::ConnectParent& parent, double now) {
  ClientSecurity security;
  Result<net::Socket> socket = start_connect(parent.address);
  if (credentials_.security().tls != nullptr) {
    const Result<net::TlsEndpointRef> tls =
        parent.ticket ? ticket_client(*parent.ticket)
                      : Status(Code::kRemoteError, "the publisher gave no ticket for it");
    if (tls.ok()) security.tls = *tls;
    if (!tls.ok()) socket = tls.status();
  }
  parent_.connect(socket.ok() ? std::move(*socket) : net::Socket(), to_text(parent.address),
                  security, now);
  if (!socket.ok()) parent_.part(socket.status(), now);
}

}  // namespace sparcl::replication
