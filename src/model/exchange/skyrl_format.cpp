// SkyRL's delta folder: manifest.json, written last, lists the changed tensors. Each is a zstd
// frame of old XOR new in a payload file, a safetensors file of lists of bytes. The digest of the
// new bytes stands in the manifest.
#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "src/base/files/file_reader.hpp"
#include "src/model/exchange/exchange_format.hpp"
#include "src/model/exchange/shard_folder.hpp"
#include "src/model/exchange/zstd_frame.hpp"
#include "src/model/text.hpp"

namespace sparcl::model {
namespace {

using Json = nlohmann::json;

constexpr const char* kManifestName = "manifest.json";
constexpr std::uint64_t kMaxManifestBytes = std::uint64_t{64} << 20;
constexpr int kMaxManifestDepth = 4;
constexpr int kSkyrlLevel = 1;
constexpr const char* kOwnKey = "sparcl";  // SkyRL's reader ignores it

struct SkyrlTensor {
  std::string name, file, key, digest;
  std::uint64_t bytes = 0;  // of the tensor
  TensorDigest kind = TensorDigest::kXxh3;
};

struct SkyrlManifest {
  std::uint64_t version = 0, base_version = 0;
  std::vector<SkyrlTensor> tensors;
  Metadata own;
};

// --- reading ---

Result<Json> parse_manifest_text(std::string_view text) {
  bool is_deep = false;
  const Json json = Json::parse(
      text,
      [&](int depth, Json::parse_event_t, Json&) {
        is_deep = is_deep || depth > kMaxManifestDepth;
        return !is_deep;
      },
      false);
  if (is_deep || !json.is_object()) return corrupt("it is no JSON object of a manifest");
  return json;
}

Result<std::string> text_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string())
    return corrupt(fmt::format("the text {} is missing", key));
  return found->get<std::string>();
}

Result<std::uint64_t> number_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_unsigned())
    return corrupt(fmt::format("the number {} is missing", key));
  return found->get<std::uint64_t>();
}

Result<SkyrlTensor> parse_record(const Json& record) {
  if (!record.is_object()) return corrupt("an entry of tensors is no object");
  SkyrlTensor tensor;
  SPARCL_ASSIGN_OR_RETURN(tensor.name, text_of(record, "name"));
  SPARCL_ASSIGN_OR_RETURN(tensor.file, text_of(record, "payload_file"));
  SPARCL_ASSIGN_OR_RETURN(tensor.key, text_of(record, "payload_key"));
  SPARCL_ASSIGN_OR_RETURN(tensor.bytes, number_of(record, "uncompressed_num_bytes"));
  SPARCL_RETURN_IF_ERROR(
      check_shard_name(tensor.file)
          .with_prefix(fmt::format("tensor {}: payload_file: ", in_quotes(tensor.name))));
  const bool is_old = !record.contains("checksum");  // manifests of earlier versions: SHA-256
  SPARCL_ASSIGN_OR_RETURN(tensor.digest, text_of(record, is_old ? "sha256" : "checksum"));
  std::string kind = is_old ? "sha256" : "xxh3-128";
  if (record.contains("checksum_algorithm")) {
    SPARCL_ASSIGN_OR_RETURN(kind, text_of(record, "checksum_algorithm"));
  }
  SPARCL_ASSIGN_OR_RETURN(tensor.kind, find_digest(kind));
  return tensor;
}

Result<SkyrlManifest> parse_manifest(std::string_view text) {
  SPARCL_ASSIGN_OR_RETURN(const Json json, parse_manifest_text(text));
  SkyrlManifest manifest;
  SPARCL_ASSIGN_OR_RETURN(manifest.version, number_of(json, "version"));
  SPARCL_ASSIGN_OR_RETURN(manifest.base_version, number_of(json, "base_version"));
  const auto tensors = json.find("tensors");
  if (tensors == json.end() || !tensors->is_array()) return corrupt("the list tensors is missing");
  std::set<std::string> names;
  for (const Json& record : *tensors) {
    SPARCL_ASSIGN_OR_RETURN(SkyrlTensor tensor, parse_record(record));
    if (!names.insert(tensor.name).second)
      return corrupt(fmt::format("tensor {} is listed twice", in_quotes(tensor.name)));
    manifest.tensors.push_back(std::move(tensor));
  }
  if (const auto own = json.find(kOwnKey); own != json.end() && own->is_object()) {
    for (const auto& [key, value] : own->items()) {
      if (value.is_string()) manifest.own.emplace_back(key, value.get<std::string>());
    }
  }
  return manifest;
}

