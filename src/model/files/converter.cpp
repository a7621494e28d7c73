#include "src/model/files/converter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

#include "src/base/files/atomic_file.hpp"
#include "src/base/files/file_reader.hpp"
#include "src/base/folder_list.hpp"
#include "src/model/exchange/exchange_format.hpp"
#include "src/model/exchange/folder_format.hpp"
#include "src/model/exchange/shard_folder.hpp"
#include "src/model/files/delta_maker.hpp"
#include "src/model/model_hash.hpp"

namespace sparcl::model {
namespace {

namespace fs = std::filesystem;

struct ChangeInput {
  std::string format;
  SparseChange change;
  std::uint64_t bytes = 0;
};

Status own_needs_base() {
  return Status(Code::kInvalidArgument,
                "our own deltas say what changed against a base: give the checkpoint as `base`");
}

std::string known_formats() {
  std::string names = kOwnFormat;
  for (const ExchangeFormat* format : exchange_formats())
    names += fmt::format(", {}", format->name);
  for (const FolderFormat* format : folder_formats()) names += fmt::format(", {}", format->name);
  return names;
}

std::string last_part(const std::string& path) {
  fs::path name = fs::path(path).lexically_normal();
  if (!name.has_filename()) name = name.parent_path();
  return name.filename().string();
}

// Reads the change of one of our deltas.
Result<ChangeInput> read_own(const ConvertOptions& options, const FileWatch& watch) {
  if (options.base.empty()) return own_needs_base();
  SPARCL_ASSIGN_OR_RETURN(const Delta delta, read_delta(options.input, watch));
  const Result<DeltaSummary> summary = scan_delta(delta, watch);
  if (!summary.ok()) return summary.status();
  const Result<OpenCheckpoint> base = open_checkpoint(options.base);
  if (!base.ok()) return base.status();
  SPARCL_ASSIGN_OR_RETURN(HeldState target, HeldState::open(options.base, watch));
  SPARCL_RETURN_IF_ERROR(target.apply(delta, watch));
  if (target.view().schema != base->checkpoint->schema()) {
    return Status(
        Code::kUnsupported,
        fmt::format(
            "{}: its list of tensors is not the base's: other layouts hold changed elements only",
            options.input));
  }
  SPARCL_ASSIGN_OR_RETURN(const kernels::KernelSet* const kernels, chosen_kernels());
  const StateView view = target.view();
  Result<SparseChange> change =
      compare_tensors(view.schema, base->view().input(), view.input(), *kernels);
  if (!change.ok()) return change.status().with_prefix(options.input + ": ");
  SPARCL_RETURN_IF_ERROR(base->source->status());
  ChangeInput input{kOwnFormat, std::move(*change), delta.bytes};
  input.change.base_hash = *summary->whole_base_hash();
  input.change.target_hash = *summary->target_hash;
  input.change.base_version = summary->base_version;
  input.change.target_version = summary->target_version;
  input.change.attachment = summary->attachment;
  return input;
}

// A file, or the files of a folder that can hold tensors, sorted by name.
Result<std::vector<std::string>> input_files(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return std::vector<std::string>{path};
  SPARCL_ASSIGN_OR_RETURN(const std::vector<std::string> names, names_in_folder(path));
  if (last_part(path).starts_with("weight_v") && std::ranges::find(names, "DONE") == names.end()) {
    return Status(Code::kCorrupt,
                  fmt::format("{}: neither {} nor the marker DONE is there: its writer has not "
                              "finished",
                              path, kIndexName));
  }
  std::vector<std::string> files;
  for (const std::string& name : names) {
    if (!name.starts_with('.') && (name.ends_with(".safetensors") || name.ends_with(".zst")))
      files.push_back((fs::path(path) / name).string());
  }
  if (files.empty())
    return Status(Code::kInvalidArgument,
                  fmt::format("{}: no .safetensors or .zst file in this folder", path));
  return files;
}

Status read_change_file(const std::string& path, const ConvertOptions& options,
                        ChangeInput& input) {
  {
    SPARCL_ASSIGN_OR_RETURN(const FileReader reader, FileReader::open(path));
    std::vector<std::byte> first(std::min<std::uint64_t>(kHeaderLengthBytes, reader.byte_count()));
    SPARCL_RETURN_IF_ERROR(reader.read(0, first));
    SPARCL_RETURN_IF_ERROR(check_begin_of_tensor_file(first, reader.byte_count()));
  }
  SPARCL_ASSIGN_OR_RETURN(const std::vector<std::byte> content, sparcl::read_file(path));
  SPARCL_ASSIGN_OR_RETURN(const TensorFile file, parse_tensor_file(content));
  const ExchangeFormat* format = recognise(file, is_zstd(content));
  if (format == nullptr) {
    return Status(Code::kCorrupt,
                  fmt::format("it is in none of the layouts {} (a checkpoint?)", known_formats()));
  }
  if (!options.from.empty()) {
    const ExchangeFormat* wanted = find_exchange_format(options.from);
    if (wanted == nullptr || !wanted->is_it(file)) {
      return Status(Code::kCorrupt,
                    fmt::format("it is not in layout {}, but in {}", options.from, format->name));
    }
    if (wanted->read != format->read) format = wanted;
  }
  input.format = format->name;
  input.bytes += content.size();
  return format->read(file, input.change);
}

Result<ChangeBase> open_change_base(const ConvertOptions& options, const std::string& layout) {
  if (options.base.empty()) {
    return Status(Code::kInvalidArgument,
                  fmt::format("layout {} codes new bytes against old ones: give the checkpoint as "
                              "`base`",
                              layout));
  }
  SPARCL_ASSIGN_OR_RETURN(const kernels::KernelSet* const kernels, chosen_kernels());
  return ChangeBase::open(options.base, *kernels);
}

// For messages: what most folders of whole tensors need is not there.
std::string without_index(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error) || has_file(path, kIndexName)) return "";
  return fmt::format(": the folder has no {}, which its writer writes last", kIndexName);
}

