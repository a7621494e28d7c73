#include "src/store/chain_writer.hpp"

#include <fmt/format.h>
#include <sys/random.h>

#include <array>

#include "src/codec/staging_sink.hpp"
#include "src/codec/state_hash.hpp"
#include "src/codec/update.hpp"
#include "src/store/chain_reader.hpp"
#include "src/trust/hex.hpp"

namespace sparcl::store {
namespace {

constexpr std::uint64_t kStepElements = std::uint64_t{16} << 20;

Result<std::string> random_name() {
  std::array<std::byte, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    return Status(Code::kSystemError, "getrandom() gives no random bytes");
  return trust::hex_of(bytes);
}

codec::EncodeOptions encode_options(const ChainState& state, std::uint64_t base_version,
                                    std::uint64_t version) {
  codec::EncodeOptions options;
  options.base_version = base_version;
  options.target_version = version;
  options.schema_hash = state.schema_hash;
  options.with_state_hash = true;
  options.target_source = state.source;
  options.workers = state.workers;
  return options;
}

Status encode(codec::UpdateEncoder& encoder, codec::StagingSink& sink, const ChainState& state) {
  while (!encoder.finished()) {
    SPARCL_RETURN_IF_ERROR(encoder.step(kStepElements, sink));
    if (state.source != nullptr) SPARCL_RETURN_IF_ERROR(state.source->status());
  }
  return {};
}

std::vector<const std::byte*> readable(std::span<std::byte* const> arrays) {
  return {arrays.begin(), arrays.end()};
}

}  // namespace

Result<std::unique_ptr<ChainWriter>> ChainWriter::open(ObjectStore& store, const ChainState& state,
                                                       const WriterOptions& options) {
  if (!store.capabilities().excludes_writers)
    return Status(Code::kUnsupported,
                  "this store does not say who of two writers came first: no chain can be kept");
  std::unique_ptr<ChainWriter> made(new ChainWriter(store, state, options));
  SPARCL_ASSIGN_OR_RETURN(made->writer_, random_name());
  SPARCL_ASSIGN_OR_RETURN(made->schema_, schema_object(state.schema));
  SPARCL_RETURN_IF_ERROR(made->load());
  return made;
}

Status ChainWriter::load() {
  SPARCL_ASSIGN_OR_RETURN(newest_, chain_.newest());
  if (!newest_) return {};
  has_schema_ = true;
  SPARCL_RETURN_IF_ERROR(snapshot_.take(*state_.map, state_.arrays, state_.source));
  ChainState copy = state_;
  copy.arrays = snapshot_.arrays();
  copy.source = nullptr;
  SPARCL_RETURN_IF_ERROR(restore_in_place(chain_, *newest_, copy));
  SPARCL_ASSIGN_OR_RETURN(const VersionRecord anchor, chain_.record(newest_->newest_anchor));
  if (!anchor.anchor)
    return Status(Code::kCorrupt,
                  fmt::format("record {} names record {} as its anchor, which has none",
                              newest_->number, anchor.number));
  anchor_bytes_ = anchor.anchor->bytes;
  delta_bytes_ = 0;
  for (std::uint64_t number = anchor.number + 1; number <= newest_->number; ++number) {
    SPARCL_ASSIGN_OR_RETURN(const VersionRecord each, chain_.record(number));
    if (each.delta) delta_bytes_ += each.delta->bytes;
  }
  return {};
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

std::string ChainWriter::key_of(const char* kind, const VersionRecord& record) const {
  return fmt::format("{}/{:020d}-{}-{}.sparcl", kind, record.number, writer_, attempts_);
}

bool ChainWriter::is_anchor_due(const VersionRecord& next) const {
  return !newest_ || next.number - newest_->newest_anchor >= options_.anchor_every ||
         delta_bytes_ >= anchor_bytes_;
}

Result<StoredObject> ChainWriter::put_anchor(VersionRecord& next) {
  const std::vector<const std::byte*> none(state_.arrays.size(), nullptr);
  ChainState copy = state_;
  copy.source = nullptr;
  Staging bytes;
  codec::StagingSink sink(bytes);
  codec::UpdateEncoder encoder(*state_.map, none, readable(snapshot_.arrays()),
                               encode_options(copy, 0, next.version), *state_.kernels);
  SPARCL_RETURN_IF_ERROR(encode(encoder, sink, copy));
  if (newest_ && encoder.stats().target_hash != next.target_hash)
    return Status(Code::kInternalError, "the snapshot is not what the delta leads to");
  next.target_hash = encoder.stats().target_hash;
  return chain_.put(key_of("anchors", next), bytes, sink.written_bytes());
}

Status ChainWriter::put_schema() {
  if (has_schema_) return {};
  const std::array pieces{state_.schema};
  SPARCL_RETURN_IF_ERROR(chain_.store().put_if_absent(schema_.key, pieces).status());
  has_schema_ = true;
  return {};
}

// Brings the snapshot forward to the state, which is undone unless the encoder keeps it.
Result<std::unique_ptr<codec::UpdateEncoder>> ChainWriter::put_delta(VersionRecord& next) {
  next.base_version = newest_->version;
  next.base_hash = newest_->target_hash;
  codec::EncodeOptions options = encode_options(state_, newest_->version, next.version);
  options.base_hash = newest_->target_hash;
  options.allow_classes = true;
  options.bring_forward = snapshot_.arrays();
  Staging bytes;
  codec::StagingSink sink(bytes);
  auto encoder = std::make_unique<codec::UpdateEncoder>(
      *state_.map, readable(snapshot_.arrays()), readable(state_.arrays), options, *state_.kernels);
  SPARCL_RETURN_IF_ERROR(encode(*encoder, sink, state_));
  next.target_hash = encoder->stats().target_hash;
  SPARCL_ASSIGN_OR_RETURN(next.delta,
                          chain_.put(key_of("deltas", next), bytes, sink.written_bytes()));
  return encoder;
}

// A call has failed after it had asked for its record: it may be there.
Status ChainWriter::look_again(std::uint64_t version, bool& is_there) {
  if (!is_unsure_) return {};
  const std::optional<VersionRecord> before = newest_;
  SPARCL_RETURN_IF_ERROR(load());
  is_unsure_ = false;
  if (!newest_ || newest_ == before) return {};
  if (newest_->writer != writer_) return stopped(*newest_);
  is_there = newest_->version == version &&
             newest_->target_hash ==
                 state_.schema_hash +
                     codec::blocks_hash(*state_.map, {readable(state_.arrays), state_.source}, 0,
                                        state_.map->block_count(), *state_.kernels);
  return {};
}

Status ChainWriter::publish(std::uint64_t version) {
  if (!stopped_.ok()) return stopped_;
  const Status status = publish_next(version);
  if (status.code() == Code::kStale) stopped_ = status;
  return status;
}

Status ChainWriter::publish_next(std::uint64_t version) {
  bool is_there = false;
  SPARCL_RETURN_IF_ERROR(look_again(version, is_there));
  if (is_there) return {};
  SPARCL_RETURN_IF_ERROR(check(version));
  SPARCL_RETURN_IF_ERROR(put_schema());
  ++attempts_;
  VersionRecord next;
  next.number = newest_ ? newest_->number + 1 : 1;
  next.version = version;
  next.writer = writer_;
  next.schema = schema_;
  next.newest_anchor = newest_ ? newest_->newest_anchor : next.number;
  std::unique_ptr<codec::UpdateEncoder> delta;
  if (newest_) {
    SPARCL_ASSIGN_OR_RETURN(delta, put_delta(next));
  } else {
    SPARCL_RETURN_IF_ERROR(snapshot_.take(*state_.map, state_.arrays, state_.source));
  }
  if (is_anchor_due(next)) {
    SPARCL_ASSIGN_OR_RETURN(next.anchor, put_anchor(next));
    next.newest_anchor = next.number;
  }
  is_unsure_ = true;
  SPARCL_ASSIGN_OR_RETURN(next, chain_.commit(next));
  is_unsure_ = false;
  if (delta != nullptr) delta->keep_forward();
  delta_bytes_ = next.anchor ? 0 : delta_bytes_ + next.delta->bytes;
  if (next.anchor) anchor_bytes_ = next.anchor->bytes;
  newest_ = std::move(next);
  return {};
}

}  // namespace sparcl::store
