#include "src/replication/publisher.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <chrono>

#include "src/base/log.hpp"
#include "src/base/settings.hpp"
#include "src/base/stage_range.hpp"
#include "src/codec/change_finder.hpp"
#include "src/codec/changed_state.hpp"
#include "src/replication/model_id.hpp"
#include "src/replication/process_name.hpp"

namespace sparcl::replication {
namespace {

constexpr double kMaxFanOut = 1 << 20;
constexpr double kRecoverSeconds = 0.1;
constexpr std::chrono::seconds kAnchorPatience{
    60};  // of publish(), if it owes an anchor; heuristic

}  // namespace

Status PublisherOptions::take_settings() {
  SPARCL_ASSIGN_OR_RETURN(const double silence, setting_number("LIVENESS_S"));
  SPARCL_ASSIGN_OR_RETURN(const double degree, setting_number("FAN_OUT"));
  SPARCL_ASSIGN_OR_RETURN(const std::string memory, setting_choice("SHARED_MEMORY"));
  SPARCL_ASSIGN_OR_RETURN(const double peers, setting_number("PEER_BYTES"));
  SPARCL_RETURN_IF_ERROR(take_credentials(secret_path, certificates_path));
  if (peer_bytes == 0) peer_bytes = static_cast<std::uint64_t>(peers);
  silence_s = silence;
  shares_memory = memory == "on";
  fan_out = static_cast<int>(std::min(degree, kMaxFanOut));
  return {};
}

Result<std::unique_ptr<Publisher>> Publisher::create(const ReplicatedState& state,
                                                     const PublisherOptions& options) {
  SPARCL_ASSIGN_OR_RETURN(Listener listener, Listener::open(options.listen, options.reach()));
  Result<std::unique_ptr<Publisher>> made = create(state, options, std::move(listener));
  if (made.ok()) SPARCL_RETURN_IF_ERROR((*made)->start_serving());
  return made;
}

Result<std::unique_ptr<Publisher>> Publisher::create(const ReplicatedState& state,
                                                     const PublisherOptions& options,
                                                     Listener listener) {
  SPARCL_RETURN_IF_ERROR(check_model_id(options.model_id));
  std::unique_ptr<Witness> witness;
  if (!options.witness_path.empty()) {
    SPARCL_ASSIGN_OR_RETURN(witness, Witness::take(options.witness_path, process_name()));
  }
  std::unique_ptr<Publisher> made(new Publisher(state, options, std::move(witness)));
  SPARCL_RETURN_IF_ERROR(made->open(std::move(listener)));
  return made;
}

Publisher::Publisher(const ReplicatedState& state, const PublisherOptions& options,
                     std::unique_ptr<Witness> witness)
    : state_(state),
      options_(options),
      witness_(std::move(witness)),
      epoch_(witness_ != nullptr ? PublisherEpoch(witness_->term(), options.clock)
                                 : PublisherEpoch(options.state_path, options.clock)),
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
  context_.find_session = [this](std::uint64_t id) { return server_->find_machine(id); };
  context_.find_feed = [this](const Hash128& schema_hash) { return find_feed(schema_hash); };
  context_.learn_epoch = [this](const LatestHeld& latest) { return learn_epoch(latest); };
  context_.status_report = [this] { return cached_report(); };
  context_.copy_bytes = state_.map->byte_count();
  context_.is_encoding = [this] { return is_encoding_; };
  context_.evict = [this](const SessionMachine& asker) {
    return server_->evict_for(asker, clock_.now());
  };
  context_.max_schema_bytes = [this] { return max_schema_bytes(); };
  context_.make_room = [this](const Session& asker) {
    return server_->make_room(&asker, clock_.now());
  };
  context_.on_departure = [this](const SessionMachine& session) { note_departure(session); };
  context_.on_arrival = [this](const SessionMachine& session) {
    std::erase_if(departures_, [&](const Departure& each) { return is_again(each, session); });
  };
}

