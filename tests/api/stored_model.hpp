#pragma once
// A model whose versions go to a store through the C interface.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>
#include <string>
#include <system_error>
#include <vector>

#include "sparcl/sparcl.h"
#include "tests/support/s3_stub.hpp"

namespace sparcl::test {

namespace fs = std::filesystem;

class StoredModel {
 public:
  explicit StoredModel(std::uint64_t elements = 200'000) : weights_(elements), bias_(100) {
    std::mt19937 random(1);  // anchors are coded: zeros would make a small one
    for (std::uint16_t& weight : weights_) weight = static_cast<std::uint16_t>(random());
    EXPECT_EQ(sparclStateCreate(&state_), sparclSuccess);
    const std::uint64_t shape[1] = {elements}, few[1] = {100};
    EXPECT_EQ(sparclStateAdd(state_, "weights", weights_.data(), sparclBfloat16, 1, shape),
              sparclSuccess);
    EXPECT_EQ(sparclStateAdd(state_, "bias", bias_.data(), sparclFloat32, 1, few), sparclSuccess);
  }
  ~StoredModel() {
    EXPECT_EQ(sparclStateDestroy(state_), sparclSuccess) << sparclGetLastError(nullptr);
  }
  StoredModel(const StoredModel&) = delete;
  StoredModel& operator=(const StoredModel&) = delete;
  void train(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    for (int i = 0; i < 2000; ++i)
      weights_[random() % weights_.size()] = static_cast<std::uint16_t>(random());
    bias_[random() % bias_.size()] += 1;
  }
  // What version `seed` has.
  void set_to(std::uint64_t seed) {
    for (std::size_t i = 0; i < weights_.size(); i += 50)
      weights_[i] = static_cast<std::uint16_t>(seed * 31 + i / 50);
  }
  bool operator==(const StoredModel& other) const {
    return weights_ == other.weights_ && bias_ == other.bias_;
  }
  bool has_weights(const void* at) const {
    return std::memcmp(at, weights_.data(), weights_.size() * sizeof weights_.front()) == 0;
  }
  sparclState_t state() const { return state_; }

 private:
  std::vector<std::uint16_t> weights_;
  std::vector<float> bias_;
  sparclState_t state_ = nullptr;
};

class StoreApiTest : public testing::Test {
 protected:
  StoreApiTest() {
    std::string path = "/tmp/sparcl-store-XXXXXX";
    folder_ = ::mkdtemp(path.data());
    url_ = sparcl::test::store_url(sparcl::test::store_bodies().front(), folder_ + "/a/store");
  }
  ~StoreApiTest() override {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  sparclStore_t open(std::uint64_t single_writer = 0) const {
    sparclStoreOptions_t options = SPARCL_STORE_OPTIONS_INITIALIZER;
    options.anchor_every = 4;
    options.single_writer = single_writer;
    sparclStore_t store = nullptr;
    EXPECT_EQ(sparclStoreOpen(&store, url().c_str(), &options), sparclSuccess)
        << sparclGetLastError(nullptr);
    return store;
  }
  std::string url() const { return url_; }
  static std::uint64_t latest(sparclStore_t store) {
    std::uint64_t version = 99;
    EXPECT_EQ(sparclStoreLatest(store, &version), sparclSuccess) << sparclGetLastError(nullptr);
    return version;
  }
  static std::string error() { return sparclGetLastError(nullptr); }

  std::string folder_, url_;
};

}  // namespace sparcl::test
