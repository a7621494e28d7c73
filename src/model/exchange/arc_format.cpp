// Fireworks' arc_v2: files with the base's names and all of its tensors. Each is a list of bytes:
// one zstd frame of old XOR new. Adler-32 of the new bytes stands in __metadata__ as a decimal
// number. arc_v3 has the same frames, in a safetensors file inside the tensor, or an envelope that
// is a Python pickle. The latter is refused: it is a program.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "src/model/exchange/exchange_format.hpp"
#include "src/model/exchange/shard_folder.hpp"
#include "src/model/exchange/zstd_frame.hpp"
#include "src/model/side_file.hpp"
#include "src/model/text.hpp"

namespace sparcl::model {
namespace {

constexpr int kArcLevel = 3;
constexpr std::string_view kEnvelope{"ARC3_ENVELOPE\0", 14};
constexpr const char* kInnerTensor = "tensor";
constexpr const char* kInnerKind = "fallback_name";

bool is_decimal(const std::string* text) {
  return text != nullptr && !text->empty() &&
         text->find_first_not_of("0123456789") == std::string::npos;
}

// The digest of a tensor that has this layout; nullptr: it has not.
const std::string* arc_digest(const Checkpoint& delta, std::size_t i) {
  const TensorSchema& tensor = delta.schema()[i];
  if (tensor.datatype != DataType::kUint8 || tensor.opaque || tensor.shape.size() != 1)
    return nullptr;
  const std::string* digest = find_metadata(delta.metadata(delta.file_of(i)), tensor.name);
  return is_decimal(digest) ? digest : nullptr;
}

bool is_arc_folder(const std::string& path) {
  const Result<Checkpoint> opened = Checkpoint::open_unread(path);
  if (!opened.ok() || opened->schema().empty()) return false;
  for (std::size_t i = 0; i < opened->schema().size(); ++i) {
    if (arc_digest(*opened, i) == nullptr) return false;
  }
  return true;
}

// The frame in a tensor of arc_v3: a safetensors file with one tensor.
Result<std::vector<std::byte>> inner_frame(std::vector<std::byte> payload) {
  if (is_zstd(payload)) return payload;
  const std::string_view text(reinterpret_cast<const char*>(payload.data()), payload.size());
  if (text.starts_with(kEnvelope)) {
    return Status(
        Code::kUnsupported,
        "its arc_v3 envelope is a Python pickle, which sparcl does not run: write arc_v2");
  }
  SPARCL_ASSIGN_OR_RETURN(TensorFile inner, parse_tensor_file(payload));
  const std::string* kind = inner.find_metadata(kInnerKind);
  if (inner.schema.size() != 1 || inner.schema[0].name != kInnerTensor ||
      (kind != nullptr && *kind != "arc_v2"))
    return corrupt("it is neither a zstd frame nor an arc_v2 tensor inside arc_v3");
  return std::move(inner.tensors[0]);
}

Status read_arc_tensor(const Checkpoint& delta, std::size_t i, const ChangeBase& base,
                       SparseChange& change) {
  const TensorSchema& tensor = delta.schema()[i];
  const std::string where = fmt::format("tensor {}: ", in_quotes(tensor.name));
  const std::string* digest = arc_digest(delta, i);
  if (digest == nullptr)
    return corrupt(where + "it is no list of bytes with an adler32 in __metadata__");
  SPARCL_ASSIGN_OR_RETURN(const std::size_t slot, base.find(tensor.name));
  std::vector<std::byte> payload(delta.byte_count(i));
  SPARCL_RETURN_IF_ERROR(delta.read(i, payload.data()));
  const Result<std::vector<std::byte>> frame = inner_frame(std::move(payload));
  if (!frame.ok()) return frame.status().with_prefix(where);
  SPARCL_ASSIGN_OR_RETURN(const std::vector<std::byte> old_bytes, base.read(slot));
  std::vector<std::byte> new_bytes = old_bytes;
  SPARCL_RETURN_IF_ERROR(unpack_xor(*frame, new_bytes).with_prefix(where));
  return base.add(slot, old_bytes, new_bytes, TensorDigest::kAdler32Decimal, *digest, change);
}

Status read_arc(const std::string& path, const ChangeBase& base, const FileWatch& watch,
                SparseChange& change, std::uint64_t& bytes) {
  SPARCL_ASSIGN_OR_RETURN(const Checkpoint delta, Checkpoint::open_unread(path));
  watch.stray_shards(delta.stray_paths());
  if (delta.schema().size() != base.schema().size()) {
    return Status(Code::kMismatch,
                  fmt::format("{}: it has {} tensors, {} has {}: this layout names all", path,
                              delta.schema().size(), base.path(), base.schema().size()));
  }
  TensorFile first;
  first.metadata = delta.metadata(0);
  SPARCL_RETURN_IF_ERROR(read_own_metadata(first, change).with_prefix(path + ": "));
  const std::uint64_t total = delta.byte_count();
  for (std::size_t i = 0; i < delta.schema().size(); ++i) {
    SPARCL_RETURN_IF_ERROR(read_arc_tensor(delta, i, base, change).with_prefix(path + ": "));
    bytes += delta.byte_count(i);
    SPARCL_RETURN_IF_ERROR(watch.progress(bytes, total));
  }
  return delta.check_unchanged();
}

// --- writing ---

Status add_arc_tensor(const SparseChange& change, const ChangeBase& base, std::size_t i,
                      TensorFile& file) {
  const TensorSchema& tensor = base.schema()[i];
  SPARCL_ASSIGN_OR_RETURN(std::vector<std::byte> bytes, base.read(i));
  std::vector<std::byte> old_bytes = bytes;
  const TensorChange* const changed = change.find(tensor.name);
  if (changed != nullptr) base.apply(*changed, bytes);
  SPARCL_ASSIGN_OR_RETURN(std::string digest, digest_of(TensorDigest::kAdler32Decimal, bytes));
  SPARCL_ASSIGN_OR_RETURN(std::vector<std::byte> frame,
                          pack_xor(std::move(old_bytes), bytes, kArcLevel));
  file.metadata.emplace_back(tensor.name, std::move(digest));
  file.schema.push_back({tensor.name, DataType::kUint8, {frame.size()}});
  file.tensors.push_back(std::move(frame));
  return {};
}

Status write_arc_file(const SparseChange& change, const ChangeBase& base, std::size_t file,
                      FolderWrite& out) {
  const Layout& layout = base.checkpoint().layout();
  TensorFile shard;
  for (std::size_t i = 0; i < base.schema().size(); ++i) {
    if (base.checkpoint().file_of(i) == file)
      SPARCL_RETURN_IF_ERROR(add_arc_tensor(change, base, i, shard));
  }
  if (file == 0) write_own_metadata(change, shard.metadata);
  SPARCL_ASSIGN_OR_RETURN(const std::vector<std::byte> content, serialise(shard, 0));
  return write_into(out, layout.is_folder ? layout.files[file].name : kSingleName, content);
}

Status write_arc(const SparseChange& change, const ChangeBase& base, FolderWrite& out) {
  const Layout& layout = base.checkpoint().layout();
  for (std::size_t i = 0; i < layout.files.size(); ++i)
    SPARCL_RETURN_IF_ERROR(write_arc_file(change, base, i, out));
  SPARCL_ASSIGN_OR_RETURN(const std::vector<SideFile> side_files, new_side_files(change, base));
  for (const SideFile& file : side_files)
    SPARCL_RETURN_IF_ERROR(write_into(out, file.name, file.content));
  if (layout.index_name.empty()) return {};
  return write_into(out, layout.index_name, std::as_bytes(std::span(layout.index)));
}

}  // namespace

const FolderFormat kArc2Format{
    "arc2", "folder with the base's file names, all tensors, XOR in zstd (Fireworks arc_v2)",
    is_arc_folder, read_arc, write_arc};

}  // namespace sparcl::model
