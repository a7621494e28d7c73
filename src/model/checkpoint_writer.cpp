#include "src/model/checkpoint_writer.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "src/base/bytes.hpp"
#include "src/base/files/atomic_file.hpp"
#include "src/model/output_folder.hpp"
#include "src/model/text.hpp"

namespace sparcl::model {
namespace {

constexpr std::uint64_t kWriteBytes = std::uint64_t{64}
                                      << 20;  // between two looks at the progress, heuristic
constexpr std::uint64_t kFedBytes = std::uint64_t{512} << 10;  // of a feed: they stay in the caches

// The tensors of all files, in their order.
struct Contents {
  std::span<const std::byte* const> tensors;
  TensorFeed* feed;
  std::size_t next = 0;  // the first one that no file has yet

  Status finish() const { return feed != nullptr ? feed->finish() : Status(); }
};

Status write_tensor(AtomicFile& file, Contents& contents, std::uint64_t begin, std::uint64_t end,
                    std::uint64_t data_bytes, const FileWatch& watch) {
  const std::size_t tensor = contents.next++;
  const std::uint64_t piece = contents.feed != nullptr ? kFedBytes : kWriteBytes;
  for (std::uint64_t at = begin; at < end;) {
    const std::uint64_t some = std::min(piece, end - at);
    const std::uint64_t done = at - begin + some;
    if (contents.feed != nullptr) SPARCL_RETURN_IF_ERROR(contents.feed->need(tensor, done));
    SPARCL_RETURN_IF_ERROR(file.write({contents.tensors[tensor] + (at - begin), some}));
    if (contents.feed != nullptr) contents.feed->release(tensor, done);
    at += some;
    SPARCL_RETURN_IF_ERROR(watch.progress(at, data_bytes));
  }
  return {};
}

// Header and tensors of one file, which is to be committed.
// permissions_of: as of AtomicFile.
Result<AtomicFile> write_file(const std::string& path, const std::string& permissions_of,
                              const FileLayout& layout, Contents& contents,
                              const FileWatch& watch) {
  const Result<Header> header = parse_header(layout.header);
  if (!header.ok()) return header.status().with_prefix(path + ": ");
  const std::size_t left = contents.tensors.size() - contents.next;
  if (left < header->tensors.size()) {
    return Status(Code::kInvalidArgument,
                  fmt::format("{}: {} tensors to write, but the header has {}", path, left,
                              header->tensors.size()));
  }
  Result<AtomicFile> file = AtomicFile::create(path, permissions_of);
  if (!file.ok()) return file.status();

  std::byte length[kHeaderLengthBytes];
  store_le<std::uint64_t>(length, layout.header.size());
  SPARCL_RETURN_IF_ERROR(file->write(length));
  SPARCL_RETURN_IF_ERROR(file->write(std::as_bytes(std::span(layout.header))));
  for (std::size_t i = 0; i < header->tensors.size(); ++i) {
    const std::uint64_t end =
        i + 1 < header->offsets.size() ? header->offsets[i + 1] : header->data_bytes;
    SPARCL_RETURN_IF_ERROR(
        write_tensor(*file, contents, header->offsets[i], end, header->data_bytes, watch));
  }
  return file;
}

Status write_in_new_folder(const std::string& path, const std::string& permissions_of,
                           std::span<const std::byte> bytes) {
  SPARCL_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(path, permissions_of));
  SPARCL_RETURN_IF_ERROR(file.write(bytes));
  return file.commit_in_new_folder();
}

Status write_folder(const std::string& path, const Layout& layout, Contents contents,
                    const Layout* replaced, std::span<const SideFile> side_files,
                    const FileWatch& watch, std::span<const std::string> dropped) {
  SPARCL_ASSIGN_OR_RETURN(OutputFolder folder, OutputFolder::create(path, layout, replaced));
  const auto before = [&](const std::string& name) { return path + "/" + name; };
  for (const FileLayout& file : layout.files) {
    SPARCL_RETURN_IF_ERROR(check_file_name(file.name));
    SPARCL_ASSIGN_OR_RETURN(
        AtomicFile written,
        write_file(folder.inside(file.name), before(file.name), file, contents, watch));
    SPARCL_RETURN_IF_ERROR(written.commit_in_new_folder());
  }
  if (!layout.index_name.empty()) {
    SPARCL_RETURN_IF_ERROR(check_file_name(layout.index_name));
    SPARCL_RETURN_IF_ERROR(write_in_new_folder(folder.inside(layout.index_name),
                                               before(layout.index_name),
                                               std::as_bytes(std::span(layout.index))));
  }
  for (const SideFile& file : side_files) {
    if (!is_side_file(file.name)) {
      return Status(Code::kInvalidArgument,
                    fmt::format("{}: {} is no name for a file beside the shards", path,
                                in_quotes(file.name)));
    }
    SPARCL_RETURN_IF_ERROR(folder.make_room_for(file.name));
    SPARCL_RETURN_IF_ERROR(
        write_in_new_folder(folder.inside(file.name), before(file.name), file.content));
  }
  SPARCL_RETURN_IF_ERROR(contents.finish());
  return folder.commit(dropped);
}

}  // namespace

Status write_checkpoint(const std::string& path, const Layout& layout,
                        std::span<const std::byte* const> tensors, const Layout* replaced,
                        std::span<const SideFile> side_files, const FileWatch& watch,
                        std::span<const std::string> dropped, TensorFeed* feed) {
  Contents contents{tensors, feed};
  if (layout.is_folder)
    return write_folder(path, layout, contents, replaced, side_files, watch, dropped);
  if (layout.files.size() != 1) {
    return Status(Code::kInvalidArgument,
                  fmt::format("{}: {} files cannot be written as one", path, layout.files.size()));
  }
  SPARCL_ASSIGN_OR_RETURN(AtomicFile written,
                          write_file(path, {}, layout.files.front(), contents, watch));
  SPARCL_RETURN_IF_ERROR(contents.finish());
  return written.commit();
}

Status write_safetensors(const std::string& path, const Schema& schema,
                         std::span<const std::byte* const> tensors, const Metadata& metadata) {
  SPARCL_RETURN_IF_ERROR(validate(schema).with_prefix(path + ": "));
  for (const auto& [key, value] : metadata) {
    if (is_utf8(key) && is_utf8(value)) continue;
    return Status(Code::kInvalidArgument,
                  fmt::format("{}: metadata {} is not valid UTF-8", path, in_quotes(key)));
  }
  return write_checkpoint(path, single_file_layout(schema, metadata), tensors);
}

}  // namespace sparcl::model
