#pragma once
// The changes that a selection has left out of an update (LeftOut): their measurement, and their
// section in a stream.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "src/codec/change_rule.hpp"
#include "src/codec/update.hpp"

namespace sparcl::codec {

// The section of a stream (docs/reference/wire-format.md). nullopt: the bytes are no such section.
std::vector<std::byte> serialise(const LeftOut& left_out);
std::optional<LeftOut> parse_left_out(std::span<const std::byte> bytes);

// A block's changes before and after a rule.
class LeftOutMeter {
 public:
  void note(const FoundChanges& found);  // before
  LeftOut compare(const FoundChanges& kept) const;

 private:
  std::vector<std::uint16_t> positions_;
  std::vector<double> sizes_;
};

}  // namespace sparcl::codec
