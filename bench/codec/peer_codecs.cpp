#include "bench/codec/peer_codecs.hpp"

#include <algorithm>
#include <cstring>

#include "bench/codec/zstd_parts.hpp"

namespace sparcl::bench {
namespace {

constexpr std::uint64_t kBlock = 65536;
constexpr std::size_t kPieceBytes = std::size_t{4} << 20;
constexpr std::uint64_t kLongestGap =
    0xffff;  // a gap of this many unchanged elements is an entry without a change

// Calls work(index, old value, new value) for each change, in order.
template <class Bits, class Work>
void each_change(const Input& input, const kernels::KernelSet& kernels, Work work) {
  std::vector<std::uint16_t> positions(kBlock + kernels::kPositionSlack);
  const auto* base = input.base.as<Bits>();
  const auto* target = input.target.as<Bits>();
  for (std::uint64_t first = 0; first < input.elements; first += kBlock) {
    const auto count = static_cast<std::size_t>(std::min(kBlock, input.elements - first));
    const std::size_t changed =
        kernels.of(input.type)
            .diff(reinterpret_cast<const std::byte*>(base + first),
                  reinterpret_cast<const std::byte*>(target + first), count, 0, positions.data());
    for (std::size_t i = 0; i < changed; ++i) {
      const std::uint64_t at = first + positions[i];
      work(at, base[at], target[at]);
    }
  }
}

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

template <class T>
std::vector<T> values_of(std::span<const std::byte> bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

// int32 indices and new values, each as one array: plain (level 0) or in zstd.
template <class Bits>
Bytes encode_coo(const Input& input, const kernels::KernelSet& kernels, int level) {
  std::vector<std::int32_t> indices;
  std::vector<Bits> values;
  each_change<Bits>(input, kernels, [&](std::uint64_t at, Bits, Bits now) {
    indices.push_back(static_cast<std::int32_t>(at));
    values.push_back(now);
  });
  if (level > 0) {
    ZstdWriter writer(level);
    writer.add(bytes_of(indices));
    writer.add(bytes_of(values));
    return writer.take();
  }
  Bytes out(indices.size() * (sizeof(std::int32_t) + sizeof(Bits)));
  const auto front = bytes_of(indices);
  std::copy(front.begin(), front.end(), out.begin());
  std::copy(bytes_of(values).begin(), bytes_of(values).end(),
            out.begin() + static_cast<std::ptrdiff_t>(front.size()));
  return out;
}

template <class Bits>
void scatter(std::span<const std::byte> indices, std::span<const std::byte> values, Bits* held) {
  const auto places = values_of<std::int32_t>(indices);
  const auto news = values_of<Bits>(values);
  for (std::size_t i = 0; i < places.size(); ++i) held[places[i]] = news[i];
}

template <class Bits>
void apply_coo(const Bytes& bytes, bool zstd, std::byte* held) {
  if (!zstd) {
    const std::size_t changed = bytes.size() / (sizeof(std::int32_t) + sizeof(Bits));
    const std::span all(bytes);
    scatter(all.first(changed * sizeof(std::int32_t)), all.subspan(changed * sizeof(std::int32_t)),
            reinterpret_cast<Bits*>(held));
    return;
  }
  ZstdReader reader(bytes);
  const auto front = reader.next();
  const Bytes indices(front.begin(), front.end());
  scatter(indices, reader.next(), reinterpret_cast<Bits*>(held));
}

// u16 gaps, and new values or their xor with the old ones, both in zstd.
template <class Bits>
Bytes encode_gaps(const Input& input, const kernels::KernelSet& kernels, bool with_xor) {
  std::vector<std::uint16_t> gaps;
  std::vector<Bits> values;
  std::uint64_t next = 0;
  each_change<Bits>(input, kernels, [&](std::uint64_t at, Bits old, Bits now) {
    for (; at - next >= kLongestGap; next += kLongestGap) gaps.push_back(kLongestGap);
    gaps.push_back(static_cast<std::uint16_t>(at - next));
    values.push_back(with_xor ? static_cast<Bits>(old ^ now) : now);
    next = at + 1;
  });
  ZstdWriter writer(1);
  writer.add(bytes_of(gaps));
  writer.add(bytes_of(values));
  return writer.take();
}

template <class Bits>
void apply_gaps(const Bytes& bytes, bool with_xor, std::byte* held) {
  ZstdReader reader(bytes);
  const auto gaps = values_of<std::uint16_t>(reader.next());
  const auto values = values_of<Bits>(reader.next());
  auto* at = reinterpret_cast<Bits*>(held);
  std::size_t i = 0;
  for (const std::uint16_t gap : gaps) {
    at += gap;
    if (gap == kLongestGap) continue;
    *at = with_xor ? static_cast<Bits>(*at ^ values[i]) : values[i];
    ++at;
    ++i;
  }
}

void xor_into(const std::byte* a, const std::byte* b, std::size_t count, std::byte* out) {
  for (std::size_t i = 0; i < count; ++i) out[i] = a[i] ^ b[i];
}

// The xor of both arrays, all of it, in zstd.
Bytes encode_xor(const Input& input, int level) {
  ZstdWriter writer(level);
  Bytes piece(kPieceBytes);
  for (std::size_t at = 0; at < input.bytes(); at += kPieceBytes) {
    const std::size_t count = std::min(kPieceBytes, input.bytes() - at);
    xor_into(input.base.data() + at, input.target.data() + at, count, piece.data());
    writer.add(std::span(piece).first(count));
  }
  return writer.take();
}

void apply_xor(const Bytes& bytes, std::byte* held) {
  ZstdReader reader(bytes);
  for (std::byte* at = held; !reader.done();) {
    const auto piece = reader.next();
    xor_into(at, piece.data(), piece.size(), at);
    at += piece.size();
  }
}

// The target, byte planes apart by nothing: what dense costs.
Bytes encode_dense(const Input& input, int level) {
  if (level == 0) return {input.target.data(), input.target.data() + input.bytes()};
  ZstdWriter writer(level);
  for (std::size_t at = 0; at < input.bytes(); at += kPieceBytes) {
    writer.add({input.target.data() + at, std::min(kPieceBytes, input.bytes() - at)});
  }
  return writer.take();
}

void apply_dense(const Bytes& bytes, int level, std::byte* held) {
  if (level == 0) {
    std::memcpy(held, bytes.data(), bytes.size());
    return;
  }
  ZstdReader reader(bytes);
  while (!reader.done()) {
    const auto piece = reader.next();
    std::memcpy(held, piece.data(), piece.size());
    held += piece.size();
  }
}

// work with a value of the width of the input's elements.
template <class Work>
auto with_bits(const Input& input, Work work) {
  switch (element_bytes(input.type)) {
    case 1:
      return work(std::uint8_t{});
    case 2:
      return work(std::uint16_t{});
    case 4:
      return work(std::uint32_t{});
    default:
      return work(std::uint64_t{});
  }
}

PeerCodec coo(const char* name, int level) {
  return {name,
          [level](const Input& input, const kernels::KernelSet& kernels) {
            return with_bits(input, [&](auto bits) {
              return encode_coo<decltype(bits)>(input, kernels, level);
            });
          },
          [level](const Input& input, const Bytes& bytes, std::byte* held) {
            with_bits(input, [&](auto bits) { apply_coo<decltype(bits)>(bytes, level > 0, held); });
          }};
}

PeerCodec gaps(const char* name, bool with_xor) {
  return {name,
          [with_xor](const Input& input, const kernels::KernelSet& kernels) {
            return with_bits(input, [&](auto bits) {
              return encode_gaps<decltype(bits)>(input, kernels, with_xor);
            });
          },
          [with_xor](const Input& input, const Bytes& bytes, std::byte* held) {
            with_bits(input, [&](auto bits) { apply_gaps<decltype(bits)>(bytes, with_xor, held); });
          }};
}

PeerCodec whole_xor(const char* name, int level) {
  PeerCodec peer{
      name,
      [level](const Input& input, const kernels::KernelSet&) { return encode_xor(input, level); },
      [](const Input&, const Bytes& bytes, std::byte* held) { apply_xor(bytes, held); }};
  peer.max_rounds = 3;
  return peer;
}

PeerCodec dense(const char* name, int level) {
  PeerCodec peer{
      name,
      [level](const Input& input, const kernels::KernelSet&) { return encode_dense(input, level); },
      [level](const Input&, const Bytes& bytes, std::byte* held) {
        apply_dense(bytes, level, held);
      }};
  if (level > 0) peer.max_rounds = 3;
  return peer;
}

}  // namespace

std::vector<PeerCodec> sparse_peers() {
  return {coo("int32 + values", 0), coo("int32 + values, zstd-3", 3),
          gaps("u16 gaps + values, zstd-1", false), gaps("u16 gaps + xor, zstd-1", true)};
}

std::vector<PeerCodec> whole_peers() {
  return {dense("dense", 0), dense("dense, zstd-1", 1), whole_xor("xor of all, zstd-1", 1),
          whole_xor("xor of all, zstd-3", 3)};
}

Bytes zstd_of(const Bytes& bytes, int level) {
  ZstdWriter writer(level);
  writer.add(bytes);
  return writer.take();
}

}  // namespace sparcl::bench
