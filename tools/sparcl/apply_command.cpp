#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <memory>

#include "src/base/shown_text.hpp"
#include "src/model/files/delta_applier.hpp"
#include "tools/sparcl/command.hpp"
#include "tools/sparcl/console.hpp"
#include "tools/sparcl/console_watch.hpp"

namespace sparcl::tool {
namespace {

struct ApplyOptions {
  std::string base;
  std::string delta;
  std::string output;
};

Status check_kinds(const ApplyOptions& options) {
  SPARCL_ASSIGN_OR_RETURN(const bool is_swapped, model::is_checkpoint(options.delta));
  if (!is_swapped) return model::expect_checkpoint(options.base);
  SPARCL_ASSIGN_OR_RETURN(const bool has_delta, model::is_delta(options.base));
  if (has_delta) {
    return Status(Code::kCorrupt, fmt::format("the two arguments seem swapped: {} is a delta and "
                                              "{} a checkpoint: give the checkpoint first",
                                              options.base, options.delta));
  }
  return Status(
      Code::kCorrupt,
      fmt::format("{}: it is a checkpoint, where a delta is expected: make one with sparcl diff",
                  options.delta));
}

Status run_apply(const ApplyOptions& options, bool as_json) {
  SPARCL_RETURN_IF_ERROR(check_kinds(options));
  std::error_code error;
  if (std::filesystem::equivalent(options.output, options.delta, error)) {
    return Status(Code::kInvalidArgument,
                  fmt::format("{}: the result would overwrite the delta: give another output",
                              options.output));
  }
  const auto begin = std::chrono::steady_clock::now();
  const Result<model::Delta> delta = model::read_delta(options.delta);
  if (!delta.ok()) return delta.status();
  SPARCL_ASSIGN_OR_RETURN(
      const model::ApplyReport report,
      model::apply_delta(options.base, *delta, options.output, console_watch("apply")));
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();

  const Json json{{"output", options.output},
                  {"elements", report.elements},
                  {"changed", report.changed},
                  {"bytes", report.bytes},
                  {"delta_bytes", delta->bytes},
                  {"seconds", seconds},
                  {"base_hash", to_hex(report.base_hash)},
                  {"target_hash", to_hex(report.target_hash)},
                  {"same_header", report.exact}};
  return print(
      as_json, json,
      fmt::format("{}: {} of {} elements changed, verified\nbase   {}\ntarget {}\n{}",
                  shown(options.output), report.changed, report.elements, to_hex(report.base_hash),
                  to_hex(report.target_hash),
                  report.exact ? ""
                               : "The base's header is not the one the delta was made of: tensors "
                                 "and metadata are the target's, the header's style is not.\n"));
}

}  // namespace

void add_apply(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<ApplyOptions>();
  app.add_option(
         "BASE", options->base,
         "the checkpoint that the delta was made of: a .safetensors file, or a folder of shards")
      ->required();
  app.add_option("DELTA", options->delta, "a file that sparcl diff wrote")->required();
  app.add_option("-o,--output", options->output,
                 "what to write; may be BASE, which is then replaced")
      ->required()
      ->type_name("OUT");
  invocation.run = [options, &invocation] { return run_apply(*options, invocation.json); };
}

}  // namespace sparcl::tool
