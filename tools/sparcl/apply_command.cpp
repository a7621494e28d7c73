#include <fmt/format.h>

#include <memory>

#include "src/base/shown_text.hpp"
#include "tools/sparcl/command.hpp"
#include "tools/sparcl/console.hpp"
#include "tools/sparcl/file_command.hpp"

namespace sparcl::tool {
namespace {

struct ApplyOptions {
  std::string base;
  std::string delta;
  std::string output;
};

Status run_apply(const ApplyOptions& options, bool as_json) {
  FileCommand command("apply");
  const sparclFileOptions_t call_options = command.options();
  sparclFileReport_t report = SPARCL_FILE_REPORT_INITIALIZER;
  const sparclResult_t result = sparclFileApply(options.base.c_str(), options.delta.c_str(),
                                                options.output.c_str(), &call_options, &report);
  command.warn();
  SPARCL_RETURN_IF_ERROR(command.status("sparclFileApply", result));
  const bool is_exact = report.same_header != 0;
  const Json json{{"output", options.output},
                  {"elements", report.elements},
                  {"changed", report.changed},
                  {"bytes", report.bytes},
                  {"delta_bytes", report.input_bytes},
                  {"seconds", report.seconds},
                  {"base_hash", report.base_hash},
                  {"target_hash", report.target_hash},
                  {"same_header", is_exact}};
  return print(
      as_json, json,
      fmt::format("{}: {} of {} elements changed, verified\nbase   {}\ntarget {}\n{}",
                  shown(options.output), report.changed, report.elements, report.base_hash,
                  report.target_hash,
                  is_exact ? ""
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
