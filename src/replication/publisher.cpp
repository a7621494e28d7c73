#include "src/replication/publisher.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <chrono>

#include "src/base/failpoint.hpp"
#include "src/base/log.hpp"
#include "src/base/settings.hpp"
#include "src/base/stage_range.hpp"
#include "src/codec/change_finder.hpp"
#include "src/codec/changed_state.hpp"
#include "src/model/model_hash.hpp"
#include "src/replication/model_id.hpp"
#include "src/replication/process_name.hpp"
#include "src/replication/report_text.hpp"

namespace sparcl::replication {
namespace {

constexpr double kMaxFanOut = 1 << 20;
constexpr std::size_t kMaxFeeds = 256;    // different parts of the model
constexpr double kIdleFeedSeconds = 300;  // without a replica
constexpr double kUnprovenFeedSeconds =
    10;  // the same, of one that no replica has held a version of
constexpr double kRecoverSeconds = 0.1;
constexpr const char* kNotPublished = "its tensors are not the publisher's: ";
constexpr double kStarvedSeconds = 1;  // heuristic
constexpr std::uint64_t kUnprovenEncoded =
    2;  // shards of one model have what is not split each: more than the model together
constexpr std::uint64_t kProvenEncoded =
    4;  // times the model's bytes, of parts in one publish(); heuristic
constexpr std::size_t kRefusedSchemaBytes =
    std::size_t{1} << 20;  // of a list that is too long: its sender is told so; heuristic
constexpr double kReportPause =
    20;  // times what a report took, until another one is made; heuristic
constexpr std::size_t kMaxFarewells = 4096;
constexpr std::size_t kMaxReported =
    1000;  // replicas, so that an answer takes a bounded time; of long names fewer have room

}  // namespace

Status PublisherOptions::take_settings() {
  SPARCL_ASSIGN_OR_RETURN(const double silence, setting_number("LIVENESS_S"));
  SPARCL_ASSIGN_OR_RETURN(const double degree, setting_number("FAN_OUT"));
  SPARCL_ASSIGN_OR_RETURN(const std::string memory, setting_choice("SHARED_MEMORY"));
  SPARCL_ASSIGN_OR_RETURN(const double peers, setting_number("PEER_BYTES"));
  if (peer_bytes == 0) peer_bytes = static_cast<std::uint64_t>(peers);
  silence_s = silence;
  shares_memory = memory == "on";
  fan_out = static_cast<int>(std::min(degree, kMaxFanOut));
  return {};
}

Result<std::unique_ptr<Publisher>> Publisher::create(const ReplicatedState& state,
                                                     const PublisherOptions& options) {
  SPARCL_ASSIGN_OR_RETURN(Listener listener, Listener::open(options.listen));
  Result<std::unique_ptr<Publisher>> made = create(state, options, std::move(listener));
  if (made.ok()) SPARCL_RETURN_IF_ERROR((*made)->start_serving());
  return made;
}

Result<std::unique_ptr<Publisher>> Publisher::create(const ReplicatedState& state,
                                                     const PublisherOptions& options,
                                                     Listener listener) {
  SPARCL_RETURN_IF_ERROR(check_model_id(options.model_id));
  std::unique_ptr<Publisher> made(new Publisher(state, options));
  SPARCL_RETURN_IF_ERROR(made->open(std::move(listener)));
  return made;
}

Publisher::Publisher(const ReplicatedState& state, const PublisherOptions& options)
    : state_(state),
      options_(options),
      epoch_(options.state_path, options.clock),
      clock_(net::clock_slack_s(options.silence_s)) {
  issuer_.model_id = options.model_id;
  issuer_.epoch = epoch_.value();
  context_.budget->set_limit(PeerBudget::limit_for(options.peer_bytes, state_.map->byte_count()));
  whole_ = std::make_shared<Feed>(issuer_, state_,
                                  Feed::Options{options.queue, options.fan_out, context_.budget});
  context_.model_id = options.model_id;
  context_.epoch = issuer_.epoch;
  context_.max_replicas = Server::max_replicas();
  context_.replica_limit_reason = "its descriptors allow: ulimit -n";
  context_.name = process_name();
  context_.silence_s = context_.handshake_s = options.silence_s;
  context_.shares_memory = options.shares_memory;
  context_.find_session = [this](std::uint64_t id) { return server_->find(id); };
  context_.find_source = [this](const Hash128& schema_hash) { return find_source(schema_hash); };
  context_.learn_epoch = [this](const LatestHeld& latest) { return learn_epoch(latest); };
  context_.status_report = [this] { return cached_report(); };
  context_.evict = [this] { return server_->evict_unproven(clock_.now()); };
  context_.max_schema_bytes = [this] { return max_schema_bytes(); };
  context_.make_room = [this](const Session& asker) {
    return server_->make_room(&asker, clock_.now());
  };
  context_.on_farewell = [this](const Session& session) { note_farewell(session); };
  context_.on_arrival = [this](const Session& session) {
    std::erase_if(farewells_, [&](const Farewell& each) { return is_again(each, session); });
  };
}

Status Publisher::open(Listener listener) {
  if (!options_.key_path.empty()) {
    SPARCL_ASSIGN_OR_RETURN(trust::SigningKey key, trust::SigningKey::load(options_.key_path));
    issuer_.key = std::move(key);
  }
  describe();
  if (context_.model_reply->content.size() > kMaxModelBytes) {
    return Status(
        Code::kUnsupported,
        fmt::format("the list of tensors takes {} bytes; at most {} can be told to others",
                    context_.model_reply->content.size(), kMaxModelBytes));
  }
  address_ = listener.address;
  SPARCL_ASSIGN_OR_RETURN(net::WakeEvent wake, net::WakeEvent::create());
  wake_ = std::move(wake);
  server_ = std::make_unique<Server>(std::move(listener.socket), context_);
  return {};
}

// What is published, for those who have no tensors yet.
void Publisher::describe() {
  ModelReply reply{options_.model_id,
                   {state_.schema.begin(), state_.schema.end()},
                   options_.description,
                   issuer_.epoch,
                   {}};
  if (issuer_.key)
    reply.signature =
        CommitSignature{issuer_.key->public_key(), issuer_.key->sign(signed_text(reply))};
  context_.model_reply.emplace(MessageType::kModelReply, serialise(reply));
}

Status Publisher::learn_epoch(const LatestHeld& latest) {
  const std::optional<trust::PublicKey> key =
      issuer_.key ? std::optional(issuer_.key->public_key()) : std::nullopt;
  SPARCL_ASSIGN_OR_RETURN(const bool raised,
                          epoch_.learn(latest, options_.model_id, key, net::monotonic_seconds()));
  if (raised) raise_epoch();
  return {};
}

// A replica takes updates of the epoch alone that its welcome had: those that are here come anew,
// with what they hold.
void Publisher::raise_epoch() {
  issuer_.epoch = context_.epoch = epoch_.value();
  at_work_ = nullptr;
  for (const FeedRef& feed : feeds()) feed->reissue();
  describe();
  server_->end_replicas();
}

Status Publisher::start_serving() {
  return thread_.start("a publisher",
                       [this](const net::ServiceThread::Stop& stop) { serve(stop); });
}

Publisher::~Publisher() {
  if (thread_.stop()) return;
  (void)server_.release();  // a child of fork(): its parent's connections are not its own to end
}

void Publisher::serve(const net::ServiceThread::Stop& stop) {
  std::vector<pollfd> entries;
  while (!stop.is_asked()) {
    try {
      turn(stop, entries);
    } catch (const std::exception& error) {
      recover(error);
      pollfd ends{stop.fd(), POLLIN, 0};
      net::poll_until(std::span(&ends, 1), net::monotonic_seconds() + kRecoverSeconds);
    }
  }
  const std::lock_guard lock(mutex_);
  server_->leave();
}

void Publisher::turn(const net::ServiceThread::Stop& stop, std::vector<pollfd>& entries) {
  double until = 0;
  {
    const std::lock_guard lock(mutex_);
    const double now = clock_.look();
    entries.assign({{stop.fd(), POLLIN, 0}, {wake_.fd(), POLLIN, 0}});
    server_->add_entries(entries, now);
    until = at_work_ != nullptr ? now : server_->next_tick(now);
  }
  clock_.poll(entries, until);
  epoch_.save();  // this thread alone changes it
  look_at_list();
  const std::lock_guard lock(mutex_);
  const double now = clock_.look();
  if (entries[1].revents != 0) {
    wake_.drain();
    server_->spread_news();
  }
  server_->step(std::span(entries).subspan(2), now);
  for (const FeedRef& feed : feeds()) server_->call_back(feed->fan_out().relieve(now));
  work_on();
  drop_idle_feeds(now);
  bound_parts();
  server_->keep_within_budget(now);
  changed_.notify_all();
}

// For want of memory, as likely as not. What is being made is given up: those who wait for it ask
// again.
void Publisher::recover(const std::exception& error) {
  const std::lock_guard lock(mutex_);
  if (at_work_ != nullptr) at_work_->give_up();
  at_work_ = nullptr;
  changed_.notify_all();
  try {
    const std::uint64_t times = failed_turns_.count("a turn failed", clock_.look());
    if (times > 0)
      log_error("replication: serving replicas: {}{}", error.what(), times_text(times));
  } catch (const std::bad_alloc&) {
    // Not even to say so.
  }
}

// A piece of what a replica waits for, then all have their turn.
void Publisher::work_on() {
  if (at_work_ == nullptr) {
    if (is_encoding_ || is_awaited_ || !whole_->store().newest()) return;
    const std::vector<FeedRef> all = feeds();
    auto next = std::ranges::find_if(
        all, [&](const FeedRef& feed) { return feed->wants_work() && has_room_for(*feed); });
    if (next == all.end())
      next = std::ranges::find_if(all, [](const FeedRef& feed) { return feed->wants_rest(); });
    if (next == all.end()) return;
    at_work_ = *next;
    at_work_->begin_work(whole_->store().newest()->version, snapshot_.arrays());
  }
  if (at_work_->work()) return;
  at_work_ = nullptr;
  server_->spread_news();
}

// What all replicas need, and one part at a time, is always made. If no room comes, an unproven
// replica that keeps what it is sent goes.
bool Publisher::has_room_for(Feed& feed) {
  if (&feed == whole_.get() || !feed.store().newest())
    return true;  // its first version takes no memory
  for (const Part& each : parts_) each.feed->drop_idle_anchor();
  const auto is_idle = [&](const Part& each) {
    return each.feed.get() == &feed || each.feed->update_bytes() == 0;
  };
  if (std::ranges::all_of(parts_, is_idle) || context_.budget->has_room(feed.tensor_bytes())) {
    starved_since_ = -1;
    return true;
  }
  const double now = clock_.now();
  if (starved_since_ < 0) starved_since_ = now;
  if (now - starved_since_ > kStarvedSeconds && server_->evict_taker()) starved_since_ = now;
  return false;
}

// The oldest updates of parts that nobody is being sent go until peers are within the budget: first
// those of parts without a proven replica.
void Publisher::bound_parts() {
  if (at_work_ != nullptr || !context_.budget->is_over()) return;
  for (const Part& each : parts_) each.feed->drop_idle_anchor();
  for (const bool proven : {false, true}) {
    for (const Part& part : parts_) {
      while (part.is_proven == proven && context_.budget->is_over() && part.feed->drop_idle()) {
      }
    }
  }
}

std::vector<Publisher::FeedRef> Publisher::feeds() const {
  std::vector<FeedRef> all{whole_};
  for (const Part& part : parts_) all.push_back(part.feed);
  return all;
}

UpdateSourceRef Publisher::find_source(const Hash128& schema_hash) const {
  for (const FeedRef& feed : feeds()) {
    if (feed->source().schema_hash == schema_hash) return UpdateSourceRef(feed, &feed->source());
  }
  return nullptr;
}

Status Publisher::parse_held() {
  if (!held_.empty()) return {};
  Result<model::Schema> held = model::parse_schema(state_.schema);
  if (held.ok()) held_ = std::move(*held);
  return held.status();
}

// That a list of parts of this model can have: more is not read.
std::size_t Publisher::max_schema_bytes() {
  return parse_held().ok()
             ? static_cast<std::size_t>(std::clamp<std::uint64_t>(
                   Feed::max_schema_bytes(held_), kRefusedSchemaBytes, kMaxSchemaBytes))
             : 0;
}

// A list of tensors is parsed and placed without the mutex: it may be long, and whoever likes may
// send one. publish() does not wait for that. One a turn, so that those who are served already have
// theirs.
void Publisher::look_at_list() {
  std::uint64_t id = 0;
  const std::vector<std::byte>* list = nullptr;
  Status status;
  {
    const std::lock_guard lock(mutex_);
    Session* const asker = server_->first_with_list();
    if (asker == nullptr) return;
    if (UpdateSourceRef known = find_source(asker->list_hash()); known != nullptr) {
      return asker->take_source(std::move(known), clock_.now());
    }
    id = asker->id();
    list = asker->list();  // this thread alone ends sessions
    status = check_list(*asker);
  }
  Result<UpdateSourceRef> source = Status(Code::kOutOfMemory, "no memory for its list of tensors");
  FeedRef feed;
  try {
    SPARCL_FAILPOINT("publisher.list");
    if (status.ok()) status = make_part(*list, feed);
    if (!status.ok()) source = status;
  } catch (const std::bad_alloc&) {
  }
  const std::lock_guard lock(mutex_);
  Session* const asker = server_->find(id);
  if (asker == nullptr) return;
  if (feed != nullptr) source = add_part(std::move(feed));
  asker->take_source(std::move(source), clock_.now());
}

Status Publisher::make_part(std::span<const std::byte> list, FeedRef& feed) const {
  Result<FeedRef> made = Feed::of_parts(issuer_, state_, held_, list,
                                        {options_.queue, options_.fan_out, context_.budget});
  if (!made.ok()) return made.status().with_prefix(kNotPublished);
  feed = std::move(*made);
  return {};
}

// Before the work: it has too many entries, or nobody goes for it.
Status Publisher::check_list(const Session& asker) {
  SPARCL_RETURN_IF_ERROR(parse_held());
  SPARCL_RETURN_IF_ERROR(Feed::check_count(*asker.list(), held_).with_prefix(kNotPublished));
  const std::uint64_t bytes = Feed::list_bytes(*asker.list());
  const PeerBudget& budget = *context_.budget;
  if (!budget.has_unproven_room(bytes)) {
    std::erase_if(parts_,
                  [](const Part& part) { return !part.is_proven && part.feed.use_count() == 1; });
  }
  if (!server_->make_room(&asker, clock_.now(), bytes)) return no_room(budget);
  if (parts_.size() >= kMaxFeeds) {
    std::erase_if(parts_, [](const Part& part) { return part.feed.use_count() == 1; });  // nobody's
  }
  if (parts_.size() >= kMaxFeeds) {
    return Status(Code::kUnsupported,
                  fmt::format("replicas hold {} different parts of the model already", kMaxFeeds));
  }
  return {};
}

UpdateSourceRef Publisher::add_part(FeedRef feed) {
  log_info("replication: parts of {} of the model's {} bytes are served", feed->tensor_bytes(),
           whole_->tensor_bytes());
  parts_.push_back({feed, clock_.now()});
  return UpdateSourceRef(feed, &feed->source());
}

void Publisher::drop_idle_feeds(double now) {
  if (is_encoding_) return;
  for (Part& part : parts_) {
    if (part.feed.use_count() > 1) part.used_at = now;
    if (!part.is_proven && part.feed->fan_out().has_staged()) {
      part.is_proven = true;
      part.feed->prove();
    }
  }
  const auto is_idle = [&](const Part& part) {
    return now - part.used_at > (part.is_proven ? kIdleFeedSeconds : kUnprovenFeedSeconds);
  };
  const auto idle =
      std::ranges::find_if(parts_, is_idle);  // one a turn: a long list takes time to end, too
  if (idle != parts_.end()) parts_.erase(idle);
}

// However publish() ends.
Publisher::EncodingEnd::~EncodingEnd() {
  {
    const std::lock_guard lock(publisher_.mutex_);
    publisher_.is_encoding_ = false;
  }
  publisher_.wake_.wake();
}

Result<Edition> Publisher::encode(std::uint64_t version,
                                  std::span<const codec::ChangedHint* const> hints) {
  if (whole_->store().newest()) return encode_next(version, hints);  // publish() alone changes that
  SPARCL_RETURN_IF_ERROR(snapshot_.take(*state_.map, state_.arrays, state_.source));
  return whole_->first_edition(version, snapshot_.arrays());
}

// Where what has changed is found without reading the arrays they are what was published last, with
// that over it.
Result<Edition> Publisher::encode_next(std::uint64_t version,
                                       std::span<const codec::ChangedHint* const> hints) {
  Result<ChangeLogRef> found = ChangeLogRef();
  if (state_.finder != nullptr && !codec::name_changes(hints)) found = state_.finder->find(hints);
  if (!found.ok()) return found.status();
  if (*found == nullptr)
    return whole_->encode(version, snapshot_.arrays(), {state_.readable(), state_.source}, hints);
  const codec::ChangedState changed(*state_.map, snapshot_.arrays(), {std::move(*found)},
                                    *state_.kernels);
  return whole_->encode(version, snapshot_.arrays(), {state_.readable(), &changed}, hints);
}

// Where it fails the replicas of that part start over. One that has no version yet, or whose way
// from the last one is not known, gets its first one from the thread, which hashes it piece by
// piece.
void Publisher::publish_part(Feed& part, std::uint64_t version, const ChangeLogRef& replaced,
                             std::uint64_t expected_bytes) {
  {
    const std::lock_guard lock(mutex_);
    bound_parts();
    const auto own =
        std::ranges::find(parts_, &part, [](const Part& each) { return each.feed.get(); });
    const bool has_room =
        own == parts_.end() || own->is_proven || context_.budget->has_room(expected_bytes);
    if (!part.store().newest() || replaced == nullptr || !has_room) return part.start_over();
  }
  Status status;
  try {
    Result<Edition> edition = part.next_edition(version, snapshot_.arrays(), replaced);
    status = edition.status();
    const std::lock_guard lock(mutex_);
    if (edition.ok()) part.add(std::move(*edition));
  } catch (const std::bad_alloc&) {
    status = no_memory();
  }
  if (!status.ok()) {
    log_error("replication: version {} of {} bytes of the model: {}", version, part.tensor_bytes(),
              status.message());
    const std::lock_guard lock(mutex_);
    part.start_over();
  }
  wake_.wake();
}

// Parts of proven replicas first, and of all no more bytes than a few times the model's: peers must
// not make publish() take longer and longer. The others start over, and get their next version as
// an anchor, which the thread makes.
std::vector<Publisher::FeedRef> Publisher::parts_to_encode() {
  std::vector<FeedRef> chosen;
  for (const bool proven : {true, false}) {
    std::uint64_t left = whole_->tensor_bytes() * (proven ? kProvenEncoded : kUnprovenEncoded);
    for (const Part& part : parts_) {
      if (part.is_proven != proven) continue;
      const std::uint64_t bytes = part.feed->encoded_bytes();
      if (bytes > left) {
        part.feed->start_over();
        continue;
      }
      left -= bytes;
      chosen.push_back(part.feed);
    }
  }
  return chosen;
}

Result<Publisher::PublishReport> Publisher::publish(
    std::uint64_t version, std::span<const codec::ChangedHint* const> hints) {
  const std::lock_guard one(publishing_);
  const StageRange range("publish a version");
  const double begin = net::monotonic_seconds();
  {
    // The snapshot is what an anchor is made of. Nothing else is a reason to wait.
    std::unique_lock lock(mutex_);
    is_awaited_ = true;
    changed_.wait(lock, [&] { return at_work_ == nullptr || !at_work_->makes_anchor(); });
    is_awaited_ = false;
    const std::optional<HeldVersion>& newest = whole_->store().newest();
    if (version == UINT64_MAX) {
      return Status(
          Code::kInvalidArgument,
          fmt::format("version {} is the last number there is: none could come after it", version));
    }
    if (newest && version <= newest->version) {
      return Status(Code::kInvalidArgument,
                    fmt::format("version {} does not come after version {}, the newest", version,
                                newest->version));
    }
    at_work_ = nullptr;
    for (const FeedRef& feed : feeds()) feed->give_up();
    is_encoding_ = true;
  }
  const EncodingEnd end(*this);
  const bool is_first = !whole_->store().newest();  // whatever hints say all of it is
  SPARCL_ASSIGN_OR_RETURN(Edition edition, encode(version, hints));
  PublishReport report;
  report.hash = edition.label->commit.target_hash;
  report.changed =
      edition.delta == nullptr ? edition.label->commit.elements : edition.delta->commit.changed;
  report.stream_bytes = edition.delta == nullptr ? 0 : edition.delta->commit.stream_bytes;
  const ChangeLogRef replaced = edition.replaced;
  // Until the version is there the snapshot may go back to the one before: a publish() that has
  // failed has changed nothing.
  const std::unique_ptr<codec::UpdateEncoder> written = std::move(edition.written);
  std::vector<FeedRef> all;
  {
    const std::lock_guard lock(mutex_);
    all = parts_to_encode();
    whole_->add(std::move(edition));
    if (written != nullptr) written->keep_forward();
  }
  if (state_.finder != nullptr)
    state_.finder->keep(is_first ? codec::ChangeFinder::Hints() : hints, snapshot_.arrays());
  wake_.wake();
  for (const FeedRef& feed : all) publish_part(*feed, version, replaced, report.stream_bytes);
  report.seconds = net::monotonic_seconds() - begin;
  return report;
}

// The same replica: by its receipt, or another one of its process. A name alone is anybody's word.
bool Publisher::is_again(const Farewell& farewell, const Session& session) {
  if (farewell.receipt == session.last_receipt()) return true;
  const auto same_host = [](const std::optional<net::NetAddress>& a,
                            const std::optional<net::NetAddress>& b) {
    return a && b && a->family == b->family && a->ip == b->ip;
  };
  return farewell.process == session.process() && same_host(farewell.from, session.from());
}

// What it held counts for those who wait for acknowledgements; what one held that was lost does
// not.
void Publisher::note_farewell(const Session& session) {
  if (session.acknowledged_version() == 0) return;
  farewells_.push_back(
      {session.receipt(), session.process(), session.from(), session.acknowledged_version()});
  if (farewells_.size() > kMaxFarewells) farewells_.pop_front();
}

Publisher::Count Publisher::count_locked(std::uint64_t version) const {
  Count count;
  count.left = static_cast<int>(std::ranges::count_if(
      farewells_, [&](const Farewell& each) { return each.version >= version; }));
  for (const auto& session : server_->sessions()) {
    if (!session->is_replica()) continue;
    ++count.connected;
    // A number alone says nothing: the bytes must be of this life's versions, and it must have been
    // given them.
    const bool is_held = session->acknowledged_version() >= std::max<std::uint64_t>(version, 1);
    if (is_held) ++count.holding;
    if (is_held || session->received_version() >= std::max<std::uint64_t>(version, 1))
      ++count.staged;
  }
  return count;
}

Publisher::Count Publisher::count(std::uint64_t version) const {
  const std::lock_guard lock(mutex_);
  return count_locked(version);
}

Status Publisher::wait(std::uint64_t version, int replicas, double seconds) {
  return wait_for(version, replicas, seconds, &Count::holding, "hold");
}

Status Publisher::wait_staged(std::uint64_t version, int replicas, double seconds) {
  return wait_for(version, replicas, seconds, &Count::staged, "have received");
}

Status Publisher::wait_for(std::uint64_t version, int replicas, double seconds, int Count::*which,
                           const char* do_what) {
  std::unique_lock lock(mutex_);
  const auto reached = [&](const Count& count) { return count.*which + count.left; };
  const auto enough = [&] { return reached(count_locked(version)) >= replicas; };
  const auto limit = std::chrono::duration<double>(std::clamp(seconds, 0.0, 1e8));
  if (changed_.wait_for(lock, limit, enough)) return {};
  const Count now = count_locked(version);
  return Status(Code::kTimeout,
                fmt::format("{} of {} replicas {} version {} after {:g} s; {} are connected",
                            reached(now), replicas, do_what, version, seconds, now.connected));
}

std::string Publisher::status() const {
  const std::lock_guard lock(mutex_);
  return status_locked();
}

// A report of a thousand replicas takes milliseconds: those who ask again and again take a small
// part of the thread's time.
const std::string& Publisher::cached_report() {
  const double begin = net::monotonic_seconds();
  if (begin - report_.made_at < kReportPause * report_.took_s) return report_.text;
  report_.text = status_locked();
  report_.made_at = net::monotonic_seconds();
  report_.took_s = report_.made_at - begin;
  return report_.text;
}

std::string Publisher::status_locked() const {
  ReportFields report;
  report["publisher"] = context_.name;
  report["model_id"] = options_.model_id;
  report["address"] = address_;
  const std::uint64_t newest = whole_->store().newest() ? whole_->store().newest()->version : 0;
  report["version"] = newest;
  report["hash"] = whole_->store().newest() ? to_hex(whole_->store().newest()->hash) : "";
  report["signed"] = issuer_.key.has_value();
  report["acknowledgements"] =
      "advisory";  // replicas prove neither who they are nor what they hold
  report["tensor_bytes"] = whole_->tensor_bytes();
  report["kept_updates"] = whole_->store().updates();
  std::uint64_t kept_bytes = 0;
  for (const FeedRef& feed : feeds()) kept_bytes += feed->store().bytes();
  report["kept_bytes"] = kept_bytes;
  report["peer_bytes"] = context_.budget->used();
  report["peer_bytes_limit"] = context_.budget->limit();
  report["peer_bytes_unproven"] = context_.budget->unproven();
  report["peer_bytes_unproven_limit"] = context_.budget->unproven_limit();
  report["replicas_connected"] = count_locked(0).connected;
  report["replicas_lost"] = context_.counts->lost;
  report["parents_blamed"] = context_.counts->blamed;
  report["connections_refused"] = context_.counts->refused;
  report["connections_evicted"] = context_.counts->evicted;
  ReportText text(report, "replicas");
  std::size_t reported = 0;
  for (const auto& session : server_->sessions()) {
    if (!session->is_replica()) continue;
    const std::uint64_t held = session->held() ? session->held()->version : 0;
    const Session* from = server_->find(session->source()->fan_out->parent(session->id()));
    const bool has_room =
        text.add({{"name", shown_name(session->replica())},
                  {"replica", shown_name(session->label().name)},
                  {"host", shown_name(session->label().host)},
                  {"slot", session->label().slot},
                  {"version", held},
                  {"vouched", session->is_vouched()},
                  {"lag", newest > held ? newest - held : 0},
                  {"staged", session->staged_version()},
                  {"tensor_bytes", session->source()->tensor_bytes},
                  {"bytes_sent", session->bytes_sent()},
                  {"bytes_shared", session->bytes_shared()},
                  {"refused", session->refused()},
                  {"expelled", session->source()->fan_out->is_expelled(session->id())},
                  {"from", from != nullptr ? shown_name(from->replica()) : "publisher"},
                  {"state", session->state()}});
    if (!has_room || ++reported == kMaxReported) break;
  }
  return text.text();
}

}  // namespace sparcl::replication
