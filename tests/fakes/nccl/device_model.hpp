#pragma once
// A model of several types, each tensor on the stand-in's device or on the host.

#include <cstring>
#include <random>
#include <vector>

#include "sparcl/sparcl.h"
#include "tests/fakes/driver/fake_driver.hpp"

namespace sparcl::test {

using Bytes = std::vector<std::vector<unsigned char>>;  // of each tensor

class DeviceModel {
 public:
  static constexpr unsigned kAllOnHost = 0, kAllOnDevice = ~0U, kMixed = 0b111010;

  // on_device: bit i: of tensor i. fill: of every byte.
  explicit DeviceModel(unsigned on_device, unsigned char fill = 0, bool is_published = true) {
    add("bias", sparclFloat32, 4, 100, on_device & 1, fill);
    add("matrix", sparclBfloat16, 2, 200'003, on_device & 2,
        fill);  // begins in the middle of no block, ends in one
    add("ids", sparclInt64, 8, 5, on_device & 4, fill);
    add("empty", sparclInt64, 8, 0, on_device & 8, fill);
    add("more", sparclInt64, 8, 66'000, on_device & 16, fill);  // shares a block with those before
    add("bytes", sparclUint8, 1, 70'001, on_device & 32, fill);
    if (is_published) step(1, 0.3);
  }
  ~DeviceModel() { (void)sparclStateDestroy(state_); }
  DeviceModel(const DeviceModel&) = delete;
  DeviceModel& operator=(const DeviceModel&) = delete;

  sparclState_t state() const { return state_; }
  std::size_t tensors() const { return tensors_.size(); }
  const void* address(std::size_t i) const { return tensors_[i].given; }
  unsigned char* seen(std::size_t i) const { return tensors_[i].bytes; }
  // Copies of its tensors to the host so far; only_pageable: to memory that is not pinned.
  int copies_out(bool only_pageable = false) const {
    int copies = 0;
    for (const Tensor& each : tensors_) copies += copies_out_of(each.given, only_pageable);
    return copies;
  }
  Bytes read() const {
    Bytes all;
    for (const Tensor& each : tensors_)
      all.emplace_back(each.bytes, each.bytes + each.count * each.width);
    return all;
  }
  void write(const Bytes& all) const {
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!all[i].empty()) std::memcpy(tensors_[i].bytes, all[i].data(), all[i].size());
    }
  }
  // So many of its elements get other values; numbers stay small ones, so that any type may be of
  // them.
  void step(std::uint64_t seed, double density) const {
    std::mt19937_64 random(seed);
    for (const Tensor& each : tensors_) {
      const auto changes = static_cast<std::size_t>(density * static_cast<double>(each.count)) +
                           (each.count > 0 ? 1 : 0);
      for (std::size_t i = 0; i < changes; ++i) {
        const std::uint64_t at = random() % each.count, value = random() & 0x3f3f3f3f3f3f3f3f;
        std::memcpy(each.bytes + at * each.width, &value, each.width);
      }
    }
  }

 private:
  struct Tensor {
    void* given;
    unsigned char* bytes;
    std::size_t count, width;
  };
  void add(const char* name, sparclDataType_t type, std::size_t width, std::size_t count,
           bool on_device, unsigned char fill) {
    if (state_ == nullptr) (void)sparclStateCreate(&state_);
    Tensor tensor{nullptr, nullptr, count, width};
    if (on_device) {
      const FakeDeviceMemory memory = fake_device_memory(count * width + 1);
      tensor.given = memory.device;
      tensor.bytes = static_cast<unsigned char*>(memory.bytes);
    } else {
      host_.emplace_back(count * width + 1);
      tensor.given = tensor.bytes = host_.back().data();
    }
    std::memset(tensor.bytes, fill, count * width);
    const std::uint64_t shape = count;
    if (sparclStateAdd(state_, name, tensor.given, type, 1, &shape) != sparclSuccess)
      throw std::runtime_error("sparclStateAdd");
    tensors_.push_back(tensor);
  }

  sparclState_t state_ = nullptr;
  std::vector<Tensor> tensors_;
  std::vector<std::vector<unsigned char>> host_;
};

// Ends of the replication service.
class OwnPublisher {
 public:
  explicit OwnPublisher(sparclState_t state) {
    if (sparclPublisherCreate(&publisher_, state, nullptr) != sparclSuccess)
      throw std::runtime_error(sparclGetLastError(nullptr));
    char address[128];
    if (sparclPublisherAddress(publisher_, address, sizeof address) != sparclSuccess)
      throw std::runtime_error("no address");
    const std::string text = address;
    address_ = "127.0.0.1" + text.substr(text.rfind(':'));
  }
  ~OwnPublisher() { (void)sparclPublisherDestroy(publisher_); }
  OwnPublisher(const OwnPublisher&) = delete;
  sparclPublisher_t get() const { return publisher_; }
  const char* address() const { return address_.c_str(); }

 private:
  sparclPublisher_t publisher_ = nullptr;
  std::string address_;
};

// Of the last version, in its stream.
inline std::uint64_t bytes_published(sparclPublisher_t publisher) {
  sparclReport_t report = SPARCL_REPORT_INITIALIZER;
  if (sparclPublisherLastReport(publisher, &report) != sparclSuccess)
    throw std::runtime_error(sparclGetLastError(nullptr));
  return report.bytes_sent;
}

class OwnSubscriber {
 public:
  OwnSubscriber(sparclState_t state, const char* address,
                const sparclSubscriberOptions_t* options = nullptr) {
    if (sparclSubscriberCreate(&subscriber_, state, address, options) != sparclSuccess)
      throw std::runtime_error(sparclGetLastError(nullptr));
  }
  ~OwnSubscriber() { (void)sparclSubscriberDestroy(subscriber_); }
  OwnSubscriber(const OwnSubscriber&) = delete;
  sparclSubscriber_t get() const { return subscriber_; }
  sparclResult_t next(std::uint64_t* version = nullptr, double seconds = 20) const {
    return sparclSubscriberNext(subscriber_, seconds, version);
  }
  // Until it holds this version, or an error.
  sparclResult_t reach(std::uint64_t version) const {
    std::uint64_t held = 0;
    sparclResult_t result = sparclSuccess;
    while (result == sparclSuccess && held < version) result = next(&held);
    return result;
  }

 private:
  sparclSubscriber_t subscriber_ = nullptr;
};

}  // namespace sparcl::test
