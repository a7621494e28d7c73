// The mirror of tensors in device memory: what differs in it is brought to them, and where the
// driver fails they are as they were, or an error says that they are not.

#include "src/model/device_tensors.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "kernels/kernel_set.hpp"
#include "src/api/device_kernel_choice.hpp"
#include "tests/fakes/driver/fake_driver.hpp"
#include "tests/fakes/nccl/device_faults.hpp"

namespace sparcl::test {
namespace {

using model::DeviceTensors;
using testing::HasSubstr;

using Contents = std::vector<std::vector<std::byte>>;

struct Tensors {
  explicit Tensors(bool has_kernels = true, std::size_t offset = 0) {
    std::mt19937_64 random(3);
    for (std::size_t i = 0; i < specs.size(); ++i) {
      const std::size_t bytes = specs[i].count * element_bytes(specs[i].datatype);
      const FakeDeviceMemory memory = fake_device_memory(bytes + 16);
      seen.push_back(static_cast<std::byte*>(memory.bytes) + offset);
      for (std::size_t at = 0; at < bytes; ++at) seen[i][at] = static_cast<std::byte>(random());
      const bool on_device = i % 3 != 1;
      places.on_host.push_back(on_device ? nullptr : seen[i]);
      places.on_device.push_back(on_device ? static_cast<std::byte*>(memory.device) + offset
                                           : nullptr);
    }
    auto made = DeviceTensors::create(map, places, kernels::cpu_kernels(),
                                      has_kernels ? *api::device_kernels() : nullptr);
    mirrored = std::move(*made);
  }
  Contents read() const {
    Contents all;
    for (std::size_t i = 0; i < specs.size(); ++i)
      all.emplace_back(seen[i], seen[i] + specs[i].count * element_bytes(specs[i].datatype));
    return all;
  }
  Contents mirror() const {
    Contents all = read();
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!all[i].empty()) std::memcpy(all[i].data(), mirrored->mirror()[i], all[i].size());
    }
    return all;
  }
  // Changes so many elements of the mirror, in one block, or all over it; and says which.
  codec::ChangeLog change(std::uint64_t seed, std::size_t changes) {
    std::mt19937_64 random(seed);
    codec::ChangeLog log;
    std::vector<codec::Piece> pieces;
    for (std::uint64_t block = 0; block < map.block_count(); ++block) {
      const DataType type = map.block(block, pieces);
      const codec::BlockShape shape = codec::shape_of(type, pieces);
      std::vector<std::uint16_t> positions;
      for (std::size_t i = 0; i < changes; ++i)
        positions.push_back(static_cast<std::uint16_t>(random() % shape.elements));
      std::ranges::sort(positions);
      positions.erase(std::unique(positions.begin(), positions.end()), positions.end());
      const std::size_t width = shape.element_bytes();
      std::vector<std::byte> values(positions.size() * width);
      for (std::byte& each : values) each = static_cast<std::byte>(random());
      log.add(block, width, positions, values);
    }
    log.finish();
    codec::ChangeLog exchanged = log;
    codec::ChangeLog::Room room;
    exchanged.make_room(map, room);
    exchanged.exchange(map, mirrored->mirror(), kernels::cpu_kernels(), room);
    return exchanged;
  }

  std::vector<codec::ArraySpec> specs = {
      {DataType::kFloat32, 100}, {DataType::kFloat32, 70'000},  {DataType::kFloat32, 131'072},
      {DataType::kBfloat16, 0},  {DataType::kBfloat16, 65'537}, {DataType::kUint8, 200'001},
      {DataType::kInt64, 1},     {DataType::kInt64, 90}};
  codec::BlockMap map{specs};
  std::vector<std::byte*> seen;
  DeviceTensors::Places places;
  std::unique_ptr<DeviceTensors> mirrored;
};

