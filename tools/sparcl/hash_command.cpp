#include <fmt/format.h>

#include <memory>

#include "src/base/shown_text.hpp"
#include "tools/sparcl/command.hpp"
#include "tools/sparcl/console.hpp"
#include "tools/sparcl/file_command.hpp"

namespace sparcl::tool {
namespace {

struct HashOptions {
  std::string path;
  std::string kind = "state";
};

sparclFileHashKind_t kind_of(const std::string& name) {
  if (name == "xxh3") return sparclFileHashXxh3;
  if (name == "identity") return sparclFileHashIdentity;
  return name == "sha256" ? sparclFileHashSha256 : sparclFileHashState;
}

Status run_hash(const HashOptions& options, bool as_json) {
  FileCommand command("hash");
  const sparclFileOptions_t call_options = command.options();
  sparclFileReport_t report = SPARCL_FILE_REPORT_INITIALIZER;
  SPARCL_RETURN_IF_ERROR(command.status(
      "sparclFileHash",
      sparclFileHash(options.path.c_str(), kind_of(options.kind), &call_options, &report)));
  command.warn();
  const Json json{{"kind", options.kind},
                  {"hash", report.hash},
                  {"tensors", report.tensors},
                  {"bytes", report.bytes},
                  {"not_in_index", command.names_in(options.path)}};
  return print(as_json, json, fmt::format("{}  {}\n", report.hash, shown(options.path)));
}

}  // namespace

void add_hash(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<HashOptions>();
  app.add_option("FILE", options->path, "a .safetensors file, or a folder of shards")->required();
  app.add_option("--kind", options->kind,
                 "state: deltas name their base and target by it. xxh3: XXH3-128 of the list of "
                 "tensors and all bytes. sha256: GRAIL's weights_hash, over sorted names, dtypes "
                 "and bytes. identity: a SHA-256 tree over names, types, shapes and bytes")
      ->check(CLI::IsMember({"state", "xxh3", "sha256", "identity"}))
      ->capture_default_str();
  invocation.run = [options, &invocation] { return run_hash(*options, invocation.json); };
}

}  // namespace sparcl::tool
