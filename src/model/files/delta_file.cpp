#include "src/model/files/delta_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "src/base/bytes.hpp"
#include "src/base/files/file_reader.hpp"
#include "src/base/settings.hpp"
#include "src/codec/block_mode.hpp"
#include "src/codec/frame_reader.hpp"
#include "src/codec/left_out.hpp"
#include "src/codec/superblock.hpp"
#include "src/codec/wire.hpp"

namespace sparcl::model {
namespace {

constexpr std::uint64_t kScanBytes = std::uint64_t{64}
                                     << 20;  // between two looks at the progress, heuristic

// The prefix, and the head, the content and the CRC of the update's header.
constexpr std::uint64_t kBeginBytes = codec::kPrefixBytes + 1 + 1 + codec::kUpdateHeaderBytes;
static_assert(codec::kUpdateHeaderBytes < 128, "its length is a varint of one byte");

Status corrupt_byte(std::uint64_t at, std::string_view what) {
  return Status(Code::kCorrupt, fmt::format("byte {} of the stream: {}", at, what));
}

// Reads one stream's sections into a summary.
class DeltaScan {
 public:
  DeltaScan(const Delta& delta, const FileWatch& watch) : delta_(delta), watch_(watch) {}

  Result<DeltaSummary> run() {
    codec::FrameReader frame(codec::StreamKind::kUpdate, codec::kTagLeftOut);
    std::uint64_t told_bytes = 0;
    for (bool found = true; found;) {
      codec::Section section;
      SPARCL_RETURN_IF_ERROR(frame.next(delta_.staging, delta_.bytes, section, found));
      if (!found) break;
      SPARCL_RETURN_IF_ERROR(read(section));
      if (section.first - told_bytes < kScanBytes) continue;
      told_bytes = section.first;
      SPARCL_RETURN_IF_ERROR(watch_.progress(told_bytes, delta_.bytes));
    }
    SPARCL_RETURN_IF_ERROR(frame.finish(delta_.bytes));
    SPARCL_RETURN_IF_ERROR(watch_.progress(delta_.bytes, delta_.bytes));
    return summary_;
  }

 private:
  // A checksum reports damage best: an earlier error is kept until the chunk's CRC has been
  // verified.
  Status read(const codec::Section& section) {
    const bool checked = section.tag != codec::kTagAttachment &&
                         section.tag != codec::kTagLeftOut && !codec::is_block(section.tag);
    const Status status = checked && !unchecked_.ok() ? unchecked_ : read_content(section);
    if (checked) return status;
    if (unchecked_.ok()) unchecked_ = status;
    return {};
  }

  Status read_content(const codec::Section& section) {
    if (codec::is_block(section.tag)) return read_block(section);
    const std::byte* at =
        delta_.staging.contiguous(section.first, static_cast<std::size_t>(section.bytes), scratch_);
    switch (section.tag) {
      case codec::kTagUpdateHeader:
        return read_header(section, at);
      case codec::kTagAttachment:
        return read_attachment(section, at);
      case codec::kTagEnd:
        return read_end(section, at);
      case codec::kTagClassTable:
        return {};
      case codec::kTagLeftOut:
        return read_left_out(section, at);
      default:
        ++summary_.chunk_count;
        return {};
    }
  }

  Status read_header(const codec::Section& section, const std::byte* at) {
    summary_.base_version = load_le<std::uint64_t>(at);
    summary_.target_version = load_le<std::uint64_t>(at + 8);
    summary_.schema_hash = {load_le<std::uint64_t>(at + 16), load_le<std::uint64_t>(at + 24)};
    summary_.elements = load_le<std::uint64_t>(at + 40);
    summary_.arrays = load_le<std::uint32_t>(at + 48);
    flags_ = load_le<std::uint32_t>(at + 52);
    const bool known = (flags_ & ~codec::kFlags) == 0;
    return known ? Status()
                 : corrupt_byte(section.first + 52,
                                "the header has flags that this version does not know");
  }

  Status read_left_out(const codec::Section& section, const std::byte* at) {
    summary_.left_out = codec::parse_left_out({at, static_cast<std::size_t>(section.bytes)});
    return summary_.left_out
               ? Status()
               : corrupt_byte(section.first, "what was left out is no count and two sizes");
  }

  Status read_attachment(const codec::Section& section, const std::byte* at) {
    summary_.attachment_bytes = section.bytes;
    SPARCL_ASSIGN_OR_RETURN(Attachment attachment,
                            parse_attachment({at, static_cast<std::size_t>(section.bytes)}));
    summary_.attachment = std::move(attachment);
    return {};
  }

  Status read_block(const codec::Section& section) {
    const auto size =
        static_cast<std::size_t>(std::min<std::uint64_t>(section.bytes, 2 * kMaxVarintBytes));
    ByteReader reader({delta_.staging.contiguous(section.first, size, scratch_), size});
    std::uint64_t gap = 0;
    if (codec::has_gap(section.tag) && (!reader.read_varint(gap) || gap == 0)) {
      return corrupt_byte(section.first, "a count of unchanged blocks is invalid");
    }
    const codec::BlockMode& mode = *codec::find_block_mode(
        codec::mode_of(section.tag));  // the frame reader accepts only known modes
    std::uint64_t changes = 0;
    std::uint64_t most = (&mode == &codec::kClassesMode ? codec::kSuperBlocks : 1) *
                         std::uint64_t{codec::kBlockElements};
    if (codec::is_group(mode.id)) {
      std::uint8_t last_block = 0;
      if (!reader.read(last_block))
        return corrupt_byte(section.first, "a group of blocks is empty");
      most = codec::max_group_changes(mode.id, last_block + std::uint64_t{1});
    }
    if (!mode.whole && (!reader.read_varint(changes) || changes == 0 || changes > most)) {
      return corrupt_byte(section.first, "a block's count of changes is invalid");
    }
    Tally& tally = summary_.blocks[mode.id];
    ++tally.count;
    tally.bytes += section.bytes;
    tally.changes += changes;
    ++summary_.block_count;
    listed_changes_ += changes;
    return {};
  }

