#include "src/model/checkpoint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <numeric>

#include "src/base/bytes.hpp"
#include "src/base/folder_list.hpp"
#include "src/codec/wire.hpp"
#include "src/model/shard_index.hpp"
#include "src/model/text.hpp"

namespace sparcl::model {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kLoadBytes = std::uint64_t{64}
                                     << 20;  // between two looks at the progress, heuristic
constexpr std::string_view kUsualIndex = "model.safetensors.index.json";

Status corrupt_file(const std::string& path, const std::string& what) {
  return Status(Code::kCorrupt, fmt::format("{}: {}", path, what));
}

Result<std::string> read_text(const FileReader& file, std::uint64_t at, std::uint64_t bytes) {
  std::string text(bytes, '\0');
  SPARCL_RETURN_IF_ERROR(file.read(at, std::as_writable_bytes(std::span(text))));
  return text;
}

// The header's JSON text.
Result<std::string> read_header(const FileReader& file) {
  const std::string& path = file.path();
  if (file.byte_count() < kHeaderLengthBytes) {
    return corrupt_file(
        path,
        fmt::format("{} bytes are too few for the header's length: no safetensors file, or cut",
                    file.byte_count()));
  }
  std::byte first[kHeaderLengthBytes];
  SPARCL_RETURN_IF_ERROR(file.read(0, first));
  if (load_le<std::uint32_t>(first) == codec::kMagic)
    return corrupt_file(path, "it is a delta, where a checkpoint is expected");
  const auto length = load_le<std::uint64_t>(first);
  if (length > kMaxHeaderBytes) {
    return corrupt_file(
        path,
        fmt::format("the header's length is {}, the format allows {} bytes: no safetensors file?",
                    length, kMaxHeaderBytes));
  }
  if (length > file.byte_count() - kHeaderLengthBytes) {
    return corrupt_file(
        path, fmt::format("the header's length is {}, but only {} bytes follow it: the file is cut",
                          length, file.byte_count() - kHeaderLengthBytes));
  }
  return read_text(file, kHeaderLengthBytes, length);
}

// Where shard `name` of `folder` really lies. Names are plain (file_layout.cpp); a symbolic link is
// its owner's wish: model caches are full of them.
Result<std::string> shard_path(const std::string& folder, const std::string& name) {
  std::error_code error;
  const fs::path real = fs::canonical(fs::path(folder) / name, error);
  if (error)
    return Status(Code::kSystemError,
                  fmt::format("{}: shard {}: {}", folder, in_quotes(name), error.message()));
  return real.string();
}

// The names in `folder` that end in `suffix`, sorted.
Result<std::vector<std::string>> names_with_suffix(const std::string& folder,
                                                   std::string_view suffix) {
  Result<std::vector<std::string>> names = names_in_folder(folder);
  if (names.ok())
    std::erase_if(*names, [&](const std::string& name) { return !name.ends_with(suffix); });
  return names;
}

// The folder's index file, or "" if it has none.
Result<std::string> find_index(const std::string& folder) {
  SPARCL_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                          names_with_suffix(folder, kIndexSuffix));
  if (names.size() <= 1) return names.empty() ? std::string() : names.front();
  if (std::find(names.begin(), names.end(), kUsualIndex) != names.end())
    return std::string(kUsualIndex);
  return Status(Code::kInvalidArgument,
                fmt::format("{}: several indexes ({}): leave one, or name it {}", folder,
                            fmt::join(names, ", "), kUsualIndex));
}

}  // namespace

Result<Checkpoint> Checkpoint::open_unread(const std::string& path) {
  Checkpoint checkpoint;
  checkpoint.path_ = path;
  std::error_code error;
  checkpoint.layout_.is_folder = fs::is_directory(path, error);
  SPARCL_RETURN_IF_ERROR(checkpoint.layout_.is_folder ? checkpoint.open_folder()
                                                      : checkpoint.add_file(path, ""));
  return checkpoint;
}

Result<Checkpoint> Checkpoint::open(const std::string& path, const FileWatch& watch) {
  Result<Checkpoint> checkpoint = open_unread(path);
  if (checkpoint.ok()) SPARCL_RETURN_IF_ERROR(checkpoint->load(watch));
  return checkpoint;
}

