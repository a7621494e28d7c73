#pragma once
// The blocks of an update as a decoder hands them to those who check and write them, and what they
// say of them.

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

struct BlockEntry {  // where a block lies in the stream
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

// Of a block whose content cannot be read; wrong: "has ...".
Status unreadable(const BlockMap& map, const BlockEntry& entry, const ArrayName& name,
                  std::string_view wrong);

struct BlockFindings {
  BlockSums sums;
  std::uint64_t elements = 0;            // that the entries hold
  std::optional<BlockRange> odd_blocks;  // the first whose old values are not the base's, as far as
                                         // their short check tells
};

// Checks and writes an update's blocks where the host does not reach what is held. What it holds
// stays as it is until apply().
class BlocksElsewhere {
 public:
  virtual ~BlocksElsewhere() = default;
  // Of blocks of classes that come after it: their entries name it by its number.
  virtual void add_table(const ClassTable& table) = 0;
  // What fresh blocks replace counts in the findings, too.
  virtual void hash_fresh() = 0;
  // Entries ascend, and are as hostile as what they say lies in the stream. Says whether it was
  // taken: if not, it is to be given again, before anything else. Some may be left to flush(),
  // which says whether all are checked; the same holds for it.
  virtual Result<bool> check(const Staging& staging, const BlockEntry& entry) = 0;
  virtual Result<bool> flush(const Staging& staging) = 0;
  // What was found since the last call, once all is checked. With Verify::kFull also what all that
  // is held adds to the state's hash, once.
  virtual BlockFindings take_findings() = 0;
  // Digests do not tell whether the base is held or the target, as blocks of classes have found no
  // elements: that needs the hash of all that is held. What the decoder ends with.
  virtual Status leave_to_host() = 0;
  // Writes all entries that it has checked, these; or, where the target is held already, of these
  // the fresh ones alone. May leave some of it to the next call, with the same: its owner knows.
  virtual Status apply(const Staging& staging, std::span<const BlockEntry> entries,
                       bool only_fresh) = 0;
};

}  // namespace sparcl::codec
