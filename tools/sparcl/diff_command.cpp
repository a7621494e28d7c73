#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>

#include "src/base/shown_text.hpp"
#include "src/model/files/delta_file.hpp"
#include "src/model/files/delta_maker.hpp"
#include "src/model/files/output_check.hpp"
#include "tools/sparcl/command.hpp"
#include "tools/sparcl/console.hpp"
#include "tools/sparcl/console_watch.hpp"
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
  model::ChangeSelection selection;
};

std::vector<std::string> mode_names() {
  std::vector<std::string> names{"auto"};
  for (const codec::BlockMode* mode : model::forceable_modes()) names.push_back(mode->name);
  return names;
}

const codec::BlockMode* find_mode(const std::string& name) {
  for (const codec::BlockMode* mode : codec::block_modes()) {
    if (mode->name == name) return mode;
  }
  return nullptr;  // auto
}

std::string tensors_text(const model::TensorChanges& tensors) {
  if (tensors.added.empty() && tensors.removed.empty() && tensors.replaced.empty()) return "";
  return fmt::format("tensors: {} added, {} removed, {} replaced (another type or size)\n",
                     tensors.added.size(), tensors.removed.size(), tensors.replaced.size());
}

std::string shown_names(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + shown(name);
  return text;
}

std::string side_files_text(const model::DiffReport& report) {
  std::string text;
  if (!report.side_files.empty())
    text = fmt::format("files that travel: {}\n", shown_names(report.side_files));
  if (!report.skipped.empty())
    text += fmt::format("too large to travel: {}\n", shown_names(report.skipped));
  return text;
}

double relative_error(const codec::LossyError& error) {
  return std::sqrt(ratio(error.squares, error.change_squares));
}

// Between TARGET and what apply writes.
codec::LossyError whole_error(const model::DiffReport& report) {
  codec::LossyError error = report.lossy;
  error.squares += report.left_out.squares;
  error.largest = std::max(error.largest, report.left_out.largest);
  if (report.is_partial()) error.change_squares = report.left_out.change_squares;
  return error;
}

Json number_or_null(double number) { return std::isfinite(number) ? Json(number) : Json(nullptr); }

std::string error_text(const codec::ValueCoding& values, const model::DiffReport& report) {
  std::string text;
  if (report.is_partial()) text = left_out_text(report.left_out);
  if (!values.is_lossy()) return text;
  return text +
         fmt::format(
             "values are codes of 8 bits: off by {:.3g} at most, {:.3g} % of the change (l2)\n",
             report.lossy.largest, 100 * relative_error(report.lossy));
}

Status run_diff(const DiffArguments& options, bool as_json) {
  for (const std::string& input : {options.base, options.target})
    SPARCL_RETURN_IF_ERROR(model::expect_checkpoint(input));
  SPARCL_RETURN_IF_ERROR(model::check_output(options.delta, {options.base, options.target}));
  const auto begin = std::chrono::steady_clock::now();
  SPARCL_ASSIGN_OR_RETURN(const model::DiffReport report,
                          model::make_delta(options.base, options.target, options.delta,
                                            {.mode = find_mode(options.mode),
                                             .with_side_files = !options.no_side_files,
                                             .selection = options.selection},
                                            console_watch("diff")));
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();

  const auto elements = static_cast<double>(report.elements);
  const auto changed = static_cast<double>(report.changed);
  const auto bytes = static_cast<double>(report.bytes);
  const Json json{{"elements", report.elements},
                  {"changed", report.changed},
                  {"density", ratio(changed, elements)},
                  {"bytes", report.bytes},
                  {"bits_per_change", ratio(8 * bytes, changed)},
                  {"dense_bytes", report.dense_bytes},
                  {"seconds", seconds},
                  {"base_hash", to_hex(report.base_hash)},
                  {"target_hash", to_hex(report.target_hash)},
                  {"added", report.tensors.added},
                  {"removed", report.tensors.removed},
                  {"replaced", report.tensors.replaced},
                  {"side_files", report.side_files},
                  {"skipped_files", report.skipped},
                  {"lossy", report.is_partial() || options.selection.values.is_lossy()},
                  {"partial", report.is_partial()},
                  {"left_out", left_out_json(report.left_out)},
                  {"largest_error", number_or_null(whole_error(report).largest)},
                  {"relative_error", number_or_null(relative_error(whole_error(report)))},
                  {"not_in_index", report.stray_shards}};
  warn_of_strays(report.stray_shards);
  return print(
      as_json, json,
      fmt::format(
          "{}: {} of {} elements changed ({:.3g} %)\n"
          "{}, {:.2f} bits a change; dense {}: {:.3g} times smaller\n{}base   {}\ntarget {}\n",
          shown(options.delta), report.changed, report.elements, 100 * ratio(changed, elements),
          human_bytes(report.bytes), ratio(8 * bytes, changed), human_bytes(report.dense_bytes),
          ratio(static_cast<double>(report.dense_bytes), bytes),
          error_text(options.selection.values, report) + tensors_text(report.tensors) +
              side_files_text(report),
          to_hex(report.base_hash), to_hex(report.target_hash)));
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
  add_selection_options(app, options->selection);
  invocation.run = [options, &invocation] { return run_diff(*options, invocation.json); };
}

}  // namespace sparcl::tool
