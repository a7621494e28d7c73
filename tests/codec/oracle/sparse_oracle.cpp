#include "tests/codec/oracle/blocks.hpp"
#include "tests/codec/oracle/hashes.hpp"

namespace sparcl::oracle {
namespace {

constexpr std::uint64_t kBlockLimit = std::uint64_t{1} << 48;

class SparseReader {
 public:
  explicit SparseReader(std::uint8_t data_type) : data_type_(data_type) {}

  void run(std::span<const std::byte> stream, SparseOutcome& outcome) {
    const std::vector<Section> sections = read_frame(stream, Kind::kSparse);
    ByteCursor header(sections.front().content);
    const std::uint64_t data_type = header.number(1);
    refuse_if(header.number(3) != 0, "reserved bytes are not zero");
    refuse_if(data_type != data_type_, "another data type", Finding::kMismatch);
    for (const Section& section : sections) {
      if (section.is_block()) read(section, outcome);
      if (section.tag == kChunkEnd) check_chunk(section);
    }
    ByteCursor end(sections.back().content);
    const bool same =
        end.number(8) == block_count_ && end.number(8) == outcome.indices.size() && end.number(8) == outcome.indices.size();
    refuse_if(!same, "totals differ");
  }

 private:
  void read(const Section& section, SparseOutcome& outcome) {
    ByteCursor in(section.content);
    if (section.has_gap()) {
      const std::uint64_t gap = in.varint();
      refuse_if(gap == 0 || gap > kBlockLimit - next_block_, "a gap of no blocks, or past the last");
      next_block_ += gap;
    }
    refuse_if(next_block_ >= kBlockLimit, "a block past the last");
    const Block block{next_block_++, kBlockElements, element_kind(data_type_), {}};
    const Changes changes = read_block(section.mode(), in.take(in.left()), block, {}, Kind::kSparse);
    const Bytes values = as_bytes(changes.values, block.kind);
    sums_ = sums_ + element_sums(block.index, block.kind.bytes, changes.positions, changes.values);
    outcome.values.insert(outcome.values.end(), values.begin(), values.end());
    for (const std::uint64_t position : changes.positions) outcome.indices.push_back(block.index * kBlockElements + position);
    ++block_count_;
  }

  void check_chunk(const Section& section) {
    ByteCursor in(section.content);
    refuse_if(in.number(8) != 0, "a sparse vector has no old values");
    refuse_if(in.number(8) != high(sums_), "a digest differs");
    sums_ = {};
  }

  std::uint8_t data_type_;
  std::uint64_t next_block_ = 0;
  std::uint64_t block_count_ = 0;
  Hash sums_;  // of the chunk
};

}  // namespace

SparseOutcome decode_sparse(std::span<const std::byte> stream, std::uint8_t data_type) {
  SparseOutcome outcome;
  try {
    SparseReader(data_type).run(stream, outcome);
  } catch (const Refusal& refusal) {
    outcome = {refusal.finding, refusal.reason, {}, {}};
  }
  return outcome;
}

}  // namespace sparcl::oracle
