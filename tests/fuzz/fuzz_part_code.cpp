// Coded parts of a sparse sum as another rank may send them: refused, or expanded to a part whose
// entries ascend in its run; that part, coded again, gives itself back.

#include <algorithm>
#include <array>
#include <cstring>

#include "kernels/kernel_set.hpp"
#include "src/base/buffer_pool.hpp"
#include "src/base/bytes.hpp"
#include "src/sparse/parts/part_code.hpp"
#include "src/sparse/selection/group_rounding.hpp"
#include "src/sparse/selection/scaled_values.hpp"
#include "tests/fuzz/fuzz_target.hpp"

namespace sparcl::fuzz {
namespace {

using sparse::BlockRun;
using sparse::PartShape;

constexpr std::array kLog2s{12u, 16u};
struct Values {
  std::size_t width;
  sparse::ValueForm form = sparse::ValueForm::kUnmodified;
};
constexpr std::array kValues{Values{4, sparse::ValueForm::kScaled8},
                             Values{0},
                             Values{2},
                             Values{8},
                             Values{4, sparse::ValueForm::kScaled4},
                             Values{4, sparse::ValueForm::kScaled2}};
constexpr std::size_t kChoices = 4;  // bytes in front of the message
constexpr std::uint64_t kMaxBytes = 4 << 20;

PartShape shape_of(Choices& choices) {
  BlockRun run;
  run.block_log2 = kLog2s[choices.below(kLog2s.size())];
  run.first = choices.below(40);
  run.blocks = 1 + choices.below(60);
  const Values values = kValues[choices.below(kValues.size())];
  return {run, values.width, values.form};
}

void run(std::span<const std::byte> input) {
  Choices choices(input);
  const PartShape shape = shape_of(choices);
  const Bytes message(choices.rest().begin(),
                      choices.rest().end());  // in memory of its own, where reading behind it shows
  BufferPool buffers(0);
  for (const kernels::KernelSet* kernels :
       {&kernels::reference_kernels(), &kernels::cpu_kernels()}) {
    sparse::PartCoder coder(*kernels);
    const std::optional<Buffer> part = coder.expand(buffers, message, shape, kMaxBytes);
    if (!part) continue;
    require(part->size() <= kMaxBytes, "a part is no larger than it may be");
    const auto view = sparse::PartView::read(*kernels, part->bytes(), shape.run, shape.value_bytes);
    require(view.has_value(), "what comes out is a part of the run");
    const std::optional<Buffer> again = coder.code(buffers, part->bytes(), shape);
    if (!again) continue;
    const std::optional<Buffer> twice = coder.expand(buffers, again->bytes(), shape, part->size());
    require(twice.has_value() && std::ranges::equal(twice->bytes(), part->bytes()),
            "coding loses nothing");
  }
}

Bytes seed_of(std::size_t log2, unsigned first, unsigned blocks, std::size_t width,
              std::uint64_t step, bool is_rounded) {
  Bytes seed{static_cast<std::byte>(log2), static_cast<std::byte>(first),
             static_cast<std::byte>(blocks - 1), static_cast<std::byte>(width)};
  Choices choices(seed);
  const PartShape shape = shape_of(choices);
  std::vector<std::uint64_t> indices;
  for (std::uint64_t i = shape.run.first_index(); i < shape.run.end_index();
       i += 1 + (i * 7 + i / 5) % step)
    indices.push_back(i);
  std::vector<float> numbers(indices.size() * 2);
  for (std::size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = static_cast<float>(i % 31) * 0.37F - 4;
  Bytes values(numbers.size() * sizeof(float));
  std::memcpy(values.data(), numbers.data(), values.size());
  if (is_rounded && shape.form == sparse::ValueForm::kScaled8)
    sparse::round_to_scaled(values.data(), numbers.size(), values.data());
  else if (is_rounded && shape.is_scaled())
    sparse::round_to_groups(shape.form, values.data(), numbers.size(), values.data());
  BufferPool buffers(0);
  const kernels::KernelSet& kernels = kernels::cpu_kernels();
  const Buffer part =
      sparse::write_part(buffers, kernels, shape.run, indices, values.data(), shape.value_bytes);
  const std::optional<Buffer> message =
      sparse::PartCoder(kernels).code(buffers, part.bytes(), shape);
  const std::span<const std::byte> bytes = message ? message->bytes() : part.bytes();
  seed.insert(seed.end(), bytes.begin(), bytes.end());
  return seed;
}

std::vector<Bytes> seeds() {
  return {seed_of(0, 3, 2, 0, 90, true),      seed_of(0, 0, 1, 0, 20, false),
          seed_of(0, 9, 1, 1, 40, false),     seed_of(1, 1, 1, 2, 900, false),
          seed_of(1, 0, 3, 3, 3000, false),   seed_of(0, 5, 4, 0, 5, true),
          seed_of(1, 2, 60, 0, 30'000, true), seed_of(0, 3, 2, 4, 90, true),
          seed_of(0, 5, 4, 5, 5, true),       seed_of(1, 2, 60, 5, 30'000, true)};
}

// The message's length is made right, and now and then a number of its head becomes another.
Bytes mutate(const Bytes& input, ByteMutation mutate_bytes, Random& random) {
  Bytes bytes = input;
  bytes.resize(input.size() + 32);
  bytes.resize(mutate_bytes(bytes.data(), input.size(), bytes.size()));
  if (bytes.size() < kChoices + sparse::kPartHeadBytes || random() % 8 == 0) return bytes;
  std::byte* const head = bytes.data() + kChoices;
  store_le<std::uint64_t>(head, sparse::kCodedPart | (bytes.size() - kChoices));
  if (random() % 8 == 0) {
    constexpr std::array<std::uint64_t, 5> kNumbers{0, 1, 65'536, std::uint64_t{1} << 61,
                                                    ~std::uint64_t{0}};
    store_le<std::uint64_t>(head + 8 * (1 + random() % 3), kNumbers[random() % kNumbers.size()]);
  }
  return bytes;
}

const Registration registration({"part_code", run, seeds, mutate});

}  // namespace
}  // namespace sparcl::fuzz
