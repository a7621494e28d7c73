#include <fmt/format.h>

#include <memory>

#include "src/base/shown_text.hpp"
#include "src/model/checkpoint.hpp"
#include "src/model/files/delta_file.hpp"
#include "tools/sparcl/command.hpp"
#include "tools/sparcl/console.hpp"
#include "tools/sparcl/stray_shards.hpp"

namespace sparcl::tool {
namespace {

Status verify_delta(const std::string& path, bool as_json) {
  const Result<model::Delta> delta = model::read_delta(path);
  if (!delta.ok()) return delta.status();
  SPARCL_ASSIGN_OR_RETURN(const model::DeltaSummary summary, model::scan_delta(*delta));
  const Json json{{"kind", "delta"},
                  {"bytes", delta->bytes},
                  {"chunks", summary.chunk_count},
                  {"blocks", summary.block_count}};
  return print(
      as_json, json,
      fmt::format(
          "{}: ok: {}, {} blocks in {} chunks; every checksum and the structure are right\n",
          shown(path), human_bytes(delta->bytes), summary.block_count, summary.chunk_count));
}

Status verify_checkpoint(const std::string& path, bool as_json) {
  const Result<model::Checkpoint> checkpoint = model::Checkpoint::open_unread(path);
  if (!checkpoint.ok()) return checkpoint.status();
  const Json json{{"kind", "checkpoint"},
                  {"bytes", checkpoint->byte_count()},
                  {"tensors", checkpoint->schema().size()},
                  {"not_in_index", checkpoint->stray_shards()}};
  warn_of_strays(checkpoint->stray_paths());
  return print(
      as_json, json,
      fmt::format(
          "{}: ok: {} tensors, {}; the structure is right (safetensors files carry no checksum)\n",
          shown(path), checkpoint->schema().size(), human_bytes(checkpoint->byte_count())));
}

}  // namespace

void add_verify(CLI::App& app, Invocation& invocation) {
  auto path = std::make_shared<std::string>();
  app.add_option("FILE", *path, "a delta, a .safetensors file, or a folder of shards")->required();
  invocation.run = [path, &invocation] {
    SPARCL_ASSIGN_OR_RETURN(const bool found, model::is_checkpoint(*path));
    return found ? verify_checkpoint(*path, invocation.json) : verify_delta(*path, invocation.json);
  };
}

}  // namespace sparcl::tool
