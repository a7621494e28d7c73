// Parts of a sparse sum as another rank may send them: refused, or entries that lie in the part.
// Sums and unions of them stay in bounds, and are parts themselves.

#include <algorithm>
#include <array>
#include <cstring>

#include "kernels/kernel_set.hpp"
#include "src/base/buffer_pool.hpp"
#include "src/base/bytes.hpp"
#include "src/sparse/parts/part_sum.hpp"
#include "src/sparse/selection/support.hpp"
#include "tests/fuzz/fuzz_target.hpp"

namespace sparcl::fuzz {
namespace {

using sparse::BlockRun;
using sparse::PartView;

struct Kind {
  DataType type;
  kernels::ReduceOp op;
};
constexpr std::array kKinds{Kind{DataType::kFloat32, kernels::ReduceOp::kSum},
                            Kind{DataType::kFloat64, kernels::ReduceOp::kSum},
                            Kind{DataType::kBfloat16, kernels::ReduceOp::kMax},
                            Kind{DataType::kInt64, kernels::ReduceOp::kProd},
                            Kind{DataType::kInt8, kernels::ReduceOp::kMin}};
constexpr std::array kLog2s{12u, 13u, 16u};
constexpr std::array kShareLog2s{4u, 6u};
constexpr std::size_t kParts = 5;  // from four on, sums go through ranks
constexpr std::size_t kChoices = 5;  // bytes in front of the parts

// What an input says about its parts. Each part goes into memory of its own, where reading behind
// it shows.
struct Scene {
  explicit Scene(std::span<const std::byte> input) {
    Choices choices(input);
    kind = kKinds[choices.below(kKinds.size())];
    run.block_log2 = kLog2s[choices.below(kLog2s.size())];
    run.first = choices.below(40);
    run.blocks = 1 + choices.below(20);
    run.position_share_log2 = kShareLog2s[choices.below(kShareLog2s.size())];
    std::span<const std::byte> rest = choices.rest();
    while (parts.size() < kParts) {
      const std::size_t says = rest.size() < 8
                                   ? rest.size()
                                   : static_cast<std::size_t>(std::min<std::uint64_t>(
                                         load_le<std::uint64_t>(rest.data()), rest.size()));
      const std::size_t bytes = parts.size() + 1 == kParts ? rest.size() : says;
      parts.emplace_back(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(bytes));
      rest = rest.subspan(bytes);
    }
  }
  std::vector<std::span<const std::byte>> spans() const { return {parts.begin(), parts.end()}; }

