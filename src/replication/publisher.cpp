#include "src/replication/publisher.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "src/base/failpoint.hpp"
#include "src/base/log.hpp"
#include "src/base/settings.hpp"
#include "src/codec/earlier_state.hpp"
#include "src/codec/staging_sink.hpp"
#include "src/replication/process_name.hpp"

namespace sparcl::replication {
namespace {

constexpr std::uint64_t kStepElements = std::uint64_t{16} << 20;
constexpr double kMostFanOut = 1 << 20;
constexpr double kMostDistinct = 0.9;        // of several updates' changes: composing them would spare less; heuristic
constexpr std::uint64_t kMostReplaced = 16;  // of the elements one: what more replaces is not kept; heuristic

// Later lives of a publisher have larger ones.
std::uint64_t epoch_now() {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch()).count());
}

}  // namespace

Status PublisherOptions::take_settings() {
  const Result<double> silence = setting_number("LIVENESS_S");
  if (!silence.ok()) return silence.status();
  const Result<double> degree = setting_number("FAN_OUT");
  if (!degree.ok()) return degree.status();
  const Result<std::string> memory = setting_choice("SHARED_MEMORY");
  if (!memory.ok()) return memory.status();
  silence_s = *silence;
  shares_memory = *memory == "on";
  fan_out = static_cast<int>(std::min(*degree, kMostFanOut));
  return {};
}

Result<std::unique_ptr<Publisher>> Publisher::create(const ReplicatedState& state, const PublisherOptions& options) {
  Result<Listener> listener = Listener::open(options.listen);
  if (!listener.ok()) return listener.status();
  Result<std::unique_ptr<Publisher>> made = create(state, options, std::move(*listener));
  if (made.ok()) SPARCL_RETURN_IF_ERROR((*made)->start_serving());
  return made;
}

Result<std::unique_ptr<Publisher>> Publisher::create(const ReplicatedState& state, const PublisherOptions& options,
                                                     Listener listener) {
  std::unique_ptr<Publisher> made(new Publisher(state, options));
  SPARCL_RETURN_IF_ERROR(made->open(std::move(listener)));
  return made;
}

Publisher::Publisher(const ReplicatedState& state, const PublisherOptions& options)
    : state_(state),
      options_(options),
      store_({std::max<std::size_t>(options.queue, 1), state.map->byte_count()}),
      fan_out_(options.fan_out) {
  context_.model_id = options.model_id;
  context_.schema_hash = state.schema_hash;
  context_.epoch = epoch_now();
  context_.model_reply = serialise(ModelReply{options.model_id, {state.schema.begin(), state.schema.end()}, options.description});
  context_.name = process_name();
  context_.silence_s = context_.handshake_s = options.silence_s;
  context_.shares_memory = options.shares_memory;
  context_.store = &store_;
  context_.fan_out = &fan_out_;
  context_.find_session = [this](std::uint64_t id) { return server_->find(id); };
  context_.request_anchor = [this] { anchor_is_wanted_ = true; };
  context_.request_composed = [this](const HeldVersion& base) {
    if (!composed_is_wanted_) composed_is_wanted_ = base;
  };
  context_.status_report = [this] { return status_locked(); };
}

Status Publisher::open(Listener listener) {
  if (!options_.key_path.empty()) {
    Result<SigningKey> key = SigningKey::load(options_.key_path);
    if (!key.ok()) return key.status();
    key_ = std::move(*key);
  }
  if (context_.model_reply.size() > kMaxModelBytes) {
    return Status(Code::kUnsupported, fmt::format("the list of tensors takes {} bytes; at most {} can be told to others",
                                                  context_.model_reply.size(), kMaxModelBytes));
  }
  address_ = listener.address;
  Result<WakeEvent> wake = WakeEvent::create();
  if (!wake.ok()) return wake.status();
  wake_ = std::move(*wake);
  server_ = std::make_unique<Server>(std::move(listener.socket), context_);
  return {};
}

