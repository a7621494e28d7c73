#include <fmt/format.h>

#include <memory>

#include "src/base/shown_text.hpp"
#include "tools/sparcl/command.hpp"
#include "tools/sparcl/console.hpp"
#include "tools/sparcl/file_command.hpp"

namespace sparcl::tool {
namespace {

Status print_delta(const std::string& path, const sparclFileReport_t& report, bool as_json) {
  const Json json{{"kind", "delta"},
                  {"bytes", report.bytes},
                  {"chunks", report.chunks},
                  {"blocks", report.blocks}};
  return print(
      as_json, json,
      fmt::format(
          "{}: ok: {}, {} blocks in {} chunks; every checksum and the structure are right\n",
          shown(path), human_bytes(report.bytes), report.blocks, report.chunks));
}

Status print_checkpoint(const std::string& path, const sparclFileReport_t& report,
                        const std::vector<std::string>& strays, bool as_json) {
  const Json json{{"kind", "checkpoint"},
                  {"bytes", report.bytes},
                  {"tensors", report.tensors},
                  {"not_in_index", strays}};
  return print(
      as_json, json,
      fmt::format(
          "{}: ok: {} tensors, {}; the structure is right (safetensors files carry no checksum)\n",
          shown(path), report.tensors, human_bytes(report.bytes)));
}

Status run_verify(const std::string& path, bool as_json) {
  FileCommand command("verify");
  const sparclFileOptions_t call_options = command.options();
  sparclFileReport_t report = SPARCL_FILE_REPORT_INITIALIZER;
  SPARCL_RETURN_IF_ERROR(
      command.status("sparclFileVerify", sparclFileVerify(path.c_str(), &call_options, &report)));
  command.warn();
  return report.is_delta != 0 ? print_delta(path, report, as_json)
                              : print_checkpoint(path, report, command.names_in(path), as_json);
}

}  // namespace

void add_verify(CLI::App& app, Invocation& invocation) {
  auto path = std::make_shared<std::string>();
  app.add_option("FILE", *path, "a delta, a .safetensors file, or a folder of shards")->required();
  invocation.run = [path, &invocation] { return run_verify(*path, invocation.json); };
}

}  // namespace sparcl::tool
