#include "tests/codec/oracle/update_fields.hpp"

#include "tests/codec/oracle/hashes.hpp"

namespace sparcl::oracle {
namespace {

Hash read_hash(ByteCursor& in) {
  const std::uint64_t low = in.number(8);
  return {low, in.number(8)};
}

}  // namespace

UpdateHeader read_header(const Section& section) {
  ByteCursor in(section.content);
  UpdateHeader header;
  header.base_version = in.number(8);
  header.target_version = in.number(8);
  header.schema = read_hash(in);
  header.layout = in.number(8);
  header.elements = in.number(8);
  header.arrays = in.number(4);
  header.flags = static_cast<unsigned>(in.number(4));
  return header;
}

UpdateEnd read_end(const Section& section, const UpdateHeader& header) {
  ByteCursor in(section.content);
  UpdateEnd end;
  end.blocks = in.number(8);
  end.elements = in.number(8);
  end.changed = in.number(8);
  if (header.has(kHasBaseHash)) end.base = read_hash(in);
  if (header.has(kHasTargetHash)) end.target = read_hash(in);
  return end;
}

void set_layout(UpdateHeader& header, const std::vector<ArraySpec>& arrays) {
  Bytes records;
  header.elements = 0;
  header.arrays = arrays.size();
  for (const ArraySpec& array : arrays) {
    records.push_back(static_cast<std::byte>(array.data_type));
    for (unsigned i = 0; i < 8; ++i)
      records.push_back(static_cast<std::byte>(array.elements >> (8 * i)));
    header.elements += array.elements;
  }
  header.layout = h64(records, 0);
}

}  // namespace sparcl::oracle
