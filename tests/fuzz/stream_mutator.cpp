#include "tests/fuzz/stream_mutator.hpp"

#include <algorithm>

namespace sparcl::fuzz {
namespace {

using codec::RawSection;
using codec::RawStream;

constexpr std::size_t kRoom = 64;  // by which a content can grow at once

std::ptrdiff_t some(const std::vector<RawSection>& sections, Random& random) {
  return static_cast<std::ptrdiff_t>(random() % sections.size());
}

void mutate_sections(std::vector<RawSection>& sections, Random& random) {
  const auto at = sections.begin() + some(sections, random);
  const auto other = sections.begin() + some(sections, random);
  switch (random() % 6) {
    case 0:
      std::iter_swap(at, other);
      break;
    case 1:
      sections.insert(at, RawSection(*other));
      break;
    case 2:
      if (sections.size() > 1) sections.erase(at);
      break;
    case 3:
      at->tag ^= static_cast<std::uint8_t>(1 << random() % 8);
      break;
    case 4:  // another mode, the same bytes
      if (codec::is_block(at->tag))
        at->tag = static_cast<std::uint8_t>((at->tag & 0xf0) | random() % 16);
      break;
    default:  // a gap more, or no gap
      if (!codec::is_block(at->tag)) break;
      at->tag ^= 0x20;
      if (codec::has_gap(at->tag))
        at->content.insert(at->content.begin(), static_cast<std::byte>(random() % 4));
  }
}

}  // namespace

RawStream take_apart_leniently(std::span<const std::byte> bytes) {
  const std::size_t prefix = std::min(bytes.size(), codec::kPrefixBytes);
  RawStream stream{{bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(prefix)}, {}};
  ByteReader reader{bytes.subspan(prefix)};
  while (true) {
    RawSection section;
    std::uint64_t length = 0;
    std::span<const std::byte> content;
    if (!reader.read(section.tag) || !reader.read_varint(length) ||
        !reader.read_bytes(length, content))
      return stream;
    section.content.assign(content.begin(), content.end());
    stream.sections.push_back(std::move(section));
  }
}

Bytes mutate_plainly(std::span<const std::byte> bytes, ByteMutation mutate_bytes) {
  Bytes changed(bytes.begin(), bytes.end());
  changed.resize(bytes.size() + kRoom);
  changed.resize(mutate_bytes(changed.data(), bytes.size(), changed.size()));
  return changed;
}

Bytes mutate_stream(std::span<const std::byte> bytes, ByteMutation mutate_bytes, Random& random,
                    const Mender& mend) {
  RawStream stream = take_apart_leniently(bytes);
  if (stream.sections.empty() || random() % 16 == 0) return mutate_plainly(bytes, mutate_bytes);
  for (std::uint64_t edits = 1 + random() % 2; edits > 0; --edits) {
    if (random() % 4 == 0) {
      mutate_sections(stream.sections, random);
    } else {
      Bytes& content =
          stream.sections[static_cast<std::size_t>(some(stream.sections, random))].content;
      content = mutate_plainly(content, mutate_bytes);
    }
  }
  if (random() % 4 != 0) mend(stream);
  return codec::put_together(stream);
}

Bytes mutate_behind_head(
    const Bytes& input, std::size_t head_bytes, Random& random,
    const std::function<Bytes(std::span<const std::byte> stream)>& mutate_rest) {
  const std::size_t head = std::min(input.size(), head_bytes);
  Bytes out(input.begin(), input.begin() + static_cast<std::ptrdiff_t>(head));
  out.resize(head_bytes);
  if (random() % 8 == 0) out[random() % head_bytes] = static_cast<std::byte>(random());
  const Bytes rest = mutate_rest(std::span(input).subspan(head));
  out.insert(out.end(), rest.begin(), rest.end());
  return out;
}

}  // namespace sparcl::fuzz
