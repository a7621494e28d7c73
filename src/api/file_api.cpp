// Files behind the C interface: what src/model/files does, with the checks of arguments before it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <initializer_list>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collectives/broadcast/broadcast_forecast.hpp"
#include "src/api/call_checks.hpp"
#include "src/api/file_hooks.hpp"
#include "src/api/update_selection.hpp"
#include "src/base/worker_pool.hpp"
#include "src/model/checkpoint.hpp"
#include "src/model/files/converter.hpp"
#include "src/model/files/delta_applier.hpp"
#include "src/model/files/delta_composer.hpp"
#include "src/model/files/delta_maker.hpp"
#include "src/model/files/mode_costs.hpp"
#include "src/model/files/output_check.hpp"
#include "src/model/model_hash.hpp"
#include "src/model/state_identity.hpp"
#include "src/trust/hex.hpp"

using sparcl::Code;
using sparcl::Hash128;
using sparcl::Result;
using sparcl::Status;
using sparcl::api::check_text;
using sparcl::api::file_call;
using sparcl::api::put_text;
using sparcl::model::FileWatch;

namespace model = sparcl::model;

namespace {

constexpr std::uint64_t kMaxOnly = std::uint64_t{1} << 20;  // more is a slip

Status check_texts(std::initializer_list<std::pair<const char*, const char*>> texts) {
  for (const auto& [parameter, text] : texts) SPARCL_RETURN_IF_ERROR(check_text(parameter, text));
  return Status();
}

void put_hashes(sparclFileReport_t& report, const Hash128& base, const Hash128& target) {
  put_text(report.base_hash, to_hex(base));
  put_text(report.target_hash, to_hex(target));
}

// ---- diff

Result<const sparcl::codec::BlockMode*> find_mode(const char* name) {
  const sparcl::codec::BlockMode* const every = nullptr;
  if (name == nullptr || std::string_view(name) == "auto") return every;
  std::string names = "auto";
  for (const sparcl::codec::BlockMode* mode : model::forceable_modes()) {
    if (std::string_view(mode->name) == name) return mode;
    names += fmt::format(", {}", mode->name);
  }
  return Status(Code::kInvalidArgument,
                fmt::format("options.mode is '{}': expected one of {}", name, names));
}

Status read_selection(const sparclUpdateOptions_t* given, model::ChangeSelection& selection) {
  const Result<sparclUpdateOptions_t> read = sparcl::api::read_options(given);
  if (!read.ok()) return read.status().with_prefix("options.selection: ");
  if (read->adopt == sparclOn) {
    return Status(Code::kInvalidArgument,
                  "options.selection->adopt is sparclOn: a file has no root that could adopt the "
                  "update: leave it at 0");
  }
  if (read->algorithm != nullptr || read->verify != sparclVerifyDefault) {
    return Status(Code::kInvalidArgument,
                  "options.selection->algorithm and verify are of broadcasts: leave them at 0");
  }
  selection.values = sparcl::api::value_coding(*read);
  switch (read->select) {
    case sparclSelectThreshold:
      selection.threshold = read->threshold;
      break;
    case sparclSelectTopK:
      selection.largest = read->count;
      break;
    case sparclSelectBytes:
      selection.budget_bytes = read->bytes;
      break;
    case sparclSelectGrid:
      selection.grid = static_cast<sparcl::DataType>(read->grid);
      break;
    default:
      break;
  }
  return Status();
}

Result<model::DiffOptions> read_diff_options(const sparclFileDiffOptions_t& given) {
  model::DiffOptions options;
  SPARCL_ASSIGN_OR_RETURN(options.mode, find_mode(given.mode));
  SPARCL_RETURN_IF_ERROR(read_selection(given.selection, options.selection));
  if (given.only_count > kMaxOnly || (given.only_count > 0 && given.only == nullptr)) {
    return Status(Code::kInvalidArgument,
                  fmt::format("options.only_count = {}, but options.only has not so many globs",
                              given.only_count));
  }
  for (std::size_t i = 0; i < given.only_count; ++i) {
    SPARCL_RETURN_IF_ERROR(check_text("a glob of options.only", given.only[i]));
    options.selection.only.emplace_back(given.only[i]);
  }
  if (given.side_files != sparclFileSideFilesCarry && given.side_files != sparclFileSideFilesOmit) {
    return Status(Code::kInvalidArgument,
                  fmt::format("options.side_files is {}: it must be one of sparclFileSideFiles...",
                              static_cast<int>(given.side_files)));
  }
  options.with_side_files = given.side_files == sparclFileSideFilesCarry;
  if (given.threads < 0 || given.threads > sparcl::kMaxThreads) {
    return Status(Code::kInvalidArgument, fmt::format("options.threads = {}: expected 0 to {}",
                                                      given.threads, sparcl::kMaxThreads));
  }
  options.threads = static_cast<unsigned>(given.threads);
  if (given.with_identities > 1)
    return Status(Code::kInvalidArgument,
                  fmt::format("options.with_identities is {}: give 1 or 0", given.with_identities));
  options.with_identities = given.with_identities == 1;
  return options;
}

double relative_error(const sparcl::codec::LossyError& error) {
  return error.change_squares == 0 ? 0 : std::sqrt(error.squares / error.change_squares);
}

// Between the target and what apply writes.
sparcl::codec::LossyError whole_error(const model::DiffReport& made) {
  sparcl::codec::LossyError error = made.lossy;
  error.squares += made.left_out.squares;
  error.largest = std::max(error.largest, made.left_out.largest);
  if (made.is_partial()) error.change_squares = made.left_out.change_squares;
  return error;
}

void put_diff(const model::DiffReport& made, sparclFileReport_t& report) {
  report.elements = made.elements;
  report.changed = made.changed;
  report.bytes = made.bytes;
  report.dense_bytes = made.dense_bytes;
  report.left_out = made.left_out.count;
  report.left_out_l2 = std::sqrt(made.left_out.squares);
  report.left_out_largest = made.left_out.largest;
  report.quantisation_largest = made.lossy.largest;
  report.quantisation_relative = relative_error(made.lossy);
  report.largest_error = whole_error(made).largest;
  report.relative_error = relative_error(whole_error(made));
  put_hashes(report, made.base_hash, made.target_hash);
}

// NUL ends a C string: a tensor's name with one has the bytes C0 80 instead, which UTF-8 never has.
std::string as_c_text(const std::string& name) {
  std::string text;
  for (const char byte : name) byte == '\0' ? text.append("\xc0\x80") : text.append(1, byte);
  return text;
}

void tell_names(const sparclFileDiffOptions_t& options, const model::DiffReport& made) {
  if (options.on_note == nullptr) return;
  const auto tell = [&](sparclFileNoteKind_t kind, const std::vector<std::string>& names) {
    for (const std::string& name : names)
      options.on_note(kind, as_c_text(name).c_str(), options.arg);
  };
  tell(sparclFileTensorAdded, made.tensors.added);
  tell(sparclFileTensorRemoved, made.tensors.removed);
  tell(sparclFileTensorReplaced, made.tensors.replaced);
  tell(sparclFileSideFile, made.side_files);
  tell(sparclFileSideFileLeft, made.skipped);
  tell(sparclFileNotInIndex, made.stray_shards);
}

// ---- the others

Status verify_delta(const char* path, const FileWatch& watch, sparclFileReport_t& report) {
  SPARCL_ASSIGN_OR_RETURN(const model::Delta delta, model::read_delta(path, watch));
  SPARCL_ASSIGN_OR_RETURN(const model::DeltaSummary summary, model::scan_delta(delta, watch));
  report.is_delta = 1;
  report.elements = summary.elements;
  report.changed = summary.changed;
  report.bytes = delta.bytes;
  report.chunks = summary.chunk_count;
  report.blocks = summary.block_count;
  if (const Hash128* base = summary.whole_base_hash()) put_text(report.base_hash, to_hex(*base));
  if (summary.target_hash) put_text(report.target_hash, to_hex(*summary.target_hash));
  return Status();
}

Result<model::Checkpoint> open_unread(const char* path, const FileWatch& watch,
                                      sparclFileReport_t& report) {
  Result<model::Checkpoint> checkpoint = model::Checkpoint::open_unread(path);
  if (!checkpoint.ok()) return checkpoint;
  watch.stray_shards(checkpoint->stray_paths());
  report.elements = model::make_block_map(checkpoint->schema()).element_count();
  report.bytes = checkpoint->byte_count();
  report.tensors = checkpoint->schema().size();
  return checkpoint;
}

// Whether the two paths are one file or folder that exists.
bool is_same_file(const char* a, const char* b) {
  std::error_code ignored;
  return std::filesystem::equivalent(a, b, ignored);
}

std::string hex_text(const sparcl::Hash128& hash) { return to_hex(hash); }
std::string hex_text(const sparcl::trust::Sha256::Digest& digest) {
  return sparcl::trust::to_hex(digest);
}
std::string hex_text(const model::Digest256& digest) { return sparcl::trust::hex_of(digest); }

template <class Hash>
Status put_hash(const Result<Hash>& hash, sparclFileReport_t& report) {
  if (hash.ok()) put_text(report.hash, hex_text(*hash));
  return hash.status();
}

template <class Made>
void put_made(const Made& made, sparclFileReport_t& report) {
  report.elements = made.elements;
  report.changed = made.changed;
  report.bytes = made.bytes;
  put_hashes(report, made.base_hash, made.target_hash);
}

Result<model::ComposeReport> compose(const std::vector<std::string>& deltas, const char* base,
                                     const char* output, const FileWatch& watch) {
  if (base != nullptr) return model::compose_deltas_on(base, deltas, output, watch);
  Result<model::ComposeReport> made = model::compose_deltas(deltas, output, watch);
  if (made.ok() || made.status().code() != Code::kUnsupported) return made;
  return Status(Code::kUnsupported, made.status().message() + ": give it as `base`");
}

// NULL, or one of the names, which are "sparcl" and those of other programs.
Status check_layout(const char* parameter, const char* name) {
  SPARCL_RETURN_IF_ERROR(check_text(parameter, name));
  std::string names;
  for (const model::LayoutName& layout : model::convert_layouts()) {
    if (std::string_view(name) == layout.name) return {};
    names += fmt::format("{}{}", names.empty() ? "" : ", ", layout.name);
  }
  return Status(Code::kInvalidArgument,
                fmt::format("{} is '{}': expected one of {}", parameter, name, names));
}

void put_mode(const model::ModeCost& cost, sparclFileMode_t& mode) {
  put_text(mode.name, cost.name);
  mode.bytes = cost.bytes;
  mode.seconds = cost.seconds;
}

sparclFileAdvice_t advice_of(const model::ModeCosts& costs, double link_gbit, int ranks) {
  sparclFileAdvice_t advice = SPARCL_FILE_ADVICE_INITIALIZER;
  const auto forecast =
      sparcl::collectives::broadcast::forecast(costs.shape, costs.broadcast, link_gbit, ranks);
  advice.elements = costs.shape.elements;
  advice.changed = costs.shape.changed;
  advice.dense_bytes = costs.shape.dense_bytes;
  advice.clustering = costs.shape.clustering;
  advice.position_bits = costs.shape.position_bits;
  advice.position_bits_given_old = costs.shape.position_bits_given_old;
  advice.unit_steps = costs.shape.unit_steps;
  advice.sparse_seconds = forecast.sparse_seconds;
  advice.dense_seconds = forecast.dense_seconds;
  advice.dense_wins_above = forecast.dense_wins_above.value_or(-1);
  put_text(advice.sparse_algorithm, forecast.sparse_algorithm);
  put_text(advice.dense_algorithm, forecast.dense_algorithm);
  put_text(advice.best_mode, costs.best_mode);
  put_mode(costs.broadcast, advice.broadcast);
  advice.mode_count = std::min(costs.modes.size(), std::size(advice.modes));
  for (std::size_t i = 0; i < advice.mode_count; ++i) put_mode(costs.modes[i], advice.modes[i]);
  return advice;
}

Status check_link(double link_gbit, int ranks) {
  constexpr int kMaxRanks = 1 << 20;
  if (!(link_gbit > 0) || !std::isfinite(link_gbit)) {
    return Status(Code::kInvalidArgument,
                  fmt::format("link_gbit is {}: expected more than 0 Gbit/s", link_gbit));
  }
  if (ranks >= 2 && ranks <= kMaxRanks) return Status();
  return Status(Code::kInvalidArgument,
                fmt::format("ranks is {}: expected 2 to {}", ranks, kMaxRanks));
}

}  // namespace