Result<SkyrlManifest> read_manifest(const std::string& path) {
  const std::string name = path + "/" + kManifestName;
  SPARCL_ASSIGN_OR_RETURN(const FileReader file, FileReader::open(name));
  if (file.byte_count() > kMaxManifestBytes)
    return corrupt(fmt::format("{}: a manifest of more than {} bytes", name, kMaxManifestBytes));
  std::string text(file.byte_count(), '\0');
  SPARCL_RETURN_IF_ERROR(file.read(0, std::as_writable_bytes(std::span(text))));
  Result<SkyrlManifest> manifest = parse_manifest(text);
  return manifest.ok() ? std::move(manifest) : manifest.status().with_prefix(name + ": ");
}

bool is_skyrl_folder(const std::string& path) {
  if (!has_file(path, kManifestName)) return false;
  const std::string name = std::filesystem::path(path).lexically_normal().filename().string();
  return name.starts_with("delta-") || read_manifest(path).ok();
}

// Payload files, opened once.
class Payloads {
 public:
  explicit Payloads(std::string folder) : folder_(std::move(folder)) {}

  Result<std::vector<std::byte>> read(const SkyrlTensor& tensor) {
    if (!files_.contains(tensor.file)) {
      SPARCL_ASSIGN_OR_RETURN(Checkpoint opened,
                              Checkpoint::open_unread(folder_ + "/" + tensor.file));
      files_.emplace(tensor.file, std::move(opened));
    }
    const Checkpoint& file = files_.at(tensor.file);
    for (std::size_t i = 0; i < file.schema().size(); ++i) {
      const TensorSchema& held = file.schema()[i];
      if (held.name != tensor.key) continue;
      if (held.datatype != DataType::kUint8 || held.opaque) break;
      std::vector<std::byte> bytes(file.byte_count(i));
      SPARCL_RETURN_IF_ERROR(file.read(i, bytes.data()));
      return bytes;
    }
    return corrupt(fmt::format("{}/{}: it has no list of bytes {}", folder_, tensor.file,
                               in_quotes(tensor.key)));
  }

 private:
  std::string folder_;
  std::map<std::string, Checkpoint> files_;
};

Status read_skyrl_tensor(const SkyrlTensor& tensor, std::span<const std::byte> frame,
                         const ChangeBase& base, SparseChange& change) {
  SPARCL_ASSIGN_OR_RETURN(const std::size_t slot, base.find(tensor.name));
  SPARCL_ASSIGN_OR_RETURN(const std::vector<std::byte> old_bytes, base.read(slot));
  const std::string where = fmt::format("tensor {}: ", in_quotes(tensor.name));
  if (tensor.bytes != old_bytes.size()) {
    return Status(Code::kMismatch, fmt::format("{}it has {} bytes, {} in the base", where,
                                               tensor.bytes, old_bytes.size()));
  }
  std::vector<std::byte> new_bytes = old_bytes;
  SPARCL_RETURN_IF_ERROR(unpack_xor(frame, new_bytes).with_prefix(where));
  return base.add(slot, old_bytes, new_bytes, tensor.kind, tensor.digest, change);
}

