#include <fmt/format.h>

#include <chrono>
#include <memory>

#include "src/base/shown_text.hpp"
#include "src/model/files/delta_composer.hpp"
#include "src/model/files/output_check.hpp"
#include "tools/sparcl/command.hpp"
#include "tools/sparcl/console.hpp"
#include "tools/sparcl/console_watch.hpp"

namespace sparcl::tool {
namespace {

struct ComposeOptions {
  std::vector<std::string> deltas;
  std::string base;
  std::string output;
};

Result<model::ComposeReport> compose(const ComposeOptions& options) {
  if (!options.base.empty())
    return model::compose_deltas_on(options.base, options.deltas, options.output,
                                    console_watch("compose"));
  Result<model::ComposeReport> report =
      model::compose_deltas(options.deltas, options.output, console_watch("compose"));
  if (report.ok() || report.status().code() != Code::kUnsupported) return report;
  return Status(Code::kUnsupported, report.status().message() + ": give it by --base");
}

Status run_compose(const ComposeOptions& options, bool as_json) {
  std::vector<std::string> inputs = options.deltas;
  if (!options.base.empty()) {
    SPARCL_RETURN_IF_ERROR(model::expect_checkpoint(options.base));
    inputs.push_back(options.base);
  }
  SPARCL_RETURN_IF_ERROR(model::check_output(options.output, inputs));
  const auto begin = std::chrono::steady_clock::now();
  SPARCL_ASSIGN_OR_RETURN(const model::ComposeReport report, compose(options));
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const Json json{{"output", options.output},
                  {"deltas", options.deltas.size()},
                  {"elements", report.elements},
                  {"changed", report.changed},
                  {"bytes", report.bytes},
                  {"input_bytes", report.input_bytes},
                  {"seconds", seconds},
                  {"base_hash", to_hex(report.base_hash)},
                  {"target_hash", to_hex(report.target_hash)}};
  return print(
      as_json, json,
      fmt::format(
          "{}: {} deltas of {} as one of {}: {}{} of {} elements changed\nbase   {}\ntarget {}\n",
          shown(options.output), options.deltas.size(), human_bytes(report.input_bytes),
          human_bytes(report.bytes), options.base.empty() ? "at most " : "", report.changed,
          report.elements, to_hex(report.base_hash), to_hex(report.target_hash)));
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