extern "C" {

sparclResult_t sparclFileDiff(const char* base, const char* target, const char* output,
                              const sparclFileDiffOptions_t* options, sparclFileReport_t* report) {
  const auto work = [&](const sparclFileDiffOptions_t& all, const FileWatch& watch,
                        sparclFileReport_t& full) -> Status {
    SPARCL_RETURN_IF_ERROR(check_texts({{"base", base}, {"target", target}, {"output", output}}));
    SPARCL_ASSIGN_OR_RETURN(const model::DiffOptions diff, read_diff_options(all));
    for (const char* input : {base, target})
      SPARCL_RETURN_IF_ERROR(model::expect_checkpoint(input));
    SPARCL_RETURN_IF_ERROR(model::check_output(output, {base, target}));
    FileWatch telling = watch;
    telling.on_diff = [&](const model::DiffReport& made) {
      tell_names(all, made);
      return watch.progress(made.dense_bytes, made.dense_bytes);
    };
    SPARCL_ASSIGN_OR_RETURN(const model::DiffReport made,
                            model::make_delta(base, target, output, diff, telling));
    put_diff(made, full);
    return Status();
  };
  return file_call(__func__, options, SPARCL_FILE_DIFF_OPTIONS_INITIALIZER, report, work);
}

sparclResult_t sparclFileApply(const char* base, const char* delta, const char* output,
                               const sparclFileOptions_t* options, sparclFileReport_t* report) {
  const auto work = [&](const sparclFileOptions_t&, const FileWatch& watch,
                        sparclFileReport_t& full) -> Status {
    SPARCL_RETURN_IF_ERROR(check_texts({{"base", base}, {"delta", delta}, {"output", output}}));
    SPARCL_RETURN_IF_ERROR(model::check_order(base, delta));
    if (is_same_file(output, delta)) {
      return Status(
          Code::kInvalidArgument,
          fmt::format("{}: the result would overwrite the delta: give another output", output));
    }
    SPARCL_ASSIGN_OR_RETURN(const model::Delta read, model::read_delta(delta, watch));
    SPARCL_ASSIGN_OR_RETURN(const model::ApplyReport made,
                            model::apply_delta(base, read, output, watch));
    put_made(made, full);
    full.input_bytes = read.bytes;
    full.same_header = made.exact ? 1 : 0;
    return Status();
  };
  return file_call(__func__, options, SPARCL_FILE_OPTIONS_INITIALIZER, report, work);
}

sparclResult_t sparclFileVerify(const char* path, const sparclFileOptions_t* options,
                                sparclFileReport_t* report) {
  const auto work = [&](const sparclFileOptions_t&, const FileWatch& watch,
                        sparclFileReport_t& full) -> Status {
    SPARCL_RETURN_IF_ERROR(check_text("path", path));
    SPARCL_ASSIGN_OR_RETURN(const bool is_checkpoint, model::is_checkpoint(path));
    return is_checkpoint ? open_unread(path, watch, full).status()
                         : verify_delta(path, watch, full);
  };
  return file_call(__func__, options, SPARCL_FILE_OPTIONS_INITIALIZER, report, work);
}

sparclResult_t sparclFileCompose(const char* const* deltas, size_t count, const char* base,
                                 const char* output, const sparclFileOptions_t* options,
                                 sparclFileReport_t* report) {
  const auto work = [&](const sparclFileOptions_t&, const FileWatch& watch,
                        sparclFileReport_t& full) -> Status {
    SPARCL_RETURN_IF_ERROR(check_text("output", output));
    if (count == 0 || deltas == nullptr)
      return Status(Code::kInvalidArgument, "deltas is NULL or count is 0: give 1 delta or more");
    SPARCL_RETURN_IF_ERROR(sparcl::api::check_array("count", count, sizeof *deltas));
    std::vector<std::string> paths;
    for (std::size_t i = 0; i < count; ++i) {
      SPARCL_RETURN_IF_ERROR(check_text("a path of deltas", deltas[i]));
      paths.emplace_back(deltas[i]);
    }
    std::vector<std::string> inputs = paths;
    if (base != nullptr) {
      SPARCL_RETURN_IF_ERROR(model::expect_checkpoint(base));
      inputs.emplace_back(base);
    }
    SPARCL_RETURN_IF_ERROR(model::check_output(output, inputs));
    SPARCL_ASSIGN_OR_RETURN(const model::ComposeReport made, compose(paths, base, output, watch));
    put_made(made, full);
    full.input_bytes = made.input_bytes;
    return Status();
  };
  return file_call(__func__, options, SPARCL_FILE_OPTIONS_INITIALIZER, report, work);
}

sparclResult_t sparclFileInvert(const char* base, const char* delta, const char* output,
                                const sparclFileOptions_t* options, sparclFileReport_t* report) {
  const auto work = [&](const sparclFileOptions_t&, const FileWatch& watch,
                        sparclFileReport_t& full) -> Status {
    SPARCL_RETURN_IF_ERROR(check_texts({{"base", base}, {"delta", delta}, {"output", output}}));
    SPARCL_RETURN_IF_ERROR(model::expect_checkpoint(base));
    SPARCL_RETURN_IF_ERROR(model::check_output(output, {base, delta}));
    SPARCL_ASSIGN_OR_RETURN(const model::Delta read, model::read_delta(delta, watch));
    SPARCL_ASSIGN_OR_RETURN(const model::DiffReport made,
                            model::invert_delta(base, read, output, watch));
    put_made(made, full);
    full.input_bytes = read.bytes;
    return Status();
  };
  return file_call(__func__, options, SPARCL_FILE_OPTIONS_INITIALIZER, report, work);
}

sparclResult_t sparclFileConvert(const char* input, const char* from, const char* output,
                                 const char* to, const char* base,
                                 const sparclFileOptions_t* options, sparclFileReport_t* report) {
  const auto work = [&](const sparclFileOptions_t&, const FileWatch& watch,
                        sparclFileReport_t& full) -> Status {
    SPARCL_RETURN_IF_ERROR(check_texts({{"input", input}, {"output", output}}));
    SPARCL_RETURN_IF_ERROR(check_layout("to", to));
    if (from != nullptr) SPARCL_RETURN_IF_ERROR(check_layout("from", from));
    const auto text = [](const char* given) { return std::string(given != nullptr ? given : ""); };
    std::vector<std::string> inputs{input};
    if (base != nullptr) {
      SPARCL_RETURN_IF_ERROR(model::expect_checkpoint(base));
      inputs.emplace_back(base);
    }
    SPARCL_RETURN_IF_ERROR(model::check_output(output, inputs));
    SPARCL_ASSIGN_OR_RETURN(
        const model::ConvertReport made,
        model::convert_change({input, output, text(from), to, text(base)}, watch));
    full.changed = made.changed;
    full.tensors = made.tensors;
    full.bytes = made.bytes;
    full.input_bytes = made.input_bytes;
    full.files = made.files;
    full.unchanged = made.unchanged;
    put_text(full.layout, made.from);
    return Status();
  };
  return file_call(__func__, options, SPARCL_FILE_OPTIONS_INITIALIZER, report, work);
}

sparclResult_t sparclFileHash(const char* path, sparclFileHashKind_t kind,
                              const sparclFileOptions_t* options, sparclFileReport_t* report) {
  const auto work = [&](const sparclFileOptions_t&, const FileWatch& watch,
                        sparclFileReport_t& full) -> Status {
    SPARCL_RETURN_IF_ERROR(check_text("path", path));
    if (kind < sparclFileHashState || kind > sparclFileHashIdentity) {
      return Status(
          Code::kInvalidArgument,
          fmt::format("kind is {}: it must be one of sparclFileHash...", static_cast<int>(kind)));
    }
    SPARCL_ASSIGN_OR_RETURN(const model::Checkpoint checkpoint, open_unread(path, watch, full));
    if (kind == sparclFileHashXxh3) return put_hash(model::xxh3_hash(checkpoint, watch), full);
    if (kind == sparclFileHashSha256) return put_hash(model::weights_hash(checkpoint, watch), full);
    if (kind == sparclFileHashIdentity)
      return put_hash(model::state_identity(checkpoint, watch), full);
    return put_hash(model::state_hash(checkpoint, watch), full);
  };
  return file_call(__func__, options, SPARCL_FILE_OPTIONS_INITIALIZER, report, work);
}

sparclResult_t sparclFileAdvise(const char* first, const char* second, double link_gbit, int ranks,
                                const sparclFileOptions_t* options, sparclFileAdvice_t* advice) {
  const auto work = [&](const sparclFileOptions_t&, const FileWatch& watch,
                        sparclFileReport_t&) -> Status {
    SPARCL_RETURN_IF_ERROR(check_texts({{"first", first}, {"second", second}}));
    SPARCL_RETURN_IF_ERROR(check_link(link_gbit, ranks));
    if (advice == nullptr) return Status(Code::kInvalidArgument, "advice is NULL");
    SPARCL_RETURN_IF_ERROR(sparcl::api::check_sized("advice", advice));
    for (const char* path : {first, second}) SPARCL_RETURN_IF_ERROR(model::expect_checkpoint(path));
    SPARCL_ASSIGN_OR_RETURN(const model::ModeCosts costs,
                            model::measure_costs(first, second, watch));
    sparcl::api::write_sized(advice_of(costs, link_gbit, ranks), advice);
    return Status();
  };
  return file_call(__func__, options, SPARCL_FILE_OPTIONS_INITIALIZER, nullptr, work);
}

}  // extern "C"