// The folder's layout; nullptr: it has none of those that are folders.
Result<const FolderFormat*> folder_format_of(const ConvertOptions& options) {
  const FolderFormat* wanted = find_folder_format(options.from);
  if (wanted == nullptr && !options.from.empty()) return wanted;
  const FolderFormat* found = recognise_folder(options.input);
  const bool is_wanted = wanted == nullptr || (found != nullptr && found->read == wanted->read);
  if (is_wanted) return found;
  return Status(Code::kCorrupt,
                fmt::format("{}: it is not in layout {}, {}{}", options.input, wanted->name,
                            found == nullptr ? std::string("nor another whose folder is complete")
                                             : fmt::format("but in {}", found->name),
                            without_index(options.input)));
}

Result<ChangeInput> read_folder(const ConvertOptions& options, const FolderFormat& format,
                                const FileWatch& watch) {
  SPARCL_ASSIGN_OR_RETURN(const ChangeBase base, open_change_base(options, format.name));
  ChangeInput input;
  input.format = format.name;
  SPARCL_RETURN_IF_ERROR(format.read(options.input, base, watch, input.change, input.bytes));
  return input;
}

Result<ChangeInput> read_foreign(const ConvertOptions& options, const FileWatch& watch) {
  SPARCL_ASSIGN_OR_RETURN(const FolderFormat* const folder, folder_format_of(options));
  if (folder != nullptr) return read_folder(options, *folder, watch);
  SPARCL_ASSIGN_OR_RETURN(const std::vector<std::string> files, input_files(options.input));
  ChangeInput input;
  for (const std::string& path : files) {
    const Status read = read_change_file(path, options, input).with_prefix(path + ": ");
    if (read.code() == Code::kCorrupt)
      return Status(read.code(), read.message() + without_index(options.input));
    SPARCL_RETURN_IF_ERROR(read);
  }
  SPARCL_RETURN_IF_ERROR(check_names(input.change).with_prefix(options.input + ": "));
  return input;
}

// A file that was made from one of our deltas names its states; other files do not.
Status check_change_base(const ConvertOptions& options, const SparseChange& change,
                         const Hash128& hash) {
  if (!change.base_hash || *change.base_hash == hash) return {};
  return Status(
      Code::kWrongBase,
      fmt::format("{}: it is not the base of {}: the change needs state {}, this checkpoint has "
                  "state {}: give the checkpoint that the change was made from",
                  options.base, options.input, to_hex(*change.base_hash), to_hex(hash)));
}

