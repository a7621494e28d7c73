#include "src/codec/coded_steps.hpp"

#include <algorithm>
#include <cstring>

#include "src/base/bytes.hpp"
#include "src/codec/step_tokens.hpp"
#include "src/codec/with_width.hpp"

namespace sparcl::codec {
namespace {

// If more than 1 / kManyPart of a block's elements change, the mode usually pays, and the estimate
// beforehand does not.
constexpr std::size_t kManyPart = 4;

std::size_t varint_bytes(std::uint64_t value) {
  std::byte bytes[kMaxVarintBytes];
  return store_varint(bytes, value);
}

}  // namespace

// Sets the tokens of the changes, and extra_bits_.
template <class T>
void CodedSteps::find_tokens() {
  std::uint64_t extra_bits = 0;
  std::uint8_t* tokens = change_tokens_.need(count_);
  for (std::size_t i = 0; i < count_; ++i) {
    const StepToken token = token_of(load<T>(magnitudes_.data(), i));
    tokens[i] = token.token;
    extra_bits += token.extra_bits;
  }
  extra_bits_ = extra_bits;
}

template <class T>
void CodedSteps::write_extra(kernels::BitWriter& bits) const {
  kernels::BitWriter writer = bits;  // in registers
  for (std::size_t i = 0; i < count_; ++i) {
    const std::uint64_t size = load<T>(magnitudes_.data(), i);
    const unsigned extra = token_of(size).extra_bits;
    writer.put(kernels::low_bits(size, extra), extra);
  }
  bits = writer;
}

std::uint64_t CodedSteps::bits_with(std::uint64_t stream_cost) const {
  return (stream_cost >> 8) + 8 * sizeof(kernels::RansStates) + extra_bits_ + count_;
}

void CodedSteps::take(const kernels::KernelSet& kernels, BlockShape shape,
                      const ChangeList& changes) {
  width_ = shape.element_bytes();
  count_ = changes.count;
  kernels.order_of(shape.datatype)
      .split_steps(changes.old_values, changes.new_values, changes.count,
                   magnitudes_.need(changes.count * width_),
                   negative_.need(changes.count / 64 + 1));
  with_width(width_, [&](auto zero) { find_tokens<decltype(zero)>(); });
}

std::size_t CodedSteps::min_bytes(const kernels::KernelSet& kernels, BlockShape shape,
                                  const std::byte* base, const ChangeList& changes) {
  if (changes.count >= shape.elements / kManyPart) return 0;
  take(kernels, shape, changes);
  return min_bytes(shape, base, changes.old_values);
}

std::size_t CodedSteps::min_bytes(BlockShape shape, const std::byte* base,
                                  const std::byte* old_values) {
  constexpr std::size_t kStride = 16;
  std::size_t taken = 0;
  std::byte* sample = sample_.need((shape.elements / kStride + 1) * width_);
  with_width(width_, [&](auto zero) {
    for (std::size_t i = 0; i < shape.elements; i += kStride, ++taken) {
      std::memcpy(sample + taken * sizeof zero, base + i * sizeof zero, sizeof zero);
    }
  });
  std::uint8_t* sampled_keys = keys_.need(shape.elements);
  std::uint8_t* own_keys = contexts_.need(shape.elements);
  element_keys(shape.datatype, sample, taken, sampled_keys);
  element_keys(shape.datatype, old_values, count_, own_keys);
  const std::uint64_t cost = choice_.min_cost({own_keys, change_tokens_.data(), count_},
                                              {sampled_keys, nullptr, taken}, shape.elements);
  return static_cast<std::size_t>(bits_with(cost) / 8);
}

// All elements and their tables take most of the time, and most blocks with few changes are better
// off otherwise. Those that would gain less than half a percent are left out, too.
bool CodedSteps::prepare(const kernels::KernelSet& kernels, BlockShape shape, const std::byte* base,
                         const ChangeList& changes, std::size_t enough) {
  take(kernels, shape, changes);
  const bool looks_first = count_ < shape.elements / kManyPart;
  if (looks_first && min_bytes(shape, base, changes.old_values) >= enough - enough / 256)
    return false;
  std::uint8_t* keys = keys_.need(shape.elements);
  element_keys(shape.datatype, base, shape.elements, keys);
  std::memset(tokens_.need(shape.elements), 0, shape.elements);
  for (std::size_t i = 0; i < count_; ++i)
    tokens_.data()[changes.positions[i]] = change_tokens_.data()[i];
  choice_.choose(keys, tokens_.data(), shape.elements);
  if (bits_with(choice_.cost()) / 8 >= enough) return false;
  bounds_ = choice_.bounds();
  tables_ = choice_.tables();
  std::uint8_t* contexts = contexts_.need(shape.elements);
  find_contexts(bounds_, keys, shape.elements, contexts);
  stream_.code(kernels, tokens_.data(), contexts, shape.elements, tables_);
  return true;
}

std::size_t CodedSteps::bytes() const {
  std::uint64_t table_bits_sum = 0;
  for (const Frequencies& table : tables_) table_bits_sum += table_bits(table);
  return varint_bytes(count_) + 1 + bounds_.size() +
         static_cast<std::size_t>((table_bits_sum + 7) / 8) + stream_.bytes() +
         static_cast<std::size_t>((count_ + extra_bits_ + 7) / 8);
}

void CodedSteps::write(std::byte* out) const {
  out += store_varint(out, count_);
  *out++ = static_cast<std::byte>(bounds_.size());
  if (!bounds_.empty()) std::memcpy(out, bounds_.data(), bounds_.size());
  kernels::BitWriter table_bits_out{out + bounds_.size()};
  for (const Frequencies& table : tables_) write_table(table, table_bits_out);
  kernels::BitWriter bits{stream_.write(table_bits_out.finish())};
  for (std::size_t i = 0; i < count_; i += 64) {
    bits.put(negative_.data()[i / 64],
             static_cast<unsigned>(std::min<std::size_t>(64, count_ - i)));
  }
  with_width(width_, [&](auto zero) { write_extra<decltype(zero)>(bits); });
  bits.finish();
}

const char* CodedStepsReader::read(BlockShape shape, std::span<const std::byte> payload,
                                   std::size_t count) {
  count_ = count;
  ByteReader reader(payload);
  std::uint8_t bound_count = 0;
  std::span<const std::byte> bounds;
  if (!reader.read(bound_count) || bound_count >= kernels::kRansContexts ||
      !reader.read_bytes(bound_count, bounds)) {
    return "has an invalid count of contexts";
  }
  bounds_.resize(bound_count);
  if (!bounds.empty()) std::memcpy(bounds_.data(), bounds.data(), bounds.size());
  for (std::size_t i = 0; i < bounds_.size(); ++i) {
    if (bounds_[i] <= (i == 0 ? 0 : bounds_[i - 1])) return "has contexts that do not ascend";
  }
  payload = payload.subspan(reader.position());
  BitCursor tables{payload.data(), 0, 8 * std::uint64_t{payload.size()}};
  tables_.resize(bounds_.size() + 1);
  for (Frequencies& table : tables_) {
    if (!read_table(tables, table)) return "has an invalid table of frequencies";
    if (std::any_of(table.begin() + 2 * 8 * static_cast<std::ptrdiff_t>(shape.element_bytes()),
                    table.end(), [](std::uint16_t frequency) { return frequency != 0; })) {
      return "has a token of steps larger than its data type";
    }
  }
  const std::size_t table_bytes = static_cast<std::size_t>((tables.at + 7) / 8);
  if (!ends_cleanly({tables.bytes, tables.at, 8 * std::uint64_t{table_bytes}}))
    return "has bits after its tables";
  payload = payload.subspan(table_bytes);
  if (!stream_.take(payload, shape.elements)) return "ends inside its tokens";
  bits_ = {payload.data(), 0, 8 * std::uint64_t{payload.size()}};
  return bits_.left() < count ? "ends inside its signs" : nullptr;
}

template <class T>
bool CodedStepsReader::read_steps(const std::uint16_t* positions, std::byte* steps) const {
  constexpr std::uint64_t kMost = std::uint64_t{1} << (8 * sizeof(T) - 1);
  BitCursor extra = bits_;
  extra.at += count_;
  bool valid = true;
  std::uint64_t negative = 0;
  for (std::size_t i = 0; i < count_; ++i) {
    if (i % 64 == 0) negative = kernels::load_bits(bits_.bytes, i);
    const unsigned token = tokens_.data()[positions[i]];
    const unsigned length = extra_bits_of(token);
    if (extra.left() < length) return false;
    const std::uint64_t size =
        min_of(token) + kernels::low_bits(kernels::load_bits(extra.bytes, extra.at), length);
    const std::uint64_t sign = 0 - (negative >> (i % 64) & 1);  // all ones if d < 0
    valid = valid && size <= kMost - 1 - sign;
    extra.at += length;
    const T step = static_cast<T>((size ^ sign) - sign);
    std::memcpy(steps + i * sizeof step, &step, sizeof step);
  }
  return valid && ends_cleanly(extra);
}

bool CodedStepsReader::find(const kernels::KernelSet& kernels, BlockShape shape,
                            const std::byte* held, std::uint16_t* positions, std::byte* steps) {
  std::uint8_t* contexts = keys_.need(shape.elements);
  std::uint8_t* tokens = tokens_.need(shape.elements);
  if (tables_.size() > 1) {
    element_keys(shape.datatype, held, shape.elements, contexts);
    find_contexts(bounds_, contexts, shape.elements, contexts);
  }
  if (!stream_.decode(kernels, tables_, tables_.size() == 1 ? nullptr : contexts, shape.elements,
                      tokens))
    return false;
  std::size_t found = 0;
  for (std::size_t i = 0; i < shape.elements && found <= count_; ++i) {
    positions[found] = static_cast<std::uint16_t>(i);  // there is room for one more than count_
    found += tokens[i] != 0;
  }
  if (found != count_) return false;
  return with_width(shape.element_bytes(),
                    [&](auto zero) { return read_steps<decltype(zero)>(positions, steps); });
}

}  // namespace sparcl::codec
