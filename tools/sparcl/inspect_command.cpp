#include <fmt/format.h>

#include <cmath>
#include <map>
#include <memory>

#include "src/base/shown_text.hpp"
#include "src/codec/block_mode.hpp"
#include "src/model/checkpoint.hpp"
#include "src/model/files/delta_file.hpp"
#include "src/model/model_hash.hpp"
#include "src/model/text.hpp"
#include "src/trust/hex.hpp"
#include "tools/sparcl/command.hpp"
#include "tools/sparcl/console.hpp"
#include "tools/sparcl/left_out_text.hpp"
#include "tools/sparcl/stray_shards.hpp"

namespace sparcl::tool {
namespace {

Json layout_json(const model::LayoutChange& change) {
  Json files = Json::array();
  for (const model::FileChange& file : change.files) files.push_back(file.name);
  return {{"folder", change.is_folder},
          {"files", change.files.size()},
          {"names", change.is_folder ? files : Json(nullptr)},
          {"changes_tensors", change.base_hash.has_value()}};
}

Json side_files_json(std::span<const model::PackedFile> files) {
  Json json = Json::array();
  for (const model::PackedFile& file : files)
    json.push_back({{"name", file.name}, {"bytes", file.bytes}});
  return json;
}

Json identity_json(const model::DeltaSummary& summary,
                   model::Digest256 model::StateIdentities::*which) {
  const std::optional<model::StateIdentities>& identities = summary.attachment.identities;
  return identities ? Json(trust::hex_of((*identities).*which)) : Json(nullptr);
}

Json delta_json(const model::Delta& delta, const model::DeltaSummary& summary) {
  Json modes = Json::array();
  for (const codec::BlockMode* mode : codec::block_modes()) {
    const model::Tally& tally = summary.blocks[mode->id];
    modes.push_back({{"mode", mode->name},
                     {"blocks", tally.count},
                     {"bytes", tally.bytes},
                     {"changes", mode->whole ? Json(nullptr) : Json(tally.changes)}});
  }
  const auto changed = static_cast<double>(summary.changed);
  const codec::LeftOut left_out = summary.left_out.value_or(codec::LeftOut());
  return {
      {"kind", "delta"},
      {"wire_version", codec::kWireVersion},
      {"bytes", delta.bytes},
      {"base_version", summary.base_version},
      {"target_version", summary.target_version},
      {"schema_hash", to_hex(summary.schema_hash)},
      {"base_hash", hash_or_null(summary.whole_base_hash())},
      {"target_hash", hash_or_null(summary.target_hash ? &*summary.target_hash : nullptr)},
      {"arrays", summary.arrays},
      {"elements", summary.elements},
      {"changed", summary.changed},
      {"density", ratio(changed, static_cast<double>(summary.elements))},
      {"bits_per_change", ratio(8 * static_cast<double>(delta.bytes), changed)},
      {"blocks", summary.block_count},
      {"chunks", summary.chunk_count},
      {"modes", modes},
      {"lossy", summary.blocks[codec::kAddedMode.id].count > 0 || summary.left_out.has_value()},
      {"partial", summary.left_out.has_value()},
      {"left_out", left_out_json(left_out.count, std::sqrt(left_out.squares), left_out.largest)},
      {"attachment_bytes", summary.attachment_bytes},
      {"layout_change",
       summary.attachment.layout ? layout_json(*summary.attachment.layout) : Json(nullptr)},
      {"side_files", side_files_json(summary.attachment.side_files)},
      {"base_identity", identity_json(summary, &model::StateIdentities::base)},
      {"target_identity", identity_json(summary, &model::StateIdentities::target)}};
}

std::string delta_text(const model::Delta& delta, const model::DeltaSummary& summary) {
  const auto hash = [](const Hash128* value) {
    return value == nullptr ? std::string("not carried") : to_hex(*value);
  };
  std::string out = fmt::format(
      "{}: delta, wire version {}, {}\nbase   {} (version {})\ntarget {} (version {})\nschema {}\n",
      shown(delta.path), codec::kWireVersion, human_bytes(delta.bytes),
      hash(summary.whole_base_hash()), summary.base_version,
      hash(summary.target_hash ? &*summary.target_hash : nullptr), summary.target_version,
      to_hex(summary.schema_hash));
  out += fmt::format(
      "{} of {} elements in {} tensors changed, {:.2f} bits a change\n{} chunks, {} blocks that "
      "change:\n",
      summary.changed, summary.elements, summary.arrays,
      ratio(8 * static_cast<double>(delta.bytes), static_cast<double>(summary.changed)),
      summary.chunk_count, summary.block_count);
  for (const codec::BlockMode* mode : codec::block_modes()) {
    const model::Tally& tally = summary.blocks[mode->id];
    if (tally.count > 0)
      out +=
          fmt::format("  {:<9} {:>9} blocks  {:>12} bytes\n", mode->name, tally.count, tally.bytes);
  }
  if (const std::uint64_t lossy = summary.blocks[codec::kAddedMode.id].count; lossy > 0) {
    out += fmt::format("{} of these blocks are lossy: values are codes of 8 bits (diff --values)\n",
                       lossy);
  }
  if (const auto& left_out = summary.left_out)
    out += left_out_text(left_out->count, std::sqrt(left_out->squares), left_out->largest);
  if (summary.attachment.layout) {
    const char* what = summary.attachment.layout->base_hash
                           ? "another list of tensors"
                           : "other metadata, or another style of header";
    out += fmt::format("attachment: {}, {} bytes\n", what, summary.attachment_bytes);
  }
  if (const auto& identities = summary.attachment.identities)
    out += fmt::format("identity of the base   {}\nidentity of the target {}\n",
                       trust::hex_of(identities->base), trust::hex_of(identities->target));
  for (const model::PackedFile& file : summary.attachment.side_files) {
    out += fmt::format("file {}: {} bytes, {} packed\n", model::in_quotes(file.name), file.bytes,
                       file.packed.size());
  }
  return out;
}

Status inspect_delta(const std::string& path, bool as_json) {
  SPARCL_ASSIGN_OR_RETURN(const model::Delta delta, model::read_delta(path));
  SPARCL_ASSIGN_OR_RETURN(const model::DeltaSummary summary, model::scan_delta(delta));
  return print(as_json, delta_json(delta, summary), delta_text(delta, summary));
}

Json checkpoint_json(const model::Checkpoint& checkpoint, const Hash128& hash,
                     std::uint64_t elements) {
  Json files = Json::array();
  for (std::size_t i = 0; i < checkpoint.layout().files.size(); ++i) {
    Json metadata = Json::object();
    for (const auto& [key, value] : checkpoint.metadata(i)) metadata[key] = value;
    files.push_back({{"name", checkpoint.layout().files[i].name}, {"metadata", metadata}});
  }
  Json tensors = Json::array();
  for (std::size_t i = 0; i < checkpoint.schema().size(); ++i) {
    const model::TensorSchema& tensor = checkpoint.schema()[i];
    tensors.push_back({{"name", tensor.name},
                       {"dtype", file_type(tensor)},
                       {"shape", tensor.shape},
                       {"bytes", checkpoint.byte_count(i)},
                       {"file", checkpoint.file_of(i)}});
  }
  return {{"kind", "checkpoint"},
          {"bytes", checkpoint.byte_count()},
          {"elements", elements},
          {"state_hash", to_hex(hash)},
          {"index", checkpoint.layout().index_name},
          {"files", files},
          {"tensors", tensors},
          {"not_in_index", checkpoint.stray_shards()}};
}

std::string checkpoint_text(const model::Checkpoint& checkpoint, const Hash128& hash,
                            std::uint64_t elements) {
  std::string out = fmt::format("{}: {} tensors, {} elements, {} in {} file(s)\nstate {}\n",
                                shown(checkpoint.path()), checkpoint.schema().size(), elements,
                                human_bytes(checkpoint.byte_count()),
                                checkpoint.layout().files.size(), to_hex(hash));
  for (std::size_t file = 0; file < checkpoint.layout().files.size(); ++file) {
    for (const auto& [key, value] : checkpoint.metadata(file)) {
      out += fmt::format("metadata {}: {}\n", model::in_quotes(key), model::in_quotes(value));
    }
  }
  for (std::size_t i = 0; i < checkpoint.schema().size(); ++i) {
    const model::TensorSchema& tensor = checkpoint.schema()[i];
    out +=
        fmt::format("  {:<7} {:>14} bytes  [{}]  {}\n", file_type(tensor), checkpoint.byte_count(i),
                    fmt::join(tensor.shape, ", "), model::in_quotes(tensor.name));
  }
  return out;
}

Status inspect_checkpoint(const std::string& path, bool as_json) {
  SPARCL_ASSIGN_OR_RETURN(const model::Checkpoint checkpoint, model::Checkpoint::open_unread(path));
  SPARCL_ASSIGN_OR_RETURN(const Hash128 hash, model::state_hash(checkpoint));
  const std::uint64_t elements = model::make_block_map(checkpoint.schema()).element_count();
  warn_of_strays(checkpoint.stray_paths());
  return print(as_json, checkpoint_json(checkpoint, hash, elements),
               checkpoint_text(checkpoint, hash, elements));
}

}  // namespace

void add_inspect(CLI::App& app, Invocation& invocation) {
  auto path = std::make_shared<std::string>();
  app.add_option("FILE", *path, "a delta, a .safetensors file, or a folder of shards")->required();
  invocation.run = [path, &invocation] {
    SPARCL_ASSIGN_OR_RETURN(const bool found, model::is_checkpoint(*path));
    return found ? inspect_checkpoint(*path, invocation.json)
                 : inspect_delta(*path, invocation.json);
  };
}

}  // namespace sparcl::tool
