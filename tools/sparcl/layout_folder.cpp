#include "tools/sparcl/layout_folder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "src/base/folder_list.hpp"
#include "src/model/checkpoint_writer.hpp"
#include "src/model/files/converter.hpp"
#include "src/net/socket.hpp"
#include "src/store/version_chain.hpp"
#include "tools/sparcl/part_choice.hpp"
#include "tools/sparcl/version_folder.hpp"

namespace sparcl::tool {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kScheme = "file:", kFolderPrefix = "weight_v";
// With readers. ModelExpress replays up to 64 versions for an engine that begins.
constexpr std::uint64_t kAnchorEvery = 64;
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
  return (fs::path(path_) / weight_folder_name(version)).string();
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
  if (error)
    return Status(Code::kSystemError,
                  fmt::format("{}: the folder cannot be used: {}", path, error.message()));
  if (fs::exists(fs::path(path) / store::kCommits, error))
    return Status(
        Code::kInvalidArgument,
        fmt::format("{}: it is a store of the layout sparcl: give another folder, or leave "
                    "--layout out",
                    path));
  std::uint64_t anchor_every = choice.anchor_every;
  if (anchor_every == 0 && !choice.readers.empty()) anchor_every = kAnchorEvery;
  std::unique_ptr<LayoutFolder> made(
      new LayoutFolder(path, *model::find_folder_format(choice.layout), anchor_every));
  SPARCL_RETURN_IF_ERROR(made->begin(choice.readers));
  return std::unique_ptr<VersionStore>(std::move(made));
}

Result<std::uint64_t> LayoutFolder::newest_there() const {
  SPARCL_ASSIGN_OR_RETURN(const std::vector<std::string> names, names_in_folder(path_));
  std::uint64_t newest = 0;
  for (const std::string& name : names) {
    if (name.starts_with(kFolderPrefix))
      newest = std::max(newest, model::version_in(name).value_or(0));
  }
  return newest;
}

// Nothing but this look keeps two processes apart. A version of its own that failed may be there.
Status LayoutFolder::check_alone() const {
  SPARCL_ASSIGN_OR_RETURN(const std::uint64_t newest, newest_there());
  if (newest <= std::max({version_, first_version_, tried_})) return {};
  return Status(Code::kStale, fmt::format("{}: another process has written version {} there: this "
                                          "one publishes nothing any more",
                                          path_, newest));
}

// Finds the newest version, and removes what an earlier process would have removed.
Status LayoutFolder::begin(const std::vector<std::string>& readers) {
  SPARCL_ASSIGN_OR_RETURN(first_version_, newest_there());
  remove_hidden_versions(path_);
  if (readers.empty()) return {};
  removal_.emplace(path_, readers);
  SPARCL_RETURN_IF_ERROR(removal_->open());
  removed_ = removal_->remove(net::monotonic_seconds());
  return {};
}

// A change cannot carry files beside the shards.
bool LayoutFolder::is_complete_due(const SideFileSet& side_files) const {
  return version_ == 0 || held_.empty() || side_files.digest != side_digest_ ||
         (anchor_every_ > 0 && change_count_ + 1 >= anchor_every_);
}

Result<VersionStore::Stored> LayoutFolder::write_complete(std::uint64_t version,
                                                          const ModelMemory& memory,
                                                          const model::Layout& layout,
                                                          const SideFileSet& side_files) {
  const model::Layout complete = with_index(layout, memory.schema());
  SPARCL_RETURN_IF_ERROR(model::write_checkpoint(folder_of(version), complete, memory.tensors(),
                                                 nullptr, side_files.files));
  SPARCL_RETURN_IF_ERROR(held_.take(*memory.view().map, memory.view().arrays));
  side_digest_ = side_files.digest;
  change_count_ = 0;
  Stored stored;
  stored.bytes = memory.byte_count();
  stored.changed = memory.view().map->element_count();
  stored.is_complete = true;
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
  ++change_count_;
  return stored;
}

Result<VersionStore::Stored> LayoutFolder::publish(std::uint64_t version, const ModelMemory& memory,
                                                   const Hash128&, const model::Layout& layout,
                                                   const SideFileSet& side_files,
                                                   bool has_settled) {
  Stored stored;
  stored.was_there = version <= first_version_;
  stored.waits = !stored.was_there && first_version_ > 0 && version_ == 0 && !has_settled;
  if (stored.was_there || stored.waits) return stored;
  SPARCL_RETURN_IF_ERROR(check_alone());
  tried_ = version;
  if (is_complete_due(side_files)) {
    SPARCL_ASSIGN_OR_RETURN(stored, write_complete(version, memory, layout, side_files));
  } else {
    SPARCL_ASSIGN_OR_RETURN(stored, write_change(version, memory));
  }
  version_ = version;
  if (!removal_) return stored;
  removal_->add(version, stored.is_complete);
  stored.removed = removal_->remove(net::monotonic_seconds());
  return stored;
}

}  // namespace sparcl::tool
