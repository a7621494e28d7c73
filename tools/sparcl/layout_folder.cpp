#include "tools/sparcl/layout_folder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "src/model/checkpoint_writer.hpp"
#include "src/model/files/converter.hpp"
#include "tools/sparcl/part_choice.hpp"

namespace sparcl::tool {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kScheme = "file:", kFolderPrefix = "weight_v";
constexpr const char* kLayouts[] = {"hf-xor", "hf-xor_xxh3", "hf-overwrite"};

// A complete version has an index, which is its marker, also if it is one file.
model::Layout with_index(const model::Layout& layout, const model::Schema& schema) {
  if (layout.is_folder && !layout.index_name.empty()) return layout;
  model::Layout made;
  made.is_folder = true;
  made.files.push_back(
      {"model-00001-of-00001.safetensors", model::render_header(schema, {{"format", "pt"}})});
  nlohmann::json map;
  for (const model::TensorSchema& tensor : schema) map[tensor.name] = made.files.front().name;
  made.index_name = "model.safetensors.index.json";
  made.index = nlohmann::json{{"metadata", nlohmann::json::object()}, {"weight_map", map}}.dump(2);
  return made;
}

}  // namespace

std::span<const char* const> LayoutFolder::layouts() { return kLayouts; }

std::string LayoutFolder::folder_of(std::uint64_t version) const {
  return (fs::path(path_) / fmt::format("{}{:06}", kFolderPrefix, version)).string();
}

Result<std::unique_ptr<VersionStore>> LayoutFolder::open(const StoreChoice& choice) {
  if (!choice.url.starts_with(kScheme))
    return Status(Code::kInvalidArgument,
                  fmt::format("{}: layouts of other programs are written to folders: give "
                              "file:PATH",
                              choice.url));
  const std::string path = choice.url.substr(kScheme.size());
  std::error_code error;
  fs::create_directories(path, error);
  std::uint64_t newest = 0;
  for (fs::directory_iterator each(path, error), end; !error && each != end;
       each.increment(error)) {
    const std::string name = each->path().filename().string();
    if (name.starts_with(kFolderPrefix))
      newest = std::max(newest, model::version_in(name).value_or(0));
  }
  if (error)
    return Status(Code::kSystemError,
                  fmt::format("{}: the folder cannot be used: {}", path, error.message()));
  return std::unique_ptr<VersionStore>(
      new LayoutFolder(path, *model::find_folder_format(choice.layout), newest));
}

Result<VersionStore::Stored> LayoutFolder::write_complete(
    std::uint64_t version, const ModelMemory& memory, const model::Layout& layout,
    std::span<const model::SideFile> side_files) const {
  const model::Layout complete = with_index(layout, memory.schema());
  SPARCL_RETURN_IF_ERROR(
      model::write_checkpoint(folder_of(version), complete, memory.tensors(), nullptr, side_files));
  Stored stored;
  stored.bytes = memory.byte_count();
  stored.changed = memory.view().map->element_count();
  stored.is_first = true;
  return stored;
}

Result<VersionStore::Stored> LayoutFolder::write_change(std::uint64_t version,
                                                        const ModelMemory& memory) {
  const kernels::KernelSet& kernels = *memory.view().kernels;
  const std::vector<const std::byte*> before(held_.arrays().begin(), held_.arrays().end());
  const std::vector<const std::byte*> after(memory.tensors().begin(), memory.tensors().end());
  SPARCL_ASSIGN_OR_RETURN(model::SparseChange change,
                          model::compare_tensors(memory.schema(), {before}, {after}, kernels));
  change.base_version = version_;
  change.target_version = version;
  SPARCL_RETURN_IF_ERROR(model::match_schema(memory.schema(), change));
  const model::ChangeBase base =
      model::ChangeBase::over(memory.schema(), before, folder_of(version_), version_, kernels);
  SPARCL_ASSIGN_OR_RETURN(const model::FolderWrite written,
                          model::write_change_folder(folder_of(version), format_, change, base));
  Stored stored;
  stored.bytes = written.bytes;
  stored.changed = change.changed();
  model::apply_tensors(change, memory.schema(), held_.arrays());
  return stored;
}

Result<VersionStore::Stored> LayoutFolder::publish(std::uint64_t version, const ModelMemory& memory,
                                                   const Hash128&, const model::Layout& layout,
                                                   std::span<const model::SideFile> side_files,
                                                   bool has_settled) {
  Stored stored;
  stored.was_there = version <= first_version_;
  stored.waits = !stored.was_there && first_version_ > 0 && version_ == 0 && !has_settled;
  if (stored.was_there || stored.waits) return stored;
  if (version_ != 0) {
    SPARCL_ASSIGN_OR_RETURN(stored, write_change(version, memory));
  } else {
    SPARCL_ASSIGN_OR_RETURN(stored, write_complete(version, memory, layout, side_files));
    SPARCL_RETURN_IF_ERROR(held_.take(*memory.view().map, memory.view().arrays));
  }
  version_ = version;
  return stored;
}

}  // namespace sparcl::tool
