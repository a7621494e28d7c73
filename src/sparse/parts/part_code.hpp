#pragma once
// Compressed parts, for links that are slower than coding. Positions: split-Rice lists of gaps
// (src/codec/split_rice.hpp). Values: unmodified; or, if they are float32 rounded to scaled 8, 4 or
// 2 bits (selection/scaled_values.hpp, group_rounding.hpp), in those bits. The coding is lossless:
// the decoded part has the same entries. All numbers are little endian.
//
// - head: u64 2^63 + bytes of the message, u64 entries, u64 bytes of the lists, u64 form of the
//   values (ValueForm)
// - lists, each: u64 first index (from the run's first), u32 last - first, u16 entries - 1. Then
//   planes and marks of the positions index - first - 1 of all but the first, and zeros up to a
//   byte. After the last list 16 bytes of zeros
// - values: unmodified; of 4 and 2 bits groups (scaled_groups.hpp); of 8 bits pieces, each: u16
//   values - 1, u16 exponent. With exponent 0 the values follow unmodified, otherwise an i8 for
//   each: m of m * 2^(exponent - 150)

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "src/codec/split_rice.hpp"
#include "src/sparse/parts/entry_part.hpp"
#include "src/sparse/parts/value_form.hpp"

namespace sparcl::sparse {

// The properties of a part that sender and receiver know.
struct PartShape {
  BlockRun run;
  std::size_t value_bytes = 0;
  ValueForm form = ValueForm::kUnmodified;  // scaled: float32 that can be expressed so
  // Sender: the number of its rank's values before the part. It says where groups begin.
  std::uint64_t values_before = 0;

  bool is_scaled() const { return form != ValueForm::kUnmodified; }
};

constexpr std::uint64_t kCodedPart = std::uint64_t{1} << 63;

class PartCoder {
 public:
  explicit PartCoder(const kernels::KernelSet& kernels) : kernels_(kernels) {}

  // The message of a part; nullopt if it would not be shorter.
  std::optional<Buffer> code(BufferSource& buffers, std::span<const std::byte> part,
                             const PartShape& shape);

  // The inverse, of untrusted bytes: nullopt if they are no coded part of the run, or one of more
  // than max_bytes.
  std::optional<Buffer> expand(BufferSource& buffers, std::span<const std::byte> message,
                               const PartShape& shape, std::uint64_t max_bytes);

 private:
  void list_indices(PartView part, const BlockRun& run);
  void write_lists();
  bool read_lists(std::span<const std::byte> lists, std::uint64_t entries, const BlockRun& run);

  const kernels::KernelSet& kernels_;
  std::vector<std::uint64_t> indices_;  // from the run's first, with slack
  std::vector<std::uint32_t> positions_;
  std::vector<std::uint16_t> scratch_;
  std::vector<std::byte> coded_, values_;
  codec::RiceList list_;
  codec::RiceListReader reader_;
};

}  // namespace sparcl::sparse
