#include "tests/codec/oracle/mend.hpp"

#include <algorithm>

#include "tests/codec/oracle/block_walk.hpp"
#include "tests/codec/oracle/sparse_walk.hpp"
#include "tests/codec/oracle/update_fields.hpp"

namespace sparcl::oracle {
namespace {

void put(Bytes& bytes, std::uint64_t value, unsigned count = 8) {
  for (unsigned i = 0; i < count; ++i) bytes.push_back(static_cast<std::byte>(value >> (8 * i)));
}

void put(Bytes& bytes, const Hash& hash) {
  put(bytes, hash.low);
  put(bytes, hash.high);
}

Section as_section(const MendableSection& section) { return {section.tag, *section.content}; }

UpdateHeader mend_header(Bytes& content, const Receiver& receiver) {
  content.resize(56);
  UpdateHeader header = read_header({kUpdateHeader, content});
  set_layout(header, receiver.arrays);
  content.resize(16);
  put(content, receiver.schema);
  put(content, header.layout);
  put(content, header.elements);
  put(content, header.arrays, 4);
  put(content, header.flags, 4);
  return header;
}

}  // namespace

void mend_update(const std::vector<MendableSection>& sections, const Receiver& receiver,
                 const std::vector<Bytes>& held) {
  UpdateHeader header;
  BlockWalk walk(receiver, held);
  try {
    for (const MendableSection& section : sections) {
      Bytes& content = *section.content;
      if (section.tag == kUpdateHeader) header = mend_header(content, receiver);
      if (as_section(section).is_block() || section.tag == kClassTable)
        walk.read(as_section(section));
      if (section.tag == kChunkEnd) {
        const ChunkSums sums = walk.end_chunk();
        content.clear();
        put(content, header.has(kNoDigests) ? 0 : high(sums.held));
        put(content, header.has(kNoDigests) ? 0 : high(sums.result));
      }
      if (section.tag == kEnd) {
        content.resize(24);
        const std::uint64_t changed = read_end(as_section(section), {}).changed;
        content.clear();
        put(content, walk.block_count());
        put(content, walk.element_count());
        put(content, std::min(changed, walk.element_count()));
        if (header.has(kHasBaseHash)) put(content, walk.state_hash(walk.held()));
        if (header.has(kHasTargetHash)) put(content, walk.state_hash(walk.result()));
      }
    }
  } catch (const Refusal&) {
    return;  // refused anyway
  }
}

void mend_sparse(const std::vector<MendableSection>& sections, std::uint8_t data_type) {
  SparseWalk walk(data_type);
  try {
    for (const MendableSection& section : sections) {
      Bytes& content = *section.content;
      if (as_section(section).is_block()) walk.read(as_section(section));
      if (section.tag == kChunkEnd) {
        content.clear();
        put(content, 0);
        put(content, high(walk.end_chunk()));
      }
      if (section.tag == kEnd) {
        content.clear();
        put(content, walk.block_count());
        put(content, walk.indices().size());
        put(content, walk.indices().size());
      }
    }
  } catch (const Refusal&) {
    return;
  }
}

}  // namespace sparcl::oracle
