// The look at memory that random collectives end with: it must see a leak, and only that.
#include "tests/random/process_usage.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <new>

#include "tests/support/own_objects.hpp"

namespace sparcl::test {
namespace {

using Quarters = std::array<ProcessUsage, 4>;

// A run in which nothing grows but one figure: all the time, or at once, late.
std::string growth_if(std::size_t ProcessUsage::*figure, std::size_t by, bool at_once = false) {
  constexpr ProcessUsage kSteady{60, 55'280, 2'000'000, 50'000'000, 60'000'000, 19};
  Quarters quarters{kSteady, kSteady, kSteady, kSteady};
  if (!at_once) quarters[2].*figure += by / 2;
  quarters[3].*figure += by;
  return describe_growth(quarters);
}

TEST(ProcessUsage, CountsWhatIsMadeByNew) {
  const OwnObjects before = own_objects();
  if (before.number == 0) GTEST_SKIP() << "a sanitizer has its own new";
  constexpr std::align_val_t kWide{128};
  void* narrow = ::operator new(1000);  // not a new-expression, which a compiler may leave out
  void* wide = ::operator new(1024, kWide);
  EXPECT_EQ(own_objects().number, before.number + 2);
  EXPECT_GE(own_objects().bytes, before.bytes + 2024);
  ::operator delete(narrow);
  ::operator delete(wide, kWide);
  EXPECT_EQ(own_objects().number, before.number);
  EXPECT_EQ(own_objects().bytes, before.bytes);
}

TEST(ProcessUsage, CountsDescriptors) {
  const std::size_t before = process_usage().descriptors;
  int ends[2] = {-1, -1};
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_EQ(process_usage().descriptors, before + 2);
  for (const int end : ends) close(end);
  EXPECT_EQ(process_usage().descriptors, before);
}

// Half a long run has 13,000 calls.
TEST(ProcessUsage, SmallestLeaksShow) {
  EXPECT_NE(growth_if(&ProcessUsage::own_objects, 13'000 / 100), "")
      << "an object in a hundred calls";
  EXPECT_NE(growth_if(&ProcessUsage::own_bytes, 13'000 * 8), "")
      << "a list with 8 bytes more a call";
  EXPECT_NE(growth_if(&ProcessUsage::heap_bytes, 13'000 * 96), "") << "a request of MPI a call";
  EXPECT_NE(growth_if(&ProcessUsage::large_bytes, std::size_t{56} << 20), "")
      << "more segments than are kept";
  EXPECT_NE(growth_if(&ProcessUsage::resident_bytes, std::size_t{17} << 20), "")
      << "memory that is not malloc's";
  EXPECT_NE(growth_if(&ProcessUsage::descriptors, 1), "");
}

TEST(ProcessUsage, PoolsMayGrow) {
  EXPECT_EQ(growth_if(&ProcessUsage::heap_bytes, std::size_t{512} << 10), "");
  EXPECT_EQ(growth_if(&ProcessUsage::heap_bytes, std::size_t{4} << 20, true), "")
      << "512 messages of 8 KiB that waited once";
  EXPECT_NE(growth_if(&ProcessUsage::heap_bytes, std::size_t{4} << 20), "");
  EXPECT_NE(growth_if(&ProcessUsage::heap_bytes, std::size_t{17} << 20, true), "");
  EXPECT_EQ(growth_if(&ProcessUsage::large_bytes, std::size_t{12} << 20), "");
}

TEST(ProcessUsage, WhatComesAndGoesIsNoGrowth) {
  std::vector<ProcessUsage> samples(
      40, ProcessUsage{60, 55'280, 2'000'000, 50'000'000, 60'000'000, 19});
  for (std::size_t i = 30; i < 39; ++i) samples[i].descriptors += i;
  EXPECT_EQ(describe_growth(min_of_quarters(samples)), "");
  samples[39].descriptors += 1;
  EXPECT_NE(describe_growth(min_of_quarters(samples)), "");
}

}  // namespace
}  // namespace sparcl::test