  Kind kind{};
  BlockRun run;
  std::vector<Bytes> parts;
};

const kernels::KernelSet& kernels_of(std::size_t which) {
  return which == 0 ? kernels::reference_kernels() : kernels::cpu_kernels();
}

void look_at(const Bytes& bytes, const BlockRun& run, std::size_t value_bytes,
             const kernels::KernelSet& kernels) {
  std::optional<PartView> view = PartView::read(kernels, bytes, run, value_bytes);
  if (!view) return;
  std::vector<std::uint16_t> scratch(run.block_elements() + kernels::kEntrySlack);
  std::size_t entries = 0, blocks = 0;
  std::uint64_t next_block = 0;
  for (; !view->at_end(); view->next(), ++blocks) {
    const std::size_t own = view->block_entries();
    require(view->block() >= next_block && view->block() < run.blocks,
            "blocks ascend, and are the run's");
    require(own > 0 && own <= run.block_elements(), "a block has no more entries than elements");
    next_block = view->block() + 1;
    require(view->block_values() == view->values() + entries * value_bytes,
            "values follow each other");
    const std::uint16_t* const positions = view->positions(kernels, scratch.data());
    const auto* from = reinterpret_cast<const std::byte*>(positions);
    const bool is_inside =
        from >= bytes.data() && from + own * sizeof(std::uint16_t) <= bytes.data() + bytes.size();
    require(view->is_bitmap() ? positions == scratch.data() : is_inside,
            "positions lie in the part");
    const std::uint32_t first = run.first_position(view->block());
    for (std::size_t i = 0; i < own && view->is_bitmap(); ++i)
      require(positions[i] >= first && positions[i] - first < run.block_elements(),
              "a bitmap has no element of another block");
    entries += own;
  }
  require(entries == view->entries() && blocks == view->blocks(),
          "entries and blocks are as many as it says");
  require(view->values() + entries * value_bytes <= bytes.data() + bytes.size(),
          "values lie in the part");
}

void sum_up(const Scene& scene, sparse::PartValues in, Determinism determinism,
            const kernels::KernelSet& kernels) {
  BufferPool buffers(0);
  const sparse::SumKind kind{scene.kind.type, {scene.kind.op, false}, determinism};
  sparse::PartSum sum(buffers, kernels, kind, kParts, in, in, 1);
  const auto parts = scene.spans();
  for (int twice = 0; twice < 2;
       ++twice) {  // what a refused part has left behind harms no later one
    const std::optional<Buffer> result = sum.sum(parts, scene.run);
    if (!result) {
      require(sum.refused() < kParts, "the part that is refused is one");
      continue;
    }
    const std::size_t value_bytes = sparse::part_value_bytes(kernels, scene.kind.type, in);
    require(PartView::read(kernels, result->bytes(), scene.run, value_bytes).has_value(),
            "a sum is a part");
  }
}

void unite(const Scene& scene, const kernels::KernelSet& kernels) {
  BlockRun run = scene.run;
  run.first = 0;
  run.block_log2 = 16;
  const std::uint64_t count = run.end_index() - scene.run.first;
  sparse::Support all(kernels);
  if (!all.unite(scene.spans(), run, count)) return;
  std::uint64_t next = 0;
  for (const sparse::Support::Block& block : all.blocks()) {
    for (std::size_t i = 0; i < block.count; ++i) {
      const std::uint64_t index = block.base + all.positions(block)[i];
      require(index >= next && index < count, "elements ascend, and are the array's");
      next = index + 1;
    }
  }
}

void run(std::span<const std::byte> input) {
  if (input.size() < kChoices) return;
  const Scene scene(input);
  for (const std::size_t which : {std::size_t{0}, std::size_t{1}}) {
    const kernels::KernelSet& kernels = kernels_of(which);
    for (const Bytes& part : scene.parts) {
      for (const std::size_t value_bytes : {0, 1, 2, 4, 8})
        look_at(part, scene.run, value_bytes, kernels);
    }
    for (const auto in : {sparse::PartValues::kElements, sparse::PartValues::kAccumulators}) {
      sum_up(scene, in, Determinism::kCanonical, kernels);
      sum_up(scene, in, Determinism::kRuns, kernels);
    }
    unite(scene, kernels);
  }
}

// Three parts of one kind: `each` entries a rank, so dense that blocks become bitmaps where `step`
// is small.
Bytes seed_of(std::size_t kind, std::size_t log2, unsigned first, unsigned blocks, std::size_t each,
              std::uint64_t step) {
  Bytes seed{static_cast<std::byte>(kind), static_cast<std::byte>(log2),
             static_cast<std::byte>(first), static_cast<std::byte>(blocks - 1),
             static_cast<std::byte>(kind % 2)};
  const BlockRun run{first, blocks, kLog2s[log2], kShareLog2s[kind % 2]};
  const std::size_t width = element_bytes(kKinds[kind].type);
  BufferPool buffers(0);
  for (std::uint64_t rank = 0; rank < kParts; ++rank) {
    std::vector<std::uint64_t> indices;
    for (std::uint64_t i = run.first_index() + rank * 3;
         i < run.end_index() && indices.size() < each; i += step)
      indices.push_back(i);
    const Bytes values(indices.size() * width, std::byte{0x3f});
    Buffer part =
        sparse::write_part(buffers, kernels::cpu_kernels(), run, indices, values.data(), width);
    if (rank == 2) {  // as a sum writes it: bitmaps, and a gap before the values
      sparse::PartSum sum(buffers, kernels::cpu_kernels(),
                          {kKinds[kind].type, {kKinds[kind].op, false}, {}}, 1,
                          sparse::PartValues::kElements, sparse::PartValues::kElements, 1);
      const std::span<const std::byte> parts[] = {part.bytes()};
      part = *sum.sum(parts, run);
    }
    seed.insert(seed.end(), part.bytes().begin(), part.bytes().end());
  }
  return seed;
}

std::vector<Bytes> seeds() {
  std::vector<Bytes> all;
  for (std::size_t kind = 0; kind < kKinds.size(); ++kind) {
    all.push_back(seed_of(kind, kind % 3, 0, 1, 0, 1));
    all.push_back(seed_of(kind, kind % 3, 7, 5, 12, 700));
    all.push_back(seed_of(kind, 0, 3, 2, 300, 1));
  }
  all.push_back(seed_of(2, 2, 0, 4, 40, 5'000));
  return all;
}

// The lengths of the parts are made right, and now and then numbers of a head become others' or
// extremes.
Bytes mutate(const Bytes& input, ByteMutation mutate_bytes, Random& random) {
  Bytes bytes = input;
  bytes.resize(input.size() + 64);
  bytes.resize(mutate_bytes(bytes.data(), input.size(), bytes.size()));
  if (bytes.size() < kChoices + sparse::kPartHeadBytes || random() % 4 == 0) return bytes;
  std::byte* const head = bytes.data() + kChoices;
  const std::size_t room = bytes.size() - kChoices;
  if (random() % 3 == 0) {
    constexpr std::array<std::uint64_t, 6> kNumbers{
        0, 1, 32, 65'536, std::uint64_t{1} << 61, ~std::uint64_t{0}};
    store_le<std::uint64_t>(head + 8 * (1 + random() % 3), kNumbers[random() % kNumbers.size()]);
  }
  if (load_le<std::uint64_t>(head) > room) store_le<std::uint64_t>(head, room);
  return bytes;
}

const Registration registration({"entry_part", run, seeds, mutate});

}  // namespace
}  // namespace sparcl::fuzz
