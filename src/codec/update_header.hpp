#pragma once
// The fields of an update's header and end (docs/reference/wire-format.md), for code that reads or
// writes one without arrays.

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "src/base/checksum.hpp"
#include "src/base/status.hpp"
#include "src/codec/wire.hpp"

namespace sparcl::codec {

struct UpdateHeader {
  std::uint64_t base_version = 0;
  std::uint64_t target_version = 0;
  Hash128 schema_hash;
  std::uint64_t layout_hash = 0;
  std::uint64_t elements = 0;
  std::uint32_t arrays = 0;
  std::uint32_t flags = 0;
};

struct UpdateEnd {
  std::uint64_t blocks = 0;
  std::uint64_t coded_elements = 0;
  std::uint64_t changed = 0;
  Hash128 base_hash;  // if the header's flags say so
  Hash128 target_hash;
};

// Without the checksum, which the frame writer appends.
std::array<std::byte, kUpdateHeaderBytes - kCrcBytes> serialise(const UpdateHeader& header);
std::vector<std::byte> serialise(const UpdateEnd& end, std::uint32_t flags);

// The section's content, as long as the frame reader lets pass. Corrupt for flags that are not
// defined.
Result<UpdateHeader> parse_update_header(const std::byte* content);
Result<UpdateEnd> parse_update_end(std::span<const std::byte> content, std::uint32_t flags);

}  // namespace sparcl::codec