  Status read_end(const codec::Section& section, const std::byte* at) {
    const bool has_base = (flags_ & codec::kFlagBaseHash) != 0;
    const bool has_target = (flags_ & codec::kFlagTargetHash) != 0;
    if (section.bytes !=
        codec::kEndBytes + 16 * (std::uint64_t{has_base} + std::uint64_t{has_target})) {
      return corrupt_byte(section.first, "the end has another length than the header's flags say");
    }
    summary_.coded_elements = load_le<std::uint64_t>(at + 8);
    summary_.changed = load_le<std::uint64_t>(at + 16);
    const bool fits = load_le<std::uint64_t>(at) == summary_.block_count &&
                      listed_changes_ <= summary_.coded_elements &&
                      summary_.changed <= summary_.coded_elements &&
                      summary_.coded_elements <= summary_.elements;
    if (!fits)
      return corrupt_byte(section.first,
                          "the totals at the end are not those of the blocks before it");
    at += 24;
    if (has_base) {
      summary_.base_hash = {load_le<std::uint64_t>(at), load_le<std::uint64_t>(at + 8)};
      at += 16;
    }
    if (has_target)
      summary_.target_hash = {load_le<std::uint64_t>(at), load_le<std::uint64_t>(at + 8)};
    return {};
  }

  const Delta& delta_;
  const FileWatch& watch_;
  DeltaSummary summary_;
  std::uint32_t flags_ = 0;
  std::uint64_t listed_changes_ = 0;
  Status unchecked_;  // the first error in bytes whose CRC follows
  std::vector<std::byte> scratch_;
};

// Whether the regular file starts with `value` there. An error if it cannot be read, so that it is
// not taken for another kind of file.
template <class T>
Result<bool> has_at(const std::string& path, std::uint64_t at, T value) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return false;
  SPARCL_ASSIGN_OR_RETURN(const FileReader file, FileReader::open(path));
  T found;
  if (file.byte_count() < at + sizeof found) return false;
  SPARCL_RETURN_IF_ERROR(file.read(at, std::as_writable_bytes(std::span(&found, 1))));
  return found == value;
}

// A file that is no delta may be long: it is refused by its first bytes. A file that ends in them
// is left to scan_delta().
Status check_begin(const FileReader& file) {
  std::vector<std::byte> bytes(std::min<std::uint64_t>(kBeginBytes, file.byte_count()));
  SPARCL_RETURN_IF_ERROR(file.read(0, bytes));
  Staging staging;
  staging.write(0, bytes);
  codec::FrameReader frame(codec::StreamKind::kUpdate);
  codec::Section section;
  bool found = false;
  return frame.next(staging, bytes.size(), section, found).with_prefix(file.path() + ": ");
}

}  // namespace

Result<Delta> read_delta(const std::string& path, const FileWatch& watch) {
  SPARCL_ASSIGN_OR_RETURN(const FileReader file, FileReader::open(path));
  SPARCL_RETURN_IF_ERROR(check_begin(file));
  Delta delta;
  delta.path = path;
  delta.bytes = file.byte_count();
  std::vector<std::byte> piece;
  for (std::uint64_t at = 0; at < delta.bytes; at += piece.size()) {
    piece.resize(std::min<std::uint64_t>(Staging::kSegmentBytes, delta.bytes - at));
    SPARCL_RETURN_IF_ERROR(file.read(at, piece));
    delta.staging.write(at, piece);
    SPARCL_RETURN_IF_ERROR(watch.progress(at + piece.size(), delta.bytes));
  }
  SPARCL_RETURN_IF_ERROR(file.check_unchanged());
  return delta;
}

Result<bool> is_checkpoint(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return true;
  const Result<bool> begins_so = has_at(path, kHeaderLengthBytes, std::byte{'{'});
  if (!begins_so.ok() || *begins_so || !path.ends_with(".safetensors")) return begins_so;
  const Result<bool> found = is_delta(path);  // otherwise it is truncated or damaged
  return found.ok() ? Result<bool>(!*found) : found;
}

Result<bool> is_delta(const std::string& path) {
  return has_at(path, 0, std::uint32_t{codec::kMagic});
}

Status expect_checkpoint(const std::string& path) {
  SPARCL_ASSIGN_OR_RETURN(const bool found, is_delta(path));
  if (!found) return {};
  return Status(Code::kCorrupt,
                fmt::format("{}: it is a delta, where a checkpoint is expected", path));
}

const Hash128* DeltaSummary::whole_base_hash() const {
  if (attachment.layout && attachment.layout->base_hash) return &*attachment.layout->base_hash;
  return base_hash ? &*base_hash : nullptr;
}

Result<DeltaSummary> scan_delta(const Delta& delta, const FileWatch& watch) {
  Result<DeltaSummary> summary = DeltaScan(delta, watch).run();
  return summary.ok() ? summary : summary.status().with_prefix(delta.path + ": ");
}

Result<const kernels::KernelSet*> chosen_kernels() {
  SPARCL_ASSIGN_OR_RETURN(const std::string bodies, setting_choice("KERNELS"));
  return bodies == "ref" ? &kernels::reference_kernels() : &kernels::cpu_kernels();
}

}  // namespace sparcl::model
