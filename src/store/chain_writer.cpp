#include "src/store/chain_writer.hpp"

#include <fmt/format.h>

#include <array>

#include "src/codec/state_hash.hpp"
#include "src/store/chain_reader.hpp"
#include "src/store/held_lease.hpp"
#include "src/store/random_name.hpp"
#include "src/store/stored_object.hpp"
#include "src/store/update_coding.hpp"

namespace sparcl::store {
namespace {

constexpr std::uint64_t kMaxAfterAnchor = 1 << 16;  // records that are looked at
constexpr std::uint64_t kMaxReplaced = 4;  // of an update that changes more than a part of this,
                                           // the replaced values are not kept

}  // namespace

class ChainWriter::Delta {
 public:
  virtual ~Delta() = default;
  // The version is there: the snapshot holds it from now on. Without this call it goes back.
  virtual Status keep() = 0;
  std::uint64_t changed = 0;
  ShortcutWriter::Log replaced = nullptr;  // after keep(); nullptr: not known
};

class ChainWriter::EncodedDelta final : public Delta {
 public:
  explicit EncodedDelta(std::unique_ptr<codec::UpdateEncoder> encoder)
      : encoder_(std::move(encoder)) {
    const codec::EncodeStats& stats = encoder_->stats();
    changed = stats.changed;
    if (changed <= stats.elements / kMaxReplaced)
      replaced = std::make_shared<const codec::ChangeLog>(encoder_->replaced());
  }
  Status keep() override {
    encoder_->keep_forward();
    return {};
  }

 private:
  std::unique_ptr<codec::UpdateEncoder> encoder_;
};

class ChainWriter::GivenDelta final : public Delta {
 public:
  GivenDelta(std::unique_ptr<codec::UpdateDecoder> decoder, const Staging& bytes)
      : decoder_(std::move(decoder)), bytes_(bytes) {
    changed = decoder_->changed();
  }
  Status keep() override {
    SPARCL_RETURN_IF_ERROR(decoder_->apply(bytes_));
    if (auto log = decoder_->take_replaced())
      replaced = std::make_shared<const codec::ChangeLog>(std::move(*log));
    return {};
  }

