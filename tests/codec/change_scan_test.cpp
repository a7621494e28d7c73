#include "src/codec/change_scan.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include "tests/codec/codec_support.hpp"

namespace sparcl::codec {
namespace {

struct Hinted {
  std::vector<std::vector<std::uint64_t>> lists;
  std::vector<ChangedHint> hints;
  std::vector<const ChangedHint*> pointers;
};

// All changed elements, and some that are not.
Hinted hint_indices(const State& base, const State& target) {
  Hinted hinted;
  for (std::size_t i = 0; i < base.arrays.size(); ++i) {
    const std::size_t width = element_bytes(base.specs[i].datatype);
    auto& list = hinted.lists.emplace_back();
    for (std::uint64_t j = 0; j < base.specs[i].count; ++j) {
      if (j % 997 == 0 || std::memcmp(&base.arrays[i][j * width], &target.arrays[i][j * width], width) != 0) list.push_back(j);
    }
  }
  for (const auto& list : hinted.lists) hinted.hints.push_back({list, {}, 0});
  for (const ChangedHint& hint : hinted.hints) hinted.pointers.push_back(&hint);
  return hinted;
}

Hinted hint_blocks(const State& base, const State& target, std::uint64_t block) {
  Hinted hinted;
  for (std::size_t i = 0; i < base.arrays.size(); ++i) {
    const std::size_t width = element_bytes(base.specs[i].datatype);
    auto& words = hinted.lists.emplace_back((base.specs[i].count / block) / 64 + 1);
    for (std::uint64_t j = 0; j < base.specs[i].count; ++j) {
      if (std::memcmp(&base.arrays[i][j * width], &target.arrays[i][j * width], width) != 0)
        words[j / block / 64] |= std::uint64_t{1} << (j / block % 64);
    }
  }
  for (const auto& words : hinted.lists) hinted.hints.push_back({{}, words, block});
  for (const ChangedHint& hint : hinted.hints) hinted.pointers.push_back(&hint);
  return hinted;
}

const std::vector<ArraySpec> kSpecs{
    {DataType::kBfloat16, 100000}, {DataType::kBfloat16, 3}, {DataType::kBfloat16, 50000}, {DataType::kInt64, 3000}};

TEST(ChangedHints, GiveTheSameStreamAsComparingAll) {
  const State base = random_state(kSpecs, 1);
  for (const double density : {0.0, 0.0005, 0.02, 1.0}) {
    const State target = changed_state(base, density, Change::kUlp, 2);
    const auto plain = encode(base, target).bytes;
    std::vector<Hinted> all;
    all.push_back(hint_indices(base, target));
    for (const std::uint64_t block : {1u, 7u, 4096u, 65536u, 1000000u}) all.push_back(hint_blocks(base, target, block));
    for (Hinted& hinted : all) {
      EncodeOptions options;
      options.hints = hinted.pointers;
      EXPECT_TRUE(encode(base, target, options).bytes == plain) << density;
      hinted.pointers[2] = nullptr;  // one array unknown
      options.hints = hinted.pointers;
      EXPECT_TRUE(encode(base, target, options).bytes == plain) << density;
    }
  }
}

TEST(ChangedHints, ThatAreWrongAreRefused) {
  const State base = random_state({{DataType::kInt8, 1000}}, 3);
  const auto code_of = [&](const ChangedHint& hint) {
    const ChangedHint* pointer = &hint;
    EncodeOptions options;
    options.hints = {&pointer, 1};
    return encode(base, base, options).status.code();
  };
  const std::vector<std::uint64_t> past{5, 1000}, falls{7, 6}, twice{7, 7}, far_then_near{2000, 5}, good{0, 999}, bits{1};
  EXPECT_EQ(code_of({past, {}, 0}), Code::kInvalidArgument);
  EXPECT_EQ(code_of({falls, {}, 0}), Code::kInvalidArgument);
  EXPECT_EQ(code_of({twice, {}, 0}), Code::kInvalidArgument);
  EXPECT_EQ(code_of({far_then_near, {}, 0}), Code::kInvalidArgument);
  EXPECT_EQ(code_of({{}, {}, 10}), Code::kInvalidArgument) << "a bitmap that is too short";
  EXPECT_EQ(code_of({good, {}, 0}), Code::kSuccess);
  EXPECT_EQ(code_of({{}, bits, ~std::uint64_t{0}}), Code::kSuccess);
  EncodeOptions options;
  const std::vector<const ChangedHint*> two{nullptr, nullptr};
  options.hints = two;
  EXPECT_EQ(encode(base, base, options).status.code(), Code::kInvalidArgument);
}

// Five gigabytes of address space without memory behind it: reading more than what is hinted at would take minutes and pages.
class SparseMemory {
 public:
  explicit SparseMemory(std::size_t bytes) : bytes_(bytes) {
    void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    data_ = at == MAP_FAILED ? nullptr : static_cast<std::byte*>(at);
  }
  ~SparseMemory() {
    if (data_ != nullptr) munmap(data_, bytes_);
  }
  SparseMemory(const SparseMemory&) = delete;
  SparseMemory& operator=(const SparseMemory&) = delete;
  std::byte* data() const { return data_; }

 private:
  std::byte* data_;
  std::size_t bytes_;
};

TEST(ChangedHints, ReachPastFourGigaElements) {
  constexpr std::uint64_t kCount = 5ull << 30;
  const SparseMemory base(kCount), target(kCount), held(kCount);
  if (base.data() == nullptr || target.data() == nullptr || held.data() == nullptr) GTEST_SKIP() << "no 15 GiB of address space";
  const std::vector<std::uint64_t> indices{0, 70000, (1ull << 32) - 1, 1ull << 32, (1ull << 32) + 65535, kCount - 1};
  for (const std::uint64_t index : indices) target.data()[index] = static_cast<std::byte>(index % 250 + 1);
  const ArraySpec spec{DataType::kInt8, kCount};
  const BlockMap map({&spec, 1});
  const ChangedHint hint{indices, {}, 0};
  const ChangedHint* hint_pointer = &hint;
  EncodeOptions options;
  options.hints = {&hint_pointer, 1};
  const std::byte* base_pointer = base.data();
  const std::byte* target_pointer = target.data();
  UpdateEncoder encoder(map, {&base_pointer, 1}, {&target_pointer, 1}, options, kernels::cpu_kernels());
  VectorSink sink;
  while (!encoder.finished()) ASSERT_TRUE(encoder.step(1ull << 30, sink).ok());
  EXPECT_EQ(encoder.stats().changed, indices.size());
  EXPECT_EQ(encoder.stats().elements, kCount);

  std::byte* held_pointer = held.data();
  const Staging& staging = staged(sink.bytes());
  UpdateDecoder decoder(map, {&held_pointer, 1}, Verify::kTouched, {}, kernels::cpu_kernels());
  ASSERT_TRUE(check_stream(decoder, staging, sink.bytes().size()).ok());
  ASSERT_TRUE(decoder.apply(staging).ok());
  for (const std::uint64_t index : indices) {
    EXPECT_EQ(held.data()[index], target.data()[index]) << index;
    const bool stands_alone = index > 0 && index != 1ull << 32;
    EXPECT_TRUE(!stands_alone || held.data()[index - 1] == std::byte{0}) << index;
  }
}

}  // namespace
}  // namespace sparcl::codec
