#include "src/model/files/held_state.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "src/base/worker_pool.hpp"
#include "src/codec/update.hpp"
#include "src/model/files/tensor_match.hpp"
#include "src/model/model_hash.hpp"
#include "src/model/state_identity.hpp"
#include "src/model/text.hpp"
#include "src/trust/hex.hpp"

namespace sparcl::model {
namespace {

constexpr std::uint64_t kApplyBlocks = 64;  // between two progress reports, heuristic

// A whole block takes at least 129 bytes (32 states of the entropy coder and a length) for each
// byte of its 65,536 elements, docs/reference/wire-format.md: Packed.
constexpr std::uint64_t kMaxExpansion = 65536 / 128;

Result<ChangedLayout> target_layout(const Layout& base, const Attachment& attachment) {
  if (!attachment.layout) return ChangedLayout{base, true};
  return apply_layout_change(*attachment.layout, base);
}

Status decode_all(codec::UpdateDecoder& decoder, const Delta& delta, const codec::BlockMap& map,
                  const FileWatch& watch) {
  const std::uint64_t blocks = map.block_count();
  bool more = true;
  for (std::uint64_t done = 0; more;) {
    SPARCL_RETURN_IF_ERROR(decoder.advance(delta.staging, delta.bytes, kApplyBlocks, more));
    done = more ? std::min(done + kApplyBlocks, blocks) : blocks;  // unchanged blocks do not come
    SPARCL_RETURN_IF_ERROR(watch.part(done, blocks, map.byte_count()));
  }
  SPARCL_RETURN_IF_ERROR(decoder.finish(delta.bytes));
  return decoder.apply(delta.staging);
}

}  // namespace

Result<HeldState> HeldState::open(const std::string& path, const FileWatch& watch) {
  SPARCL_ASSIGN_OR_RETURN(Checkpoint base, Checkpoint::open(path, watch));
  watch.stray_shards(base.stray_paths());
  HeldState state(std::move(base));
  state.layout_ = state.base_.layout();
  state.schema_ = state.base_.schema();
  state.pointers_.assign(state.base_.mutable_pointers().begin(),
                         state.base_.mutable_pointers().end());
  state.read_.assign(state.pointers_.begin(), state.pointers_.end());
  if (state.layout_.is_folder) {
    SPARCL_ASSIGN_OR_RETURN(std::vector<SideFile> files, read_side_files(path));
    state.side_files_ = std::move(files);
  }
  SPARCL_RETURN_IF_ERROR(state.rehash(watch));
  return state;
}

Status HeldState::rehash(const FileWatch& watch) {
  const Result<Hash128> hash = state_hash(schema_, read_, watch);
  if (hash.ok()) hash_ = *hash;
  return hash.status();
}

std::uint64_t HeldState::byte_count() const { return make_block_map(schema_).byte_count(); }

Status HeldState::check_base(const Delta& delta, const DeltaSummary& summary) const {
  const Hash128* wanted = summary.whole_base_hash();
  if (wanted == nullptr || !summary.target_hash) {
    return Status(Code::kCorrupt, fmt::format("{}: it has no state hashes, so its result could not "
                                              "be checked: make it with sparcl diff",
                                              delta.path));
  }
  if (hash_ == *wanted) return {};
  const std::string hashes =
      fmt::format("the delta needs state {}, this is {}", to_hex(*wanted), to_hex(hash_));
  if (hash_ == *summary.target_hash) {
    return Status(Code::kWrongBase,
                  fmt::format("{}: it is the target of {} already ({}): there is nothing to apply; "
                              "give the checkpoint that the delta was made from",
                              path(), delta.path, hashes));
  }
  return Status(
      Code::kWrongBase,
      fmt::format(
          "{}: it is not the base of {}: {}: apply it to the checkpoint that it was made of",
          path(), delta.path, hashes));
}

Status HeldState::check_identity(const Digest256& wanted, Code code, const std::string& text,
                                 const FileWatch& watch) const {
  SPARCL_ASSIGN_OR_RETURN(const Digest256 own,
                          state_identity(schema_, {{read_.begin(), read_.end()}, nullptr}, watch));
  if (own == wanted) return {};
  return Status(code, fmt::format("{}: the identity is {}, the delta names {}", text,
                                  trust::hex_of(own), trust::hex_of(wanted)));
}

// The addresses of the target's tensors: those of the base's tensors that they are coded against,
// or new memory.
Status HeldState::hold(const Schema& schema, const Delta& delta) {
  const std::vector<std::size_t> matches = match_tensors(schema_, schema);
  std::vector<std::uint64_t> offsets;
  std::uint64_t fresh_bytes = 0;
  for (std::size_t i = 0; i < schema.size(); ++i) {
    offsets.push_back(fresh_bytes);
    if (matches[i] == kNoBase)
      fresh_bytes += *element_count(schema[i]) * element_bytes(schema[i].datatype);
  }
  // Prevents that a small delta asks for much memory.
  if (fresh_bytes / kMaxExpansion > delta.bytes) {
    return Status(Code::kCorrupt,
                  fmt::format("{}: its new tensors have {} bytes, more than {} bytes can hold",
                              delta.path, fresh_bytes, delta.bytes));
  }
  Result<ZeroMemory> fresh =
      ZeroMemory::allocate(fresh_bytes + 1);  // + 1: an empty tensor has an address, too
  if (!fresh.ok()) return fresh.status();
  fresh_.push_back(std::move(*fresh));
  std::vector<std::byte*> pointers;
  for (std::size_t i = 0; i < schema.size(); ++i) {
    pointers.push_back(matches[i] == kNoBase ? fresh_.back().data() + offsets[i]
                                             : pointers_[matches[i]]);
  }
  pointers_ = std::move(pointers);
  read_.assign(pointers_.begin(), pointers_.end());
  schema_ = schema;
  return {};
}

Status HeldState::apply(const Delta& delta, const FileWatch& watch) {
  SPARCL_ASSIGN_OR_RETURN(const kernels::KernelSet* const kernels, chosen_kernels());
  const Result<DeltaSummary> summary = scan_delta(delta, watch);
  if (!summary.ok()) return summary.status();
  SPARCL_RETURN_IF_ERROR(check_base(delta, *summary));
  const std::optional<StateIdentities>& identities = summary->attachment.identities;
  if (identities)
    SPARCL_RETURN_IF_ERROR(
        check_identity(identities->base, Code::kWrongBase,
                       fmt::format("{}: it is not the base of {}, though it has its state hash",
                                   path(), delta.path),
                       watch));
  SPARCL_RETURN_IF_ERROR(replace_side_files(side_files_, summary->attachment.side_files)
                             .with_prefix(delta.path + ": "));
  Result<ChangedLayout> layout = target_layout(layout_, summary->attachment);
  if (!layout.ok()) return layout.status().with_prefix(delta.path + ": ");
  const Result<Schema> schema = layout_schema(layout->layout);
  if (!schema.ok()) return schema.status().with_prefix(delta.path + ": ");
  SPARCL_RETURN_IF_ERROR(hold(*schema, delta));
  layout_ = std::move(layout->layout);
  exact_ = exact_ && layout->exact;

  const codec::BlockMap map = make_block_map(*schema);
  codec::UpdateDecoder decoder(map, pointers_, codec::Verify::kFull, schema_hash(*schema),
                               *kernels);
  SPARCL_ASSIGN_OR_RETURN(const unsigned threads, threads_setting());
  WorkerPool workers(threads);
  decoder.set_workers(workers);
  decoder.set_array_name([&](std::uint32_t tensor) { return in_quotes((*schema)[tensor].name); });
  SPARCL_RETURN_IF_ERROR(decode_all(decoder, delta, map, watch).with_prefix(delta.path + ": "));
  changed_ = decoder.changed();

  // Hashes the actual contents of memory, not the values that the decoder meant to write.
  SPARCL_RETURN_IF_ERROR(rehash(watch));
  if (identities)
    SPARCL_RETURN_IF_ERROR(check_identity(
        identities->target, Code::kCorrupt,
        fmt::format("{}: it leads to another state than it names; nothing is written", delta.path),
        watch));
  if (hash_ == *summary->target_hash) return {};
  return Status(
      Code::kInternalError,
      fmt::format("{}: the result has state hash {}, the delta's target is {}: nothing is written",
                  delta.path, to_hex(hash_), to_hex(*summary->target_hash)));
}

Status HeldState::apply(SparseChange& change, const FileWatch& watch) {
  SPARCL_RETURN_IF_ERROR(match_schema(schema_, change));
  SPARCL_RETURN_IF_ERROR(replace_side_files(side_files_, change.attachment.side_files));
  Result<ChangedLayout> layout = target_layout(layout_, change.attachment);
  if (!layout.ok()) return layout.status();
  SPARCL_ASSIGN_OR_RETURN(const Schema schema, layout_schema(layout->layout));
  if (schema != schema_)
    return Status(Code::kMismatch, "the attached change of the layout has another list of tensors");
  layout_ = std::move(layout->layout);
  exact_ = exact_ && layout->exact;
  unchanged_ = apply_tensors(change, schema_, pointers_);
  changed_ = change.changed();
  return rehash(watch);
}

}  // namespace sparcl::model
