// The delta folder of slime, miles, ModelExpress and CoreWeave: an index whose metadata name both
// versions, and shards with one zstd frame a changed tensor. The frame holds old XOR new of all
// bytes, or (overwrite) a count, the positions of changed bytes (32 bits each) and their new
// values. The digest of the new bytes stands in the shard's __metadata__.
#include <fmt/format.h>

#include <cstring>
#include <filesystem>
#include <set>

#include "src/base/bytes.hpp"
#include "src/model/exchange/exchange_format.hpp"
#include "src/model/exchange/shard_folder.hpp"
#include "src/model/exchange/zstd_frame.hpp"
#include "src/model/text.hpp"

namespace sparcl::model {
namespace {

constexpr int kFrameLevel = 1;
constexpr std::uint64_t kMaxOverwriteBytes = std::uint64_t{1} << 32;
constexpr std::uint64_t kCountBytes = 4, kPositionBytes = 4;

// In the index of such a folder; "": it is missing, and read_hf() says why. nullopt: it is another
// folder.
std::optional<std::string> in_index(const std::string& path, std::string_view key) {
  if (!has_file(path, kIndexName)) return std::nullopt;
  const Result<ShardIndex> index = read_folder_index(path);
  if (!index.ok()) return "";
  if (find_metadata(index->metadata, "delta_encoding") == nullptr) return std::nullopt;
  const std::string* value = find_metadata(index->metadata, key);
  return value == nullptr ? "" : *value;
}

bool is_overwrite(const std::string& path) {
  return in_index(path, "delta_encoding") == "overwrite";
}

bool is_xor_xxh3(const std::string& path) {
  return !is_overwrite(path) &&
         in_index(path, "checksum_format") == digest_name(TensorDigest::kXxh3);
}

bool is_xor(const std::string& path) {
  return in_index(path, "") && !is_overwrite(path) && !is_xor_xxh3(path);
}

// --- reading ---

struct HfDelta {
  bool is_xor = true;
  TensorDigest digest = TensorDigest::kAdler32;
};

Result<std::string> entry(const ShardIndex& index, std::string_view key) {
  const std::string* value = find_metadata(index.metadata, key);
  if (value == nullptr) return corrupt(fmt::format("metadata {} are missing in the index", key));
  return *value;
}

Result<HfDelta> parse_metadata(const ShardIndex& index) {
  std::set<std::string_view> keys;
  for (const auto& [key, value] : index.metadata) {
    if (!keys.insert(key).second)
      return corrupt(fmt::format("metadata {} are in the index twice", in_quotes(key)));
  }
  SPARCL_ASSIGN_OR_RETURN(const std::string encoding, entry(index, "delta_encoding"));
  SPARCL_ASSIGN_OR_RETURN(const std::string compression, entry(index, "compression_format"));
  SPARCL_ASSIGN_OR_RETURN(const std::string checksum, entry(index, "checksum_format"));
  if (encoding != "xor" && encoding != "overwrite") {
    return Status(Code::kUnsupported, fmt::format("delta_encoding {}: xor and overwrite are known",
                                                  in_quotes(encoding)));
  }
  if (compression != "zstd") {
    return Status(Code::kUnsupported,
                  fmt::format("compression_format {}: zstd is known", in_quotes(compression)));
  }
  SPARCL_ASSIGN_OR_RETURN(const TensorDigest digest, find_digest(checksum));
  return HfDelta{encoding == "xor", digest};
}

// Takes our own metadata, if there are any, else the versions that every writer names.
Status take_versions(const ShardIndex& index, const ChangeBase& base, SparseChange& change) {
  SPARCL_ASSIGN_OR_RETURN(const std::string version, entry(index, "version"));
  SPARCL_ASSIGN_OR_RETURN(const std::string base_version, entry(index, "base_version"));
  const std::optional<std::uint64_t> before = version_in(base_version);
  SPARCL_RETURN_IF_ERROR(base.check_version(before));
  TensorFile file;
  file.metadata = index.metadata;
  SPARCL_RETURN_IF_ERROR(read_own_metadata(file, change));
  name_folder_versions(before.value_or(0), version_in(version).value_or(0), change);
  return {};
}

Status overwrite(std::span<const std::byte> frame, std::span<std::byte> bytes) {
  SPARCL_ASSIGN_OR_RETURN(
      const std::vector<std::byte> content,
      unpack_frame(frame, kCountBytes, kCountBytes + (kPositionBytes + 1) * bytes.size()));
  const std::uint64_t count = load_le<std::uint32_t>(content.data());
  if (content.size() != kCountBytes + (kPositionBytes + 1) * count) {
    return corrupt(fmt::format("{} positions and values take {} bytes, its frame holds {}", count,
                               kCountBytes + (kPositionBytes + 1) * count, content.size()));
  }
  const std::byte* positions = content.data() + kCountBytes;
  const std::byte* values = positions + kPositionBytes * count;
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto at = load_le<std::uint32_t>(positions + kPositionBytes * i);
    if (at >= bytes.size())
      return corrupt(fmt::format("position {} is past its {} bytes", at, bytes.size()));
    bytes[at] = values[i];
  }
  return {};
}

Status read_tensor(const Checkpoint& delta, std::size_t i, const HfDelta& about,
                   const ChangeBase& base, SparseChange& change) {
  const TensorSchema& tensor = delta.schema()[i];
  const std::string where = fmt::format("tensor {}: ", in_quotes(tensor.name));
  if (tensor.datatype != DataType::kUint8 || tensor.opaque || tensor.shape.size() != 1)
    return corrupt(where +
                   fmt::format("it is {}, a list of bytes is expected", describe_kind(tensor)));
  const std::string* digest = find_metadata(delta.metadata(delta.file_of(i)), tensor.name);
  if (digest == nullptr) return corrupt(where + "its checksum is missing in __metadata__");
  SPARCL_ASSIGN_OR_RETURN(const std::size_t place, base.find(tensor.name));
  std::vector<std::byte> frame(delta.byte_count(i));
  SPARCL_RETURN_IF_ERROR(delta.read(i, frame.data()));
  SPARCL_ASSIGN_OR_RETURN(const std::vector<std::byte> old_bytes, base.read(place));
  std::vector<std::byte> new_bytes = old_bytes;
  SPARCL_RETURN_IF_ERROR(
      (about.is_xor ? unpack_xor : overwrite)(frame, new_bytes).with_prefix(where));
  return base.add(place, old_bytes, new_bytes, about.digest, *digest, change);
}

Status read_shards(const std::string& path, const HfDelta& about, const ChangeBase& base,
                   const FileWatch& watch, SparseChange& change, std::uint64_t& bytes) {
  SPARCL_ASSIGN_OR_RETURN(const Checkpoint delta, Checkpoint::open_unread(path));
  watch.stray_shards(delta.stray_paths());
  const std::uint64_t total = delta.byte_count();
  for (std::size_t i = 0; i < delta.schema().size(); ++i) {
    SPARCL_RETURN_IF_ERROR(read_tensor(delta, i, about, base, change).with_prefix(path + ": "));
    bytes += delta.byte_count(i);
    SPARCL_RETURN_IF_ERROR(watch.progress(bytes, total));
  }
  return delta.check_unchanged();
}

Status read_hf(const std::string& path, const ChangeBase& base, const FileWatch& watch,
               SparseChange& change, std::uint64_t& bytes) {
  SPARCL_ASSIGN_OR_RETURN(const ShardIndex index, read_folder_index(path));
  const Result<HfDelta> about = parse_metadata(index);
  if (!about.ok()) return about.status().with_prefix(path + ": ");
  SPARCL_RETURN_IF_ERROR(take_versions(index, base, change).with_prefix(path + ": "));
  if (index.weight_map.empty()) return {};  // nothing has changed: then there is no shard
  return read_shards(path, *about, base, watch, change, bytes);
}

// --- writing ---

// Positions of bytes that differ, and their new values.
Result<std::vector<std::byte>> overwrite_content(const std::string& name,
                                                 std::span<const std::byte> before,
                                                 std::span<const std::byte> after) {
  if (after.size() > kMaxOverwriteBytes) {
    return Status(Code::kUnsupported,
                  fmt::format("tensor {}: its {} bytes need positions of more than 32 bits: write "
                              "layout hf-xor",
                              in_quotes(name), after.size()));
  }
  std::vector<std::uint32_t> positions;
  for (std::size_t i = 0; i < after.size(); ++i) {
    if (before[i] != after[i]) positions.push_back(static_cast<std::uint32_t>(i));
  }
  ByteWriter writer;
  writer.write(static_cast<std::uint32_t>(positions.size()));
  for (const std::uint32_t position : positions) writer.write(position);
  for (const std::uint32_t position : positions) writer.write_bytes(after.subspan(position, 1));
  return writer.take();
}

Status write_tensor(const TensorChange& tensor, const HfDelta& about, const ChangeBase& base,
                    ShardWriter& shards) {
  SPARCL_ASSIGN_OR_RETURN(const std::size_t place, base.find(tensor.name));
  SPARCL_ASSIGN_OR_RETURN(std::vector<std::byte> old_bytes, base.read(place));
  std::vector<std::byte> new_bytes = old_bytes;
  base.apply(tensor, new_bytes);
  SPARCL_ASSIGN_OR_RETURN(std::string digest, digest_of(about.digest, new_bytes));
  std::vector<std::byte> frame;
  if (about.is_xor) {
    SPARCL_ASSIGN_OR_RETURN(frame, pack_xor(std::move(old_bytes), new_bytes, kFrameLevel));
  } else {
    SPARCL_ASSIGN_OR_RETURN(const std::vector<std::byte> content,
                            overwrite_content(tensor.name, old_bytes, new_bytes));
    SPARCL_ASSIGN_OR_RETURN(frame, pack_frame(content, kFrameLevel));
  }
  return shards.add(tensor.name, std::move(frame), std::move(digest));
}

Status write_hf(const SparseChange& change, const HfDelta& about, const ChangeBase& base,
                FolderWrite& out) {
  VersionPair versions;
  SPARCL_RETURN_IF_ERROR(choose_versions(change, out, versions));
  ShardWriter shards(out);
  for (const TensorChange& tensor : change.tensors)
    SPARCL_RETURN_IF_ERROR(write_tensor(tensor, about, base, shards));
  SPARCL_ASSIGN_OR_RETURN(const auto weight_map, shards.finish());
  Metadata metadata{{"version", fmt::format("{:06}", versions.target)},
                    {"base_version", fmt::format("{:06}", versions.base)},
                    {"delta_encoding", about.is_xor ? "xor" : "overwrite"},
                    {"compression_format", "zstd"},
                    {"checksum_format", std::string(digest_name(about.digest))}};
  write_own_metadata(change, metadata);
  const std::string index = render_index(metadata, weight_map);
  return write_into(out, kIndexName, std::as_bytes(std::span(index)));
}

Status write_hf_xor(const SparseChange& change, const ChangeBase& base, FolderWrite& out) {
  return write_hf(change, {true, TensorDigest::kAdler32}, base, out);
}
Status write_hf_xor_xxh3(const SparseChange& change, const ChangeBase& base, FolderWrite& out) {
  return write_hf(change, {true, TensorDigest::kXxh3}, base, out);
}
Status write_hf_overwrite(const SparseChange& change, const ChangeBase& base, FolderWrite& out) {
  return write_hf(change, {false, TensorDigest::kXxh3}, base, out);
}

}  // namespace

const FolderFormat kHfXorFormat{
    "hf-xor",
    "folder of shards, old XOR new in zstd, adler32 (slime, miles, ModelExpress, CoreWeave)",
    is_xor, read_hf, write_hf_xor};
const FolderFormat kHfXorXxh3Format{"hf-xor_xxh3", "the same with xxh3-128 (slime's default)",
                                    is_xor_xxh3, read_hf, write_hf_xor_xxh3};
const FolderFormat kHfOverwriteFormat{"hf-overwrite",
                                      "the same with changed bytes instead of XOR, xxh3-128",
                                      is_overwrite, read_hf, write_hf_overwrite};

}  // namespace sparcl::model
