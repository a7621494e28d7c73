#include "src/replication/feed.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>

#include "src/base/bytes.hpp"
#include "src/base/failpoint.hpp"
#include "src/base/log.hpp"
#include "src/codec/changed_state.hpp"
#include "src/codec/staging_sink.hpp"
#include "src/codec/state_hash.hpp"
#include "src/model/model_hash.hpp"
#include "src/model/slice_source.hpp"

namespace sparcl::replication {
namespace {

constexpr std::uint64_t kFeedStepElements = std::uint64_t{16} << 20;
constexpr std::uint64_t kHashedBlocks = 256;  // some milliseconds; heuristic
constexpr double kMaxDistinct =
    0.9;  // of several updates' changes: composing them would spare less; heuristic
constexpr std::uint64_t kRepairsPart =
    2;  // of all bytes, which repairs may have: then all bytes are sent, which all share; heuristic
constexpr std::uint64_t kSlicesATensor = 64;  // of a part, at most; heuristic
constexpr std::uint64_t kMinSlices = 1024;
constexpr std::uint64_t kPlaceBytes = 512;       // of memory, for where a slice lies; heuristic
constexpr std::uint64_t kReplacedBytesPart = 4;  // of all bytes, which the rollback logs may have
constexpr std::uint64_t kMaxReplaced =
    4;  // of the elements one: what more replaces is not kept; heuristic

std::uint64_t max_slices(const model::Schema& held) {
  return kSlicesATensor * held.size() + kMinSlices;
}

std::uint64_t max_dimensions(const model::Schema& held) {
  constexpr std::uint64_t kASlice = 3;  // its tensor's shape, its place, its extents
  std::uint64_t most = 0;
  for (const model::TensorSchema& each : held)
    most = std::max<std::uint64_t>(most, each.shape.size());
  return kASlice * most * max_slices(held);
}

// A list of an unauthenticated peer must cost no more to compare and to keep than the whole model.
Status check_bytes(const model::Schema& parts, const model::Schema& held) {
  const std::uint64_t bytes = model::make_block_map(parts).byte_count(),
                      all = model::make_block_map(held).byte_count();
  if (bytes <= all) return {};
  return Status(
      Code::kMismatch,
      fmt::format("they have {} bytes, the whole model has {}: slices overlap", bytes, all));
}

}  // namespace

Feed::Feed(const Issuer& issuer, const ReplicatedState& whole, const Options& options)
    : Feed(issuer, whole, nullptr, {whole.schema_hash, whole.schema_digest}, {}, options) {}

Feed::Feed(const Issuer& issuer, const ReplicatedState& whole, std::unique_ptr<codec::BlockMap> map,
           const SchemaHashes& schema, std::vector<model::PlacedSlice> places,
           const Options& options)
    : issuer_(issuer),
      whole_map_(*whole.map),
      own_map_(std::move(map)),
      map_(own_map_ != nullptr ? own_map_.get() : whole.map),
      places_(std::move(places)),
      state_(whole),
      account_(PeerBudget::within(options.budget)),
      list_charge_(PeerBudget::Charge::unproven(account_)),
      store_({std::max<std::size_t>(options.queue, 1), map_->byte_count(),
              whole_map_.byte_count() / kReplacedBytesPart},
             account_),
      fan_out_(options.fan_out),
      identities_(schema.hash, schema.digest) {
  list_charge_.set(places_.size() * kPlaceBytes);
  state_.map = map_;
  state_.schema_hash = schema.hash;
  state_.schema_digest = schema.digest;
  state_.schema = {};
  state_.arrays = {};
  state_.source = nullptr;
  state_.finder = nullptr;
  session_feed_.schema_hash = schema.hash;
  session_feed_.tensor_bytes = map_->byte_count();
  session_feed_.store = &store_;
  session_feed_.fan_out = &fan_out_;
  session_feed_.request_anchor = [this] { anchor_is_wanted_ = true; };
  session_feed_.request_composed = [this](const HeldVersion& base) {
    if (!composed_is_wanted_) composed_is_wanted_ = base;
  };
  session_feed_.block_count = map_->block_count();
  session_feed_.request_repair = [this](const RepairRef& repair) { repairs_.push_back(repair); };
  session_feed_.identify = [this](const Hash128& hash, const std::optional<std::uint64_t>& nearly) {
    return identify(hash, nearly);
  };
}

Status Feed::check_count(std::span<const std::byte> schema, const model::Schema& held) {
  std::uint64_t count = 0;
  if (!ByteReader(schema).read_varint(count) || count <= max_slices(held)) return {};
  return Status(Code::kMismatch,
                fmt::format("they are {} tensors and slices: at most {} of this model are served",
                            count, max_slices(held)));
}

std::uint64_t Feed::list_bytes(std::span<const std::byte> schema) {
  std::uint64_t count = 0;
  return ByteReader(schema).read_varint(count)
             ? std::min(count, std::uint64_t{kMaxSchemaBytes}) * kPlaceBytes
             : 0;
}

std::uint64_t Feed::max_schema_bytes(const model::Schema& held) {
  constexpr std::uint64_t kVarintBytes = 10;
  std::uint64_t longest = 0;
  for (const model::TensorSchema& each : held)
    longest = std::max<std::uint64_t>(
        longest, each.name.size() + (3 + 3 * each.shape.size()) * kVarintBytes);
  return kVarintBytes + max_slices(held) * longest;
}

Result<std::shared_ptr<Feed>> Feed::of_parts(const Issuer& issuer, const ReplicatedState& whole,
                                             const model::Schema& held,
                                             std::span<const std::byte> schema,
                                             const Options& options) {
  SPARCL_ASSIGN_OR_RETURN(const model::Schema parts,
                          model::parse_schema(schema, {max_slices(held), max_dimensions(held)}));
  SPARCL_ASSIGN_OR_RETURN(std::vector<model::PlacedSlice> places, model::place_slices(parts, held));
  SPARCL_RETURN_IF_ERROR(check_bytes(parts, held));
  auto map = std::make_unique<codec::BlockMap>(model::make_block_map(parts));
  SPARCL_ASSIGN_OR_RETURN(const Digest256 digest, model::sha256_of(schema));
  return std::shared_ptr<Feed>(new Feed(issuer, whole, std::move(map),
                                        {model::schema_hash(parts), digest}, std::move(places),
                                        options));
}

Commit Feed::commit_of(const HeldVersion& base, std::uint64_t version) const {
  Commit commit;
  commit.model_id = issuer_.model_id;
  commit.epoch = issuer_.epoch;
  commit.base_version = base.version;
  commit.version = version;
  commit.schema_hash = state_.schema_hash;
  commit.base_hash = base.hash;
  return commit;
}

Result<UpdateRef> Feed::make_label(const HeldVersion& held) const {
  auto label = std::make_shared<Update>();
  Commit& commit = label->commit;
  commit = commit_of({0, held.hash}, held.version);
  commit.target_hash = held.hash;
  commit.elements = map_->element_count();
  StreamDigest nothing;
  SPARCL_RETURN_IF_ERROR(issuer_.seal(*label, nothing));
  return UpdateRef(std::move(label));
}

UpdateMaker::Arrays Feed::newest_arrays(Tensors tensors) const {
  std::vector<const std::byte*> all(tensors.begin(), tensors.end());
  if (is_whole()) return {std::move(all), nullptr};
  auto slices = std::make_shared<model::SliceSource>(places_, *map_, std::move(all));
  std::vector<const std::byte*> pointers = slices->pointers();
  return {std::move(pointers), std::move(slices)};
}

std::shared_ptr<const codec::ArraySource> Feed::earlier(Tensors tensors,
                                                        std::vector<ChangeLogRef> replaced) const {
  auto whole = std::make_shared<codec::ChangedState>(whole_map_, tensors, std::move(replaced),
                                                     *state_.kernels);
  if (is_whole()) return whole;
  return std::make_shared<model::SliceSource>(
      places_, *map_, std::vector<const std::byte*>(tensors.size(), nullptr), std::move(whole));
}

// --- what publish() does ---

Result<Edition> Feed::code(std::uint64_t version, const codec::ArrayInput& from,
                           const codec::ArrayInput& to, codec::EncodeOptions options) const {
  const HeldVersion base = *store_.newest();  // publish() alone changes it
  options.base_version = base.version;
  options.target_version = version;
  options.schema_hash = state_.schema_hash;
  options.with_state_hash = true;
  options.base_hash = base.hash;
  options.base_source = from.source;
  options.target_source = to.source;
  options.allow_classes = options.hints.empty();
  options.workers = options.hints.empty() ? state_.workers : nullptr;
  Edition edition;
  edition.delta = std::make_shared<Update>();
  codec::StagingSink sink(edition.delta->bytes);
  auto written = std::make_unique<codec::UpdateEncoder>(*map_, from.arrays, to.arrays, options,
                                                        *state_.kernels);
  codec::UpdateEncoder& encoder = *written;
  while (!encoder.finished()) {
    SPARCL_RETURN_IF_ERROR(encoder.step(kFeedStepElements, sink));
    if (to.source != nullptr) SPARCL_RETURN_IF_ERROR(to.source->status());
    SPARCL_FAILPOINT("publisher.encoding");
  }
  Commit& commit = edition.delta->commit;
  commit = commit_of(base, version);
  commit.target_hash = encoder.stats().target_hash;
  commit.elements = encoder.stats().elements;
  commit.changed = encoder.stats().changed;
  commit.stream_bytes = sink.written_bytes();
  StreamDigest digest;
  SPARCL_RETURN_IF_ERROR(issuer_.seal(*edition.delta, digest));
  SPARCL_ASSIGN_OR_RETURN(UpdateRef label, make_label(edition.delta->target()));
  edition.label = std::move(label);
  if (options.bring_forward.empty()) return edition;
  if (commit.changed <= commit.elements / kMaxReplaced) {
    edition.replaced = std::make_shared<codec::ChangeLog>(encoder.replaced());
  }
  edition.written = std::move(written);
  return edition;
}

Result<Edition> Feed::encode(std::uint64_t version, Tensors before, const codec::ArrayInput& to,
                             std::span<const codec::ChangedHint* const> hints) const {
  codec::EncodeOptions options;
  options.hints = hints;
  options.bring_forward = before;
  return code(version, {{before.begin(), before.end()}}, to, options);
}

Result<Edition> Feed::first_edition(std::uint64_t version, Tensors tensors) const {
  const UpdateMaker::Arrays arrays = newest_arrays(tensors);
  const Hash128 sum =
      codec::blocks_hash(*map_, arrays.input(), 0, map_->block_count(), *state_.kernels);
  SPARCL_ASSIGN_OR_RETURN(UpdateRef label, make_label({version, state_.schema_hash + sum}));
  return Edition{{nullptr, std::move(label), nullptr}, nullptr};
}

Result<Edition> Feed::next_edition(std::uint64_t version, Tensors tensors,
                                   const ChangeLogRef& replaced) const {
  const UpdateMaker::Arrays to = newest_arrays(tensors);
  const std::shared_ptr<const codec::ArraySource> from = earlier(tensors, {replaced});
  Result<Edition> edition =
      code(version, {std::vector<const std::byte*>(map_->arrays().size(), nullptr), from.get()},
           to.input(), {});
  if (edition.ok()) edition->replaced = replaced;
  return edition;
}

// The epoch may have risen since it was coded.
void Feed::write(model::VersionEdition edition) {
  UpdateRef label = issuer_.reissue(edition.label);
  if (edition.delta == nullptr) return store_.begin(std::move(label));
  if (!is_whole()) charge_to(account_, *edition.delta);
  store_.add(issuer_.reissue(edition.delta), std::move(label), std::move(edition.replaced));
}

void Feed::start_over() { store_.clear(); }

void Feed::reissue() {
  hashing_.reset();
  put_repair_off();
  maker_ = nullptr;
  identities_.rest(Identities::Rest::kForOthers);
  identities_.forget();
  store_.reissue([this](const UpdateRef& update) { return issuer_.reissue(update); });
}

// --- what is made beside the serving of replicas ---

bool Feed::wants_work() const {
  return !store_.newest() || (anchor_is_wanted_ && !store_.has_newest_anchor()) ||
         composed_is_wanted_;
}

void Feed::begin_work(std::uint64_t version, Tensors tensors) try {
  if (!store_.newest()) {
    UpdateMaker::Arrays arrays = newest_arrays(tensors);
    hashing_ = Hashing{version, arrays.input(), arrays.source, 0, state_.schema_hash};
  } else if (anchor_is_wanted_ && !store_.has_newest_anchor()) {
    maker_ = std::make_unique<UpdateMaker>(state_, newest_arrays(tensors), nullptr,
                                           commit_of({}, store_.newest()->version));
    if (!is_whole()) maker_->charge_to(account_, tensor_bytes());
  } else if (composed_is_wanted_) {
    begin_composed(tensors);
  } else if (!repairs_.empty() && !is_turn_of_identities()) {
    repaired_last_ = true;
    begin_repair(tensors);
  } else {
    identities_.begin(arrays_of(identities_.next(), tensors));
  }
} catch (const std::exception& error) {
  fail(error.what());
}

// Not if it would not be worth it.
void Feed::begin_composed(Tensors tensors) {
  const HeldVersion base = *composed_is_wanted_;
  std::vector<ChangeLogRef> logs = store_.rollback_logs(base);
  if (logs.empty() || codec::distinct_part(logs, whole_map_.block_count()) > kMaxDistinct)
    return give_up();
  maker_ = std::make_unique<UpdateMaker>(state_, newest_arrays(tensors),
                                         earlier(tensors, std::move(logs)),
                                         commit_of(base, store_.newest()->version));
  if (!is_whole()) maker_->charge_to(account_, tensor_bytes());
}

// The repair leads to the version that the replica held, because the chain leads on from there. If
// that is not possible, it leads to the newest version.
void Feed::begin_repair(Tensors tensors) {
  const RepairRef repair = repairs_.front().lock();
  if (repair == nullptr) return repairs_.pop_front();
  const std::uint64_t max_bytes = map_->byte_count() / kRepairsPart;
  if (++repair->attempts > kMaxRepairAttempts || repair_bytes() > max_bytes ||
      !account_->has_room(max_bytes)) {
    repair->is_over = true;
    return repairs_.pop_front();
  }
  const HeldVersion target = store_.find(repair->wanted.hash).value_or(*store_.newest());
  std::optional<UpdateMaker::Arrays> arrays = arrays_of(target, tensors);
  Commit commit =
      commit_of({0, repair->held_hash}, arrays ? target.version : store_.newest()->version);
  commit.target_hash = arrays ? target.hash : store_.newest()->hash;
  if (!arrays) arrays = newest_arrays(tensors);
  repairer_ = std::make_unique<RepairMaker>(state_, std::move(*arrays), repair, std::move(commit));
  repairs_.pop_front();  // now: memory may have run out before
}

// Bytes of the repairs that are still being sent: each is for one replica.
std::uint64_t Feed::repair_bytes() {
  std::erase_if(made_repairs_, [](const auto& each) { return each.expired(); });
  std::uint64_t bytes = 0;
  for (const auto& each : made_repairs_) bytes += each.lock()->commit.stream_bytes;
  return bytes;
}

void Feed::repair_on() {
  if (repairer_->repair().use_count() == 1) return repairer_.reset();  // its session is over
  const RepairRef repair = repairer_->repair();
  const Result<bool> over = repairer_->step();
  if (over.ok() && !*over) return;
  Status status = over.status();
  std::shared_ptr<Update> made = over.ok() ? repairer_->take() : nullptr;
  if (made != nullptr) status = issuer_.seal(*made, repairer_->digest());
  if (!status.ok())
    log_error("replication: a damaged replica is sent all bytes: {}", status.message());
  if (status.ok() && made != nullptr) {
    charge_to(account_, *made);
    made_repairs_.push_back(made);
    repair->update = std::move(made);
  }
  repair->is_over = true;
  repairer_ = nullptr;
}

// The version that it was made of lies elsewhere now.
void Feed::put_repair_off() {
  if (repairer_ != nullptr) repairs_.push_front(repairer_->repair());
  repairer_ = nullptr;
}

// --- what a version's bytes are, for replicas that come with some ---

// Where they lie, or can be had; nothing: the rollback to them is not kept.
std::optional<UpdateMaker::Arrays> Feed::arrays_of(const HeldVersion& version,
                                                   Tensors tensors) const {
  if (version.hash == store_.newest()->hash) return newest_arrays(tensors);
  std::vector<ChangeLogRef> logs = store_.rollback_logs(version);
  if (logs.empty()) return {};
  return UpdateMaker::Arrays{std::vector<const std::byte*>(map_->arrays().size(), nullptr),
                             earlier(tensors, std::move(logs))};
}

// If its bytes can be had.
std::optional<HeldVersion> Feed::at_hand(std::optional<HeldVersion> version) const {
  if (version && version->hash != store_.newest()->hash && store_.rollback_logs(*version).empty())
    version.reset();
  return version;
}

IdentityAnswer Feed::identify(const Hash128& hash, const std::optional<std::uint64_t>& nearly) {
  std::optional<HeldVersion> of = at_hand(store_.find(hash));
  if (!of && nearly) of = at_hand(store_.find_version(*nearly));
  if (!of && nearly) of = store_.newest();
  return identities_.find(of ? of->hash : hash, of);
}

// False: it is made, or others wait for something.
bool Feed::identify_on() {
  if (wants_work() || (!repairs_.empty() && !repaired_last_)) {
    identities_.rest(Identities::Rest::kForOthers);
    return false;
  }
  std::optional<Identity> made = identities_.work(*map_);
  if (made) {
    made->model_id = issuer_.model_id;
    made->epoch = issuer_.epoch;
    made->signatures = issuer_.sign(signed_bytes(*made));
    identities_.keep(std::move(*made));
    repaired_last_ = false;
  }
  return identities_.is_at_work();
}

bool Feed::work() try {
  if (hashing_) hash_on();
  if (repairer_ != nullptr) {
    repair_on();
    return repairer_ != nullptr;
  }
  if (maker_ == nullptr && identities_.is_at_work()) return identify_on();
  if (maker_ == nullptr) return hashing_.has_value();
  const Result<bool> whole = maker_->step();
  if (whole.ok() && !*whole) return true;
  const std::unique_ptr<UpdateMaker> done = std::move(maker_);
  const bool is_anchor = done->commit().is_anchor;
  const Status status = whole.ok() ? keep_made(done->take(), done->digest()) : whole.status();
  if (!status.ok())
    log_error("replication: no {} could be made: {}", is_anchor ? "anchor" : "composed update",
              status.message());
  if (is_anchor) anchor_is_wanted_ = false;
  if (!is_anchor && !status.ok()) give_up();
  if (!is_anchor) composed_is_wanted_.reset();
  return false;
} catch (const std::exception& error) {
  fail(error.what());
  return false;
}

// There was no memory, as likely as not. Sessions that wait ask again.
void Feed::fail(const char* why) {
  log_error("replication: nothing can be made of the newest version: {}", why);
  const bool made_anchor = makes_anchor();
  maker_ = nullptr;
  if (identities_.is_at_work()) identities_.give_up();
  if (made_anchor) anchor_is_wanted_ = false;
  give_up();
}

void Feed::hash_on() {
  const std::uint64_t end = std::min(hashing_->next_block + kHashedBlocks, map_->block_count());
  hashing_->sum = hashing_->sum + codec::blocks_hash(*map_, hashing_->arrays, hashing_->next_block,
                                                     end, *state_.kernels);
  hashing_->next_block = end;
  if (end < map_->block_count()) return;
  Result<UpdateRef> label = make_label({hashing_->version, hashing_->sum});
  hashing_.reset();
  if (!label.ok())
    return log_error("replication: no replica can be served: {}", label.status().message());
  store_.begin(std::move(*label));
}

Status Feed::keep_made(std::shared_ptr<Update> made, StreamDigest& digest) {
  const HeldVersion base = made->base();
  if (made->target() != *store_.newest()) {
    return Status(Code::kInternalError,
                  fmt::format("it leads to the state {}, not to version {}'s, {}",
                              to_hex(made->commit.target_hash), store_.newest()->version,
                              to_hex(store_.newest()->hash)));
  }
  SPARCL_RETURN_IF_ERROR(issuer_.seal(*made, digest));
  if (made->commit.is_anchor) {
    store_.keep_anchor(std::move(made));
    return {};
  }
  log_debug("replication: versions {} to {} as one update of {} bytes", base.version,
            made->commit.version, made->commit.stream_bytes);
  store_.keep_composed(base, std::move(made));
  return {};
}

// Replicas that wait for a composed update take one after the other.
void Feed::give_up() {
  hashing_.reset();
  put_repair_off();
  identities_.rest(Identities::Rest::kForAVersion);
  if (!composed_is_wanted_) return;
  maker_ = nullptr;
  store_.keep_composed(*composed_is_wanted_, nullptr);
  composed_is_wanted_.reset();
}

}  // namespace sparcl::replication
