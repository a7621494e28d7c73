#include "src/model/files/delta_applier.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <vector>

#include "src/model/checkpoint_writer.hpp"
#include "src/model/files/held_state.hpp"
#include "src/model/files/streamed_target.hpp"
#include "src/model/model_hash.hpp"
#include "src/model/side_file.hpp"

namespace sparcl::model {
namespace {

bool is_same_place(const std::string& path, const std::string& other) {
  std::error_code ignored;
  return std::filesystem::equivalent(path, other, ignored);
}

// Deltas that keep the layout, and whose states are named by their hashes alone.
bool can_be_streamed(const DeltaSummary& summary) {
  return summary.whole_base_hash() != nullptr && summary.target_hash &&
         !summary.attachment.layout && !summary.attachment.identities;
}

Result<std::vector<SideFile>> target_side_files(const Checkpoint& base,
                                                const Attachment& attachment) {
  std::vector<SideFile> files;
  if (base.layout().is_folder) {
    SPARCL_ASSIGN_OR_RETURN(files, read_side_files(base.path()));
  }
  SPARCL_RETURN_IF_ERROR(replace_side_files(files, attachment.side_files));
  return files;
}

Result<ApplyReport> apply_streamed(const std::string& base_path, const Delta& delta,
                                   const DeltaSummary& summary, const std::string& out_path,
                                   const FileWatch& watch) {
  SPARCL_ASSIGN_OR_RETURN(const Checkpoint base, Checkpoint::open_unread(base_path));
  watch.stray_shards(base.stray_paths());
  SPARCL_ASSIGN_OR_RETURN(const std::vector<SideFile> side_files,
                          target_side_files(base, summary.attachment));
  SPARCL_ASSIGN_OR_RETURN(const auto target, StreamedTarget::create(base, delta, summary));
  const Layout* replaced = is_same_place(base_path, out_path) ? &base.layout() : nullptr;
  SPARCL_RETURN_IF_ERROR(write_checkpoint(out_path, base.layout(), target->tensors(), replaced,
                                          side_files, watch, {}, target.get()));
  ApplyReport report;
  report.base_hash = *summary.whole_base_hash();
  report.target_hash = *summary.target_hash;
  report.elements = target->map().element_count();
  report.changed = target->changed();
  report.bytes = target->map().byte_count();
  return report;
}

// Then all of the base is read first, and the whole reason found.
bool is_of_content(Code code) {
  return code == Code::kWrongBase || code == Code::kCorrupt || code == Code::kMismatch ||
         code == Code::kInternalError ||
         code == Code::kUnsupported;  // a composed delta has no digests of its base
}

}  // namespace

Status check_order(const std::string& base_path, const std::string& delta_path) {
  SPARCL_ASSIGN_OR_RETURN(const bool is_swapped, is_checkpoint(delta_path));
  if (!is_swapped) return expect_checkpoint(base_path);
  SPARCL_ASSIGN_OR_RETURN(const bool has_delta, is_delta(base_path));
  if (has_delta) {
    return Status(Code::kCorrupt, fmt::format("the two arguments seem swapped: {} is a delta and "
                                              "{} a checkpoint: give the checkpoint first",
                                              base_path, delta_path));
  }
  return Status(
      Code::kCorrupt,
      fmt::format("{}: it is a checkpoint, where a delta is expected: make one with sparcl diff",
                  delta_path));
}

Result<ApplyReport> apply_delta(const std::string& base_path, const Delta& delta,
                                const std::string& out_path, const FileWatch& watch) {
  const Result<DeltaSummary> summary = scan_delta(delta);  // its errors are told below
  if (summary.ok() && can_be_streamed(*summary)) {
    bool is_stopped = false;  // by the watch: it is not asked again
    FileWatch own = watch;
    own.on_progress = [&](std::uint64_t done_bytes, std::uint64_t total_bytes) {
      const Status status = watch.progress(done_bytes, total_bytes);
      is_stopped = is_stopped || !status.ok();
      return status;
    };
    Result<ApplyReport> streamed = apply_streamed(base_path, delta, *summary, out_path, own);
    if (streamed.ok() || is_stopped || !is_of_content(streamed.status().code())) return streamed;
  }
  SPARCL_ASSIGN_OR_RETURN(HeldState state, HeldState::open(base_path, watch));
  ApplyReport report;
  report.base_hash = state.hash();
  SPARCL_RETURN_IF_ERROR(state.apply(delta, watch));

  const StateView target = state.view();
  const Layout* replaced = is_same_place(base_path, out_path) ? &state.base().layout() : nullptr;
  SPARCL_RETURN_IF_ERROR(write_checkpoint(out_path, target.layout, target.tensors, replaced,
                                          target.side_files, watch));
  report.elements = make_block_map(target.schema).element_count();
  report.changed = state.changed();
  report.bytes = state.byte_count();
  report.target_hash = state.hash();
  report.exact = state.exact();
  return report;
}

}  // namespace sparcl::model
