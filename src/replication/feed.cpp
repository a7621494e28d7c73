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
  options.allow_classes = options.hints.empty() && options.known_changes == nullptr;
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

Result<Edition> Feed::encode_known(std::uint64_t version, Tensors before,
                                   const codec::ArrayInput& to,
                                   const codec::ChangeLog& changes) const {
  codec::EncodeOptions options;
  options.known_changes = &changes;
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

// The epoch may have risen since it was coded.
void Feed::write(model::VersionEdition edition) {
  UpdateRef label = issuer_.reissue(edition.label);
  if (edition.delta == nullptr) return store_.begin(std::move(label));
  store_.add(issuer_.reissue(edition.delta), std::move(label), std::move(edition.replaced));
}

void Feed::start_over() {
  store_.clear();
  is_behind_ = false;
  forget_work();
}

void Feed::reissue() {
  is_behind_ = is_behind_ || is_next_;
  forget_work();
  put_repair_off();
  identities_.rest(Identities::Rest::kForOthers);
  identities_.forget();
  store_.reissue([this](const UpdateRef& update) { return issuer_.reissue(update); });
}

}  // namespace sparcl::replication
