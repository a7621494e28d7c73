#pragma once
// The blocks of an update that a decoder passes to the objects that check and write them, and the
// results of the check.

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "src/base/staging.hpp"
#include "src/base/status.hpp"
#include "src/codec/block_check.hpp"
#include "src/codec/block_map.hpp"
#include "src/codec/block_place.hpp"
#include "src/codec/class_table.hpp"

namespace sparcl::codec {

struct BlockRange {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
};

struct BlockEntry {  // a block's location in the stream
  std::uint64_t index;
  std::uint64_t last;  // the block after it: some cover several
  std::uint64_t first;
  std::uint32_t bytes;
  std::uint16_t old_check;  // of a block that lists positions
  std::uint8_t mode;
  std::uint8_t slot;     // that it was checked in (its first block), and by which worker:
  std::uint32_t worker;  // there is room for it, so that apply() allocates nothing
  std::uint32_t table;   // of a block of classes: the place of its table
};

// The error for a block whose content cannot be read; wrong: "has ...".
Status unreadable(const BlockMap& map, const BlockEntry& entry, const ArrayName& name,
                  std::string_view wrong);

struct BlockFindings {
  BlockSums sums;
  std::uint64_t elements = 0;            // in the entries
  std::optional<BlockRange> odd_blocks;  // the first with old values that differ from the base's,
                                         // as far as their short check tells
};

// Checks and writes an update's blocks if the host cannot access the held arrays. They do not
// change before apply().
class BlocksElsewhere {
 public:
  virtual ~BlocksElsewhere() = default;
  // A table for blocks of classes that come after it: their entries name the table by its number.
  virtual void add_table(const ClassTable& table) = 0;
  // The old values of fresh blocks count in the findings, too.
  virtual void hash_fresh() = 0;
  // Entries ascend. They and their bytes in the stream are untrusted. Returns whether the entry was
  // taken. If not, the caller passes it again before anything else. Some work may be left to
  // flush(), which returns whether all is checked and follows the same rule.
  virtual Result<bool> check(const Staging& staging, const BlockEntry& entry) = 0;
  virtual Result<bool> flush(const Staging& staging) = 0;
  // The findings since the last call, after everything is checked. With Verify::kFull they also
  // contain, once, the contribution of the whole held state to the state's hash.
  virtual BlockFindings take_findings() = 0;
  // The digests do not tell whether the base or the target is held, because blocks of classes have
  // found no elements. The hash of the whole held state decides. Returns the decoder's final
  // status.
  virtual Status leave_to_host() = 0;
  // Writes all these entries, which it has checked. If the target is held already, it writes only
  // the fresh ones. May leave some work to the next call with the same entries: its owner knows.
  virtual Status apply(const Staging& staging, std::span<const BlockEntry> entries,
                       bool only_fresh) = 0;
};

}  // namespace sparcl::codec
