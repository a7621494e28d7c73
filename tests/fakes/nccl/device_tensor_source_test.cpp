// Arrays in device memory, read in chunks by several threads.

#include "src/model/device_tensor_source.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <thread>

#include "tests/fakes/driver/fake_driver.hpp"

namespace sparcl::test {
namespace {

struct SourceCase {
  std::size_t chunk_bytes, chunks;
};

// Chunks of any size, and fewer of them than threads; in order, and anywhere.
TEST(DeviceTensorSource, ReadsWhatTheArraysHold) {
  const std::vector<codec::ArraySpec> specs = {{DataType::kFloat32, 1000},
                                               {DataType::kUint8, 0},
                                               {DataType::kUint8, 5000},
                                               {DataType::kInt64, 3}};
  const codec::BlockMap map(specs);
  std::vector<FakeDeviceMemory> memory;
  std::vector<const std::byte*> arrays;
  std::mt19937_64 random(5);
  for (const codec::ArraySpec& spec : specs) {
    const std::size_t bytes = spec.count * element_bytes(spec.datatype);
    memory.push_back(fake_device_memory(bytes + 1));
    for (std::size_t i = 0; i < bytes; ++i)
      static_cast<unsigned char*>(memory.back().bytes)[i] = static_cast<unsigned char>(random());
    arrays.push_back(static_cast<const std::byte*>(memory.back().device));
  }
  for (const SourceCase& each : {SourceCase{64, 1}, SourceCase{64, 3}, SourceCase{1024, 8},
                                 SourceCase{1 << 20, 8}, SourceCase{64, 0}}) {
    const auto source =
        model::DeviceTensorSource::create(map, arrays, {each.chunk_bytes, each.chunks});
    ASSERT_TRUE(source.ok());
    (*source)->begin(nullptr);
    std::vector<std::thread> threads;
    for (std::uint64_t thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&, thread] {
        std::mt19937_64 own(thread);
        std::vector<std::byte> out(5000);
        for (int i = 0; i < 60; ++i) {
          const auto array = static_cast<std::uint32_t>(own() % specs.size());
          const std::uint64_t first = thread == 0 ? 0 : own() % (specs[array].count + 1),
                              count = own() % (specs[array].count - first + 1);
          const std::size_t width = element_bytes(specs[array].datatype);
          (*source)->read(array, first, count, out.data());
          EXPECT_EQ(
              std::memcmp(out.data(), static_cast<std::byte*>(memory[array].bytes) + first * width,
                          count * width),
              0);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_TRUE((*source)->end().ok());
  }
}

}  // namespace
}  // namespace sparcl::test