Status check_change_target(const ConvertOptions& options, const SparseChange& change,
                           const Hash128& hash) {
  if (!change.target_hash || *change.target_hash == hash) return {};
  return Status(Code::kCorrupt,
                fmt::format("{}: its changes lead to state {}, and it says {}: another program has "
                            "altered it: convert the delta again",
                            options.input, to_hex(hash), to_hex(*change.target_hash)));
}

Status write_own(const ConvertOptions& options, ChangeInput& input, ConvertReport& report,
                 const FileWatch& watch) {
  if (options.base.empty()) return own_needs_base();
  SPARCL_ASSIGN_OR_RETURN(const OpenCheckpoint base, open_checkpoint(options.base));
  SPARCL_ASSIGN_OR_RETURN(HeldState target, HeldState::open(options.base, watch));
  SPARCL_RETURN_IF_ERROR(
      match_schema(base.checkpoint->schema(), input.change).with_prefix(options.input + ": "));
  SPARCL_RETURN_IF_ERROR(check_change_base(options, input.change, target.hash()));
  SPARCL_RETURN_IF_ERROR(target.apply(input.change, watch).with_prefix(options.input + ": "));
  SPARCL_RETURN_IF_ERROR(check_change_target(options, input.change, target.hash()));
  DiffOptions diff_options;
  diff_options.base_version = input.change.base_version;
  diff_options.target_version = input.change.target_version;
  SPARCL_ASSIGN_OR_RETURN(const DiffReport delta, write_delta(base.view(), target.view(),
                                                              options.output, diff_options, watch));
  report.bytes = delta.bytes;
  report.unchanged = target.unchanged();
  return {};
}

Status write_change_file(const std::string& path, const TensorFile& file, int zstd_level,
                         std::uint64_t& bytes) {
  SPARCL_ASSIGN_OR_RETURN(const std::vector<std::byte> content, serialise(file, zstd_level));
  SPARCL_ASSIGN_OR_RETURN(AtomicFile out, AtomicFile::create(path));
  SPARCL_RETURN_IF_ERROR(out.write(content));
  bytes += content.size();
  return out.commit();
}

// Writes a new folder, completely or not at all.
Status write_new_folder(const std::string& path,
                        const std::function<Status(const std::string& folder)>& fill) {
  std::error_code error;
  if (fs::exists(fs::symlink_status(path, error))) {
    return Status(Code::kInvalidArgument,
                  fmt::format("{}: the output is a folder of files, and this exists: give another "
                              "output",
                              path));
  }
  std::optional<TemporaryPath> made = TemporaryPath::create_folder(path, error);
  if (!made)
    return Status(Code::kSystemError,
                  fmt::format("{}: cannot be created: {}", path, error.message()));
  TemporaryPath folder = std::move(*made);
  SPARCL_RETURN_IF_ERROR(fill(folder.path()));
  SPARCL_RETURN_IF_ERROR(sync_folder_of(folder.path() + "/."));
  fs::rename(folder.path(), path, error);
  if (error)
    return Status(Code::kSystemError,
                  fmt::format("{}: the finished folder cannot be renamed to this: {}", path,
                              error.message()));
  folder.release();
  return make_name_last(path);
}

// Its marker tells polling programs that the folder is complete.
Status write_change_files(const std::string& folder, std::span<const TensorFile> files,
                          int zstd_level, std::uint64_t& bytes) {
  for (const TensorFile& file : files)
    SPARCL_RETURN_IF_ERROR(write_change_file(folder + "/" + file.name, file, zstd_level, bytes));
  SPARCL_ASSIGN_OR_RETURN(AtomicFile done, AtomicFile::create(folder + "/DONE"));
  return done.commit();
}

Status write_in_folder_format(const ConvertOptions& options, const FolderFormat& format,
                              const SparseChange& change, ConvertReport& report) {
  SPARCL_ASSIGN_OR_RETURN(const ChangeBase base, open_change_base(options, format.name));
  SPARCL_ASSIGN_OR_RETURN(const FolderWrite written,
                          write_change_folder(options.output, format, change, base));
  report.files = written.files;
  report.bytes = written.bytes;
  return {};
}

