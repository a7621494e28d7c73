// sparclStoreRestore() into a state that has some of a version's tensors, or slices of them.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "sparcl/sparcl.h"
#include "tests/api/stored_model.hpp"

namespace {

constexpr std::uint64_t kRows = 1024, kColumns = 512, kParts = 8;

class StorePartApi : public sparcl::test::StoreApiTest {
 protected:
  StorePartApi() : weights_(kRows * kColumns), bias_(kRows) {
    std::mt19937 random(1);
    for (std::uint16_t& weight : weights_) weight = static_cast<std::uint16_t>(random());
    EXPECT_EQ(sparclStateCreate(&trained_), sparclSuccess);
    EXPECT_EQ(sparclStateAdd(trained_, "weights", weights_.data(), sparclBfloat16, 2, kShape),
              sparclSuccess);
    EXPECT_EQ(sparclStateAdd(trained_, "bias", bias_.data(), sparclFloat32, 1, kShape),
              sparclSuccess);
  }
  ~StorePartApi() override { EXPECT_EQ(sparclStateDestroy(trained_), sparclSuccess) << error(); }
  void train(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    for (int i = 0; i < 500; ++i)
      weights_[random() % weights_.size()] = static_cast<std::uint16_t>(random());
    bias_[random() % bias_.size()] += 1;
  }

  static constexpr std::uint64_t kShape[2] = {kRows, kColumns};
  std::vector<std::uint16_t> weights_;
  std::vector<float> bias_;
  sparclState_t trained_ = nullptr;
};

// A worker's rows and columns of the weights, and the bias before them.
class Worker {
 public:
  Worker(std::uint64_t rank, const std::uint64_t* shape)
      : rank_(rank),
        rows_(kRows / kParts * kColumns, 7),
        columns_(kRows * kColumns / kParts, 7),
        bias_(kRows, 7) {
    const std::uint64_t first_row[2] = {rank * kRows / kParts, 0},
                        rows[2] = {kRows / kParts, kColumns};
    const std::uint64_t first_column[2] = {0, rank * kColumns / kParts},
                        columns[2] = {kRows, kColumns / kParts};
    EXPECT_EQ(sparclStateCreate(&by_rows_), sparclSuccess);
    EXPECT_EQ(sparclStateCreate(&by_columns_), sparclSuccess);
    EXPECT_EQ(sparclStateAdd(by_rows_, "bias", bias_.data(), sparclFloat32, 1, shape),
              sparclSuccess);
    EXPECT_EQ(sparclStateAddSlice(by_rows_, "weights", rows_.data(), sparclBfloat16, 2, shape,
                                  first_row, rows),
              sparclSuccess);
    EXPECT_EQ(sparclStateAddSlice(by_columns_, "weights", columns_.data(), sparclBfloat16, 2, shape,
                                  first_column, columns),
              sparclSuccess);
  }
  ~Worker() {
    EXPECT_EQ(sparclStateDestroy(by_rows_), sparclSuccess);
    EXPECT_EQ(sparclStateDestroy(by_columns_), sparclSuccess);
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  sparclState_t by_rows() const { return by_rows_; }
  sparclState_t by_columns() const { return by_columns_; }
  bool has_rows(const std::vector<std::uint16_t>& weights, const std::vector<float>& bias) const {
    return bias_ == bias &&
           std::equal(rows_.begin(), rows_.end(),
                      weights.begin() + static_cast<std::ptrdiff_t>(rank_ * rows_.size()));
  }
  bool has_columns(const std::vector<std::uint16_t>& weights) const {
    const std::uint64_t width = kColumns / kParts;
    for (std::uint64_t i = 0; i < columns_.size(); ++i) {
      if (columns_[i] != weights[i / width * kColumns + rank_ * width + i % width]) return false;
    }
    return true;
  }

 private:
  std::uint64_t rank_;
  std::vector<std::uint16_t> rows_, columns_;
  std::vector<float> bias_;
  sparclState_t by_rows_ = nullptr, by_columns_ = nullptr;
};

TEST_F(StorePartApi, EachWorkerGetsItsPartOfEachVersion) {
  const sparclStore_t store = open(), rows = open(), columns = open();
  Worker worker(5, kShape);
  for (std::uint64_t version = 1; version <= 6; ++version) {
    train(version);
    ASSERT_EQ(sparclStorePublish(store, trained_, version), sparclSuccess) << error();
    std::uint64_t got = 0;
    ASSERT_EQ(sparclStoreRestore(rows, worker.by_rows(), 0, &got), sparclSuccess) << error();
    EXPECT_EQ(got, version);
    EXPECT_TRUE(worker.has_rows(weights_, bias_));
    if (version % 2 == 0) continue;
    ASSERT_EQ(sparclStoreRestore(columns, worker.by_columns(), version, nullptr), sparclSuccess)
        << error();
    EXPECT_TRUE(worker.has_columns(weights_));
  }
  // One store for both: it begins again for each.
  ASSERT_EQ(sparclStoreRestore(rows, worker.by_columns(), 0, nullptr), sparclSuccess) << error();
  EXPECT_TRUE(worker.has_columns(weights_));
  ASSERT_EQ(sparclStoreRestore(rows, worker.by_rows(), 0, nullptr), sparclSuccess) << error();
  EXPECT_TRUE(worker.has_rows(weights_, bias_));
  for (const sparclStore_t each : {store, rows, columns})
    EXPECT_EQ(sparclStoreClose(each), sparclSuccess);
}

TEST_F(StorePartApi, ATensorThatTheVersionLacksIsNamed) {
  const sparclStore_t store = open();
  ASSERT_EQ(sparclStorePublish(store, trained_, 1), sparclSuccess) << error();
  std::vector<float> gate(10, 3);
  const std::uint64_t few[1] = {10};
  sparclState_t other = nullptr;
  ASSERT_EQ(sparclStateCreate(&other), sparclSuccess);
  ASSERT_EQ(sparclStateAdd(other, "gate", gate.data(), sparclFloat32, 1, few), sparclSuccess);
  EXPECT_EQ(sparclStoreRestore(store, other, 0, nullptr), sparclMismatch);
  EXPECT_NE(error().find("there is no tensor 'gate'"), std::string::npos) << error();
  EXPECT_EQ(gate, std::vector<float>(10, 3));
  EXPECT_EQ(sparclStateDestroy(other), sparclSuccess);
  EXPECT_EQ(sparclStoreClose(store), sparclSuccess);
}

}  // namespace
