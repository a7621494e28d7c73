#include <fmt/format.h>

#include <memory>

#include "src/base/shown_text.hpp"
#include "tools/sparcl/command.hpp"
#include "tools/sparcl/console.hpp"
#include "tools/sparcl/file_command.hpp"

namespace sparcl::tool {
namespace {

struct ComposeOptions {
  std::vector<std::string> deltas;
  std::string base;
  std::string output;
};

Status run_compose(const ComposeOptions& options, bool as_json) {
  std::vector<const char*> paths;
  for (const std::string& path : options.deltas) paths.push_back(path.c_str());
  FileCommand command("compose");
  const sparclFileOptions_t call_options = command.options();
  sparclFileReport_t report = SPARCL_FILE_REPORT_INITIALIZER;
  const sparclResult_t result =
      sparclFileCompose(paths.data(), paths.size(), path_or_null(options.base),
                        options.output.c_str(), &call_options, &report);
  command.warn();
  SPARCL_RETURN_IF_ERROR(command.status("sparclFileCompose", result));
  const Json json{{"output", options.output},
                  {"deltas", options.deltas.size()},
                  {"elements", report.elements},
                  {"changed", report.changed},
                  {"bytes", report.bytes},
                  {"input_bytes", report.input_bytes},
                  {"seconds", report.seconds},
                  {"base_hash", report.base_hash},
                  {"target_hash", report.target_hash}};
  return print(
      as_json, json,
      fmt::format(
          "{}: {} deltas of {} as one of {}: {}{} of {} elements changed\nbase   {}\ntarget {}\n",
          shown(options.output), options.deltas.size(), human_bytes(report.input_bytes),
          human_bytes(report.bytes), options.base.empty() ? "at most " : "", report.changed,
          report.elements, report.base_hash, report.target_hash));
}

}  // namespace

void add_compose(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<ComposeOptions>();
  app.add_option("DELTA", options->deltas,
                 "deltas, each of which begins where the one before it ends")
      ->required();
  app.add_option("-o,--output", options->output, "the delta file to write")
      ->required()
      ->type_name("OUT");
  app.add_option(
         "--base", options->base,
         "the checkpoint that the first is for: needed where blocks are coded against old values")
      ->type_name("BASE");
  invocation.run = [options, &invocation] { return run_compose(*options, invocation.json); };
}

}  // namespace sparcl::tool
