#pragma once

#include <span>
#include <vector>

#include "src/base/staging.hpp"

namespace sparcl::codec {

// A block's payload out of the stream, as its mode's decode() wants it.
class Payload {
 public:
  // whole: in place if it lies in one segment. Otherwise a small copy with zeros after it, so that
  // bit readers need no bounds checks.
  std::span<const std::byte> load(const Staging& staging, std::uint64_t first, std::size_t bytes,
                                  bool whole);

 private:
  std::vector<std::byte> scratch_;
};

}  // namespace sparcl::codec
