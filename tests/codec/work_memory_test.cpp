// What encoders and decoders take is what they say that they take, whatever the arrays' size.

#include "src/codec/work_memory.hpp"

#include <gtest/gtest.h>
#include <malloc.h>

#include "src/base/worker_pool.hpp"
#include "tests/codec/codec_support.hpp"

namespace sparcl::codec {
namespace {

std::uint64_t memory_in_use() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

// Memory that sections are written to and forgotten.
class NoSink final : public ByteSink {
 public:
  std::byte* reserve(std::size_t bytes) override {
    bytes_.resize(std::max(bytes_.size(), bytes));
    return bytes_.data();
  }
  void commit(std::size_t) override {}

 private:
  std::vector<std::byte> bytes_ = std::vector<std::byte>(std::size_t{9} << 20);
};

struct Taken {
  std::uint64_t encode = 0;
  std::uint64_t decode = 0;
};

Taken taken(const State& base, const State& target, EncodeOptions options, WorkerPool& pool) {
  options.with_state_hash = true;
  options.workers = &pool;
  const BlockMap map = target.map();
  const auto base_arrays = base.read();
  const auto target_arrays = target.read();
  Taken most;
  {
    NoSink sink;
    const std::uint64_t before = memory_in_use();
    UpdateEncoder encoder(map, base_arrays, target_arrays, options, kernels::cpu_kernels());
    while (!encoder.finished()) {
      EXPECT_TRUE(encoder.step(1, sink).ok());
      most.encode = std::max(most.encode, memory_in_use() - before);
    }
  }
  const Encoded encoded = encode(base, target, options);
  const Staging& staging = staged(encoded.bytes);
  State held = base;
  const auto arrays = held.write();
  const std::uint64_t before = memory_in_use();
  UpdateDecoder decoder(map, arrays, Verify::kFull, {}, kernels::cpu_kernels());
  decoder.set_workers(pool);
  for (bool more = true; more;) {
    EXPECT_TRUE(decoder.advance(staging, encoded.bytes.size(), 1, more).ok());
    most.decode = std::max(most.decode, memory_in_use() - before);
  }
  EXPECT_TRUE(decoder.finish(encoded.bytes.size()).ok());
  EXPECT_TRUE(decoder.apply(staging).ok());
  most.decode = std::max(most.decode, memory_in_use() - before);
  return most;
}

TEST(WorkMemory, IsAtMostWhatIsSaid) {
  if (const auto probe = std::vector<std::byte>(std::size_t{64} << 20);
      memory_in_use() < probe.size()) {
    GTEST_SKIP() << "the allocator does not tell what is in use (a sanitizer's does not)";
  }
  for (const DataType type : {DataType::kUint8, DataType::kBfloat16, DataType::kFloat64}) {
    const State base = random_state({{type, std::uint64_t{1} << 20}}, 1);
    for (const double density : {0.001, 0.03, 0.3, 1.0}) {
      const State target = changed_state(base, density, Change::kUlp, 2);
      for (const unsigned threads : {1u, 2u}) {
        WorkerPool pool(threads);
        EncodeOptions options;
        options.allow_classes = options.fewest_bytes = true;
        const Taken most = taken(base, target, options, pool);
        const WorkMemory said = work_memory(base.map(), threads);
        EXPECT_GT(most.encode, 0u);
        EXPECT_LE(most.encode, said.encode_bytes)
            << info(type).name << " " << density << ", threads " << threads;
        EXPECT_LE(most.decode, said.decode_bytes)
            << info(type).name << " " << density << ", threads " << threads;
      }
    }
  }
}

TEST(WorkMemory, IsNoPartOfTheArrays) {
  const ArraySpec small{DataType::kBfloat16, std::uint64_t{1} << 20};
  const ArraySpec large{DataType::kBfloat16, std::uint64_t{1} << 40};
  const WorkMemory of_small = work_memory(BlockMap({&small, 1}), 1);
  const WorkMemory of_large = work_memory(BlockMap({&large, 1}), 1);
  EXPECT_EQ(of_small.encode_bytes, of_large.encode_bytes);
  EXPECT_LT(of_large.decode_bytes, large.count * 2 / 1000);
}

}  // namespace
}  // namespace sparcl::codec