Status Publisher::open(Listener listener) {
  SPARCL_RETURN_IF_ERROR(load_keys());
  side_files_.files.emplace();
  SPARCL_ASSIGN_OR_RETURN(side_files_.digest, model::digest_of({}));
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

// The description of what is published, for programs that have no tensors yet.
void Publisher::describe() {
  ModelReply reply{options_.model_id,
                   {state_.schema.begin(), state_.schema.end()},
                   options_.description,
                   issuer_.epoch,
                   {}};
  reply.signatures = issuer_.sign(signed_text(reply));
  context_.model_reply.emplace(MessageType::kModelReply, serialise(reply));
  context_.side_files = describe_side_files(side_files_);
}

Status Publisher::learn_epoch(const LatestHeld& latest) {
  const trust::SigningKeysRef keys = issuer_.keys.load();
  SPARCL_ASSIGN_OR_RETURN(const bool raised, epoch_.learn(latest, options_.model_id, keys.get(),
                                                          net::monotonic_seconds()));
  if (!raised) return {};
  issuer_.epoch = context_.epoch = epoch_.value();
  reissue();
  return {};
}

// All updates get the present epoch, and signatures by the present keys. A replica takes updates
// only of the epoch of its welcome: connected replicas connect again, with the version that they
// hold.
void Publisher::reissue() {
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
  look_at_witness();
  look_for_new_keys();
  look_at_list();
  const bool has_newcomers = entries[2].revents != 0;  // the listener's
  if (has_newcomers && security_.tls != nullptr) security_.tls->look_again();
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

// There was no memory, as likely as not. Work in progress is given up: sessions that wait for it
// ask again.
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
  if (is_encoding_ || is_awaited_ || !whole_->store().newest()) return;
  if (at_work_ == nullptr) at_work_ = next_work();
  if (at_work_ == nullptr || at_work_->work()) return;
  at_work_ = nullptr;
  server_->spread_news();
}

// Work that has begun before publish() goes on.
Publisher::FeedRef Publisher::next_work() {
  const std::vector<FeedRef> all = feeds();
  auto next = std::ranges::find_if(all, &Feed::has_begun, &FeedRef::operator*);
  if (next != all.end()) return *next;
  next = std::ranges::find_if(
      all, [&](const FeedRef& feed) { return feed->wants_work() && has_room_for(*feed); });
  if (next == all.end()) next = std::ranges::find_if(all, &Feed::wants_rest, &FeedRef::operator*);
  if (next == all.end()) return nullptr;
  (*next)->begin_work(whole_->store(), snapshot_.arrays());
  return *next;
}

// However publish() ends.
Publisher::EncodingEnd::~EncodingEnd() {
  {
    const std::unique_lock lock = publisher_.lock_to_publish();
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

// If a finder knows the changes, the arrays are the last published version with these changes over
// it.
Result<Edition> Publisher::encode_next(std::uint64_t version,
                                       std::span<const codec::ChangedHint* const> hints) {
  Result<ChangeLogRef> found = ChangeLogRef();
  if (state_.finder != nullptr && !codec::name_changes(hints)) found = state_.finder->find(hints);
  if (!found.ok()) return found.status();
  if (*found == nullptr)
    return whole_->encode(version, snapshot_.arrays(), {state_.readable(), state_.source}, hints);
  const codec::ChangedState changed(*state_.map, snapshot_.arrays(), {*found}, *state_.kernels);
  const codec::ArrayInput to{state_.readable(), &changed};
  if (state_.found_in_classes) return whole_->encode(version, snapshot_.arrays(), to, hints);
  return whole_->encode_known(version, snapshot_.arrays(), to, **found);
}

Result<Publisher::PublishReport> Publisher::publish(
    std::uint64_t version, std::span<const codec::ChangedHint* const> hints) {
  const std::lock_guard one(publishing_);
  const StageRange range("publish a version");
  model::VersionEdition published;
  SPARCL_ASSIGN_OR_RETURN(const PublishReport report,
                          publish_to_replicas(version, hints, published));
  for (model::VersionSink* const sink : options_.sinks) sink->write(published);
  return report;
}

Result<Publisher::PublishReport> Publisher::publish_to_replicas(
    std::uint64_t version, std::span<const codec::ChangedHint* const> hints,
    model::VersionEdition& published) {
  const double begin = net::monotonic_seconds();
  if (witness_ != nullptr) SPARCL_RETURN_IF_ERROR(witness_->check());
  {
    std::unique_lock lock = lock_to_publish();
    // Other work goes on beside later versions. Nothing else is a reason to wait.
    (void)changed_.wait_for(lock, kAnchorPatience, [&] { return !whole_->is_owed_anchor(); });
    const std::optional<HeldVersion>& newest = whole_->store().newest();
    if (version == UINT64_MAX) {
      return Status(
          Code::kInvalidArgument,
          fmt::format("version {} is the last number there is: none could come after it", version));
    }
    if (newest && version <= newest->version) {
      return Status(
          Code::kInvalidArgument,
          fmt::format("version {} does not come after version {}, the newest: publish {} or "
                      "more",
                      version, newest->version, newest->version + 1));
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
  published = {edition.delta, edition.label, edition.replaced};
  // Until the version is there the snapshot may go back to the one before: a publish() that has
  // failed has changed nothing.
  const std::unique_ptr<codec::UpdateEncoder> written = std::move(edition.written);
  {
    const std::unique_lock lock = lock_to_publish();
    const std::vector<FeedRef> all = feeds();
    take_next_side_files(version);  // the last that needs memory, but for write()
    whole_->write(std::move(edition));
    if (written != nullptr) written->keep_forward();
    for (const FeedRef& feed : all) feed->bring_forward(replaced);
    update_parts();
  }
  if (state_.finder != nullptr)
    state_.finder->keep(is_first ? codec::ChangeFinder::Hints() : hints, snapshot_.arrays());
  wake_.wake();
  report.seconds = net::monotonic_seconds() - begin;
  return report;
}

}  // namespace sparcl::replication
