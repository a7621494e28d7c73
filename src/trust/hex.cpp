#include "src/trust/hex.hpp"

#include <sodium.h>

namespace sparcl::trust {

std::string hex_of(std::span<const std::byte> bytes) {
  std::string text(2 * bytes.size() + 1, '\0');
  sodium_bin2hex(text.data(), text.size(), reinterpret_cast<const unsigned char*>(bytes.data()),
                 bytes.size());
  text.pop_back();
  return text;
}

std::vector<std::byte> bytes_of_hex(const std::string& text) {
  if (text.empty() || text.size() % 2 != 0) return {};
  std::vector<std::byte> bytes(text.size() / 2);
  std::size_t count = 0;
  const int failed = sodium_hex2bin(reinterpret_cast<unsigned char*>(bytes.data()), bytes.size(),
                                    text.data(), text.size(), nullptr, &count, nullptr);
  if (failed != 0 || count != bytes.size()) bytes.clear();
  return bytes;
}

}  // namespace sparcl::trust
