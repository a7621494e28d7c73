#include "src/net/sealed_memory.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

namespace sparcl::net {
namespace {

using testing::HasSubstr;

std::vector<std::byte> some_bytes(std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i * 7 % 251);
  return bytes;
}

TEST(SealedMemory, HoldsACopyThatNobodyCanChange) {
  for (const std::size_t count : {1UL, 4096UL, 100'001UL}) {
    const std::vector<std::byte> bytes = some_bytes(count);
    const Result<SealedMemory> made = SealedMemory::copy_of(bytes);
    ASSERT_TRUE(made.ok()) << made.status().message();
    const Result<SealedMemory> taken =
        SealedMemory::of_process(::getpid(), made->descriptor(), count);
    ASSERT_TRUE(taken.ok()) << taken.status().message();
    const Result<Buffer> mapped = taken->map();
    ASSERT_TRUE(mapped.ok()) << mapped.status().message();
    EXPECT_TRUE(std::ranges::equal(mapped->bytes(), bytes));
    EXPECT_LT(::pwrite(made->descriptor(), "x", 1, 0), 0);
    EXPECT_NE(::ftruncate(made->descriptor(), 0), 0);
    EXPECT_EQ(::mmap(nullptr, count, PROT_READ | PROT_WRITE, MAP_SHARED, made->descriptor(), 0),
              MAP_FAILED);
  }
}

TEST(SealedMemory, StaysWithItsBufferWhenAllElseIsGone) {
  const std::vector<std::byte> bytes = some_bytes(10'000);
  Buffer mapped;
  {
    const Result<SealedMemory> made = SealedMemory::copy_of(bytes);
    ASSERT_TRUE(made.ok());
    mapped = *made->map();
  }
  EXPECT_TRUE(std::ranges::equal(mapped.bytes(), bytes));
}

TEST(SealedMemory, WhatCanStillBeChangedIsRefused) {
  for (const int seals : {0, F_SEAL_WRITE, F_SEAL_SHRINK, F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK}) {
    Socket file(::memfd_create("sparcl-sealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    ASSERT_EQ(::ftruncate(file.fd(), 100), 0);
    ASSERT_EQ(::fcntl(file.fd(), F_ADD_SEALS, seals), 0);
    const Result<SealedMemory> taken = SealedMemory::of_process(::getpid(), file.fd(), 100);
    EXPECT_EQ(taken.status().code(), Code::kCorrupt) << seals;
    EXPECT_THAT(std::string(taken.status().message()), HasSubstr("not sealed"));
  }
}

TEST(SealedMemory, WhatIsNoMemoryOrHasAnotherSizeIsRefused) {
  const Socket zero(::open("/dev/zero", O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(SealedMemory::of_process(::getpid(), zero.fd(), 100).status().code(), Code::kCorrupt);
  const Socket others(::memfd_create("another", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(SealedMemory::of_process(::getpid(), others.fd(), 0).status().code(), Code::kCorrupt);
  EXPECT_EQ(SealedMemory::of_process(::getpid(), 1'000'000, 100).status().code(),
            Code::kSystemError);
  EXPECT_EQ(SealedMemory::of_process(-1, 3, 100).status().code(), Code::kSystemError);
  const Result<SealedMemory> made = SealedMemory::copy_of(some_bytes(100));
  ASSERT_TRUE(made.ok());
  for (const std::size_t wrong : {0UL, 99UL, 101UL, 1UL << 40}) {
    EXPECT_EQ(SealedMemory::of_process(::getpid(), made->descriptor(), wrong).status().code(),
              Code::kCorrupt)
        << wrong;
  }
}

}  // namespace
}  // namespace sparcl::net
