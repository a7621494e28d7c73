#include "src/codec/block_entry.hpp"

#include <fmt/format.h>

namespace sparcl::codec {

Status unreadable(const BlockMap& map, const BlockEntry& entry, const ArrayName& name,
                  std::string_view wrong) {
  return Status(Code::kCorrupt,
                fmt::format("{} (mode {}, {} bytes at byte {}) {}",
                            describe_blocks(map, entry.index, entry.last - 1, name),
                            find_block_mode(entry.mode)->name, entry.bytes, entry.first, wrong));
}

}  // namespace sparcl::codec
