#include "src/codec/composed_block.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "src/base/bytes.hpp"

namespace sparcl::codec {
namespace {

constexpr std::array kValueModes{&kVerbatimMode, &kTwoLevelVerbatimMode};
constexpr std::array kStepModes{&kFlatMode, &kTwoLevelMode};

// a + b modulo 2^width; little endian, as everywhere.
void add_integers(const std::byte* a, const std::byte* b, std::size_t width, std::byte* sum) {
  std::uint64_t x = 0;
  std::uint64_t y = 0;
  std::memcpy(&x, a, width);
  std::memcpy(&y, b, width);
  x += y;
  std::memcpy(sum, &x, width);
}

bool is_zero(const std::byte* bytes, std::size_t width) {
  return std::all_of(bytes, bytes + width, [](std::byte byte) { return byte == std::byte{0}; });
}

}  // namespace

void ComposedBlock::begin(BlockShape shape) {
  shape_ = shape;
  is_whole_ = false;
  held_.positions.clear();
  held_.is_value.clear();
  held_.bytes.clear();
}

void ComposedBlock::add(const DecodedBlock& next) {
  if (next.kind == DecodedKind::kWhole) {
    is_whole_ = true;
    whole_.assign(next.whole, next.whole + shape_.bytes());
  } else if (is_whole_) {
    add_to_whole(next);
  } else {
    merge(next);
  }
}

void ComposedBlock::add_to_whole(const DecodedBlock& next) {
  if (next.kind == DecodedKind::kValues) {
    kernels_.of(shape_.datatype)
        .scatter(whole_.data(), next.positions.data(), next.count, 0, next.values.data(), {});
    return;
  }
  kernels_.order_of(shape_.datatype)
      .add_steps_at(whole_.data(), next.positions.data(), next.count, 0, next.values.data(), {});
  if (next.kind != DecodedKind::kMixed) return;
  const std::span<const std::uint16_t> replaced = next.replaced_positions();
  kernels_.of(shape_.datatype)
      .scatter(whole_.data(), replaced.data(), replaced.size(), 0, next.replaced_values.data(), {});
}

void ComposedBlock::merge(const DecodedBlock& next) {
  const std::size_t width = shape_.element_bytes();
  merged_.positions.clear();
  merged_.is_value.clear();
  merged_.bytes.clear();
  std::size_t before = 0;
  std::size_t replaced = 0;
  for (std::size_t i = 0; i < next.count; ++i) {
    const std::uint16_t position = next.positions.data()[i];
    for (; before < held_.positions.size() && held_.positions[before] < position; ++before) {
      push(held_.positions[before], held_.is_value[before] != 0,
           held_.bytes.data() + before * width);
    }
    const std::byte* bytes = next.values.data() + i * width;
    bool is_value = next.kind == DecodedKind::kValues;
    if (next.kind == DecodedKind::kMixed && replaced < next.replaced_count &&
        next.replaced.data()[replaced] == i) {
      bytes = next.replaced_values.data() + replaced++ * width;
      is_value = true;
    }
    if (before < held_.positions.size() && held_.positions[before] == position) {
      combine(before++, bytes, is_value);
    } else {
      push(position, is_value, bytes);
    }
  }
  for (; before < held_.positions.size(); ++before) {
    push(held_.positions[before], held_.is_value[before] != 0, held_.bytes.data() + before * width);
  }
  std::swap(held_, merged_);
}

void ComposedBlock::push(std::uint16_t position, bool is_value, const std::byte* bytes) {
  merged_.positions.push_back(position);
  merged_.is_value.push_back(is_value ? 1 : 0);
  merged_.bytes.insert(merged_.bytes.end(), bytes, bytes + shape_.element_bytes());
}

// Combines the change `before` with a later change of the same element.
void ComposedBlock::combine(std::size_t before, const std::byte* bytes, bool is_value) {
  const std::size_t width = shape_.element_bytes();
  const std::uint16_t position = held_.positions[before];
  const std::byte* first = held_.bytes.data() + before * width;
  std::array<std::byte, 8> result;
  if (is_value) {
    push(position, true, bytes);
  } else if (held_.is_value[before] != 0) {
    kernels_.order_of(shape_.datatype).add_steps(first, bytes, 1, result.data());
    push(position, true, result.data());
  } else {
    add_integers(first, bytes, width, result.data());
    if (!is_zero(result.data(), width)) push(position, false, result.data());
  }
}

std::size_t ComposedBlock::coded_elements() const {
  return is_whole_ ? shape_.elements : held_.positions.size();
}

// The payload of the changes that are values, or of those that are steps, in the cheapest of
// `modes`.
ComposedBlock::Part ComposedBlock::code(bool values, std::span<const BlockMode* const> modes) {
  const std::size_t width = shape_.element_bytes();
  changes_.target.shape = shape_;
  changes_.make_room();
  changes_.has_steps = !values;
  std::size_t count = 0;
  for (std::size_t i = 0; i < held_.positions.size(); ++i) {
    if ((held_.is_value[i] != 0) != values) continue;
    changes_.positions.data()[count] = held_.positions[i];
    std::memcpy(changes_.new_values.data() + count * width, held_.bytes.data() + i * width, width);
    ++count;
  }
  if (!values) {
    // The old value does not matter, because only the step counts. Zero works: any step leads from
    // it to some value.
    std::memset(changes_.old_values.data(), 0, count * width);
    kernels_.order_of(shape_.datatype)
        .add_steps(changes_.old_values.data(), changes_.new_values.data(), count,
                   changes_.new_values.data());
  }
  changes_.set_changes(count);
  ModeChoice best{nullptr, kCannot};
  for (const BlockMode* mode : modes) {
    if (const std::size_t bytes = mode->cost(changes_); bytes < best.bytes) best = {mode, bytes};
  }
  Part part{best.mode, std::vector<std::byte>(best.bytes + kernels::kBitSlackBytes)};
  part.mode->encode(changes_, part.bytes.data());
  part.bytes.resize(best.bytes);
  return part;
}

void ComposedBlock::write_payload(unsigned mode, std::span<const std::byte> payload,
                                  std::size_t trailer_bytes, std::uint64_t gap, FrameWriter& frame,
                                  ByteSink& sink) const {
  std::byte* out = frame.begin_block(mode, gap, payload.size(), sink, trailer_bytes);
  std::copy(payload.begin(), payload.end(), out);
  std::memset(out + payload.size(), 0, trailer_bytes);  // the old check, which is unknown here
  frame.end_block({}, {}, sink);
}

void ComposedBlock::write(std::uint64_t gap, FrameWriter& frame, ByteSink& sink) {
  if (is_whole_) return write_payload(kDenseMode.id, whole_, 0, gap, frame, sink);
  const bool has_values =
      std::find(held_.is_value.begin(), held_.is_value.end(), 1) != held_.is_value.end();
  const bool has_steps =
      std::find(held_.is_value.begin(), held_.is_value.end(), 0) != held_.is_value.end();
  if (!has_values || !has_steps) {
    const Part part = has_values ? code(true, kValueModes) : code(false, kStepModes);
    return write_payload(part.mode->id, part.bytes, kOldCheckBytes, gap, frame, sink);
  }
  const Part values = code(
      true,
      std::span(kValueModes).first(1));  // the format's only mode for the values of a mixed block
  const Part steps = code(false, std::span(kStepModes).first(1));
  ByteWriter payload;
  payload.write_varint(held_.positions.size());
  payload.write_varint(values.bytes.size());
  payload.write_bytes(values.bytes);
  payload.write_bytes(steps.bytes);
  write_payload(kMixedMode.id, payload.bytes(), kOldCheckBytes, gap, frame, sink);
}

}  // namespace sparcl::codec
