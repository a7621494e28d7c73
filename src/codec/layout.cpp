#include "src/codec/layout.hpp"

#include <fmt/format.h>

#include "src/base/bytes.hpp"
#include "src/base/checksum.hpp"

namespace sparcl::codec {
namespace {

constexpr std::uint64_t kMaxElements = std::uint64_t{1}
                                       << 56;  // of all runs: sums of bytes stay far from 2^64

}  // namespace

std::uint64_t layout_hash(const BlockMap& map) {
  ByteWriter bytes;
  for (const ArraySpec& array : map.arrays()) {
    bytes.write(static_cast<std::uint8_t>(array.datatype));
    bytes.write(array.count);
  }
  return xxh3_64(bytes.bytes());
}

std::vector<std::byte> serialise_runs(const BlockMap& map) {
  std::vector<ArraySpec> runs;
  for (const ArraySpec& array : map.arrays()) {
    if (array.count == 0) continue;
    if (runs.empty() || runs.back().datatype != array.datatype) runs.push_back({array.datatype, 0});
    runs.back().count += array.count;
  }
  ByteWriter bytes;
  for (const ArraySpec& run : runs) {
    bytes.write(static_cast<std::uint8_t>(run.datatype));
    bytes.write_varint(run.count);
  }
  return bytes.take();
}

Result<BlockMap> parse_runs(std::span<const std::byte> bytes, std::uint64_t elements) {
  ByteReader reader(bytes);
  std::vector<ArraySpec> runs;
  std::uint64_t left = elements;
  while (reader.remaining() > 0) {
    std::uint8_t number = 0;
    std::uint64_t count = 0;
    const bool read = reader.read(number) && reader.read_varint(count);
    const DataTypeInfo* type = read ? find_data_type(number) : nullptr;
    const bool follows = type != nullptr && (runs.empty() || runs.back().datatype != type->type);
    if (!follows || count == 0 || count > left || elements > kMaxElements) {
      return Status(Code::kCorrupt, fmt::format("the runs of arrays are invalid at their byte {}",
                                                reader.position()));
    }
    left -= count;
    runs.push_back({type->type, count});
  }
  if (left == 0) return BlockMap(runs);
  return Status(Code::kCorrupt,
                fmt::format("the runs of arrays lack {} of {} elements", left, elements));
}

}  // namespace sparcl::codec
