#include <fmt/format.h>

#include <memory>

#include "src/base/shown_text.hpp"
#include "tools/sparcl/command.hpp"
#include "tools/sparcl/console.hpp"
#include "tools/sparcl/file_command.hpp"

namespace sparcl::tool {
namespace {

struct InvertOptions {
  std::string base;
  std::string delta;
  std::string output;
};

Status run_invert(const InvertOptions& options, bool as_json) {
  FileCommand command("invert");
  const sparclFileOptions_t call_options = command.options();
  sparclFileReport_t report = SPARCL_FILE_REPORT_INITIALIZER;
  const sparclResult_t result = sparclFileInvert(options.base.c_str(), options.delta.c_str(),
                                                 options.output.c_str(), &call_options, &report);
  command.warn();
  SPARCL_RETURN_IF_ERROR(command.status("sparclFileInvert", result));
  const Json json{{"output", options.output},         {"elements", report.elements},
                  {"changed", report.changed},        {"bytes", report.bytes},
                  {"seconds", report.seconds},        {"base_hash", report.base_hash},
                  {"target_hash", report.target_hash}};
  return print(as_json, json,
               fmt::format("{}: leads back from the target of {} to {}: {} of {} elements, "
                           "{}\nbase   {}\ntarget {}\n",
                           shown(options.output), shown(options.delta), shown(options.base),
                           report.changed, report.elements, human_bytes(report.bytes),
                           report.base_hash, report.target_hash));
}

}  // namespace

void add_invert(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<InvertOptions>();
  app.add_option("BASE", options->base, "the checkpoint that the delta was made of")->required();
  app.add_option("DELTA", options->delta, "the delta to lead back from")->required();
  app.add_option("-o,--output", options->output, "the delta file to write")
      ->required()
      ->type_name("OUT");
  invocation.run = [options, &invocation] { return run_invert(*options, invocation.json); };
}

}  // namespace sparcl::tool
