#include "src/codec/compose.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "src/codec/composed_block.hpp"
#include "src/codec/frame_writer.hpp"
#include "src/codec/layout.hpp"

namespace sparcl::codec {
namespace {

constexpr std::uint64_t kProgressBlocks = 64;  // between two looks at the progress, heuristic
constexpr std::uint32_t kNeededFlags = kFlagBaseHash | kFlagTargetHash;

Status check_alone(const UpdateReader& update, const std::string& name) {
  if ((update.header().flags & kNeededFlags) != kNeededFlags) {
    return Status(
        Code::kUnsupported,
        fmt::format(
            "{}: no hash of its whole base or of its target (its list of tensors changes, or "
            "sparcl diff did not write it): compose it with the base",
            name));
  }
  if (!update.map()) {
    return Status(Code::kUnsupported, fmt::format("{}: it does not say how its state is cut into "
                                                  "blocks: it can be composed with the base only",
                                                  name));
  }
  return {};
}

Status check_pair(const UpdateReader& first, const UpdateReader& second, const std::string& a,
                  const std::string& b) {
  const UpdateHeader& x = first.header();
  const UpdateHeader& y = second.header();
  const auto same_array = [](const ArraySpec& l, const ArraySpec& r) {
    return l.datatype == r.datatype && l.count == r.count;
  };
  if (x.schema_hash != y.schema_hash || x.layout_hash != y.layout_hash ||
      x.elements != y.elements || x.arrays != y.arrays ||
      !std::ranges::equal(first.map()->arrays(), second.map()->arrays(), same_array)) {
    return Status(Code::kMismatch,
                  fmt::format("{} and {} are for different lists of tensors", a, b));
  }
  if (first.end().target_hash != second.end().base_hash) {
    return Status(
        Code::kWrongBase,
        fmt::format("{} does not follow {}: the one begins at state {}, the other ends at {}", b, a,
                    to_hex(second.end().base_hash), to_hex(first.end().target_hash)));
  }
  if (x.target_version == y.base_version) return {};
  return Status(
      Code::kWrongBase,
      fmt::format("{} does not follow {}: the one begins at version {}, the other ends at {}", b, a,
                  y.base_version, x.target_version));
}

class Composer {
 public:
  Composer(std::span<UpdateReader> updates, std::span<const std::string> names,
           const kernels::KernelSet& kernels, ByteSink& sink, const ComposeProgress& progress)
      : updates_(updates),
        names_(names),
        kernels_(kernels),
        sink_(sink),
        progress_(progress),
        block_(kernels),
        at_(updates.size()) {}

  Result<ComposeStats> run(std::span<const std::byte> attachment) {
    write_head(attachment);
    std::uint64_t next = 0;  // the smallest index that a block can have
    std::uint64_t told = 0;
    for (std::uint64_t index = 0; find_next(index);) {
      if (index - told >= kProgressBlocks) {
        told = index;
        SPARCL_RETURN_IF_ERROR(tell(index));
      }
      SPARCL_RETURN_IF_ERROR(compose_block(index));
      if (block_.coded_elements() == 0) continue;
      end_.coded_elements += block_.coded_elements();
      block_.write(index - next, frame_, sink_);
      next = index + 1;
      if (frame_.chunk_is_full()) frame_.end_chunk(sink_);
    }
    SPARCL_RETURN_IF_ERROR(tell(map().block_count()));
    return write_end();
  }

 private:
  struct Place {
    std::size_t section = 0;
    std::uint64_t block = 0;  // in it; 0: its first
  };

  Status tell(std::uint64_t done_blocks) const {
    return progress_ ? progress_(done_blocks, map().block_count()) : Status();
  }
  const BlockMap& map() const { return *updates_[0].map(); }
  std::uint64_t block_at(std::size_t update) const {
    return std::max(at_[update].block, updates_[update].blocks()[at_[update].section].index);
  }

