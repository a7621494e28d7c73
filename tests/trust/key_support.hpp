#pragma once
// Keys and messages for tests: the vectors of RFC 8032, 7.1, and files of keys.

#include <gtest/gtest.h>
#include <sodium.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/trust/signing_key.hpp"
#include "tests/model/model_support.hpp"

namespace sparcl::trust {

using test::read_text;
using test::TempFolder;
using test::write_text;

struct Vector {
  const char *name, *seed, *key, *message, *signature;
};

inline constexpr std::array kVectors{
    Vector{"1", "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
           "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "",
           "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e397"
           "01cf9b46bd25bf5f0595bbe24655141438e7a100b"},
    Vector{"2", "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
           "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", "72",
           "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f361"
           "3d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"},
    Vector{"3", "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
           "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025", "af82",
           "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f76"
           "0984dc6594a7c15e9716ed28dc027beceea1ec40a"},
    Vector{"SHA(abc)", "833fe62409237b9d62ec77587520911e9a759cec1d19755b7da901b96dca3d42",
           "ec172b93ad5e563bf4932c70e1245034c35467ef2efd4d64ebf819683467e2bf",
           "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c2"
           "3a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
           "dc2a4459e7369633a52b1bf277839a00201009a3efbf3ecb69bea2186c26b58909351fc9ac90b3ecfdfbc7c"
           "66431e0303dca179c138ac17ad9bef1177331a704"},
};

inline std::vector<std::byte> from_hex(std::string_view hex) {
  std::vector<std::byte> out;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    out.push_back(static_cast<std::byte>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  return out;
}

template <class Array>
Array array_from_hex(std::string_view hex) {
  const std::vector<std::byte> bytes = from_hex(hex);
  Array out{};
  EXPECT_EQ(bytes.size(), out.size());
  std::copy_n(bytes.begin(), std::min(bytes.size(), out.size()), out.begin());
  return out;
}

inline std::string base64(std::span<const std::byte> bytes) {
  std::string out(sodium_base64_encoded_len(bytes.size(), sodium_base64_VARIANT_ORIGINAL), '\0');
  sodium_bin2base64(out.data(), out.size(), reinterpret_cast<const unsigned char*>(bytes.data()),
                    bytes.size(), sodium_base64_VARIANT_ORIGINAL);
  out.pop_back();
  return out;
}

inline std::string secret_line(const Vector& vector) {
  return "sparcl-ed25519-secret " + base64(from_hex(vector.seed)) + "\n";
}
inline std::string public_line(const Vector& vector) {
  return "sparcl-ed25519 " + base64(from_hex(vector.key)) + "\n";
}

inline std::string private_file(const std::string& path, std::string_view text) {
  write_text(path, text);
  ::chmod(path.c_str(), 0600);
  return path;
}

inline SigningKey key_of(const Vector& vector) {
  const TempFolder folder;
  Result<SigningKey> key = SigningKey::load(private_file(folder / "key", secret_line(vector)));
  EXPECT_TRUE(key.ok()) << key.status().message();
  return std::move(*key);
}

inline unsigned mode_of(const std::string& path) {
  struct stat about {};
  EXPECT_EQ(::stat(path.c_str(), &about), 0) << path;
  return about.st_mode & 07777;
}

}  // namespace sparcl::trust
