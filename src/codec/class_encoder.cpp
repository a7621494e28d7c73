#include "src/codec/class_encoder.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "src/base/bytes.hpp"
#include "src/codec/array_source.hpp"

namespace sparcl::codec {
namespace {

unsigned suffix_length(std::uint16_t size, unsigned exponent) {
  return static_cast<unsigned>(std::bit_width(size + (1u << exponent))) - 1;  // floor(log2 v) + e
}

// The first of `count` magnitudes, from `from` on, that does not fit into a byte; otherwise count.
// They are rare, so 32 are examined at once.
std::size_t next_far(const std::byte* magnitudes, std::size_t from, std::size_t count) {
  constexpr std::size_t kAtOnce = 32;
  std::uint16_t sizes[kAtOnce];
  for (; from + kAtOnce <= count; from += kAtOnce) {
    std::memcpy(sizes, magnitudes + from * sizeof sizes[0], sizeof sizes);
    std::uint16_t most = 0;
    for (const std::uint16_t size : sizes) most = std::max(most, size);
    if (most >= kernels::kFarStep) break;
  }
  while (from < count &&
         load_le<std::uint16_t>(magnitudes + from * sizeof sizes[0]) < kernels::kFarStep)
    ++from;
  return from;
}

}  // namespace

void ClassEncoder::begin(const ClassTable& table, std::uint32_t elements) {
  if (class_steps_.data() == nullptr) {
    std::memset(class_steps_.need(kernels::kClassStepBytes), 0, kernels::kClassStepBytes);
  }
  table_ = &table;
  elements_ = elements;
  class_elements_ = {};
  scanned_count_ = 0;
}

std::size_t ClassEncoder::scan(const BlockView& base, const BlockView& target,
                               std::span<const Piece> pieces, const ChangeOutput& out) {
  std::size_t count = 0;
  for (const Piece& piece : pieces) {
    const ChangeOutput at = out.after(count, sizeof(std::uint16_t));
    count += kernels_.classes.diff(data_of(base, pieces, piece), data_of(target, pieces, piece),
                                   piece.count, piece.offset, table_->cut, class_elements_,
                                   class_steps_.data(), at.positions, at.old_values, at.new_values);
  }
  scanned_[scanned_count_++] = {out.old_values, out.new_values, count};
  return count;
}

std::size_t ClassEncoder::plan() {
  collect_changes();
  if (changes_ == 0) return 0;
  collect_exceptions();
  std::uint64_t bits =
      head_bits(*table_, elements_, counts_) + changes_ + marks_.data()[changes_ - 1] + 1;
  std::size_t size = 0;
  for (unsigned c = 0; c < table_->cut.count; ++c) {
    const ClassRow& row = table_->rows[c];
    bits += std::uint64_t{counts_[c].shift} * counts_[c].changes;
    if (!row.all)
      bits += std::uint64_t{rank_shift(counts_[c].changes, counts_[c].exceptions)} *
              counts_[c].exceptions;
    for (const std::size_t end = size + counts_[c].exceptions; size < end; ++size) {
      bits += 2 * suffix_length(sizes_.data()[size], row.exponent) + 1 - row.exponent;
    }
  }
  if (place_count_ > 0) bits += place_marks_.data()[place_count_ - 1] + std::uint64_t{1};
  std::byte varint[kMaxVarintBytes];
  return store_varint(varint, changes_) + static_cast<std::size_t>((bits + 7) / 8);
}

void ClassEncoder::collect_changes() {
  const kernels::ClassKernels& kernels = kernels_.classes;
  std::size_t total = 0;
  for (std::size_t i = 0; i < scanned_count_; ++i) total += scanned_[i].count;
  std::uint32_t* ranks = ranks_.need(total + kernels::kRankSlack);
  std::int8_t* steps = steps_.need(total + kernels::kRankSlack);
  std::uint16_t* remainders = remainders_.need(total + kernels::kRankSlack);
  std::uint32_t* marks = marks_.need(total + kernels::kRankSlack);
  std::size_t at = 0;
  std::uint32_t mark = 0;
  for (unsigned c = 0; c < table_->cut.count; ++c) {
    const std::uint32_t elements = class_elements_[c];
    const std::size_t count = kernels.take_nonzero(class_steps_.data() + c * kernels::kClassStride,
                                                   elements, ranks + at, steps + at);
    const unsigned shift = rank_shift(elements, count);
    mark = kernels.split_ranks(ranks + at, count, shift, mark, remainders + at, marks + at);
    counts_[c] = {static_cast<std::uint32_t>(count), 0, shift};
    at += count;
  }
  changes_ = static_cast<std::uint32_t>(at);
}

void ClassEncoder::collect_exceptions() {
  const kernels::ClassKernels& kernels = kernels_.classes;
  std::int8_t* beyond = beyond_.need(changes_ + kernels::kRankSlack);
  kernels.split_steps(steps_.data(), changes_, beyond, negative_.need(changes_ / 64 + 1));
  std::int8_t most = 0;
  for (std::uint32_t i = 0; i < changes_; ++i) most = std::max(most, beyond[i]);
  if (most >= kernels::kFarStep - 1) collect_far_steps();
  std::uint32_t* places = places_.need(changes_ + kernels::kRankSlack);
  std::int8_t* listed = listed_.need(changes_ + kernels::kRankSlack);
  std::uint16_t* place_remainders = place_remainders_.need(changes_ + kernels::kRankSlack);
  std::uint32_t* place_marks = place_marks_.need(changes_ + kernels::kRankSlack);
  std::uint16_t* sizes = sizes_.need(changes_);
  std::size_t at = 0;
  std::uint32_t mark = 0;
  place_count_ = 0;
  size_count_ = 0;
  for (unsigned c = 0; c < table_->cut.count; at += counts_[c].changes, ++c) {
    ClassCounts& own = counts_[c];
    const bool all = table_->rows[c].all;
    const std::int8_t* far_or_near = beyond + at;
    own.exceptions = own.changes;
    if (!all) {
      const auto count =
          kernels.take_nonzero(beyond + at, own.changes, places + place_count_, listed);
      own.exceptions = static_cast<std::uint32_t>(count);
      mark = kernels.split_ranks(places + place_count_, count, rank_shift(own.changes, count), mark,
                                 place_remainders + place_count_, place_marks + place_count_);
      place_count_ += count;
      far_or_near = listed;
    }
    for (std::uint32_t i = 0; i < own.exceptions; ++i) {
      const unsigned size = far_or_near[i] >= kernels::kFarStep - 1
                                ? read_far_step(c) - 1
                                : static_cast<unsigned>(far_or_near[i]);
      sizes[size_count_++] = static_cast<std::uint16_t>(all ? size : size - 1);
    }
  }
}

// A class's elements come in the order of their ranks, so a queue for each class holds what its
// bytes cannot.
void ClassEncoder::collect_far_steps() {
  far_read_ = {};
  for (auto& steps : far_steps_) steps.clear();
  for (std::size_t block = 0; block < scanned_count_; ++block) {
    const Scanned& scanned = scanned_[block];
    std::byte* magnitudes = magnitudes_.need(scanned.count * sizeof(std::uint16_t));
    kernels_.elements[1].floating.split_steps(scanned.old_values, scanned.new_values, scanned.count,
                                              magnitudes, signs_.need(scanned.count / 64 + 1));
    for (std::size_t i = next_far(magnitudes, 0, scanned.count); i < scanned.count;
         i = next_far(magnitudes, i + 1, scanned.count)) {
      const auto old_value = load_le<std::uint16_t>(scanned.old_values + i * sizeof(std::uint16_t));
      const auto size = load_le<std::uint16_t>(magnitudes + i * sizeof(std::uint16_t));
      far_steps_[class_of(table_->cut, old_value)].push_back(size);
    }
  }
}

// Returns the smallest far step if there is none left: the arrays were written to meanwhile.
unsigned ClassEncoder::read_far_step(unsigned c) {
  return far_read_[c] < far_steps_[c].size() ? far_steps_[c][far_read_[c]++] : kernels::kFarStep;
}

void ClassEncoder::write(std::byte* out) {
  const kernels::ListKernels& lists = kernels_.lists;
  out += store_varint(out, changes_);
  kernels::BitWriter bits{out};
  write_head(*table_, elements_, counts_, bits);
  std::size_t at = 0;
  for (unsigned c = 0; c < table_->cut.count; at += counts_[c].changes, ++c) {
    lists.pack_planes(remainders_.data() + at, counts_[c].changes, counts_[c].shift, bits);
  }
  for (std::size_t i = 0; i < changes_; i += 64) {
    bits.put(negative_.data()[i / 64],
             static_cast<unsigned>(std::min<std::size_t>(64, changes_ - i)));
  }
  kernels_.classes.write_marks(marks_.data(), changes_, bits);
  at = 0;
  for (unsigned c = 0; c < table_->cut.count; ++c) {
    if (table_->rows[c].all) continue;
    lists.pack_planes(place_remainders_.data() + at, counts_[c].exceptions,
                      rank_shift(counts_[c].changes, counts_[c].exceptions), bits);
    at += counts_[c].exceptions;
  }
  kernels_.classes.write_marks(place_marks_.data(), place_count_, bits);
  write_sizes(bits);
  bits.finish();
}

void ClassEncoder::write_sizes(kernels::BitWriter& out) {
  kernels::BitWriter bits = out;  // in registers
  const std::uint16_t* sizes = sizes_.data();
  std::uint8_t* lengths = lengths_.need(size_count_);
  std::size_t at = 0;
  for (unsigned c = 0; c < table_->cut.count; ++c) {
    const unsigned exponent = table_->rows[c].exponent;
    for (const std::size_t end = at + counts_[c].exceptions; at < end; ++at) {
      const unsigned length = suffix_length(sizes[at], exponent);
      lengths[at] = static_cast<std::uint8_t>(length);
      bits.put(std::uint64_t{1} << (length - exponent), length - exponent + 1);
    }
  }
  at = 0;
  for (unsigned c = 0; c < table_->cut.count; ++c) {
    const unsigned exponent = table_->rows[c].exponent;
    for (const std::size_t end = at + counts_[c].exceptions; at < end; ++at) {
      bits.put(sizes[at] + (1u << exponent) - (1u << lengths[at]), lengths[at]);
    }
  }
  out = bits;
}

}  // namespace sparcl::codec