  void write_head(std::span<const std::byte> attachment) {
    UpdateHeader header = updates_.front().header();
    header.target_version = updates_.back().header().target_version;
    header.flags = kNeededFlags | kFlagNoDigests;
    frame_.write_prefix(StreamKind::kUpdate, sink_);
    frame_.write_checked_section(kTagUpdateHeader, serialise(header), sink_);
    if (!attachment.empty()) frame_.write_section(kTagAttachment, attachment, sink_);
    frame_.write_section(kTagRuns, serialise_runs(map()), sink_);
  }

  // The lowest block that has not been read from any update yet.
  bool find_next(std::uint64_t& index) const {
    bool found = false;
    for (std::size_t i = 0; i < updates_.size(); ++i) {
      if (at_[i].section == updates_[i].blocks().size()) continue;
      const std::uint64_t here = block_at(i);
      index = found ? std::min(index, here) : here;
      found = true;
    }
    return found;
  }

  Status compose_block(std::uint64_t index) {
    const DataType datatype = map().block(index, pieces_);
    const BlockShape shape = shape_of(datatype, pieces_);
    block_.begin(shape);
    for (std::size_t i = 0; i < updates_.size(); ++i) {
      const std::span<const UpdateReader::Block> blocks = updates_[i].blocks();
      Place& at = at_[i];
      if (at.section == blocks.size() || block_at(i) != index) continue;
      const UpdateReader::Block& section = blocks[at.section];
      SPARCL_RETURN_IF_ERROR(updates_[i]
                                 .decode(section, index, shape, kernels_, decoded_)
                                 .with_prefix(names_[i] + ": "));
      block_.add(decoded_);
      at = index + 1 < section.last ? Place{at.section, index + 1} : Place{at.section + 1, 0};
    }
    return {};
  }

  ComposeStats write_end() {
    frame_.end_chunk(sink_);
    end_.blocks = frame_.blocks();
    end_.changed = end_.coded_elements;  // the base is needed to know more
    end_.base_hash = updates_.front().end().base_hash;
    end_.target_hash = updates_.back().end().target_hash;
    frame_.write_checked_section(kTagEnd, serialise(end_, kNeededFlags), sink_);
    return {end_.coded_elements, frame_.total_bytes()};
  }

  std::span<UpdateReader> updates_;
  std::span<const std::string> names_;
  const kernels::KernelSet& kernels_;
  ByteSink& sink_;
  const ComposeProgress& progress_;
  FrameWriter frame_;
  ComposedBlock block_;
  std::vector<Place> at_;  // for each update, the next block
  UpdateEnd end_;
  std::vector<Piece> pieces_;
  DecodedBlock decoded_;
};

}  // namespace

Status check_chain(std::span<const UpdateReader> updates, std::span<const std::string> names) {
  if (updates.empty()) return Status(Code::kInvalidArgument, "there is no update to compose");
  for (std::size_t i = 0; i < updates.size(); ++i) {
    SPARCL_RETURN_IF_ERROR(check_alone(updates[i], names[i]));
    if (i > 0)
      SPARCL_RETURN_IF_ERROR(check_pair(updates[i - 1], updates[i], names[i - 1], names[i]));
  }
  return {};
}

Result<ComposeStats> compose_updates(std::span<UpdateReader> updates,
                                     std::span<const std::string> names,
                                     std::span<const std::byte> attachment,
                                     const kernels::KernelSet& kernels, ByteSink& sink,
                                     const ComposeProgress& progress) {
  SPARCL_RETURN_IF_ERROR(check_chain(updates, names));
  if (attachment.size() > kMaxAttachmentBytes) {
    return Status(Code::kInvalidArgument,
                  fmt::format("an attachment of {} bytes: at most {} travel with an update",
                              attachment.size(), kMaxAttachmentBytes));
  }
  return Composer(updates, names, kernels, sink, progress).run(attachment);
}

}  // namespace sparcl::codec