Status read_skyrl(const std::string& path, const ChangeBase& base, const FileWatch& watch,
                  SparseChange& change, std::uint64_t& bytes) {
  SPARCL_ASSIGN_OR_RETURN(const SkyrlManifest manifest, read_manifest(path));
  SPARCL_RETURN_IF_ERROR(base.check_version(manifest.base_version).with_prefix(path + ": "));
  TensorFile about;
  about.metadata = manifest.own;
  SPARCL_RETURN_IF_ERROR(read_own_metadata(about, change).with_prefix(path + ": "));
  name_folder_versions(manifest.base_version, manifest.version, change);
  Payloads payloads(path);
  for (std::size_t i = 0; i < manifest.tensors.size(); ++i) {
    SPARCL_ASSIGN_OR_RETURN(const std::vector<std::byte> frame, payloads.read(manifest.tensors[i]));
    SPARCL_RETURN_IF_ERROR(
        read_skyrl_tensor(manifest.tensors[i], frame, base, change).with_prefix(path + ": "));
    bytes += frame.size();
    SPARCL_RETURN_IF_ERROR(watch.progress(i + 1, manifest.tensors.size()));
  }
  return {};
}

// --- writing ---

std::string payload_name(std::size_t shard, std::size_t) {
  return fmt::format("delta-rank00000-file{:06}.safetensors", shard);
}

Result<nlohmann::ordered_json> write_payload(const TensorChange& tensor, const ChangeBase& base,
                                             ShardWriter& payloads) {
  SPARCL_ASSIGN_OR_RETURN(const std::size_t slot, base.find(tensor.name));
  SPARCL_ASSIGN_OR_RETURN(std::vector<std::byte> old_bytes, base.read(slot));
  std::vector<std::byte> bytes = old_bytes;
  base.apply(tensor, bytes);
  SPARCL_ASSIGN_OR_RETURN(const std::string digest, digest_of(TensorDigest::kXxh3, bytes));
  SPARCL_ASSIGN_OR_RETURN(std::vector<std::byte> frame,
                          pack_xor(std::move(old_bytes), bytes, kSkyrlLevel));
  nlohmann::ordered_json record{{"name", tensor.name},
                                {"dtype", torch_name(tensor.datatype)},
                                {"shape", *tensor.shape},
                                {"uncompressed_num_bytes", bytes.size()},
                                {"compressed_num_bytes", frame.size()},
                                {"payload_file", ""},
                                {"payload_key", tensor.name},
                                {"checksum", digest},
                                {"checksum_algorithm", "xxh3-128"}};
  SPARCL_RETURN_IF_ERROR(payloads.add(tensor.name, std::move(frame), ""));
  return record;
}

Status write_skyrl(const SparseChange& change, const ChangeBase& base, FolderWrite& out) {
  VersionPair versions;
  SPARCL_RETURN_IF_ERROR(choose_versions(change, out, versions));
  ShardWriter payloads(out, payload_name);
  nlohmann::ordered_json records = nlohmann::ordered_json::array();
  std::uint64_t plain_bytes = 0, packed_bytes = 0;
  for (const TensorChange& tensor : change.tensors) {
    SPARCL_ASSIGN_OR_RETURN(nlohmann::ordered_json record, write_payload(tensor, base, payloads));
    plain_bytes += record["uncompressed_num_bytes"].get<std::uint64_t>();
    packed_bytes += record["compressed_num_bytes"].get<std::uint64_t>();
    records.push_back(std::move(record));
  }
  SPARCL_ASSIGN_OR_RETURN(const auto files, payloads.finish());
  std::set<std::string> names;
  for (std::size_t i = 0; i < files.size(); ++i) {  // in the order of the records
    records[i]["payload_file"] = files[i].second;
    names.insert(files[i].second);
  }
  nlohmann::ordered_json manifest{{"version", versions.target},
                                  {"base_version", versions.base},
                                  {"tensors", std::move(records)},
                                  {"total_uncompressed_num_bytes", plain_bytes},
                                  {"total_compressed_num_bytes", packed_bytes},
                                  {"payload_files", names}};
  Metadata own;
  write_own_metadata(change, own);
  for (const auto& [key, value] : own) manifest[kOwnKey][key] = value;
  const std::string text = manifest.dump();
  return write_into(out, kManifestName, std::as_bytes(std::span(text)));
}

}  // namespace

const FolderFormat kSkyrlFormat{"skyrl", "folder with manifest.json, XOR in zstd, xxh3-128 (SkyRL)",
                                is_skyrl_folder, read_skyrl, write_skyrl};

}  // namespace sparcl::model
