#include <fmt/format.h>

#include <memory>

#include "src/base/shown_text.hpp"
#include "src/model/files/converter.hpp"
#include "tools/sparcl/command.hpp"
#include "tools/sparcl/console.hpp"
#include "tools/sparcl/file_command.hpp"

namespace sparcl::tool {
namespace {

std::vector<std::string> format_names() {
  std::vector<std::string> names;
  for (const model::LayoutName& layout : model::convert_layouts()) names.emplace_back(layout.name);
  return names;
}

std::string formats_text() {
  std::string text = "Layouts";
  const char* separator = ": ";
  for (const model::LayoutName& layout : model::convert_layouts()) {
    text += fmt::format("{}{}: {}", separator, layout.name, layout.summary);
    separator = "; ";
  }
  return text;
}

struct ConvertOptions {
  std::string input;
  std::string output;
  std::string from;
  std::string to;
  std::string base;
};

Status run_convert(const ConvertOptions& options, bool as_json) {
  FileCommand command("convert");
  const sparclFileOptions_t call_options = command.options();
  sparclFileReport_t report = SPARCL_FILE_REPORT_INITIALIZER;
  const sparclResult_t result =
      sparclFileConvert(options.input.c_str(), path_or_null(options.from), options.output.c_str(),
                        options.to.c_str(), path_or_null(options.base), &call_options, &report);
  command.warn();
  SPARCL_RETURN_IF_ERROR(command.status("sparclFileConvert", result));
  const Json json{
      {"output", options.output},  {"from", report.layout},     {"to", options.to},
      {"tensors", report.tensors}, {"changed", report.changed}, {"input_bytes", report.input_bytes},
      {"bytes", report.bytes},     {"files", report.files},     {"unchanged", report.unchanged},
      {"seconds", report.seconds}};
  if (report.unchanged > 0) {
    print_warning(
        fmt::format("{} of {} values in {} are those of {} already: is it the checkpoint that the "
                    "change was made from? The layout does not say",
                    report.unchanged, report.changed, options.input, options.base));
  }
  return print(as_json, json,
               fmt::format("{}: {} changes of {} tensors, from {} ({}) to {} ({}{})\n",
                           shown(options.output), report.changed, report.tensors, report.layout,
                           human_bytes(report.input_bytes), options.to, human_bytes(report.bytes),
                           report.files > 1 ? fmt::format(" in {} files", report.files) : ""));
}

}  // namespace

void add_convert(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<ConvertOptions>();
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
                 "the checkpoint that the change is for; needed from and to our own deltas and "
                 "folders of whole tensors");
  invocation.run = [options, &invocation] { return run_convert(*options, invocation.json); };
}

}  // namespace sparcl::tool
