#include "src/model/slice_place.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "src/model/slice_source.hpp"

namespace sparcl::model {
namespace {

using ::testing::HasSubstr;
using Dimensions = std::vector<std::uint64_t>;

TensorSchema tensor(Dimensions shape, std::optional<TensorSlice> slice = {}) {
  return {"x", DataType::kUint16, std::move(shape), std::move(slice)};
}

// Element by element, as a loop over all indices would write it.
std::vector<std::uint64_t> elements_of(const TensorSchema& part, const TensorSchema& held) {
  const Dimensions& extent = part.held_shape();
  Dimensions index(extent.size(), 0);
  std::vector<std::uint64_t> found;
  for (std::uint64_t left = *element_count(part); left > 0; --left) {
    std::uint64_t at = 0;
    for (std::size_t i = 0; i < extent.size(); ++i) {
      const std::uint64_t global = index[i] + (part.slice ? part.slice->begin[i] : 0);
      at = at * held.held_shape()[i] + global - (held.slice ? held.slice->begin[i] : 0);
    }
    found.push_back(at);
    for (std::size_t i = extent.size(); i-- > 0;) {
      if (++index[i] < extent[i]) break;
      index[i] = 0;
    }
  }
  return found;
}

void expect_place(const TensorSchema& part, const TensorSchema& held,
                  std::optional<bool> is_contiguous = {}) {
  const std::optional<SlicePlace> place = SlicePlace::find(part, held);
  ASSERT_TRUE(place.has_value()) << describe_kind(part);
  if (is_contiguous) {
    EXPECT_EQ(place->is_contiguous(), *is_contiguous) << describe_kind(part);
  }
  const std::vector<std::uint64_t> elements = elements_of(part, held);
  ASSERT_EQ(place->byte_count(), 2 * elements.size());
  if (place->is_contiguous() && !elements.empty()) {
    EXPECT_EQ(place->first_byte(), 2 * elements[0]);
  }
  std::vector<std::uint16_t> source(*element_count(held)), got(elements.size());
  for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<std::uint16_t>(i);
  const codec::ArraySpec array[1] = {{DataType::kUint16, elements.size()}};
  const codec::BlockMap map(array);
  const PlacedSlice places[1] = {{0, *place}};
  const SliceSource slices(places, map, {reinterpret_cast<const std::byte*>(source.data())});
  EXPECT_EQ(slices.pointers()[0] != nullptr, place->is_contiguous() && !source.empty());
  for (const std::uint64_t piece : {std::uint64_t{7}, std::uint64_t{1} << 40}) {
    std::fill(got.begin(), got.end(), std::uint16_t{0xffff});
    for (std::uint64_t at = 0; at < elements.size(); at += piece) {
      slices.read(0, at, std::min<std::uint64_t>(piece, elements.size() - at),
                  reinterpret_cast<std::byte*>(&got[at]));
    }
    for (std::size_t i = 0; i < elements.size(); ++i)
      ASSERT_EQ(got[i], source[elements[i]]) << describe_kind(part) << i;
  }
}

TEST(SlicePlace, RowsAreContiguousAndColumnsAreNot) {
  const TensorSchema whole = tensor({8, 6});
  expect_place(whole, whole, true);
  expect_place(tensor({8, 6}, TensorSlice{{2, 0}, {3, 6}}), whole, true);
  expect_place(tensor({8, 6}, TensorSlice{{0, 2}, {8, 3}}), whole, false);
  expect_place(tensor({8, 6}, TensorSlice{{3, 2}, {1, 3}}), whole, true);
  expect_place(tensor({8, 6}, TensorSlice{{7, 5}, {1, 1}}), whole, true);
  expect_place(tensor({8, 6}, TensorSlice{{8, 0}, {0, 6}}), whole, true);
  expect_place(tensor({}), tensor({}), true);
  expect_place(tensor({4, 0}), tensor({4, 0}), true);
}

TEST(SlicePlace, SlicesOfASlice) {
  const TensorSchema held = tensor({8, 6, 4}, TensorSlice{{2, 1, 0}, {5, 4, 4}});
  expect_place(tensor({8, 6, 4}, TensorSlice{{3, 1, 0}, {2, 4, 4}}), held, true);
  expect_place(tensor({8, 6, 4}, TensorSlice{{2, 2, 1}, {5, 2, 2}}), held, false);
  for (const TensorSlice& outside :
       {TensorSlice{{1, 1, 0}, {2, 4, 4}}, TensorSlice{{2, 1, 0}, {6, 4, 4}},
        TensorSlice{{2, 0, 0}, {5, 5, 4}}}) {
    EXPECT_FALSE(SlicePlace::find(tensor({8, 6, 4}, outside), held).has_value());
  }
  EXPECT_FALSE(SlicePlace::find(tensor({8, 6, 4}), held).has_value());
}

TEST(SlicePlace, AnySliceOfAnyTensor) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 500; ++round) {
    const std::size_t rank = random() % 5;
    Dimensions shape(rank), begin(rank), extent(rank);
    for (std::size_t i = 0; i < rank; ++i) {
      shape[i] = 1 + random() % 6;
      begin[i] = random() % 3 == 0 ? 0 : random() % shape[i];
      extent[i] = random() % 3 == 0 ? shape[i] - begin[i] : random() % (shape[i] - begin[i] + 1);
    }
    expect_place(tensor(shape, TensorSlice{begin, extent}), tensor(shape));
  }
}

