#include "src/base/checksum.hpp"

#include <isa-l/crc.h>
#include <isa-l/igzip_lib.h>
#if SPARCL_XXH3_DISPATCH  // entry points that choose AVX2 or AVX-512 at run time; xxhash.h uses
                          // what every x86-64 has
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

#include <fmt/format.h>

#include <cstring>
#include <new>

namespace sparcl {

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t crc) {
  // crc32_iscsi takes an int length and a mutable pointer that it does not write through.
  constexpr std::size_t kPiece = std::size_t{1} << 30;
  std::uint32_t state = ~crc;
  while (!bytes.empty()) {
    const std::size_t length = bytes.size() < kPiece ? bytes.size() : kPiece;
    auto* at = const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(bytes.data()));
    state = crc32_iscsi(at, static_cast<int>(length), state);
    bytes = bytes.subspan(length);
  }
  return ~state;
}

std::uint32_t adler32(std::span<const std::byte> bytes) {
  return isal_adler32(1, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
}

std::uint64_t xxh3_64(std::span<const std::byte> bytes, std::uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

Hash128 xxh3_128(std::span<const std::byte> bytes, std::uint64_t seed) {
  const XXH128_hash_t hash = XXH3_128bits_withSeed(bytes.data(), bytes.size(), seed);
  return {hash.low64, hash.high64};
}

struct Xxh3::State {
  XXH3_state_t* of_library = XXH3_createState();
  ~State() { XXH3_freeState(of_library); }
};

Xxh3::Xxh3() : state_(std::make_unique<State>()) {
  if (state_->of_library == nullptr) throw std::bad_alloc();
  XXH3_128bits_reset(state_->of_library);
}

Xxh3::~Xxh3() = default;

void Xxh3::update(std::span<const std::byte> bytes) {
  XXH3_128bits_update(state_->of_library, bytes.data(), bytes.size());
}

Hash128 Xxh3::finish() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(state_->of_library);
  return {hash.low64, hash.high64};
}

std::string to_hex(const Hash128& hash) {
  std::string text;
  for (const std::uint8_t byte : to_bytes(hash)) text += fmt::format("{:02x}", byte);
  return text;
}

std::array<std::uint8_t, 16> to_bytes(const Hash128& hash) {
  std::array<std::uint8_t, 16> bytes;
  std::memcpy(bytes.data(), &hash.low, 8);
  std::memcpy(bytes.data() + 8, &hash.high, 8);
  return bytes;
}

}  // namespace sparcl