Status Publisher::start_serving() {
  return thread_.start("a publisher", [this](const ServiceThread::Stop& stop) { serve(stop); });
}

Publisher::~Publisher() {
  if (thread_.stop()) return;
  (void)server_.release();  // a child of fork(): its parent's connections are not its own to end
}

void Publisher::serve(const ServiceThread::Stop& stop) {
  std::vector<pollfd> entries;
  while (!stop.is_asked()) {
    double until = 0;
    {
      const std::lock_guard lock(mutex_);
      const double now = monotonic_seconds();
      entries.assign({{stop.fd(), POLLIN, 0}, {wake_.fd(), POLLIN, 0}});
      server_->add_entries(entries, now);
      until = maker_ != nullptr ? now : server_->next_tick(now);
    }
    poll_until(entries, until);
    const std::lock_guard lock(mutex_);
    const double now = monotonic_seconds();
    if (entries[1].revents != 0) {
      wake_.drain();
      server_->publish(now);
    }
    server_->step(std::span(entries).subspan(2), now);
    make_on();
    changed_.notify_all();
  }
  const std::lock_guard lock(mutex_);
  server_->leave();
}

// A piece of an update that a replica waits for, then the replicas have their turn.
void Publisher::make_on() {
  if (maker_ == nullptr) {
    if (is_encoding_ || !store_.newest()) return;
    if (anchor_is_wanted_ && !store_.has_newest_anchor()) {
      maker_ = begin_anchor();
    } else if (composed_is_wanted_) {
      maker_ = begin_composed();
    }
    if (maker_ == nullptr) return;
  }
  const Result<bool> whole = maker_->step();
  if (whole.ok() && !*whole) return;
  const std::unique_ptr<UpdateMaker> done = std::move(maker_);
  const bool is_anchor = done->commit().is_anchor;
  Status status = whole.status();
  if (whole.ok()) {
    status = keep_made(done->take(), done->digest());
  }
  if (!status.ok()) log_error("replication: no {} could be made: {}", is_anchor ? "anchor" : "composed update", status.message());
  if (is_anchor) anchor_is_wanted_ = false;
  if (!is_anchor && !status.ok()) store_.keep_composed(*composed_is_wanted_, nullptr);
  if (!is_anchor) composed_is_wanted_.reset();
  server_->publish(monotonic_seconds());
}

Commit Publisher::commit_of(const HeldVersion& base, std::uint64_t version) const {
  Commit commit;
  commit.model_id = options_.model_id;
  commit.epoch = context_.epoch;
  commit.base_version = base.version;
  commit.version = version;
  commit.schema_hash = state_.schema_hash;
  commit.base_hash = base.hash;
  return commit;
}

std::unique_ptr<UpdateMaker> Publisher::begin_anchor() {
  return std::make_unique<UpdateMaker>(state_, snapshot_.arrays(), commit_of({}, store_.newest()->version), nullptr,
                                       key_.has_value());
}

// Nothing if it would not be worth it, and the replicas have been told.
std::unique_ptr<UpdateMaker> Publisher::begin_composed() {
  const HeldVersion base = *composed_is_wanted_;
  std::vector<ChangeLogRef> logs = store_.way_back(base);
  if (logs.empty() || codec::distinct_part(logs, state_.map->block_count()) > kMostDistinct) {
    give_composed_up();
    server_->publish(monotonic_seconds());
    return nullptr;
  }
  auto source = std::make_unique<codec::EarlierState>(*state_.map, snapshot_.arrays(), std::move(logs), *state_.kernels);
  return std::make_unique<UpdateMaker>(state_, snapshot_.arrays(), commit_of(base, store_.newest()->version), std::move(source),
                                       key_.has_value());
}

// Those who wait for it take one update after the other.
void Publisher::give_composed_up() {
  if (!composed_is_wanted_) return;
  maker_ = nullptr;
  store_.keep_composed(*composed_is_wanted_, nullptr);
  composed_is_wanted_.reset();
}