 private:
  std::unique_ptr<codec::UpdateDecoder> decoder_;
  const Staging& bytes_;
};

ChainWriter::~ChainWriter() = default;

Result<std::unique_ptr<ChainWriter>> ChainWriter::open(ObjectStore& store, const ChainState& state,
                                                       const WriterOptions& options) {
  SPARCL_ASSIGN_OR_RETURN(const StoreCapabilities can, store.capabilities());
  if (!can.excludes_writers && !options.single_writer)
    return Status(Code::kUnsupported,
                  fmt::format("{}: the server ignores If-None-Match, so that a second writer would "
                              "overwrite versions: use a server with conditional writes, or set "
                              "the option single_writer if no other process ever publishes there",
                              store.location_of(kCommits)));
  std::unique_ptr<ChainWriter> made(new ChainWriter(store, state, options));
  made->excludes_writers_ = can.excludes_writers;
  SPARCL_ASSIGN_OR_RETURN(made->writer_, random_name());
  SPARCL_ASSIGN_OR_RETURN(made->schema_, schema_object(state.schema));
  SPARCL_RETURN_IF_ERROR(made->load());
  return made;
}

Status ChainWriter::load() {
  finish();
  shortcuts_ = nullptr;
  chain_.forget();
  SPARCL_ASSIGN_OR_RETURN(newest_, chain_.newest());
  if (!newest_) return {};
  SPARCL_RETURN_IF_ERROR(chain_.trust()->check_goes_on(*newest_));
  SPARCL_ASSIGN_OR_RETURN(const auto lease, HeldLease::hold(chain_.store(), options_.keep.lease_s));
  SPARCL_ASSIGN_OR_RETURN(newest_, chain_.newest());  // it may have been removed meanwhile
  has_schema_ = true;
  SPARCL_RETURN_IF_ERROR(snapshot_.make(*state_.map));
  ChainState copy = state_;
  copy.arrays = snapshot_.arrays();
  copy.source = nullptr;
  SPARCL_RETURN_IF_ERROR(restore_in_place(chain_, *newest_, copy));
  SPARCL_ASSIGN_OR_RETURN(anchor_, chain_.shortcut(newest_->newest_anchor, 0));
  delta_bytes_ = 0;
  const std::uint64_t after = anchor_ ? anchor_->number : newest_->number;
  if (newest_->number - after > kMaxAfterAnchor) delta_bytes_ = UINT64_MAX / 2;  // one is due
  for (std::uint64_t number = newest_->number; number > after && delta_bytes_ < UINT64_MAX / 2;
       --number) {
    SPARCL_ASSIGN_OR_RETURN(const std::optional<VersionRecord> each, chain_.look(number));
    if (each && each->delta) delta_bytes_ += each->delta->bytes;
  }
  shortcuts_ = shortcut_writer();
  return {};
}

std::unique_ptr<ShortcutWriter> ChainWriter::shortcut_writer() const {
  ChainState copy = state_;
  copy.arrays = snapshot_.arrays();
  copy.source = nullptr;
  copy.workers = nullptr;  // it works beside the training
  // It counts its names from 1: another one has other names.
  const std::uint64_t history = options_.shape == ChainShape::kIndependent
                                    ? std::max(options_.anchor_every, kSkips[0])
                                    : kSkips[0];
  return std::make_unique<ShortcutWriter>(
      chain_, copy, fmt::format("{}-{}", writer_, attempts_),
      ShortcutWriter::Plan{options_.shape, history, options_.keep});
}

Status ChainWriter::check(std::uint64_t version) const {
  if (version == 0)
    return Status(Code::kInvalidArgument, "version is 0, which is none: begin with 1");
  if (newest_ && version <= newest_->version)
    return Status(
        Code::kInvalidArgument,
        fmt::format("version {} does not come after version {}, the newest of the store: publish "
                    "{} or more",
                    version, newest_->version, newest_->version + 1));
  return {};
}

// A little early where skips begin: a reader that starts at the anchor takes these. In an
// independent chain also where a skip from the last one cannot be made any more.
bool ChainWriter::is_anchor_due() const {
  if (!anchor_ || delta_bytes_ >= anchor_->object.bytes) return true;
  const std::uint64_t since = newest_->number - anchor_->number;
  if (options_.shape == ChainShape::kIndependent)
    return since >= options_.anchor_every || !shortcuts_->reaches(anchor_->number, *newest_);
  const bool skips_begin =
      options_.shape == ChainShape::kHybrid && newest_->number % kSkipEvery == 0;
  return since >= options_.anchor_every || (skips_begin && options_.anchor_every >= kSkipEvery &&
                                            since + kSkipEvery > options_.anchor_every);
}

Status ChainWriter::put_schema() {
  if (has_schema_) return {};
  const std::array pieces{state_.schema};
  SPARCL_RETURN_IF_ERROR(chain_.store().put_if_absent(schema_.key, pieces).status());
  has_schema_ = true;
  return {};
}

// The first record has the first anchor.
Status ChainWriter::begin_chain(VersionRecord& next) {
  SPARCL_RETURN_IF_ERROR(snapshot_.take(*state_.map, state_.arrays, state_.source));
  shortcuts_ = shortcut_writer();
  SPARCL_ASSIGN_OR_RETURN(PutAnchor anchor, shortcuts_->put_anchor(1, next.version));
  next.anchor = std::move(anchor.object);
  next.anchor_index = std::move(anchor.index);
  next.target_hash = anchor.hash;
  next.newest_anchor = 1;
  return {};
}

Status ChainWriter::describe(std::span<const std::byte> description) {
  if (description.empty()) {
    description_.reset();
    return {};
  }
  SPARCL_ASSIGN_OR_RETURN(StoredObject object, named_by_content("descriptions", description));
  if (description_ == object) return {};
  const std::array pieces{description};
  SPARCL_RETURN_IF_ERROR(chain_.store().put_if_absent(object.key, pieces).status());
  description_ = std::move(object);
  return {};
}

std::string ChainWriter::delta_key(const VersionRecord& next) const {
  return new_object_key("deltas", next.number, newest_->number, writer_, attempts_);
}

// Brings the snapshot forward to the state.
Result<std::unique_ptr<ChainWriter::Delta>> ChainWriter::encode_delta(VersionRecord& next) {
  codec::EncodeOptions options = encode_options(state_, newest_->target(), next.version);
  const Effort effort = effort_.next();
  set_effort(options, effort);
  options.bring_forward = snapshot_.arrays();
  auto encoder = std::make_unique<codec::UpdateEncoder>(
      *state_.map, readable(snapshot_.arrays()), readable(state_.arrays), options, *state_.kernels);
  CodingTimes times;
  SPARCL_ASSIGN_OR_RETURN(next.delta,
                          put_update(chain_.store(), delta_key(next), state_, *encoder, &times));
  effort_.note(effort, times);
  next.target_hash = encoder->stats().target_hash;
  return std::unique_ptr<Delta>(std::make_unique<EncodedDelta>(std::move(encoder)));
}

Result<std::unique_ptr<ChainWriter::Delta>> ChainWriter::take_delta(
    const model::VersionUpdate& update, VersionRecord& next) {
  const std::uint64_t bytes = update.commit.stream_bytes;
  auto decoder = std::make_unique<codec::UpdateDecoder>(*state_.map, snapshot_.arrays(),
                                                        codec::Verify::kTouched, state_.schema_hash,
                                                        *state_.kernels);
  if (state_.workers != nullptr) decoder->set_workers(*state_.workers);
  decoder->track(newest_->target_hash);
  decoder->keep_changes(state_.map->byte_count() / kMaxReplaced);
  for (bool more = true; more;)
    SPARCL_RETURN_IF_ERROR(decoder->advance(update.bytes, bytes, UINT64_MAX, more));
  SPARCL_RETURN_IF_ERROR(decoder->finish(bytes));
  if (decoder->target_hash() != update.commit.target_hash ||
      decoder->target_version() != update.commit.version)
    return Status(Code::kInternalError, "an update leads to another version than it says");
  next.target_hash = update.commit.target_hash;
  SPARCL_ASSIGN_OR_RETURN(next.delta,
                          put_object(chain_.store(), delta_key(next), update.bytes, bytes));
  return std::unique_ptr<Delta>(std::make_unique<GivenDelta>(std::move(decoder), update.bytes));
}

// A call has failed after it had asked for its record: it may be there.
Status ChainWriter::look_again(const Next& next, bool& is_there) {
  if (!is_unsure_) return {};
  SPARCL_RETURN_IF_ERROR(load());
  is_unsure_ = false;
  if (!newest_ || newest_ == before_) return {};
  if (newest_->writer != writer_) return stopped(*newest_);
  if (newest_->version != next.version) return {};
  SPARCL_ASSIGN_OR_RETURN(is_there, next.is_newest());
  if (!is_there) return {};
  is_unsure_ = true;  // until the name of its record is on the disk
  SPARCL_RETURN_IF_ERROR(chain_.commit(*newest_).status());
  is_unsure_ = false;
  return {};
}

Hash128 ChainWriter::state_hash() const {
  return state_.schema_hash + codec::blocks_hash(*state_.map,
                                                 {readable(state_.arrays), state_.source}, 0,
                                                 state_.map->block_count(), *state_.kernels);
}

Status ChainWriter::publish(std::uint64_t version) {
  return publish(Next{version,
                      [this]() -> Result<bool> {
                        const Hash128 hash = state_hash();
                        if (state_.source != nullptr)
                          SPARCL_RETURN_IF_ERROR(state_.source->status());
                        return newest_->target_hash == hash;
                      },
                      [this](VersionRecord& next) { return encode_delta(next); }});
}

Status ChainWriter::publish(std::uint64_t version, std::span<std::byte* const> arrays) {
  const ChainState own = state_;
  state_.arrays = arrays;
  state_.source = nullptr;
  const Status status = publish(version);
  state_ = own;
  return status;
}

Status ChainWriter::publish(const model::VersionUpdate& update) {
  const auto leads_on = [&] {
    return newest_ && newest_->target() == update.base() && update.commit.stream_bytes > 0;
  };
  if (!is_unsure_ && !leads_on())
    return Status(Code::kWrongBase, "the update does not lead on from the store's newest version");
  return publish(Next{
      update.commit.version, [&]() -> Result<bool> { return newest_->target() == update.target(); },
      [&](VersionRecord& next) -> Result<std::unique_ptr<Delta>> {
        if (leads_on()) return take_delta(update, next);
        return Status(Code::kWrongBase,
                      "the update does not lead on from the store's newest version");
      }});
}

Status ChainWriter::publish(const Next& next) {
  if (!stopped_.ok()) return stopped_;
  const Status status = publish_next(next);
  if (status.code() == Code::kStale) stopped_ = status;
  return status;
}

Status ChainWriter::publish_next(const Next& given) {
  finish();
  if (shortcuts_ != nullptr && shortcuts_->anchor()) take_anchor(*shortcuts_->anchor());
  bool is_there = false;
  SPARCL_RETURN_IF_ERROR(look_again(given, is_there));
  if (is_there) return {};
  SPARCL_RETURN_IF_ERROR(check(given.version));
  SPARCL_RETURN_IF_ERROR(put_schema());
  ++attempts_;
  VersionRecord next;
  next.number = newest_ ? newest_->number + 1 : 1;
  next.version = given.version;
  next.writer = writer_;
  next.schema = schema_;
  next.model_id = chain_.trust()->model_id;
  next.description = description_;
  std::unique_ptr<Delta> delta;
  if (newest_) {
    next.base_version = newest_->version;
    next.base_hash = newest_->target_hash;
    next.newest_anchor = anchor_ ? anchor_->number : newest_->newest_anchor;
    next.skips_from_anchor = options_.shape == ChainShape::kIndependent &&
                             next.number > next.newest_anchor + 1 &&
                             shortcuts_->reaches(next.newest_anchor, *newest_);
    SPARCL_ASSIGN_OR_RETURN(delta, given.put_delta(next));
  } else {
    SPARCL_RETURN_IF_ERROR(begin_chain(next));
  }
  if (!excludes_writers_ && newest_) SPARCL_RETURN_IF_ERROR(chain_.check_is_there(*newest_));
  before_ = newest_;
  is_unsure_ = true;
  SPARCL_ASSIGN_OR_RETURN(next, chain_.commit(next));
  if (!excludes_writers_) SPARCL_RETURN_IF_ERROR(chain_.check_is_there(next));
  newest_ = std::move(next);
  before_ = newest_;  // what fails from here on does not undo it
  if (delta != nullptr) SPARCL_RETURN_IF_ERROR(delta->keep());
  is_unsure_ = false;
  changed_ = delta != nullptr ? delta->changed : state_.map->element_count();
  if (delta == nullptr) {
    anchor_ = {1, 0, newest_->target(), {}, *newest_->anchor, {}, newest_->anchor_index};
    return {};
  }
  delta_bytes_ += newest_->delta->bytes;
  shortcuts_->note(*newest_, std::move(delta->replaced));
  shortcuts_->begin(*newest_, is_anchor_due());
  return {};
}

// Put since the last call: the deltas up to it count no more.
void ChainWriter::take_anchor(const Shortcut& anchor) {
  if (anchor_ && anchor_->number >= anchor.number) return;
  anchor_ = anchor;
  delta_bytes_ = 0;
}

}  // namespace sparcl::store
