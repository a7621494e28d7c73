#include "src/model/exchange/shard_folder.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "src/base/files/atomic_file.hpp"
#include "src/base/files/file_reader.hpp"

namespace sparcl::model {

namespace fs = std::filesystem;

namespace {

std::string part_name(std::size_t i) { return fmt::format("part-{:05}.safetensors", i); }

}  // namespace

std::string usual_shard_name(std::size_t shard, std::size_t shards) {
  return fmt::format("model-{:05}-of-{:05}.safetensors", shard + 1, shards);
}

bool has_file(const std::string& folder, const char* name) {
  std::error_code error;
  return fs::is_regular_file(fs::path(folder) / name, error);
}

Result<ShardIndex> read_folder_index(const std::string& path) {
  const std::string place = (fs::path(path) / kIndexName).string();
  SPARCL_ASSIGN_OR_RETURN(const FileReader file, FileReader::open(place));
  if (file.byte_count() > kMaxHeaderBytes)
    return corrupt(fmt::format("{}: an index of more than {} bytes", place, kMaxHeaderBytes));
  std::string text(file.byte_count(), '\0');
  SPARCL_RETURN_IF_ERROR(file.read(0, std::as_writable_bytes(std::span(text))));
  Result<ShardIndex> index = parse_shard_index(text);
  return index.ok() ? std::move(index) : index.status().with_prefix(place + ": ");
}

Status write_into(FolderWrite& out, const std::string& name, std::span<const std::byte> bytes) {
  SPARCL_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(out.folder + "/" + name));
  SPARCL_RETURN_IF_ERROR(file.write(bytes));
  out.bytes += bytes.size();
  ++out.files;
  return file.commit_in_new_folder();
}

Status ShardWriter::add(const std::string& tensor, std::vector<std::byte> payload,
                        std::string metadata) {
  if (!shard_.schema.empty() && shard_bytes_ + payload.size() > out_.shard_bytes)
    SPARCL_RETURN_IF_ERROR(flush());
  shard_bytes_ += payload.size();
  shard_.schema.push_back({tensor, DataType::kUint8, {payload.size()}});
  if (!metadata.empty()) shard_.metadata.emplace_back(tensor, std::move(metadata));
  shard_.tensors.push_back(std::move(payload));
  return {};
}

Status ShardWriter::flush() {
  SPARCL_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, serialise(shard_, 0));
  SPARCL_RETURN_IF_ERROR(write_into(out_, part_name(tensors_.size()), bytes));
  std::vector<std::string>& names = tensors_.emplace_back();
  for (const TensorSchema& tensor : shard_.schema) names.push_back(tensor.name);
  shard_ = {};
  shard_bytes_ = 0;
  return {};
}

Result<std::vector<std::pair<std::string, std::string>>> ShardWriter::finish() {
  if (!shard_.schema.empty()) SPARCL_RETURN_IF_ERROR(flush());
  std::vector<std::pair<std::string, std::string>> weight_map;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const std::string name = namer_(i, tensors_.size());
    std::error_code error;
    fs::rename(out_.folder + "/" + part_name(i), out_.folder + "/" + name, error);
    if (error) {
      return Status(Code::kSystemError, fmt::format("{}/{}: cannot be renamed to this: {}",
                                                    out_.folder, name, error.message()));
    }
    for (const std::string& tensor : tensors_[i]) weight_map.emplace_back(tensor, name);
  }
  return weight_map;
}

void name_folder_versions(std::uint64_t base, std::uint64_t target, SparseChange& change) {
  change.folder_base_version = base;
  change.folder_version = target;
  if (change.target_hash || change.target_version != 0) return;
  change.base_version = base;
  change.target_version = target;
}

Status choose_versions(const SparseChange& change, const FolderWrite& out, VersionPair& versions) {
  versions = {change.base_version, change.target_version};
  if (versions.target == 0) versions = {change.folder_base_version, change.folder_version};
  if (versions.target != 0) return {};
  const std::optional<std::uint64_t> named = version_in(out.name);
  if (!named || *named == 0) {
    return Status(Code::kInvalidArgument,
                  fmt::format("{}: this layout names versions, and the change names none: give an "
                              "output weight_vNNNNNN, or make the delta with versions",
                              out.name));
  }
  versions = {*named - 1, *named};
  return {};
}

Result<std::vector<SideFile>> new_side_files(const SparseChange& change, const ChangeBase& base) {
  std::vector<SideFile> files;
  if (base.checkpoint().layout().is_folder) {
    SPARCL_ASSIGN_OR_RETURN(files, read_side_files(base.path()));
  }
  SPARCL_RETURN_IF_ERROR(replace_side_files(files, change.attachment.side_files));
  return files;
}

std::string render_index(const Metadata& metadata,
                         std::span<const std::pair<std::string, std::string>> weight_map) {
  nlohmann::ordered_json index;
  index["metadata"] = nlohmann::ordered_json::object();
  for (const auto& [key, value] : metadata) index["metadata"][key] = value;
  nlohmann::json map = nlohmann::json::object();  // sorted: ordered_json searches its keys in turn
  for (const auto& [tensor, file] : weight_map) map[tensor] = file;
  index["weight_map"] = std::move(map);
  return index.dump();
}

}  // namespace sparcl::model
