#include "src/model/files/delta_maker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "src/base/worker_pool.hpp"
#include "src/codec/update.hpp"
#include "src/model/attachment.hpp"
#include "src/model/checkpoint.hpp"
#include "src/model/files/delta_file.hpp"
#include "src/model/files/delta_sink.hpp"
#include "src/model/files/tensor_match.hpp"
#include "src/model/model_hash.hpp"
#include "src/model/state_identity.hpp"

namespace sparcl::model {
namespace {

// Between two looks at the file's state and the progress, heuristic.
constexpr std::uint64_t kDeltaStepElements = std::uint64_t{4} << 20;

// Those of a base's tensors that the target's are coded against, as arrays of the target's map.
class MatchedSource final : public codec::ArraySource {
 public:
  MatchedSource(const codec::ArraySource* source, std::vector<std::size_t> matches)
      : source_(source), matches_(std::move(matches)) {}

  bool has(std::uint32_t array) const override {
    return source_ != nullptr && matches_[array] != kNoBase;
  }
  void read(std::uint32_t array, std::uint64_t first, std::uint64_t count,
            std::byte* out) const override {
    source_->read(static_cast<std::uint32_t>(matches_[array]), first, count, out);
  }

 private:
  const codec::ArraySource* source_;
  std::vector<std::size_t> matches_;
};

struct ModelChange {
  std::vector<const std::byte*> base;  // one a tensor of the target
  std::vector<std::size_t> matches;
  Attachment attachment;
  Hash128 base_hash;  // only if the schemas differ
  bool same_schema = true;
};

Result<ModelChange> compare_states(const StateView& base, const StateView& target,
                                   const DiffOptions& options, const FileWatch& watch) {
  ModelChange change;
  change.same_schema = base.schema == target.schema;
  change.matches = match_tensors(base.schema, target.schema);
  for (const std::size_t match : change.matches) {
    change.base.push_back(match == kNoBase ? nullptr : base.tensors[match]);
  }
  if (options.with_side_files && target.layout.is_folder) {
    SPARCL_ASSIGN_OR_RETURN(std::vector<PackedFile> files,
                            changed_side_files(base.side_files, target.side_files));
    change.attachment.side_files = std::move(files);
  }
  if (options.with_identities) {
    StateIdentities& identities = change.attachment.identities.emplace();
    SPARCL_ASSIGN_OR_RETURN(identities.base, state_identity(base.schema, base.input(), watch));
    SPARCL_ASSIGN_OR_RETURN(identities.target,
                            state_identity(target.schema, target.input(), watch));
  }
  if (base.layout == target.layout) return change;
  if (!change.same_schema) {
    SPARCL_RETURN_IF_ERROR(validate(base.schema));
    SPARCL_ASSIGN_OR_RETURN(change.base_hash, state_hash_from(base.schema, base.input(), watch));
  }
  SPARCL_ASSIGN_OR_RETURN(LayoutChange layout,
                          compare_layouts(base.layout, target.layout, change.base_hash));
  change.attachment.layout = std::move(layout);
  return change;
}

Result<std::vector<std::byte>> attachment_bytes(const Attachment& attachment) {
  std::vector<std::byte> bytes = serialise(attachment);
  if (bytes.size() <= codec::kMaxAttachmentBytes) return bytes;
  return Status(
      Code::kInvalidArgument,
      fmt::format("an attachment of {} bytes (headers, metadata and {} side files): at most {} "
                  "travel with a delta{}",
                  bytes.size(), attachment.side_files.size(), codec::kMaxAttachmentBytes,
                  attachment.side_files.empty()
                      ? ""
                      : "; options.side_files = sparclFileSideFilesOmit leaves the files out"));
}

Status encode_all(codec::UpdateEncoder& encoder, const codec::BlockMap& map, DeltaSink& sink,
                  const FileWatch& watch) {
  const std::uint64_t elements = map.element_count();
  for (std::uint64_t done = 0; !encoder.finished(); done += kDeltaStepElements) {
    SPARCL_RETURN_IF_ERROR(encoder.step(kDeltaStepElements, sink));
    SPARCL_RETURN_IF_ERROR(sink.status());
    SPARCL_RETURN_IF_ERROR(
        watch.part(std::min(done + kDeltaStepElements, elements), elements, map.byte_count()));
  }
  return sink.status();
}

Status check_sources(const StateView& base, const StateView& target) {
  for (const codec::ArraySource* source : {base.source, target.source}) {
    if (source != nullptr) SPARCL_RETURN_IF_ERROR(source->status());
  }
  return {};
}

}  // namespace

std::vector<const codec::BlockMode*> forceable_modes() {
  std::vector<const codec::BlockMode*> modes;
  for (const codec::BlockMode* mode : codec::block_modes()) {
    if (!mode->fresh && mode != &codec::kMixedMode && mode != &codec::kAddedMode)
      modes.push_back(mode);
  }
  return modes;
}

Result<OpenCheckpoint> open_checkpoint(const std::string& path, bool with_side_files,
                                       std::vector<std::string>* skipped) {
  SPARCL_ASSIGN_OR_RETURN(Checkpoint checkpoint, Checkpoint::open_unread(path));
  OpenCheckpoint opened;
  opened.checkpoint = std::make_unique<const Checkpoint>(std::move(checkpoint));
  opened.source = std::make_unique<const CheckpointSource>(*opened.checkpoint);
  opened.tensors.resize(opened.checkpoint->schema().size());
  if (!with_side_files || !opened.checkpoint->layout().is_folder) return opened;
  SPARCL_ASSIGN_OR_RETURN(std::vector<SideFile> files, read_side_files(path, skipped));
  opened.side_files = std::move(files);
  return opened;
}

Result<DiffReport> encode_delta(const StateView& base, const StateView& target,
                                const DiffOptions& options, DeltaSink& sink,
                                const FileWatch& watch) {
  if (options.with_identities && !options.selection.is_exact()) {
    return Status(
        Code::kInvalidArgument,
        "identities are of exact deltas: leave options.selection and options.only out, or "
        "options.with_identities");
  }
  const Result<const kernels::KernelSet*> kernels = chosen_kernels();
  if (!kernels.ok()) return kernels.status();
  SPARCL_ASSIGN_OR_RETURN(const ModelChange change, compare_states(base, target, options, watch));
  SPARCL_ASSIGN_OR_RETURN(const std::vector<std::byte> attachment,
                          attachment_bytes(change.attachment));

  const codec::BlockMap map = make_block_map(target.schema);
  const MatchedSource matched(base.source, change.matches);
  codec::EncodeOptions encode_options;
  encode_options.base_version = options.base_version;
  encode_options.target_version = options.target_version;
  encode_options.schema_hash = schema_hash(target.schema);
  encode_options.with_state_hash = true;
  encode_options.with_runs = true;
  encode_options.attachment = attachment;
  encode_options.mode = options.mode;
  encode_options.allow_classes = true;
  encode_options.fewest_bytes = true;
  encode_options.measure_left_out = true;
  encode_options.values = options.selection.values;
  encode_options.base_source = &matched;
  encode_options.target_source = target.source;
  SPARCL_ASSIGN_OR_RETURN(
      const SelectionRule rule,
      SelectionRule::make(options.selection, target.schema,
                          {map, change.base, target.tensors, encode_options, **kernels}));
  encode_options.rule = rule.get();
  SPARCL_ASSIGN_OR_RETURN(const unsigned threads, threads_setting());
  WorkerPool workers(options.threads > 0 ? options.threads : threads);
  encode_options.workers = &workers;
  codec::UpdateEncoder encoder(map, change.base, target.tensors, encode_options, **kernels);
  SPARCL_RETURN_IF_ERROR(encode_all(encoder, map, sink, watch));
  SPARCL_RETURN_IF_ERROR(check_sources(base, target));

  const codec::EncodeStats& stats = encoder.stats();
  DiffReport report;
  report.elements = stats.elements;
  report.changed = stats.changed;
  report.bytes = stats.encoded_bytes;
  report.dense_bytes = map.byte_count();
  report.base_hash = change.same_schema ? stats.base_hash : change.base_hash;
  report.target_hash = stats.target_hash;
  report.tensors = tensor_changes(base.schema, target.schema);
  report.lossy = stats.lossy;
  report.left_out = stats.left_out;
  for (const PackedFile& side_file : change.attachment.side_files)
    report.side_files.push_back(side_file.name);
  return report;
}

namespace {

// known: what the caller knows of the two beyond the states.
Result<DiffReport> write_known(const StateView& base, const StateView& target,
                               const std::string& delta_path, const DiffOptions& options,
                               DiffReport known, const FileWatch& watch) {
  SPARCL_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(delta_path));
  FileSink sink(file);
  Result<DiffReport> report = encode_delta(base, target, options, sink, watch);
  if (!report.ok()) return report;
  report->skipped = std::move(known.skipped);
  report->stray_shards = std::move(known.stray_shards);
  SPARCL_RETURN_IF_ERROR(sink.flush());
  if (watch.on_diff) SPARCL_RETURN_IF_ERROR(watch.on_diff(*report));
  SPARCL_RETURN_IF_ERROR(file.commit());
  return report;
}

}  // namespace

Result<DiffReport> write_delta(const StateView& base, const StateView& target,
                               const std::string& delta_path, const DiffOptions& options,
                               const FileWatch& watch) {
  return write_known(base, target, delta_path, options, {}, watch);
}

Result<DiffReport> make_delta(const std::string& base_path, const std::string& target_path,
                              const std::string& delta_path, const DiffOptions& options,
                              const FileWatch& watch) {
  DiffReport known;
  SPARCL_ASSIGN_OR_RETURN(const OpenCheckpoint base,
                          open_checkpoint(base_path, options.with_side_files));
  SPARCL_ASSIGN_OR_RETURN(const OpenCheckpoint target,
                          open_checkpoint(target_path, options.with_side_files, &known.skipped));
  for (const OpenCheckpoint* each : {&base, &target}) {
    for (std::string& stray : each->checkpoint->stray_paths())
      known.stray_shards.push_back(std::move(stray));
  }
  return write_known(base.view(), target.view(), delta_path, options, std::move(known), watch);
}

}  // namespace sparcl::model
