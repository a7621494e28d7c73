#include "src/model/files/delta_composer.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "src/codec/compose.hpp"
#include "src/model/attachment.hpp"
#include "src/model/files/delta_sink.hpp"

namespace sparcl::model {
namespace {

Result<std::vector<Delta>> read_deltas(std::span<const std::string> paths, const FileWatch& watch) {
  std::vector<Delta> deltas;
  for (const std::string& path : paths) {
    SPARCL_ASSIGN_OR_RETURN(Delta delta, read_delta(path, watch));
    deltas.push_back(std::move(delta));
  }
  return deltas;
}

Result<Attachment> compose_all_attachments(std::span<const codec::UpdateReader> updates,
                                           std::span<const std::string> paths) {
  Attachment all;
  std::vector<std::optional<StateIdentities>> identities(updates.size());
  for (std::size_t i = 0; i < updates.size(); ++i) {
    if (updates[i].attachment().empty()) continue;
    Result<Attachment> next = parse_attachment(updates[i].attachment());
    if (next.ok()) identities[i] = next->identities;
    if (next.ok()) next = compose_attachments(std::move(all), std::move(*next));
    if (!next.ok()) return next.status().with_prefix(paths[i] + ": ");
    all = std::move(*next);
  }
  SPARCL_ASSIGN_OR_RETURN(all.identities, compose_identities(identities));
  return all;
}

std::uint64_t bytes_of(std::span<const Delta> deltas) {
  std::uint64_t bytes = 0;
  for (const Delta& delta : deltas) bytes += delta.bytes;
  return bytes;
}

// Scans each delta; each base must be the target of the delta before.
Result<std::vector<DeltaSummary>> scan_chain(std::span<const Delta> deltas,
                                             const FileWatch& watch) {
  std::vector<DeltaSummary> all;
  for (const Delta& delta : deltas) {
    SPARCL_ASSIGN_OR_RETURN(DeltaSummary summary, scan_delta(delta, watch));
    const Hash128* const base = summary.whole_base_hash();
    if (!all.empty() && base != nullptr && all.back().target_hash &&
        *base != *all.back().target_hash) {
      return Status(
          Code::kWrongBase,
          fmt::format("{} does not follow {}: the one begins at state {}, the other ends at {}",
                      delta.path, deltas[all.size() - 1].path, to_hex(*base),
                      to_hex(*all.back().target_hash)));
    }
    all.push_back(std::move(summary));
  }
  return all;
}

}  // namespace

Result<ComposeReport> compose_deltas(std::span<const std::string> paths,
                                     const std::string& out_path, const FileWatch& watch) {
  const Result<const kernels::KernelSet*> kernels = chosen_kernels();
  if (!kernels.ok()) return kernels.status();
  SPARCL_ASSIGN_OR_RETURN(const std::vector<Delta> deltas, read_deltas(paths, watch));
  std::vector<codec::UpdateReader> updates;
  for (const Delta& delta : deltas) {
    Result<codec::UpdateReader> update = codec::UpdateReader::open(delta.staging, delta.bytes);
    if (!update.ok()) return update.status().with_prefix(delta.path + ": ");
    updates.push_back(std::move(*update));
  }
  SPARCL_RETURN_IF_ERROR(codec::check_chain(updates, paths));
  SPARCL_ASSIGN_OR_RETURN(const Attachment attachment, compose_all_attachments(updates, paths));

  SPARCL_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(out_path));
  FileSink sink(file);
  const std::uint64_t state_bytes = updates.front().map()->byte_count();
  const auto progress = [&](std::uint64_t done, std::uint64_t blocks) {
    return watch.part(done, blocks, state_bytes);
  };
  SPARCL_ASSIGN_OR_RETURN(
      const codec::ComposeStats stats,
      codec::compose_updates(updates, paths, serialise(attachment), **kernels, sink, progress));
  SPARCL_RETURN_IF_ERROR(sink.flush());
  SPARCL_RETURN_IF_ERROR(file.commit());
  return ComposeReport{updates.front().header().elements,
                       stats.coded_elements,
                       stats.encoded_bytes,
                       bytes_of(deltas),
                       updates.front().end().base_hash,
                       updates.back().end().target_hash};
}

Result<ComposeReport> compose_deltas_on(const std::string& base_path,
                                        std::span<const std::string> paths,
                                        const std::string& out_path, const FileWatch& watch) {
  SPARCL_ASSIGN_OR_RETURN(const std::vector<Delta> deltas, read_deltas(paths, watch));
  SPARCL_ASSIGN_OR_RETURN(const std::vector<DeltaSummary> summaries, scan_chain(deltas, watch));
  SPARCL_ASSIGN_OR_RETURN(const OpenCheckpoint base, open_checkpoint(base_path));
  SPARCL_ASSIGN_OR_RETURN(HeldState state, HeldState::open(base_path, watch));
  DiffOptions options;
  if (!summaries.empty()) options.base_version = summaries.front().base_version;
  if (!summaries.empty()) options.target_version = summaries.back().target_version;
  options.with_identities = std::ranges::all_of(
      summaries, [](const DeltaSummary& each) { return each.attachment.identities.has_value(); });
  for (const Delta& delta : deltas) SPARCL_RETURN_IF_ERROR(state.apply(delta, watch));
  SPARCL_ASSIGN_OR_RETURN(const DiffReport report,
                          write_delta(base.view(), state.view(), out_path, options, watch));
  return ComposeReport{report.elements,  report.changed,   report.bytes,
                       bytes_of(deltas), report.base_hash, report.target_hash};
}

Result<DiffReport> invert_delta(const std::string& base_path, const Delta& delta,
                                const std::string& out_path, const FileWatch& watch) {
  SPARCL_ASSIGN_OR_RETURN(const DeltaSummary summary, scan_delta(delta, watch));
  SPARCL_ASSIGN_OR_RETURN(const OpenCheckpoint base, open_checkpoint(base_path));
  SPARCL_ASSIGN_OR_RETURN(HeldState target, HeldState::open(base_path, watch));
  SPARCL_RETURN_IF_ERROR(target.apply(delta, watch));
  DiffOptions options;
  options.base_version = summary.target_version;
  options.target_version = summary.base_version;
  options.with_identities = summary.attachment.identities.has_value();
  return write_delta(target.view(), base.view(), out_path, options, watch);
}

}  // namespace sparcl::model