TEST(DeviceTensors, WhatChangedInTheMirrorReachesTheTensors) {
  for (const bool has_kernels : {true, false}) {
    Tensors tensors(has_kernels);
    const Contents before = tensors.read();
    ASSERT_TRUE(tensors.mirrored->read(nullptr).ok());
    EXPECT_EQ(tensors.mirror(), before);
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
      tensors.mirrored->note(tensors.change(seed, 20));
      if (seed == 2) tensors.mirrored->note(tensors.change(99, 30));  // two steps at once
      const std::size_t bytes = bytes_copied(nullptr);
      ASSERT_TRUE(tensors.mirrored->write(nullptr).ok());
      EXPECT_EQ(tensors.read(), tensors.mirror());
      if (has_kernels) {
        EXPECT_LT(bytes_copied(nullptr) - bytes, 10'000U);
      }
    }
    tensors.mirrored->note(tensors.change(7, 60'000));
    EXPECT_TRUE(tensors.mirrored->write(nullptr).ok());
    EXPECT_EQ(tensors.read(), tensors.mirror());
  }
}

TEST(DeviceTensors, DifferencesAreFoundByReading) {
  for (const std::size_t changes : {std::size_t{0}, std::size_t{5}, std::size_t{60'000}}) {
    Tensors tensors;
    ASSERT_TRUE(tensors.mirrored->read(nullptr).ok());
    (void)tensors.change(changes, changes);
    ASSERT_TRUE(tensors.mirrored->note_differences(nullptr).ok());
    EXPECT_EQ(tensors.mirrored->is_behind(), changes > 0);
    ASSERT_TRUE(tensors.mirrored->write(nullptr).ok());
    EXPECT_EQ(tensors.read(), tensors.mirror());
  }
}

// What is known to hold what it held is not copied again.
TEST(DeviceTensors, OnlyTensorsThatChangedAreReadAgain) {
  Tensors tensors;
  ASSERT_TRUE(tensors.mirrored->read(nullptr).ok());
  const auto bytes_of_reading = [&] {
    const std::size_t before = bytes_copied(nullptr);
    EXPECT_TRUE(tensors.mirrored->read(nullptr).ok());
    EXPECT_EQ(tensors.mirror(), tensors.read());
    return bytes_copied(nullptr) - before;
  };
  EXPECT_LT(bytes_of_reading(), 1000U);
  tensors.seen[5][199'999] ^= std::byte{1};  // the program trains
  tensors.seen[1][3] ^= std::byte{1};        // on the host
  const std::size_t bytes = bytes_of_reading();
  EXPECT_GE(bytes, 200'001U);
  EXPECT_LT(bytes, 202'000U);
  (void)tensors.change(1, 20);
  ASSERT_TRUE(tensors.mirrored->note_differences(nullptr).ok());
  ASSERT_TRUE(tensors.mirrored->write(nullptr).ok());
  tensors.mirrored->remember(nullptr);
  EXPECT_LT(bytes_of_reading(), 1000U);
  tensors.mirrored->forget();
  EXPECT_GT(bytes_of_reading(), 700'000U);
  fail_copies_from(1);  // the hashes come, a tensor does not
  tensors.seen[5][7] ^= std::byte{1};
  EXPECT_FALSE(tensors.mirrored->read(nullptr).ok());
  fail_copies_from(-1);
  EXPECT_GT(bytes_of_reading(), 700'000U);
}

TEST(DeviceTensors, OfAddressesThatNoKernelTakes) {
  Tensors tensors(true, 1);
  ASSERT_TRUE(tensors.mirrored->read(nullptr).ok());
  tensors.mirrored->note(tensors.change(1, 50));
  ASSERT_TRUE(tensors.mirrored->write(nullptr).ok());
  EXPECT_EQ(tensors.read(), tensors.mirror());
}

// Without room for it on the device what changes gets there piece by piece.
TEST(DeviceTensors, OnAFullDevice) {
  Tensors tensors;
  ASSERT_TRUE(tensors.mirrored->read(nullptr).ok());
  tensors.mirrored->note(tensors.change(1, 50));
  fail_allocations(true);
  EXPECT_TRUE(tensors.mirrored->write(nullptr).ok());
  fail_allocations(false);
  EXPECT_EQ(tensors.read(), tensors.mirror());
}

TEST(DeviceTensors, WhereverACopyFailsAnErrorSaysWhatTheTensorsHold) {
  for (const bool has_kernels : {true, false}) {
    Tensors tensors(has_kernels);
    ASSERT_TRUE(tensors.mirrored->read(nullptr).ok());
    int as_they_were = 0, half_done = 0;
    bool succeeded = false;
    for (int failing = 0; !succeeded && failing < 40; ++failing) {
      SCOPED_TRACE(testing::Message()
                   << "from copy " << failing << (has_kernels ? "" : ", without kernels"));
      const Contents before = tensors.read();
      tensors.mirrored->note(
          tensors.change(static_cast<std::uint64_t>(failing), failing == 3 ? 60'000 : 20));
      fail_copies_from(failing == 3 ? 1 : failing);
      const Status status = tensors.mirrored->write(nullptr);
      fail_copies_from(-1);
      succeeded = status.ok();
      if (!status.ok() && status.message().find("hold what they held") != std::string::npos) {
        ++as_they_were;
        EXPECT_EQ(tensors.read(), before);
      } else if (!status.ok()) {
        ++half_done;
        EXPECT_THAT(std::string(status.message()), HasSubstr("no version"));
      }
      EXPECT_EQ(tensors.mirrored->is_behind(), !succeeded);
      EXPECT_TRUE(tensors.mirrored->write(nullptr).ok());
      EXPECT_EQ(tensors.read(), tensors.mirror());
    }
    EXPECT_TRUE(succeeded);
    EXPECT_GE(has_kernels ? as_they_were : half_done, 1);
  }
}

// What was launched is done; what was not is missing, and an error says so, until all is written.
TEST(DeviceTensors, WhereAKernelCannotBeLaunchedSomeIsWritten) {
  for (int failing = 0; failing < 2; ++failing) {
    Tensors tensors;
    ASSERT_TRUE(tensors.mirrored->read(nullptr).ok());
    tensors.mirrored->note(tensors.change(1, 50));
    fail_scatters_from(failing);
    const Status status = tensors.mirrored->write(nullptr);
    fail_scatters_from(-1);
    EXPECT_EQ(status.code(), Code::kUnhandledCudaError);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("no version until a call has brought all of it: CUDA: scatter"));
    EXPECT_TRUE(tensors.mirrored->is_behind());
    EXPECT_TRUE(tensors.mirrored->write(nullptr).ok());
    EXPECT_EQ(tensors.read(), tensors.mirror());
  }
}

TEST(DeviceTensors, GiveAllMemoryBack) {
  const int before = allocations_alive();
  {
    Tensors tensors;
    ASSERT_TRUE(tensors.mirrored->read(nullptr).ok());
    tensors.mirrored->note(tensors.change(1, 50));
    EXPECT_TRUE(tensors.mirrored->write(nullptr).ok());
    EXPECT_LE(allocations_alive(), before + 1);  // pinned memory of the reading
  }
  EXPECT_EQ(allocations_alive(), before);
}

}  // namespace
}  // namespace sparcl::test
