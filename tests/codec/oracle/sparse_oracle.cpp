#include "tests/codec/oracle/sparse_walk.hpp"

namespace sparcl::oracle {
namespace {

void check_header(const Section& section, std::uint8_t data_type) {
  ByteCursor in(section.content);
  const std::uint64_t sent = in.number(1);
  refuse_if(in.number(3) != 0, "reserved bytes are not zero");
  refuse_if(sent != data_type, "another data type", Finding::kMismatch);
}

void check_chunk_end(const Section& section, const Hash& sums) {
  ByteCursor in(section.content);
  refuse_if(in.number(8) != 0, "a sparse vector has no old values");
  refuse_if(in.number(8) != high(sums), "a digest differs");
}

void check_end(const Section& section, const SparseWalk& walk) {
  ByteCursor in(section.content);
  const std::uint64_t nnz = walk.indices().size();
  const bool same =
      in.number(8) == walk.block_count() && in.number(8) == nnz && in.number(8) == nnz;
  refuse_if(!same, "totals differ");
}

}  // namespace

SparseOutcome decode_sparse(std::span<const std::byte> stream, std::uint8_t data_type) {
  try {
    const std::vector<Section> sections = read_frame(stream, Kind::kSparse);
    check_header(sections.front(), data_type);
    SparseWalk walk(data_type);
    for (const Section& section : sections) {
      if (section.is_block()) walk.read(section);
      if (section.tag == kChunkEnd) check_chunk_end(section, walk.end_chunk());
    }
    check_end(sections.back(), walk);
    return {Finding::kAccepted, "", walk.indices(), walk.values()};
  } catch (const Refusal& refusal) {
    return {refusal.finding, refusal.reason, {}, {}};
  }
}

}  // namespace sparcl::oracle
