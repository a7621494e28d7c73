#pragma once
// The arithmetic of blocks in mode added.

#include "tests/codec/oracle/blocks.hpp"

namespace sparcl::oracle {

struct Codes {
  bool of_float8 = false;
  bool two_levels = false;
  double scale = 0;  // s
};

// Form and scale, which stand behind the count of changes.
Codes read_codes_head(ByteCursor& in, const Block& block);

// The value that a code makes of an old one; refuses one that there is not.
std::uint64_t add_code(std::uint64_t old, const Step& code, const Codes& codes,
                       const ElementKind& kind);

}  // namespace sparcl::oracle
