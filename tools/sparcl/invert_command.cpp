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

struct InvertOptions {
  std::string base;
  std::string delta;
  std::string output;
};

Status run_invert(const InvertOptions& options, bool as_json) {
  SPARCL_RETURN_IF_ERROR(model::expect_checkpoint(options.base));
  SPARCL_RETURN_IF_ERROR(model::check_output(options.output, {options.base, options.delta}));
  const auto begin = std::chrono::steady_clock::now();
  SPARCL_ASSIGN_OR_RETURN(const model::Delta delta, model::read_delta(options.delta));
  SPARCL_ASSIGN_OR_RETURN(
      const model::DiffReport report,
      model::invert_delta(options.base, delta, options.output, console_watch("invert")));
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const Json json{{"output", options.output},
                  {"elements", report.elements},
                  {"changed", report.changed},
                  {"bytes", report.bytes},
                  {"seconds", seconds},
                  {"base_hash", to_hex(report.base_hash)},
                  {"target_hash", to_hex(report.target_hash)}};
  return print(as_json, json,
               fmt::format("{}: leads back from the target of {} to {}: {} of {} elements, "
                           "{}\nbase   {}\ntarget {}\n",
                           shown(options.output), shown(options.delta), shown(options.base),
                           report.changed, report.elements, human_bytes(report.bytes),
                           to_hex(report.base_hash), to_hex(report.target_hash)));
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