Status Publisher::keep_made(std::shared_ptr<Update> made, StreamDigest& digest) {
  if (made->target() != *store_.newest()) {
    return Status(Code::kInternalError,
                  fmt::format("it leads to the state {}, not to version {}'s, {}", to_hex(made->commit.target_hash),
                              store_.newest()->version, to_hex(store_.newest()->hash)));
  }
  SPARCL_RETURN_IF_ERROR(seal(*made, digest));
  if (made->commit.is_anchor) {
    store_.keep_anchor(std::move(made));
  } else {
    log_debug("replication: versions {} to {} as one update of {} bytes", made->commit.base_version, made->commit.version,
              made->commit.stream_bytes);
    const HeldVersion base = made->base();
    store_.keep_composed(base, std::move(made));
  }
  return {};
}

Status Publisher::seal(Update& update, StreamDigest& digested) const {
  if (!key_) return {};
  digested.advance(update.bytes, update.commit.stream_bytes);
  Result<std::array<std::byte, 32>> digest = digested.finish();
  if (!digest.ok()) return digest.status();
  update.commit.stream_digest = *digest;
  update.signature = CommitSignature{key_->public_key(), key_->sign(serialise(update.commit))};
  return {};
}

// For a replica that has these bytes under another number, or none.
Result<UpdateRef> Publisher::make_label(const HeldVersion& held) const {
  auto label = std::make_shared<Update>();
  Commit& commit = label->commit;
  commit = commit_of({0, held.hash}, held.version);
  commit.target_hash = held.hash;
  commit.elements = state_.map->element_count();
  StreamDigest nothing;
  SPARCL_RETURN_IF_ERROR(seal(*label, nothing));
  return UpdateRef(std::move(label));
}

Result<Publisher::Encoded> Publisher::encode(std::uint64_t version, std::span<const codec::ChangedHint* const> hints) {
  auto update = std::make_shared<Update>();
  const HeldVersion base = *store_.newest();  // publish() alone changes it
  codec::EncodeOptions options;
  options.base_version = base.version;
  options.target_version = version;
  options.schema_hash = state_.schema_hash;
  options.with_state_hash = true;
  options.base_hash = base.hash;
  options.hints = hints;
  options.target_source = state_.source;
  options.bring_forward = snapshot_.arrays();
  options.allow_classes = hints.empty();
  options.workers = hints.empty() ? state_.workers : nullptr;
  const std::vector<const std::byte*> from(snapshot_.arrays().begin(), snapshot_.arrays().end());
  const std::vector<const std::byte*> to = state_.readable();
  codec::StagingSink sink(update->bytes);
  codec::UpdateEncoder encoder(*state_.map, from, to, options, *state_.kernels);
  while (!encoder.finished()) {
    SPARCL_RETURN_IF_ERROR(encoder.step(kStepElements, sink));
    SPARCL_FAILPOINT("publisher.encoding");
  }
  Commit& commit = update->commit;
  commit = commit_of(base, version);
  commit.target_hash = encoder.stats().target_hash;
  commit.elements = encoder.stats().elements;
  commit.changed = encoder.stats().changed;
  commit.stream_bytes = sink.written_bytes();
  StreamDigest digest;
  SPARCL_RETURN_IF_ERROR(seal(*update, digest));
  ChangeLogRef replaced;
  if (commit.changed <= commit.elements / kMostReplaced) replaced = std::make_shared<codec::ChangeLog>(encoder.replaced());
  encoder.keep_forward();
  return Encoded{std::move(update), std::move(replaced)};
}

Result<UpdateRef> Publisher::first_version(std::uint64_t version) {
  SPARCL_RETURN_IF_ERROR(snapshot_.take(*state_.map, state_.arrays, state_.source));
  return make_label({version, state_.hash_of(snapshot_.arrays())});
}

