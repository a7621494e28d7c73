#pragma once
// Blocks whose symbols went through the entropy coder.

#include "tests/codec/oracle/blocks.hpp"

namespace sparcl::oracle {

Changes read_packed(std::span<const std::byte> content, const Block& block, bool fresh);
// content: without the old check.
Changes read_coded(std::span<const std::byte> content, const Block& block, const Values& old);

}  // namespace sparcl::oracle
