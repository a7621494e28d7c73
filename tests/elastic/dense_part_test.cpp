// A contribution of all elements has the entries that the selected ones have, and leaves what they
// leave.
#include "src/elastic/dense_part.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "src/base/buffer_pool.hpp"
#include "src/sparse/selection/selection.hpp"

namespace sparcl::elastic {
namespace {

std::vector<float> some_values(std::size_t count, double density, std::uint64_t seed) {
  constexpr float kOdd[] = {-0.0F, std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN(), 1e-42F, 3e38F};
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> uniform(0, 1);
  std::vector<float> values(count);
  for (float& value : values) {
    if (uniform(random) >= density) continue;
    value = random() % 64 == 0 ? kOdd[random() % std::size(kOdd)]
                               : static_cast<float>(uniform(random) - 0.5);
  }
  return values;
}

std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }

Entries entries_of(BufferPool& buffers, const sparse::BlockRun& run, const Packed& packed) {
  const kernels::KernelSet& kernels = kernels::cpu_kernels();
  const Result<Buffer> part =
      unpack(buffers, kernels, run, run.end_index(), packed.offered, packed.bytes);
  EXPECT_TRUE(part.ok());
  return part.ok() ? elastic::entries_of(kernels, run, part->bytes(), value_type(packed.offered))
                   : Entries();
}

// As a worker does it that keeps some.
PackedAll pack_selected(BufferPool& buffers, const sparse::BlockRun& run,
                        const sparse::WireType& wire, std::vector<float>& values) {
  const kernels::KernelSet& kernels = kernels::cpu_kernels();
  sparse::Selection selection(DataType::kFloat32, kernels);
  const sparse::Selected chosen = selection.select(reinterpret_cast<std::byte*>(values.data()),
                                                   nullptr, values.size(), values.size());
  const std::size_t count = chosen.indices.size();
  std::vector<float> rest(count);
  if (count > 0) std::memcpy(rest.data(), chosen.accumulators, count * sizeof(float));
  std::vector<std::byte> sent(count * element_bytes(wire.sent));
  sparse::round_to_wire(kernels, wire, chosen.accumulators, count, sent.data());
  Result<Packed> packed = pack(buffers, kernels, run, wire, chosen.indices, sent.data());
  EXPECT_TRUE(packed.ok());
  (void)sparse::leave_rest(kernels, wire, sent.data(), count,
                           reinterpret_cast<std::byte*>(rest.data()));
  for (std::size_t i = 0; i < count; ++i) values[chosen.indices[i]] = rest[i];
  return {count, std::move(*packed)};
}

TEST(DensePart, IsThatOfTheSelectedElements) {
  BufferPool buffers;
  const kernels::KernelSet& kernels = kernels::cpu_kernels();
  for (const sparse::Wire asked : {sparse::Wire::kSameType, sparse::Wire::kBfloat16}) {
    const sparse::WireType wire = sparse::wire_type(DataType::kFloat32, asked);
    for (const std::size_t count : {1U, 63U, 65'535U, 65'536U, 65'537U, 200'000U}) {
      const sparse::BlockRun run{0, (count + 65'535) >> 16, 16};
      for (const double density : {0.0, 0.001, 0.05, 0.3, 1.0}) {
        SCOPED_TRACE(testing::Message() << count << " elements, density " << density << ", wire "
                                        << static_cast<int>(asked));
        std::vector<float> values = some_values(count, density, count), same = values;
        const PackedAll expected = pack_selected(buffers, run, wire, same);
        Result<PackedAll> all = pack_all(buffers, kernels, run, wire, values);
        ASSERT_TRUE(all.ok());
        EXPECT_EQ(all->entries, expected.entries);
        const Entries entries = entries_of(buffers, run, all->packed),
                      wanted = entries_of(buffers, run, expected.packed);
        EXPECT_EQ(entries.indices, wanted.indices);
        EXPECT_TRUE(std::ranges::equal(entries.values, wanted.values, {}, bits_of, bits_of));
        values = rest_of_all(kernels, wire, values);
        for (std::size_t i = 0; i < count; ++i)  // a -0 that was not sent may stay
          ASSERT_TRUE(values[i] == same[i] ||
                      std::memcmp(&values[i], &same[i], sizeof values[i]) == 0)
              << i;
      }
    }
  }
}

#ifdef __SSE2__
// As a training program does it: denormals count as 0 there.
TEST(DensePart, HasDenormalsThatTheThreadFlushes) {
  BufferPool buffers;
  const std::vector<float> values{1e-40F, 0, 2};
  constexpr unsigned kFlushes = 0x8040;  // FTZ and DAZ
  const unsigned before = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(before | kFlushes);
  const Result<PackedAll> all =
      pack_all(buffers, kernels::cpu_kernels(), {0, 1, 16},
               sparse::wire_type(DataType::kFloat32, sparse::Wire::kSameType), values);
  __builtin_ia32_ldmxcsr(before);
  ASSERT_TRUE(all.ok());
  EXPECT_EQ(all->entries, 2U);
}
#endif

}  // namespace
}  // namespace sparcl::elastic
