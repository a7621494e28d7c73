#include <fmt/format.h>

#include <cmath>
#include <memory>

#include "src/base/shown_text.hpp"
#include "src/model/files/delta_maker.hpp"
#include "tools/sparcl/command.hpp"
#include "tools/sparcl/console.hpp"
#include "tools/sparcl/file_command.hpp"
#include "tools/sparcl/left_out_text.hpp"
#include "tools/sparcl/selection_options.hpp"
#include "tools/sparcl/stray_shards.hpp"

namespace sparcl::tool {
namespace {

struct DiffArguments {
  std::string base;
  std::string target;
  std::string delta;
  std::string mode = "auto";
  bool no_side_files = false;
  bool with_identities = false;
  SelectionOptions selection;
};

std::vector<std::string> mode_names() {
  std::vector<std::string> names{"auto"};
  for (const codec::BlockMode* mode : model::forceable_modes()) names.push_back(mode->name);
  return names;
}

std::string tensors_text(FileCommand& command) {
  const std::size_t added = command.names(sparclFileTensorAdded).size();
  const std::size_t removed = command.names(sparclFileTensorRemoved).size();
  const std::size_t replaced = command.names(sparclFileTensorReplaced).size();
  if (added + removed + replaced == 0) return "";
  return fmt::format("tensors: {} added, {} removed, {} replaced (another type or size)\n", added,
                     removed, replaced);
}

std::string shown_names(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + shown(name);
  return text;
}

std::string side_files_text(FileCommand& command) {
  std::string text;
  if (const auto& names = command.names(sparclFileSideFile); !names.empty())
    text = fmt::format("files that travel: {}\n", shown_names(names));
  if (const auto& names = command.names(sparclFileSideFileLeft); !names.empty())
    text += fmt::format("too large to travel: {}\n", shown_names(names));
  return text;
}

Json number_or_null(double number) { return std::isfinite(number) ? Json(number) : Json(nullptr); }

std::string error_text(bool is_lossy, const sparclFileReport_t& report) {
  std::string text;
  if (report.left_out > 0)
    text = left_out_text(report.left_out, report.left_out_l2, report.left_out_largest);
  if (!is_lossy) return text;
  return text +
         fmt::format(
             "values are codes of 8 bits: off by {:.3g} at most, {:.3g} % of the change (l2)\n",
             report.quantisation_largest, 100 * report.quantisation_relative);
}

Json diff_json(bool is_lossy, const sparclFileReport_t& report, FileCommand& command) {
  const auto changed = static_cast<double>(report.changed);
  const bool is_partial = report.left_out > 0;
  return {{"elements", report.elements},
          {"changed", report.changed},
          {"density", ratio(changed, static_cast<double>(report.elements))},
          {"bytes", report.bytes},
          {"bits_per_change", ratio(8 * static_cast<double>(report.bytes), changed)},
          {"dense_bytes", report.dense_bytes},
          {"seconds", report.seconds},
          {"base_hash", report.base_hash},
          {"target_hash", report.target_hash},
          {"added", command.names(sparclFileTensorAdded)},
          {"removed", command.names(sparclFileTensorRemoved)},
          {"replaced", command.names(sparclFileTensorReplaced)},
          {"side_files", command.names(sparclFileSideFile)},
          {"skipped_files", command.names(sparclFileSideFileLeft)},
          {"lossy", is_partial || is_lossy},
          {"partial", is_partial},
          {"left_out", left_out_json(report.left_out, report.left_out_l2, report.left_out_largest)},
          {"largest_error", number_or_null(report.largest_error)},
          {"relative_error", number_or_null(report.relative_error)},
          {"not_in_index", command.names(sparclFileNotInIndex)}};
}

Status run_diff(const DiffArguments& options, bool as_json) {
  std::vector<const char*> only;
  for (const std::string& glob : options.selection.only) only.push_back(glob.c_str());
  const sparclUpdateOptions_t selection = options.selection.as_update_options();
  FileCommand command("diff");
  sparclFileDiffOptions_t call_options = SPARCL_FILE_DIFF_OPTIONS_INITIALIZER;
  command.attach(call_options);
  call_options.mode = options.mode.c_str();
  call_options.only = only.data();
  call_options.only_count = only.size();
  call_options.selection = &selection;
  call_options.side_files =
      options.no_side_files ? sparclFileSideFilesOmit : sparclFileSideFilesCarry;
  call_options.with_identities = options.with_identities ? 1 : 0;
  sparclFileReport_t report = SPARCL_FILE_REPORT_INITIALIZER;
  SPARCL_RETURN_IF_ERROR(command.status(
      "sparclFileDiff", sparclFileDiff(options.base.c_str(), options.target.c_str(),
                                       options.delta.c_str(), &call_options, &report)));
  warn_of_strays(command.names(sparclFileNotInIndex));
  const bool is_lossy = selection.values != sparclValuesExact;
  const auto changed = static_cast<double>(report.changed);
  const auto bytes = static_cast<double>(report.bytes);
  return print(
      as_json, diff_json(is_lossy, report, command),
      fmt::format(
          "{}: {} of {} elements changed ({:.3g} %)\n"
          "{}, {:.2f} bits a change; dense {}: {:.3g} times smaller\n{}base   {}\ntarget {}\n",
          shown(options.delta), report.changed, report.elements,
          100 * ratio(changed, static_cast<double>(report.elements)), human_bytes(report.bytes),
          ratio(8 * bytes, changed), human_bytes(report.dense_bytes),
          ratio(static_cast<double>(report.dense_bytes), bytes),
          error_text(is_lossy, report) + tensors_text(command) + side_files_text(command),
          report.base_hash, report.target_hash));
}

}  // namespace

void add_diff(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<DiffArguments>();
  app.add_option("BASE", options->base, "a .safetensors file, or a folder of shards")->required();
  app.add_option("TARGET", options->target, "what BASE is to become")->required();
  app.add_option("-o,--output", options->delta, "the delta file to write")
      ->required()
      ->type_name("DELTA");
  app.add_option("--mode", options->mode,
                 "how blocks are coded; auto takes the fewest bytes for each block by itself")
      ->check(CLI::IsMember(mode_names()))
      ->capture_default_str();
  app.add_flag("--no-side-files", options->no_side_files,
               "of folders: leave out configuration and tokenizer files that changed");
  app.add_flag(
      "--identities", options->with_identities,
      "also name BASE and TARGET by a SHA-256 tree, which apply checks (sparcl hash --kind "
      "identity). It finds bytes that were chosen to have the same state hash");
  add_selection_options(app, options->selection);
  invocation.run = [options, &invocation] { return run_diff(*options, invocation.json); };
}

}  // namespace sparcl::tool
