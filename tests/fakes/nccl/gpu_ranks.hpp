#pragma once
// Ranks that are threads, each with arrays on the stand-in's device, and NCCL in use.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "sparcl/sparcl.h"
#include "tests/api/thread_ranks.hpp"
#include "tests/fakes/driver/fake_driver.hpp"
#include "tests/fakes/nccl/fake_nccl.hpp"

namespace sparcl::test {

// An array on the device, and what is in it.
template <class T>
class OnDevice {
 public:
  explicit OnDevice(const std::vector<T>& values, int gpu = 0)
      : count_(values.size()), memory_(fake_device_memory(count_ * sizeof(T) + 1, gpu)) {
    write(values);
  }
  T* get() const { return static_cast<T*>(memory_.device); }
  void write(const std::vector<T>& values) const {
    std::memcpy(memory_.bytes, values.data(), count_ * sizeof(T));
  }
  std::vector<T> read() const {
    std::vector<T> values(count_);
    std::memcpy(values.data(), memory_.bytes, count_ * sizeof(T));
    return values;
  }

 private:
  std::size_t count_;
  FakeDeviceMemory memory_;
};

// A stream for each rank and number, never one that another test has used.
inline sparclStream_t stream_of(int rank, int number = 0) {
  static std::uintptr_t test = 0;
  static const void* last = nullptr;
  const void* const current = testing::UnitTest::GetInstance()->current_test_info();
  if (current != last) {
    last = current;
    ++test;
  }
  return reinterpret_cast<sparclStream_t>(
      0x100000 * test + static_cast<std::uintptr_t>(0x100 * (rank + 1) + 0x10 * number));
}

// Of the comm's last call.
inline std::string algorithm_of(sparclComm_t comm) {
  sparclReport_t report = SPARCL_REPORT_INITIALIZER;
  EXPECT_EQ(sparclCommLastReport(comm, &report), sparclSuccess);
  return report.algorithm;
}

// Of the environment, while it lives.
class Setting {
 public:
  Setting(const char* name, const std::string& value) : name_(name) {
    setenv(name, value.c_str(), 1);
  }
  ~Setting() { unsetenv(name_); }
  Setting(const Setting&) = delete;

 private:
  const char* name_;
};

class NcclRanks : public testing::Test {
 protected:
  NcclRanks() {
    reset_nccl();
    (void)stream_of(0);  // before there are threads
  }

  static std::vector<sparclResult_t> use_nccl(ThreadRanks& party) {
    return party.run([](int, sparclComm_t comm) { return sparclCommUseNccl(comm, nullptr); });
  }
  static std::string last_error(const ThreadRanks& party, int rank) {
    return sparclGetLastError(party.comm(rank));
  }
};

}  // namespace sparcl::test
