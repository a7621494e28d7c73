#include "src/codec/byte_planes.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "src/codec/with_width.hpp"

namespace sparcl::codec {
namespace {

// Floats turned left by a bit: their exponent fills whole bytes, the sign joins the noise.
template <class T>
void split(const std::byte* elements, std::size_t count, int turn, std::uint8_t* planes) {
  for (std::size_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, elements + i * sizeof value, sizeof value);
    value = std::rotl(value, turn);
    for (std::size_t j = 0; j < sizeof(T); ++j)
      planes[j * count + i] = static_cast<std::uint8_t>(value >> (8 * j));
  }
}

template <class T>
void join(const std::uint8_t* planes, std::size_t count, int turn, std::byte* elements) {
  for (std::size_t i = 0; i < count; ++i) {
    T value = 0;
    for (std::size_t j = 0; j < sizeof(T); ++j)
      value = static_cast<T>(value | static_cast<T>(T{planes[j * count + i]} << (8 * j)));
    value = std::rotr(value, turn);
    std::memcpy(elements + i * sizeof value, &value, sizeof value);
  }
}

SymbolCounts count_symbols(const std::uint8_t* symbols, std::size_t count) {
  std::array<SymbolCounts, 4>
      tables{};  // in turn: an increment waits for the one before it of the same symbol
  for (std::size_t i = 0; i < count; ++i) ++tables[i % 4][symbols[i]];
  for (std::size_t i = 0; i < kernels::kRansSymbols; ++i)
    tables[0][i] += tables[1][i] + tables[2][i] + tables[3][i];
  return tables[0];
}

}  // namespace

void BytePlanes::prepare(const kernels::KernelSet& kernels, BlockShape shape,
                         const std::byte* elements) {
  count_ = shape.elements;
  planes_count_ = shape.element_bytes();
  coded_ = 0;
  std::uint8_t* planes = planes_.need(shape.bytes());
  const int turn = info(shape.datatype).is_float ? 1 : 0;
  with_width(planes_count_,
             [&](auto zero) { split<decltype(zero)>(elements, count_, turn, planes); });
  for (std::size_t plane = 0; plane < planes_count_; ++plane) consider(kernels, plane);
}

// Codes the plane if that makes it smaller by a 64th. Noise shows in its first part.
void BytePlanes::consider(const kernels::KernelSet& kernels, std::size_t plane) {
  constexpr std::size_t kSample = 4096;
  const std::uint8_t* symbols = planes_.data() + plane * count_;
  for (const std::size_t looked_at : {std::min(kSample, count_), count_}) {
    const SymbolCounts counts = count_symbols(symbols, looked_at);
    const std::uint64_t bits =
        (symbols_cost(counts) + (looked_at == count_ ? table_cost(counts) : 0)) >> 8;
    if (bits / 8 > looked_at - looked_at / 64) return;
    if (looked_at < count_) continue;
    tables_[plane] = normalise(counts);
    break;
  }
  streams_[plane].code(kernels, symbols, nullptr, count_, {&tables_[plane], 1});
  if (streams_[plane].bytes() < count_) coded_ |= 1u << plane;
}

std::size_t BytePlanes::bytes() const {
  std::size_t bytes = 1;
  std::uint64_t bits = 0;
  for (std::size_t plane = 0; plane < planes_count_; ++plane) {
    bytes += is_coded(plane) ? streams_[plane].bytes() : count_;
    if (is_coded(plane)) bits += table_bits(tables_[plane]);
  }
  return bytes + static_cast<std::size_t>((bits + 7) / 8);
}

void BytePlanes::write(std::byte* out) const {
  *out++ = static_cast<std::byte>(coded_);
  kernels::BitWriter bits{out};
  for (std::size_t plane = 0; plane < planes_count_; ++plane) {
    if (is_coded(plane)) write_table(tables_[plane], bits);
  }
  out = bits.finish();
  for (std::size_t plane = 0; plane < planes_count_; ++plane) {
    if (is_coded(plane)) {
      out = streams_[plane].write(out);
    } else {
      std::memcpy(out, planes_.data() + plane * count_, count_);
      out += count_;
    }
  }
}

const char* BytePlanesReader::read(const kernels::KernelSet& kernels, BlockShape shape,
                                   std::span<const std::byte> payload, std::byte* elements) {
  const std::size_t planes_count = shape.element_bytes();
  const std::size_t count = shape.elements;
  if (payload.empty()) return "is empty";
  const auto coded = static_cast<unsigned>(payload[0]);
  if (coded >> planes_count != 0) return "codes a plane that its elements have not";
  payload = payload.subspan(1);
  BitCursor bits{payload.data(), 0, 8 * std::uint64_t{payload.size()}};
  for (std::size_t plane = 0; plane < planes_count; ++plane) {
    if ((coded >> plane & 1) != 0 && !read_table(bits, tables_[plane]))
      return "has an invalid table of frequencies";
  }
  const std::size_t table_bytes = static_cast<std::size_t>((bits.at + 7) / 8);
  if (!ends_cleanly({bits.bytes, bits.at, 8 * std::uint64_t{table_bytes}}))
    return "has bits after its tables";
  payload = payload.subspan(table_bytes);

  std::uint8_t* planes = planes_.need(shape.bytes());
  for (std::size_t plane = 0; plane < planes_count; ++plane) {
    std::uint8_t* symbols = planes + plane * count;
    if ((coded >> plane & 1) == 0) {
      if (payload.size() < count) return "ends inside a plane";
      std::memcpy(symbols, payload.data(), count);
      payload = payload.subspan(count);
    } else if (!stream_.take(payload, count)) {
      return "ends inside a coded plane";
    } else if (!stream_.decode(kernels, {&tables_[plane], 1}, nullptr, count, symbols)) {
      return "has a coded plane of another length";
    }
  }
  if (!payload.empty()) return "does not end where its planes do";
  const int turn = info(shape.datatype).is_float ? 1 : 0;
  with_width(planes_count, [&](auto zero) { join<decltype(zero)>(planes, count, turn, elements); });
  return nullptr;
}

}  // namespace sparcl::codec
