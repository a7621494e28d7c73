#include <fmt/format.h>

#include <memory>
#include <utility>

#include "src/base/shown_text.hpp"
#include "src/model/checkpoint.hpp"
#include "src/model/model_hash.hpp"
#include "tools/sparcl/command.hpp"
#include "tools/sparcl/console.hpp"
#include "tools/sparcl/stray_shards.hpp"

namespace sparcl::tool {
namespace {

struct HashOptions {
  std::string path;
  std::string kind = "state";
};

template <class Hash>
Result<std::string> hex(const Result<Hash>& hash) {
  using sparcl::to_hex;
  using trust::to_hex;
  if (!hash.ok()) return hash.status();
  return to_hex(*hash);
}

Result<std::string> hash_of(const model::Checkpoint& checkpoint, const std::string& kind) {
  if (kind == "xxh3") return hex(model::xxh3_hash(checkpoint));
  if (kind == "sha256") return hex(model::weights_hash(checkpoint));
  return hex(model::state_hash(checkpoint));
}

Status run_hash(const HashOptions& options, bool as_json) {
  SPARCL_ASSIGN_OR_RETURN(const model::Checkpoint checkpoint,
                          model::Checkpoint::open_unread(options.path));
  const Result<std::string> hash = hash_of(checkpoint, options.kind);
  if (!hash.ok()) return hash.status();
  warn_of_strays(checkpoint.stray_paths());
  const Json json{{"kind", options.kind},
                  {"hash", *hash},
                  {"tensors", checkpoint.schema().size()},
                  {"bytes", checkpoint.byte_count()},
                  {"not_in_index", checkpoint.stray_shards()}};
  return print(as_json, json, fmt::format("{}  {}\n", *hash, shown(options.path)));
}

}  // namespace

void add_hash(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<HashOptions>();
  app.add_option("FILE", options->path, "a .safetensors file, or a folder of shards")->required();
  app.add_option(
         "--kind", options->kind,
         "state: what deltas name their base and target by; xxh3: XXH3-128 of the list of tensors "
         "and all bytes; sha256: GRAIL's weights_hash, over sorted names, dtypes and bytes")
      ->check(CLI::IsMember({"state", "xxh3", "sha256"}))
      ->capture_default_str();
  invocation.run = [options, &invocation] { return run_hash(*options, invocation.json); };
}

}  // namespace sparcl::tool