TEST(SlicePlace, WhatDoesNotFitIsNamed) {
  const Schema held{{"b", DataType::kFloat32, {8, 4}}, {"a", DataType::kBfloat16, {3}}};
  const auto text = [&](const TensorSchema& part) {
    return std::string(place_slices({part}, held).status().message());
  };
  EXPECT_EQ(text({"c", DataType::kFloat32, {8, 4}}), "there is no tensor 'c'");
  EXPECT_EQ(text({"a", DataType::kFloat16, {3}}),
            "tensor 'a' is bfloat16 [3], wanted is float16 [3]: give the replica the tensors of "
            "the publisher's model");
  EXPECT_EQ(text({"b", DataType::kFloat32, {8, 5}, TensorSlice{{0, 0}, {1, 5}}}),
            "tensor 'b' is float32 [8, 4], wanted is float32 [1, 5] at [0, 0] of [8, 5]: give the "
            "replica the tensors of the publisher's model");
  const auto placed = place_slices({{"a", DataType::kBfloat16, {3}},
                                    {"b", DataType::kFloat32, {8, 4}, TensorSlice{{0, 1}, {8, 1}}}},
                                   held);
  ASSERT_TRUE(placed.ok());
  EXPECT_EQ((*placed)[0].tensor, 1U);
  EXPECT_EQ((*placed)[1].tensor, 0U);
}

// Tensors that come from a source themselves: here each element is its number, twice.
TEST(SliceSource, ReadsFromASource) {
  class Counting final : public codec::ArraySource {
   public:
    void read(std::uint32_t array, std::uint64_t first, std::uint64_t count,
              std::byte* out) const override {
      EXPECT_EQ(array, 1U);
      for (std::uint64_t i = 0; i < count; ++i) {
        const auto value = static_cast<std::uint16_t>(2 * (first + i));
        std::memcpy(out + 2 * i, &value, 2);
      }
    }
  };
  const Schema held{{"y", DataType::kUint16, {10}}, {"x", DataType::kUint16, {100, 50}}};
  const auto places =
      place_slices({{"x", DataType::kUint16, {100, 50}, TensorSlice{{0, 10}, {100, 20}}}}, held);
  ASSERT_TRUE(places.ok());
  const codec::ArraySpec array[1] = {{DataType::kUint16, 2000}};
  const codec::BlockMap map(array);
  const SliceSource slices(*places, map, {nullptr, nullptr}, std::make_shared<Counting>());
  EXPECT_EQ(slices.pointers()[0], nullptr);
  std::vector<std::uint16_t> got(1000);
  slices.read(0, 5, 1000, reinterpret_cast<std::byte*>(got.data()));
  for (std::size_t i = 0; i < got.size(); ++i) {
    const std::size_t at = i + 5;
    ASSERT_EQ(got[i], 2 * (at / 20 * 50 + 10 + at % 20));
  }
}

}  // namespace
}  // namespace sparcl::model
