#include "src/model/side_file.hpp"

#include <fmt/format.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string_view>

#include "src/base/files/file_reader.hpp"
#include "src/base/folder_list.hpp"
#include "src/model/file_layout.hpp"
#include "src/model/text.hpp"
#include "src/trust/sha256.hpp"

namespace sparcl::model {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 9> kSuffixes{
    ".json", ".jsonl", ".txt", ".model", ".tiktoken", ".jinja", ".md", ".yaml", ".yml"};
constexpr int kLevel = 9;  // small files, written once: a second for the largest tokenizer

template <class File>
void replace(std::vector<File>& files, std::vector<File> later) {
  for (File& file : later) {
    const auto at = std::ranges::lower_bound(files, file.name, {}, &File::name);
    if (at != files.end() && at->name == file.name) {
      *at = std::move(file);
    } else {
      files.insert(at, std::move(file));
    }
  }
}

}  // namespace

bool is_side_file(const std::string& name) {
  if (!check_file_name(name).ok() || name.starts_with('.') || name.ends_with(kShardSuffix) ||
      name.ends_with(kIndexSuffix))
    return false;
  return std::any_of(kSuffixes.begin(), kSuffixes.end(),
                     [&](std::string_view suffix) { return name.ends_with(suffix); });
}

Result<std::vector<SideFile>> read_side_files(const std::string& folder,
                                              std::vector<std::string>* skipped) {
  std::vector<SideFile> files;
  std::uintmax_t all_bytes = 0;
  SPARCL_ASSIGN_OR_RETURN(const std::vector<std::string> names, names_in_folder(folder));
  for (const std::string& name : names) {
    const fs::path path = fs::path(folder) / name;
    std::error_code ignored;
    if (!is_side_file(name) || !fs::is_regular_file(path, ignored)) continue;
    const std::uintmax_t bytes = fs::file_size(path, ignored);
    if (bytes > kMaxSideFileBytes || bytes > kMaxSideFilesBytes - all_bytes ||
        files.size() == kMaxSideFiles) {
      if (skipped != nullptr) skipped->push_back(name);
      continue;
    }
    SPARCL_ASSIGN_OR_RETURN(std::vector<std::byte> content, read_file(path.string()));
    all_bytes += bytes;
    files.push_back({name, std::move(content)});
  }
  return files;
}

Result<PackedFile> pack(const SideFile& file) {
  const std::unique_ptr<ZSTD_CCtx, std::size_t (*)(ZSTD_CCtx*)> context(ZSTD_createCCtx(),
                                                                        ZSTD_freeCCtx);
  if (context == nullptr) return no_memory();
  PackedFile packed{file.name, file.content.size(),
                    std::vector<std::byte>(ZSTD_compressBound(file.content.size()))};
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_compressionLevel, kLevel);
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_checksumFlag, 1);
  const std::size_t bytes =
      ZSTD_compress2(context.get(), packed.packed.data(), packed.packed.size(), file.content.data(),
                     file.content.size());
  if (ZSTD_getErrorCode(bytes) == ZSTD_error_memory_allocation) return no_memory();
  if (ZSTD_isError(bytes) != 0) {
    return Status(Code::kInternalError,
                  fmt::format("{}: cannot be compressed: {}", in_quotes(file.name),
                              ZSTD_getErrorName(bytes)));
  }
  packed.packed.resize(bytes);
  return packed;
}

Result<SideFile> unpack(const PackedFile& file) {
  SideFile out{file.name, {}};
  // The buffer grows with zstd's output, up to the size that the file declares. A frame that
  // declares another size is refused before.
  if (ZSTD_getFrameContentSize(file.packed.data(), file.packed.size()) == file.bytes &&
      file.bytes <= kMaxSideFileBytes) {
    out.content.resize(file.bytes);
    const std::size_t bytes = ZSTD_decompress(out.content.data(), out.content.size(),
                                              file.packed.data(), file.packed.size());
    if (ZSTD_isError(bytes) == 0 && bytes == file.bytes) return out;
    if (ZSTD_getErrorCode(bytes) == ZSTD_error_memory_allocation)
      return no_memory();  // the file is not to blame
  }
  return Status(Code::kCorrupt, fmt::format("the file {} that travels with the delta is damaged",
                                            in_quotes(file.name)));
}

Result<std::vector<PackedFile>> changed_side_files(std::span<const SideFile> base,
                                                   std::span<const SideFile> target) {
  std::vector<PackedFile> changed;
  for (const SideFile& file : target) {
    const auto before = std::ranges::find(base, file.name, &SideFile::name);
    if (before != base.end() && before->content == file.content) continue;
    SPARCL_ASSIGN_OR_RETURN(PackedFile packed, pack(file));
    changed.push_back(std::move(packed));
  }
  return changed;
}

Result<Digest256> digest_of(std::span<const SideFile> files) {
  trust::Sha256 sha;
  const auto add = [&](std::span<const std::byte> bytes) {
    std::array<std::byte, 8> length;
    store_le<std::uint64_t>(length.data(), bytes.size());
    sha.update(length);
    sha.update(bytes);
  };
  for (const SideFile& file : files) {
    add(std::as_bytes(std::span(file.name)));
    add(file.content);
  }
  SPARCL_ASSIGN_OR_RETURN(const trust::Sha256::Digest digest, sha.finish());
  Digest256 bytes;
  std::memcpy(bytes.data(), digest.data(), bytes.size());
  return bytes;
}

void replace_side_files(std::vector<SideFile>& files, std::vector<SideFile> later) {
  replace(files, std::move(later));
}
void replace_side_files(std::vector<PackedFile>& files, std::vector<PackedFile> later) {
  replace(files, std::move(later));
}
Status replace_side_files(std::vector<SideFile>& files, std::span<const PackedFile> later) {
  std::vector<SideFile> unpacked;
  for (const PackedFile& packed : later) {
    SPARCL_ASSIGN_OR_RETURN(SideFile file, unpack(packed));
    unpacked.push_back(std::move(file));
  }
  replace(files, std::move(unpacked));
  return {};
}

void serialise(std::span<const PackedFile> files, ByteWriter& writer) {
  writer.write_varint(files.size());
  for (const PackedFile& file : files) {
    writer.write_varint(file.name.size());
    writer.write_bytes(std::as_bytes(std::span(file.name)));
    writer.write_varint(file.bytes);
    writer.write_varint(file.packed.size());
    writer.write_bytes(file.packed);
  }
}

bool parse_side_files(ByteReader& reader, std::vector<PackedFile>& files) {
  std::uint64_t count = 0;
  std::uint64_t all_bytes = 0;
  if (!reader.read_varint(count) || count > kMaxSideFiles) return false;
  for (; count > 0; --count) {
    PackedFile file;
    std::uint64_t length = 0;
    std::span<const std::byte> bytes;
    if (!reader.read_varint(length) || !reader.read_bytes(length, bytes)) return false;
    file.name.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (!is_side_file(file.name) || (!files.empty() && file.name <= files.back().name))
      return false;
    if (!reader.read_varint(file.bytes) || file.bytes > kMaxSideFileBytes) return false;
    all_bytes += file.bytes;
    if (all_bytes > kMaxSideFilesBytes || !reader.read_varint(length) ||
        !reader.read_bytes(length, bytes))
      return false;
    file.packed.assign(bytes.begin(), bytes.end());
    files.push_back(std::move(file));
  }
  return true;
}

}  // namespace sparcl::model
