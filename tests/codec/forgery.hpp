#pragma once
// Streams as an enemy makes them, from good ones.

#include <algorithm>
#include <random>

#include "tests/codec/stream_surgery.hpp"

namespace sparcl::codec {

using Random = std::mt19937_64;

// What happens on the way, or on a disk: checksums are not mended, so nothing of this may pass.
inline Bytes damage(const Bytes& good, const Bytes& other, Random& random) {
  Bytes bytes = good;
  const auto at = static_cast<std::ptrdiff_t>(random() % bytes.size());
  switch (random() % 8) {
    case 0:
      bytes[static_cast<std::size_t>(at)] ^= static_cast<std::byte>(1 << (random() % 8));
      break;
    case 1:
      bytes[static_cast<std::size_t>(at)] = static_cast<std::byte>(random());
      break;
    case 2:
      bytes.resize(static_cast<std::size_t>(at));
      break;
    case 3:
      bytes.insert(bytes.end(), 1 + random() % 40, static_cast<std::byte>(random()));
      break;
    case 4:
      bytes.insert(bytes.begin() + at, static_cast<std::byte>(random()));
      break;
    case 5:
      bytes.erase(bytes.begin() + at);
      break;
    case 6:
      std::fill(bytes.begin() + at,
                bytes.begin() + std::min<std::ptrdiff_t>(at + 64, std::ssize(bytes)), std::byte{0});
      break;
    default:
      bytes.resize(static_cast<std::size_t>(at));
      bytes.insert(bytes.end(), other.begin() + std::min(at, std::ssize(other)), other.end());
  }
  return bytes;
}

// What someone who knows the format does: the checksums are right.
inline Bytes forge(const Bytes& good, Random& random) {
  RawStream stream = take_apart(good);
  for (std::uint64_t edits = 1 + random() % 3; edits > 0; --edits) {
    const auto a = static_cast<std::ptrdiff_t>(random() % stream.sections.size());
    const auto b = static_cast<std::ptrdiff_t>(random() % stream.sections.size());
    auto& sections = stream.sections;
    Bytes& content = sections[random() % sections.size()].content;
    if (content.empty()) continue;
    const std::size_t byte = random() % content.size();
    switch (random() % 12) {
      case 0:
        content[byte] ^= static_cast<std::byte>(1 << (random() % 8));
        break;
      case 1:
        content[byte] = static_cast<std::byte>(random());
        break;
      case 2:
        content[byte] = random() % 2 == 0 ? std::byte{0} : std::byte{0xff};
        break;
      case 3:
        content.resize(byte);
        break;
      case 4:
        content.insert(content.begin() + static_cast<std::ptrdiff_t>(byte), 1 + random() % 20,
                       static_cast<std::byte>(random()));
        break;
      case 5:
        for (std::byte& each : content) each = static_cast<std::byte>(random());
        break;
      case 6:
        for (std::size_t i = byte; i < content.size(); ++i)
          content[i] &= static_cast<std::byte>(random() & random());
        break;
      case 7:
        std::swap(sections[static_cast<std::size_t>(a)], sections[static_cast<std::size_t>(b)]);
        break;
      case 8:
        sections.insert(sections.begin() + a, RawSection(sections[static_cast<std::size_t>(b)]));
        break;
      case 9:
        sections[static_cast<std::size_t>(a)].tag = static_cast<std::uint8_t>(random());
        break;
      case 10:
        sections[static_cast<std::size_t>(a)].tag ^= static_cast<std::uint8_t>(1 << (random() % 8));
        break;
      default:
        if (sections.size() > 1) sections.erase(sections.begin() + a);
    }
  }
  return put_together(stream);
}

}  // namespace sparcl::codec
