#include "src/net/bootstrap/unique_id.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "src/base/checksum.hpp"

namespace sparcl::net {
namespace {

constexpr std::uint64_t kIdMagic = 0x44496c6372617073;  // "sparclID"
constexpr std::uint16_t kIdVersion = 1;
constexpr std::size_t kFixedBytes = 8 + 2 + 2 + kSecretBytes + 1;
constexpr std::size_t kSumAt = kUniqueIdBytes - 4;

Status refuse(const std::string& why) {
  return Status(Code::kInvalidArgument, "the unique id " + why +
                                            ": pass the 128 bytes that sparclGetUniqueId wrote on "
                                            "one rank, whole and unchanged, to all ranks");
}

}  // namespace

std::size_t addresses_that_fit(std::span<const NetAddress> addresses) {
  std::size_t count = 0;
  for (std::size_t bytes = kFixedBytes; count < addresses.size(); ++count) {
    bytes += 1 + addresses[count].ip_bytes();
    if (bytes > kSumAt) break;
  }
  return count;
}

std::array<std::byte, kUniqueIdBytes> encode_unique_id(const UniqueId& id) {
  ByteWriter out;
  out.write(kIdMagic);
  out.write(kIdVersion);
  out.write(id.port);
  out.write_bytes(id.secret);
  const std::size_t count = addresses_that_fit(id.addresses);
  out.write(static_cast<std::uint8_t>(count));
  for (const NetAddress& address : std::span(id.addresses).first(count)) write_ip(address, out);
  std::array<std::byte, kUniqueIdBytes> bytes{};
  std::copy(out.bytes().begin(), out.bytes().end(), bytes.begin());
  store_le(bytes.data() + kSumAt, crc32c(std::span(bytes).first(kSumAt)));
  return bytes;
}

Result<UniqueId> decode_unique_id(std::span<const std::byte, kUniqueIdBytes> bytes) {
  ByteReader reader(bytes.first(kSumAt));
  std::uint64_t magic = 0;
  std::uint16_t version = 0;
  if (!reader.read(magic) || magic != kIdMagic)
    return refuse("is none that sparclGetUniqueId has made");
  if (!reader.read(version) || version != kIdVersion) {
    return refuse(
        fmt::format("has layout {}, and this library knows layout {} only: the ranks run different "
                    "versions, or it is damaged",
                    version, kIdVersion));
  }
  if (load_le<std::uint32_t>(bytes.data() + kSumAt) != crc32c(bytes.first(kSumAt)))
    return refuse("is damaged");

  UniqueId id;
  std::span<const std::byte> secret;
  std::uint8_t count = 0;
  if (!reader.read(id.port) || !reader.read_bytes(kSecretBytes, secret) || !reader.read(count))
    return refuse("is cut");
  std::copy(secret.begin(), secret.end(), id.secret.begin());
  for (int i = 0; i < count; ++i) {
    NetAddress address;
    if (!read_ip(reader, address)) return refuse("holds an address that is none");
    address.port = id.port;
    id.addresses.push_back(address);
  }
  if (id.port == 0 || id.addresses.empty()) return refuse("holds no address");
  return id;
}

}  // namespace sparcl::net
