#include "src/codec/update.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/codec/codec_support.hpp"

namespace sparcl::codec {
namespace {

constexpr DataType kAllTypes[] = {DataType::kInt8,    DataType::kUint8,    DataType::kInt16,       DataType::kUint16,     DataType::kInt32,
                                  DataType::kUint32,  DataType::kInt64,    DataType::kUint64,      DataType::kFloat16,    DataType::kBfloat16,
                                  DataType::kFloat32, DataType::kFloat64,  DataType::kFloat8e4m3,  DataType::kFloat8e5m2, DataType::kBool};

class EveryType : public testing::TestWithParam<DataType> {};

TEST_P(EveryType, ComesBackAtEveryDensity) {
  const State base = random_state({{GetParam(), 150001}}, 1);
  for (const double density : {0.0, 1e-6, 1e-4, 0.003, 0.01, 0.05, 0.3, 0.5, 0.97, 1.0}) {
    for (const Change change : {Change::kUlp, Change::kRandom}) {
      const State target = changed_state(base, density, change, 2);
      EncodeOptions options;
      options.with_state_hash = true;
      const Encoded encoded = encode(base, target, options);
      ASSERT_TRUE(encoded.status.ok()) << encoded.status.message();
      for (const Verify verify : {Verify::kOff, Verify::kTouched, Verify::kFull}) {
        State held = base;
        const Status status = decode(encoded.bytes, held, verify);
        ASSERT_TRUE(status.ok()) << status.message() << " density " << density;
        ASSERT_TRUE(held.arrays == target.arrays) << "density " << density;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Update, EveryType, testing::ValuesIn(kAllTypes), [](const auto& each) { return std::string(find_data_type(static_cast<int>(each.param))->name); });

}  // namespace
}  // namespace sparcl::codec
