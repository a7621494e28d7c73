// Groups of blocks, each mode by itself: the reference and the SIMD bodies say the same, and what
// is accepted lies inside the group.

#include <algorithm>
#include <cstring>
#include <memory>

#include "src/codec/group_decoder.hpp"
#include "tests/fuzz/tiny_updates.hpp"

namespace sparcl::fuzz {
namespace {

constexpr DataType kTypes[] = {DataType::kInt8, DataType::kBfloat16, DataType::kFloat32,
                               DataType::kInt64};
constexpr unsigned kModes[] = {codec::kFlatGroupId, codec::kTwoLevelGroupId, codec::kBlockSparseId};

struct Content {
  unsigned mode;
  DataType type;
  std::uint32_t elements;  // of all blocks
  std::span<const std::byte> payload;
};

// Who reads a group knows its elements by its first byte: all blocks are whole but the last.
Content read_content(std::span<const std::byte> input) {
  Choices choices(input);
  const unsigned mode = kModes[choices.below(std::size(kModes))];
  const DataType type = kTypes[choices.below(std::size(kTypes))];
  const std::uint32_t low = choices.below(256);
  const std::uint32_t last = 1 + low + 256 * choices.below(256);
  const std::span<const std::byte> payload = choices.rest();
  const auto blocks = payload.empty() ? 0 : std::to_integer<std::uint32_t>(payload[0]);
  return {mode, type, blocks * codec::kBlockElements + last, payload};
}

struct Outcome {
  const char* wrong = nullptr;
  std::vector<std::uint32_t> positions;  // in the group
  Bytes steps;
};

void decode(codec::GroupDecoder& decoder, const kernels::KernelSet& kernels, const Content& content,
            Outcome& outcome) {
  // Of just the size that it has, so that AddressSanitizer sees the byte behind it.
  const std::size_t bytes = content.payload.size();
  const auto payload = std::make_unique<std::byte[]>(bytes + kernels::kBitSlackBytes);
  std::ranges::copy(content.payload, payload.get());
  outcome.positions.clear();
  outcome.steps.clear();
  outcome.wrong =
      decoder.read(kernels, content.mode, content.type, content.elements, {payload.get(), bytes});
  if (outcome.wrong != nullptr) return;
  codec::DecodedBlock block;
  while (decoder.has_more()) {
    const std::uint32_t index = decoder.next_block();
    const std::uint32_t first = index * codec::kBlockElements;
    require(first < content.elements, "changes lie in the group");
    const std::uint32_t elements =
        std::min<std::uint32_t>(codec::kBlockElements, content.elements - first);
    decoder.take(index, {content.type, elements}, block);
    require(block.count >= 1 && block.changed().back() < elements, "changes lie in their block");
    for (const std::uint16_t position : block.changed())
      outcome.positions.push_back(first + position);
    const std::byte* steps = block.values.data();
    outcome.steps.insert(outcome.steps.end(), steps,
                         steps + block.count * element_bytes(content.type));
  }
  require(outcome.positions.size() == decoder.changes(), "each change is in one block");
  require(std::ranges::adjacent_find(outcome.positions, std::greater_equal<>()) ==
              outcome.positions.end(),
          "changes ascend");
}

void require_same(const Outcome& a, const Outcome& b) {
  require((a.wrong == nullptr) == (b.wrong == nullptr), "all bodies accept alike");
  require(a.positions == b.positions, "all bodies find the same changes");
  require(a.steps == b.steps, "all bodies find the same steps");
}

void run(std::span<const std::byte> input) {
  const Content content = read_content(input);
  // Kept, as an update's are: what one group leaves behind would show in the next.
  static codec::GroupDecoder reference;
  static codec::GroupDecoder decoder;
  static Outcome expected;
  static Outcome outcome;
  decode(reference, kernels::reference_kernels(), content, expected);
  for (const kernels::KernelSet& kernels : kernels::all_cpu_kernels()) {
    decode(decoder, kernels, content, outcome);
    require_same(expected, outcome);
  }
}

Bytes header(std::size_t mode, std::size_t type, std::uint32_t elements) {
  const std::uint32_t last = (elements - 1) % codec::kBlockElements;
  return {static_cast<std::byte>(mode), static_cast<std::byte>(type),
          static_cast<std::byte>(last % 256), static_cast<std::byte>(last / 256)};
}

// Some elements of sub-blocks here and there, or anywhere.
codec::State changed(const codec::State& base, double active, double inside, std::uint64_t seed) {
  const codec::State all = codec::changed_state(base, inside, codec::Change::kUlp, seed);
  codec::State some = base;
  Random random(seed);
  const std::size_t bytes = 16 * element_bytes(base.specs[0].datatype);
  for (std::size_t first = 0; first < base.arrays[0].size(); first += bytes) {
    if (static_cast<double>(random() % 1000) >= 1000 * active) continue;
    const std::size_t size = std::min(bytes, base.arrays[0].size() - first);
    std::memcpy(some.arrays[0].data() + first, all.arrays[0].data() + first, size);
  }
  return some;
}

std::vector<Bytes> seeds() {
  const codec::BlockMode* const modes[] = {&codec::kFlatGroupMode, &codec::kTwoLevelGroupMode,
                                           &codec::kBlockSparseMode};
  std::vector<Bytes> all;
  for (std::size_t type = 0; type < std::size(kTypes); ++type) {
    for (const std::uint32_t elements : {40u, 1000u, 150'000u}) {
      const codec::State base = codec::random_state({{kTypes[type], elements}}, 5);
      for (const double inside : {0.1, 0.8, 1.0}) {
        const codec::State target =
            changed(base, elements > 1000 ? 0.002 : 0.2, inside, 7 + elements);
        for (std::size_t mode = 0; mode < std::size(modes); ++mode) {
          codec::EncodeOptions options;
          options.mode = modes[mode];
          for (const codec::RawSection& section :
               take_apart_leniently(codec::encode(base, target, options).bytes).sections) {
            if (!codec::is_block(section.tag) || codec::has_gap(section.tag) ||
                codec::mode_of(section.tag) != modes[mode]->id)
              continue;
            const std::uint32_t blocks = 1 + std::to_integer<std::uint32_t>(section.content[0]);
            Bytes input = header(mode, type, std::min(elements, blocks * codec::kBlockElements));
            input.insert(input.end(), section.content.begin(),
                         section.content.end() - codec::kOldCheckBytes);
            all.push_back(std::move(input));
          }
        }
      }
    }
  }
  return all;
}

const Registration registration({"group_blocks", run, seeds});

}  // namespace
}  // namespace sparcl::fuzz
