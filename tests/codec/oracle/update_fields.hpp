#pragma once
// The fields of an update's header and end.

#include "tests/codec/oracle/frame.hpp"

namespace sparcl::oracle {

constexpr unsigned kHasBaseHash = 1;
constexpr unsigned kHasTargetHash = 2;
constexpr unsigned kNoDigests = 4;

struct UpdateHeader {
  std::uint64_t base_version = 0;
  std::uint64_t target_version = 0;
  Hash schema;
  std::uint64_t layout = 0;
  std::uint64_t elements = 0;
  std::uint64_t arrays = 0;
  unsigned flags = 0;

  bool has(unsigned flag) const { return (flags & flag) != 0; }
};

struct UpdateEnd {
  std::uint64_t blocks = 0;
  std::uint64_t elements = 0;
  std::uint64_t changed = 0;
  Hash base;
  Hash target;
};

UpdateHeader read_header(const Section& section);
UpdateEnd read_end(const Section& section, const UpdateHeader& header);

// The header's layout, elements and arrays, as they are for these arrays.
void set_layout(UpdateHeader& header, const std::vector<ArraySpec>& arrays);

}  // namespace sparcl::oracle
