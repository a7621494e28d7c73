#include "src/codec/sparse_vector.hpp"

#include <gtest/gtest.h>

#include "tests/codec/golden_streams.hpp"

namespace sparcl::codec {
namespace {

struct Vector {
  std::vector<std::uint64_t> indices;
  Array values;
};

Bytes encode(const Vector& vector, DataType type,
             const kernels::KernelSet& set = kernels::cpu_kernels(), std::uint64_t budget = 1) {
  SparseEncoder encoder(vector.indices, vector.values.data(), type, set);
  VectorSink sink;
  while (!encoder.finished()) EXPECT_TRUE(encoder.step(budget, sink).ok());
  return sink.bytes();
}

Status decode(const Bytes& bytes, DataType type, Vector& vector, std::uint64_t piece = 100000) {
  const Staging& staging = staged(bytes);
  SparseDecoder decoder(type, kernels::cpu_kernels());
  for (std::uint64_t available = 0; available < bytes.size();) {
    available = std::min<std::uint64_t>(available + piece, bytes.size());
    for (bool more = true; more;)
      SPARCL_RETURN_IF_ERROR(decoder.advance(staging, available, 2, more));
  }
  SPARCL_RETURN_IF_ERROR(decoder.finish(bytes.size()));
  vector.indices.resize(decoder.nnz());
  vector.values.resize(decoder.nnz() * element_bytes(type));
  return decoder.extract(staging, vector.indices.data(), vector.values.data());
}

Vector vector_of(std::vector<std::uint64_t> indices, DataType type) {
  std::mt19937_64 random(indices.size());
  Vector vector{std::move(indices), {}};
  vector.values.resize(vector.indices.size() * element_bytes(type));
  for (std::byte& byte : vector.values) byte = static_cast<std::byte>(random());
  return vector;
}

TEST(SparseVector, ComesBack) {
  std::vector<std::uint64_t> full(65536 + 70000), spread;
  for (std::size_t i = 0; i < full.size(); ++i) full[i] = 3 * 65536 + i;
  std::mt19937_64 random(1);
  for (std::uint64_t index = 5; index < 50000000; index += 1 + random() % 3000)
    spread.push_back(index);
  const std::uint64_t top = ~std::uint64_t{0};
  for (const DataType type :
       {DataType::kInt8, DataType::kBfloat16, DataType::kFloat32, DataType::kFloat64}) {
    for (const auto& indices : {std::vector<std::uint64_t>{},
                                {0},
                                {top},
                                {0, 65535, 65536, top - 65536, top - 65535, top},
                                full,
                                spread}) {
      const Vector vector = vector_of(indices, type);
      const Bytes bytes = encode(vector, type);
      for (const std::uint64_t piece : {1u, 997u, 10000000u}) {
        if (piece == 1 && bytes.size() > 5000) continue;
        Vector back;
        const Status status = decode(bytes, type, back, piece);
        ASSERT_TRUE(status.ok()) << status.message();
        ASSERT_TRUE(back.indices == vector.indices && back.values == vector.values)
            << indices.size();
      }
    }
  }
}

TEST(SparseVector, FullBlocksCostTheirValuesOnly) {
  std::vector<std::uint64_t> indices(65536);
  for (std::size_t i = 0; i < indices.size(); ++i) indices[i] = (std::uint64_t{1} << 40) + i;
  EXPECT_LT(encode(vector_of(indices, DataType::kInt8), DataType::kInt8).size(), 65536u + 200);
}

TEST(SparseVector, StreamDoesNotDependOnKernelsOrBudget) {
  const GoldenSparse golden = golden_sparse();
  const Vector vector{golden.indices, golden.values};
  const Bytes first = encode(vector, DataType::kInt16, kernels::reference_kernels(), 1);
  for (const kernels::KernelSet& set : kernels::all_cpu_kernels())
    EXPECT_TRUE(encode(vector, DataType::kInt16, set, 100000) == first) << set.name;
}

TEST(SparseVector, AnotherTypeIsAMismatch) {
  Vector back;
  EXPECT_EQ(
      decode(encode(vector_of({1, 2}, DataType::kInt8), DataType::kInt8), DataType::kUint8, back)
          .code(),
      Code::kMismatch);
}

TEST(SparseVector, IndicesPast64BitsAreRefused) {
  RawStream stream =
      take_apart(encode(vector_of({~std::uint64_t{0}}, DataType::kInt8), DataType::kInt8));
  Bytes& block = stream.sections[1].content;
  ASSERT_EQ(block.at(6), std::byte{0x3f}) << "the gap is 2^48 - 1 blocks, in seven bytes";
  std::fill_n(block.begin(), 6, std::byte{0x80});
  block[6] = std::byte{0x40};  // 2^48
  Vector back;
  const Status status = decode(put_together(stream), DataType::kInt8, back);
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_NE(status.message().find("past 2^64"), std::string::npos) << status.message();
}

TEST(SparseVector, ModesOfUpdatesAreRefused) {
  for (const unsigned mode : {1u, 3u}) {
    RawStream stream = take_apart(encode(vector_of({1, 2}, DataType::kInt8), DataType::kInt8));
    stream.sections[1].tag = static_cast<std::uint8_t>(kTagBlock + mode);
    Vector back;
    EXPECT_EQ(decode(put_together(stream), DataType::kInt8, back).code(), Code::kCorrupt);
  }
}

TEST(SparseVector, EveryFlippedBitAndEveryCutIsRefused) {
  const GoldenSparse golden = golden_sparse();
  const Bytes good = encode({golden.indices, golden.values}, DataType::kInt16);
  Vector back;
  for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
    Bytes bad = good;
    bad[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
    ASSERT_FALSE(decode(bad, DataType::kInt16, back).ok()) << bit;
  }
  for (std::size_t size = 0; size < good.size(); ++size) {
    ASSERT_FALSE(decode({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)},
                        DataType::kInt16, back)
                     .ok())
        << size;
  }
}

}  // namespace
}  // namespace sparcl::codec