Status Checkpoint::add_file(const std::string& path, const std::string& name) {
  Result<FileReader> file = FileReader::open(path);
  if (!file.ok()) return file.status();
  SPARCL_ASSIGN_OR_RETURN(std::string text, read_header(*file));
  Result<Header> header = parse_header(text);
  if (!header.ok()) return header.status().with_prefix(path + ": ");
  const std::uint64_t begin = kHeaderLengthBytes + text.size(),
                      held_bytes = file->byte_count() - begin;
  if (header->data_bytes != held_bytes) {
    return corrupt_file(
        path, fmt::format("the tensors need {} bytes, but {} follow the header: the file is {}",
                          header->data_bytes, held_bytes,
                          header->data_bytes > held_bytes ? "cut" : "longer than it should be"));
  }
  for (std::size_t i = 0; i < header->tensors.size(); ++i) {
    const std::uint64_t end =
        i + 1 < header->offsets.size() ? header->offsets[i + 1] : header->data_bytes;
    places_.push_back(begin + header->offsets[i]);
    sizes_.push_back(end - header->offsets[i]);
    file_of_.push_back(layout_.files.size());
    schema_.push_back(std::move(header->tensors[i]));
  }
  layout_.files.push_back({name, std::move(text)});
  metadata_.push_back(std::move(header->metadata));
  readers_.push_back(std::move(*file));
  return {};
}

Status Checkpoint::load(const FileWatch& watch) {
  constexpr std::uint64_t kAlignment = 64;  // a line of the cache
  std::vector<std::uint64_t> offsets;
  std::uint64_t bytes = 0;
  for (const std::uint64_t size : sizes_) {
    offsets.push_back(bytes);
    bytes += (size + kAlignment - 1) / kAlignment * kAlignment;
  }
  Result<ZeroMemory> memory =
      ZeroMemory::allocate(bytes + 1, "the tensors");  // + 1: an empty tensor has an address, too
  if (!memory.ok()) return memory.status().with_prefix(path_ + ": ");
  memory_.emplace(std::move(*memory));
  const std::uint64_t total = byte_count();
  std::uint64_t done = 0;
  for (std::size_t i = 0; i < sizes_.size(); ++i) {
    pointers_.push_back(memory_->data() + offsets[i]);
    for (std::uint64_t at = 0; at < sizes_[i]; at += kLoadBytes) {
      const std::uint64_t some = std::min<std::uint64_t>(kLoadBytes, sizes_[i] - at);
      SPARCL_RETURN_IF_ERROR(read(i, at, {pointers_[i] + at, some}));
      done += some;
      SPARCL_RETURN_IF_ERROR(watch.progress(done, total));
    }
  }
  return check_unchanged();
}

Status Checkpoint::open_folder() {
  SPARCL_ASSIGN_OR_RETURN(const std::string index_name, find_index(path_));
  layout_.index_name = index_name;

  Result<std::vector<std::string>> names = names_with_suffix(path_, kShardSuffix);
  if (!layout_.index_name.empty()) {
    SPARCL_ASSIGN_OR_RETURN(const std::string index_path, shard_path(path_, layout_.index_name));
    SPARCL_ASSIGN_OR_RETURN(const FileReader file, FileReader::open(index_path));
    if (file.byte_count() > kMaxHeaderBytes)
      return corrupt_file(index_path,
                          fmt::format("an index of more than {} bytes", kMaxHeaderBytes));
    SPARCL_ASSIGN_OR_RETURN(std::string text, read_text(file, 0, file.byte_count()));
    layout_.index = std::move(text);
    Result<ShardIndex> index = parse_shard_index(layout_.index);
    if (!index.ok()) return index.status().with_prefix(index_path + ": ");
    if (names.ok())
      std::ranges::set_difference(*names, index->files, std::back_inserter(stray_shards_));
    names = std::move(index->files);
  }
  if (!names.ok()) return names.status();
  if (names->empty())
    return Status(Code::kInvalidArgument,
                  fmt::format("{}: no *{} file in this folder", path_, kShardSuffix));

  for (const std::string& name : *names) {
    SPARCL_RETURN_IF_ERROR(check_shard_name(name).with_prefix(path_ + ": "));
    SPARCL_ASSIGN_OR_RETURN(const std::string path, shard_path(path_, name));
    SPARCL_RETURN_IF_ERROR(add_file(path, name));
  }
  if (const Status status = validate(schema_); !status.ok())
    return corrupt_file(path_, status.message());
  return check_index(layout_, schema_, file_of_).with_prefix(path_ + "/");
}

Status Checkpoint::read(std::size_t tensor, std::uint64_t at, std::span<std::byte> into) const {
  return readers_[file_of_[tensor]].read(places_[tensor] + at, into);
}

Status Checkpoint::check_unchanged() const {
  for (const FileReader& reader : readers_) SPARCL_RETURN_IF_ERROR(reader.check_unchanged());
  return {};
}

std::vector<std::string> Checkpoint::stray_paths() const {
  std::vector<std::string> paths;
  for (const std::string& name : stray_shards_) paths.push_back(path_ + "/" + name);
  return paths;
}

std::uint64_t Checkpoint::byte_count() const {
  return std::accumulate(sizes_.begin(), sizes_.end(), std::uint64_t{0});
}

}  // namespace sparcl::model