Status write_foreign(const ConvertOptions& options, ChangeInput& input, ConvertReport& report,
                     const FileWatch& watch) {
  if (!options.base.empty()) {
    SPARCL_ASSIGN_OR_RETURN(const Checkpoint base, Checkpoint::open_unread(options.base));
    if (input.format != kOwnFormat)
      watch.stray_shards(base.stray_paths());  // reading our own delta has reported them
    SPARCL_RETURN_IF_ERROR(
        match_schema(base.schema(), input.change).with_prefix(options.input + ": "));
    if (input.change.base_hash &&
        input.format != kOwnFormat) {  // ours was checked when it was read
      SPARCL_ASSIGN_OR_RETURN(const Hash128 hash, state_hash(base, watch));
      SPARCL_RETURN_IF_ERROR(check_change_base(options, input.change, hash));
    }
  }
  if (const FolderFormat* folder = find_folder_format(options.to); folder != nullptr)
    return write_in_folder_format(options, *folder, input.change, report);
  const ExchangeFormat& format = *find_exchange_format(options.to);
  const bool has_shapes = std::ranges::all_of(
      input.change.tensors, [](const auto& tensor) { return tensor.shape.has_value(); });
  if (!has_shapes && &format != &kCooFormat && &format != &kCooZstdFormat) {
    return Status(
        Code::kInvalidArgument,
        fmt::format(
            "layout {} names the tensors' shapes, and {} has none: give the checkpoint as `base`",
            options.to, options.input));
  }
  SPARCL_ASSIGN_OR_RETURN(const std::vector<TensorFile> files, format.write(input.change));
  SPARCL_RETURN_IF_ERROR(watch.progress(input.bytes, input.bytes));
  report.files = files.size();
  if (files.size() == 1)
    return write_change_file(options.output, files.front(), format.zstd_level, report.bytes);
  return write_new_folder(options.output, [&](const std::string& folder) {
    return write_change_files(folder, files, format.zstd_level, report.bytes);
  });
}

}  // namespace

std::vector<LayoutName> convert_layouts() {
  std::vector<LayoutName> layouts{{kOwnFormat, "our own delta"}};
  for (const ExchangeFormat* format : exchange_formats())
    layouts.push_back({format->name, format->summary});
  for (const FolderFormat* format : folder_formats())
    layouts.push_back({format->name, format->summary});
  return layouts;
}

bool is_change_folder(const std::string& path) {
  const FolderFormat* format = recognise_folder(path);
  return format != nullptr && format != &kHfFullFormat;
}

Result<SparseChange> read_change(const std::string& path, const ChangeBase& base,
                                 const FileWatch& watch) {
  SparseChange change;
  std::uint64_t bytes = 0;
  if (const FolderFormat* format = recognise_folder(path); format != nullptr) {
    SPARCL_RETURN_IF_ERROR(format->read(path, base, watch, change, bytes));
  } else {
    ConvertOptions options;
    options.input = path;
    SPARCL_ASSIGN_OR_RETURN(ChangeInput input, read_foreign(options, watch));
    change = std::move(input.change);
  }
  SPARCL_RETURN_IF_ERROR(match_schema(base.schema(), change).with_prefix(path + ": "));
  return change;
}

Result<ConvertReport> convert_change(const ConvertOptions& options, const FileWatch& watch) {
  SPARCL_ASSIGN_OR_RETURN(const bool found, is_delta(options.input));
  const bool is_own = found;
  if (!options.from.empty() && (options.from == kOwnFormat) != is_own) {
    return Status(Code::kCorrupt,
                  fmt::format("{}: it is {} delta of ours, but layout {} is asked for",
                              options.input, is_own ? "a" : "no", options.from));
  }
  SPARCL_ASSIGN_OR_RETURN(ChangeInput input,
                          is_own ? read_own(options, watch) : read_foreign(options, watch));
  ConvertReport report;
  report.from = input.format;
  report.tensors = input.change.tensors.size();
  report.changed = input.change.changed();
  report.input_bytes = input.bytes;
  SPARCL_RETURN_IF_ERROR(options.to == kOwnFormat ? write_own(options, input, report, watch)
                                                  : write_foreign(options, input, report, watch));
  return report;
}

Result<FolderWrite> write_change_folder(const std::string& path, const FolderFormat& format,
                                        const SparseChange& change, const ChangeBase& base) {
  FolderWrite out;
  out.name = last_part(path);
  SPARCL_RETURN_IF_ERROR(write_new_folder(path, [&](const std::string& folder) {
    out.folder = folder;
    return format.write(change, base, out);
  }));
  return out;
}

}  // namespace sparcl::model
