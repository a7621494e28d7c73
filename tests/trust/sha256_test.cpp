#include "src/trust/sha256.hpp"

#include <gtest/gtest.h>

namespace sparcl::trust {
namespace {

TEST(Sha256, IsThatOfTheStandard) {  // FIPS 180-4's examples
  const auto of = [](std::string_view text) {
    Sha256 hash;
    for (const char& each : text) hash.update(std::as_bytes(std::span(&each, 1)));
    return to_hex(*hash.finish());
  };
  EXPECT_EQ(of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

}  // namespace
}  // namespace sparcl::trust
