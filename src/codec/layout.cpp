#include "src/codec/layout.hpp"

#include "src/base/bytes.hpp"
#include "src/base/checksum.hpp"

namespace sparcl::codec {

std::uint64_t layout_hash(const BlockMap& map) {
  ByteWriter bytes;
  for (const ArraySpec& array : map.arrays()) {
    bytes.write(static_cast<std::uint8_t>(array.datatype));
    bytes.write(array.count);
  }
  return xxh3_64(bytes.bytes());
}

}  // namespace sparcl::codec
