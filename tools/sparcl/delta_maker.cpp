#include "tools/sparcl/delta_maker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "src/base/worker_pool.hpp"
#include "src/codec/update.hpp"
#include "src/model/attachment.hpp"
#include "src/model/checkpoint.hpp"
#include "src/model/model_hash.hpp"
#include "tools/sparcl/delta_file.hpp"
#include "tools/sparcl/delta_sink.hpp"
#include "tools/sparcl/progress.hpp"
#include "tools/sparcl/tensor_match.hpp"

namespace sparcl::tool {
namespace {

// Between two looks at the file's state and the progress, heuristic.
constexpr std::uint64_t kDeltaStepElements = std::uint64_t{4} << 20;

struct Change {
  std::vector<const std::byte*> base;  // one a tensor of the target
  model::Attachment attachment;
  Hash128 base_hash;  // only where the schemas differ
  bool same_schema = true;
};

Result<Change> compare(const StateView& base, const StateView& target, const DiffOptions& options) {
  Change change;
  change.same_schema = base.schema == target.schema;
  for (const std::size_t match : match_tensors(base.schema, target.schema)) {
    change.base.push_back(match == kNoBase ? nullptr : base.tensors[match]);
  }
  if (options.with_side_files && target.layout.is_folder) {
    Result<std::vector<model::PackedFile>> files = model::changed_side_files(base.side_files, target.side_files);
    if (!files.ok()) return files.status();
    change.attachment.side_files = std::move(*files);
  }
  if (base.layout == target.layout) return change;
  if (!change.same_schema) {
    const Result<Hash128> hash = model::state_hash(base.schema, base.tensors);
    if (!hash.ok()) return hash.status();
    change.base_hash = *hash;
  }
  Result<model::LayoutChange> layout = model::compare_layouts(base.layout, target.layout, change.base_hash);
  if (!layout.ok()) return layout.status();
  change.attachment.layout = std::move(*layout);
  return change;
}

Result<std::vector<std::byte>> attachment_bytes(const model::Attachment& attachment) {
  std::vector<std::byte> bytes = model::serialise(attachment);
  if (bytes.size() <= codec::kMaxAttachmentBytes) return bytes;
  return Status(Code::kInvalidArgument,
                fmt::format("an attachment of {} bytes (headers, metadata and {} side files): at most {} travel with a delta{}",
                            bytes.size(), attachment.side_files.size(), codec::kMaxAttachmentBytes,
                            attachment.side_files.empty() ? "" : "; --no-side-files leaves the files out"));
}

Status encode(codec::UpdateEncoder& encoder, std::uint64_t elements, DeltaSink& sink) {
  Progress progress("diff");
  for (std::uint64_t done = 0; !encoder.finished(); done += kDeltaStepElements) {
    SPARCL_RETURN_IF_ERROR(encoder.step(kDeltaStepElements, sink));
    SPARCL_RETURN_IF_ERROR(sink.status());
    progress.update(std::min(done + kDeltaStepElements, elements), elements);
  }
  return sink.flush();
}

}  // namespace

Result<OpenCheckpoint> open_checkpoint(const std::string& path, bool with_side_files, std::vector<std::string>* skipped) {
  Result<model::Checkpoint> checkpoint = model::Checkpoint::open(path);
  if (!checkpoint.ok()) return checkpoint.status();
  OpenCheckpoint opened{std::move(*checkpoint), {}};
  if (!with_side_files || !opened.checkpoint.layout().is_folder) return opened;
  Result<std::vector<model::SideFile>> files = model::read_side_files(path, skipped);
  if (!files.ok()) return files.status();
  opened.side_files = std::move(*files);
  return opened;
}

Result<DiffReport> write_delta(const StateView& base, const StateView& target, const std::string& delta_path,
                               const DiffOptions& options) {
  const Result<const kernels::KernelSet*> kernels = chosen_kernels();
  if (!kernels.ok()) return kernels.status();
  const Result<Change> change = compare(base, target, options);
  if (!change.ok()) return change.status();
  const Result<std::vector<std::byte>> attachment = attachment_bytes(change->attachment);
  if (!attachment.ok()) return attachment.status();
  Result<model::AtomicFile> file = model::AtomicFile::create(delta_path);
  if (!file.ok()) return file.status();

  const codec::BlockMap map = model::make_block_map(target.schema);
  codec::EncodeOptions encode_options;
  encode_options.base_version = options.base_version;
  encode_options.target_version = options.target_version;
  encode_options.schema_hash = model::schema_hash(target.schema);
  encode_options.with_state_hash = true;
  encode_options.with_runs = true;
  encode_options.attachment = *attachment;
  encode_options.mode = options.mode;
  encode_options.allow_classes = true;
  encode_options.fewest_bytes = true;
  encode_options.values = options.selection.values;
  const Result<SelectionRule> rule =
      SelectionRule::make(options.selection, target.schema, {map, change->base, target.tensors, encode_options, **kernels});
  if (!rule.ok()) return rule.status();
  encode_options.rule = rule->get();
  const Result<unsigned> threads = threads_setting();
  if (!threads.ok()) return threads.status();
  WorkerPool workers(*threads);
  encode_options.workers = &workers;
  DeltaSink sink(*file);
  codec::UpdateEncoder encoder(map, change->base, target.tensors, encode_options, **kernels);
  SPARCL_RETURN_IF_ERROR(encode(encoder, map.element_count(), sink));
  SPARCL_RETURN_IF_ERROR(file->commit());

  const codec::EncodeStats& stats = encoder.stats();
  DiffReport report{stats.elements,
                    stats.changed,
                    file->written_bytes(),
                    map.byte_count(),
                    change->same_schema ? stats.base_hash : change->base_hash,
                    stats.target_hash,
                    tensor_changes(base.schema, target.schema),
                    {},
                    {},
                    stats.lossy};
  for (const model::PackedFile& side_file : change->attachment.side_files) report.side_files.push_back(side_file.name);
  return report;
}

Result<DiffReport> make_delta(const std::string& base_path, const std::string& target_path, const std::string& delta_path,
                              const DiffOptions& options) {
  std::vector<std::string> skipped;
  const Result<OpenCheckpoint> base = open_checkpoint(base_path, options.with_side_files);
  if (!base.ok()) return base.status();
  const Result<OpenCheckpoint> target = open_checkpoint(target_path, options.with_side_files, &skipped);
  if (!target.ok()) return target.status();
  Result<DiffReport> report = write_delta(base->view(), target->view(), delta_path, options);
  if (report.ok()) report->skipped = std::move(skipped);
  return report;
}

}  // namespace sparcl::tool