Result<Publisher::PublishReport> Publisher::publish(std::uint64_t version, std::span<const codec::ChangedHint* const> hints) {
  const std::lock_guard one(publishing_);
  const double begin = monotonic_seconds();
  bool is_first = false;
  {
    // The snapshot is what an anchor is made of. A composed update is no reason to wait.
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return maker_ == nullptr || !maker_->commit().is_anchor; });
    give_composed_up();
    is_first = !store_.newest();
    if (!is_first && version <= store_.newest()->version) {
      return Status(Code::kInvalidArgument,
                    fmt::format("version {} does not come after version {}, the newest", version, store_.newest()->version));
    }
    is_encoding_ = true;
  }
  PublishReport report;
  Status status;
  Encoded delta;
  UpdateRef label;
  if (is_first) {
    Result<UpdateRef> made = first_version(version);
    status = made.status();
    if (made.ok()) label = *made;
  } else {
    Result<Encoded> made = encode(version, hints);
    status = made.status();
    if (made.ok()) {
      delta = std::move(*made);
      Result<UpdateRef> named = make_label(delta.update->target());
      status = named.status();
      if (named.ok()) label = *named;
    }
  }
  {
    const std::lock_guard lock(mutex_);
    is_encoding_ = false;
    if (!status.ok()) return status;
    report.hash = label->commit.target_hash;
    report.changed = is_first ? label->commit.elements : delta.update->commit.changed;
    report.stream_bytes = is_first ? 0 : delta.update->commit.stream_bytes;
    if (is_first) store_.begin(std::move(label));
    if (!is_first) store_.add(std::move(delta.update), std::move(label), std::move(delta.replaced));
  }
  wake_.wake();
  report.seconds = monotonic_seconds() - begin;
  return report;
}

Publisher::Count Publisher::count_locked(std::uint64_t version) const {
  Count count;
  for (const auto& session : server_->sessions()) {
    if (session->is_stranger() || session->is_over()) continue;
    ++count.connected;
    // A number alone says nothing: the bytes must be of this life's versions.
    const bool is_known = session->held() && session->has_confirmed();
    const bool is_held = is_known && session->held()->version >= version;
    if (is_held) ++count.holding;
    if (is_held || session->staged_version() >= version) ++count.staged;
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

Status Publisher::wait_for(std::uint64_t version, int replicas, double seconds, int Count::*which, const char* do_what) {
  std::unique_lock lock(mutex_);
  const auto enough = [&] { return count_locked(version).*which >= replicas; };
  const auto limit = std::chrono::duration<double>(std::clamp(seconds, 0.0, 1e8));
  if (changed_.wait_for(lock, limit, enough)) return {};
  const Count now = count_locked(version);
  return Status(Code::kTimeout, fmt::format("{} of {} replicas {} version {} after {:g} s; {} are connected", now.*which, replicas,
                                            do_what, version, seconds, now.connected));
}

std::string Publisher::status() const {
  const std::lock_guard lock(mutex_);
  return status_locked();
}

std::string Publisher::status_locked() const {
  nlohmann::ordered_json report;
  report["publisher"] = context_.name;
  report["model_id"] = options_.model_id;
  report["address"] = address_;
  const std::uint64_t newest = store_.newest() ? store_.newest()->version : 0;
  report["version"] = newest;
  report["hash"] = store_.newest() ? to_hex(store_.newest()->hash) : "";
  report["signed"] = key_.has_value();
  report["kept_updates"] = store_.updates();
  report["kept_bytes"] = store_.bytes();
  report["replicas"] = nlohmann::ordered_json::array();
  for (const auto& session : server_->sessions()) {
    if (session->is_stranger() || session->is_over()) continue;
    const std::uint64_t held = session->held() ? session->held()->version : 0;
    const Session* from = server_->find(fan_out_.parent(session->id()));
    report["replicas"].push_back({{"name", session->replica()},
                                  {"version", held},
                                  {"lag", newest > held ? newest - held : 0},
                                  {"staged", session->staged_version()},
                                  {"bytes_sent", session->bytes_sent()},
                                  {"bytes_shared", session->bytes_shared()},
                                  {"refused", session->refused()},
                                  {"from", from != nullptr ? from->replica() : "publisher"},
                                  {"state", session->state()}});
  }
  return report.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace sparcl::replication
