#include <fmt/format.h>

#include <chrono>
#include <memory>

#include "src/base/shown_text.hpp"
#include "src/model/exchange/exchange_format.hpp"
#include "src/model/files/converter.hpp"
#include "src/model/files/delta_file.hpp"
#include "src/model/files/output_check.hpp"
#include "tools/sparcl/command.hpp"
#include "tools/sparcl/console.hpp"
#include "tools/sparcl/console_watch.hpp"

namespace sparcl::tool {
namespace {

std::vector<std::string> format_names() {
  std::vector<std::string> names{model::kOwnFormat};
  for (const model::ExchangeFormat* format : model::exchange_formats())
    names.emplace_back(format->name);
  return names;
}

std::string formats_text() {
  std::string text = "Layouts: sparcl: our own delta";
  for (const model::ExchangeFormat* format : model::exchange_formats())
    text += fmt::format("; {}: {}", format->name, format->summary);
  return text;
}

Status run_convert(const model::ConvertOptions& options, bool as_json) {
  std::vector<std::string> inputs{options.input};
  if (!options.base.empty()) {
    SPARCL_RETURN_IF_ERROR(model::expect_checkpoint(options.base));
    inputs.push_back(options.base);
  }
  SPARCL_RETURN_IF_ERROR(model::check_output(options.output, inputs));
  const auto begin = std::chrono::steady_clock::now();
  SPARCL_ASSIGN_OR_RETURN(const model::ConvertReport report,
                          model::convert_change(options, console_watch("convert")));
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const Json json{
      {"output", options.output},  {"from", report.from},       {"to", options.to},
      {"tensors", report.tensors}, {"changed", report.changed}, {"input_bytes", report.input_bytes},
      {"bytes", report.bytes},     {"files", report.files},     {"unchanged", report.unchanged},
      {"seconds", seconds}};
  if (report.unchanged > 0) {
    print_warning(
        fmt::format("{} of {} values in {} are those of {} already: is it the checkpoint that the "
                    "change was made from? The layout does not say",
                    report.unchanged, report.changed, options.input, options.base));
  }
  return print(as_json, json,
               fmt::format("{}: {} changes of {} tensors, from {} ({}) to {} ({}{})\n",
                           shown(options.output), report.changed, report.tensors, report.from,
                           human_bytes(report.input_bytes), options.to, human_bytes(report.bytes),
                           report.files > 1 ? fmt::format(" in {} files", report.files) : ""));
}

}  // namespace

void add_convert(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<model::ConvertOptions>();
  app.footer(formats_text());
  app.add_option("IN", options->input,
                 "a delta of ours, or a file (or folder of files) of another program")
      ->required();
  app.add_option("-o,--output", options->output,
                 "the file to write (a new folder where the layout takes several)")
      ->required()
      ->type_name("OUT");
  app.add_option("--to", options->to, "the layout to write")
      ->required()
      ->check(CLI::IsMember(format_names()));
  app.add_option("--from", options->from, "the layout of IN; as it looks, if this is not given")
      ->check(CLI::IsMember(format_names()));
  app.add_option("--base", options->base,
                 "the checkpoint that the change is for; needed from and to our own deltas");
  invocation.run = [options, &invocation] { return run_convert(*options, invocation.json); };
}

}  // namespace sparcl::tool
