// Superblocks of exponent classes: the reference and the SIMD bodies say the same, whatever is
// held.

#include <algorithm>
#include <cstring>
#include <memory>

#include "src/codec/class_decoder.hpp"
#include "tests/fuzz/tiny_updates.hpp"

namespace sparcl::fuzz {
namespace {

struct Content {
  std::uint32_t elements;
  std::span<const std::byte> table;
  std::span<const std::byte> payload;
};

Content read_content(std::span<const std::byte> input) {
  Choices choices(input);
  const std::uint32_t high = choices.below(4);
  Content content{1 + 256 * high + choices.below(256), {}, choices.rest()};
  const std::size_t classes =
      content.payload.empty() ? 0 : std::to_integer<std::size_t>(content.payload[0]);
  const std::size_t table_bytes = std::min(content.payload.size(), 1 + 5 * classes);
  content.table = content.payload.first(table_bytes);
  content.payload = content.payload.subspan(table_bytes);
  return content;
}

// What the receiver holds: any exponent.
codec::State held_state(std::uint32_t elements) {
  return codec::random_state({{DataType::kBfloat16, elements}}, 5);
}

struct Outcome {
  const char* wrong = nullptr;
  std::uint32_t changes = 0;
  bool fits = false;
  codec::DecodedBlock block;
};

void decode(codec::ClassDecoder& decoder, const codec::ClassTable& table, const Content& content,
            const codec::State& held, Outcome& outcome) {
  // Of just the size that it has, so that AddressSanitizer sees the byte behind it.
  const std::size_t bytes = content.payload.size();
  const auto payload = std::make_unique<std::byte[]>(bytes + kernels::kBitSlackBytes);
  std::ranges::copy(content.payload, payload.get());
  outcome.wrong = decoder.read(table, content.elements, {payload.get(), bytes});
  if (outcome.wrong != nullptr) return;
  outcome.changes = decoder.changes();
  const codec::BlockMap map = held.map();
  std::vector<codec::Piece> pieces;
  const DataType type = map.block(0, pieces);
  const auto arrays = held.read();
  decoder.next_block(codec::BlockView{codec::shape_of(type, pieces), pieces, arrays},
                     outcome.block);
  outcome.fits = decoder.fits();
}

void require_same(const Outcome& a, const Outcome& b, std::uint32_t elements) {
  require((a.wrong == nullptr) == (b.wrong == nullptr), "all bodies accept alike");
  if (a.wrong != nullptr) return;
  require(a.changes == b.changes && a.fits == b.fits && a.block.count == b.block.count,
          "all bodies find as many changes");
  require(std::ranges::equal(a.block.changed(), b.block.changed()),
          "all bodies find the same changes");
  require(std::memcmp(a.block.values.data(), b.block.values.data(), 2 * a.block.count) == 0,
          "all bodies find the same steps");
  for (std::size_t i = 0; i < a.block.count; ++i) {
    require(a.block.changed()[i] < elements, "changes lie in the block");
    require(i == 0 || a.block.changed()[i - 1] < a.block.changed()[i], "changes ascend");
  }
}

void run(std::span<const std::byte> input) {
  const Content content = read_content(input);
  codec::ClassTable table;
  if (codec::parse(content.table, table) != nullptr) return;
  Bytes again(table.bytes());
  codec::store(table, again.data());
  require(std::ranges::equal(again, content.table), "a table has one form");
  // Kept, as an update's are: what one superblock leaves behind would show in the next.
  static codec::ClassDecoder reference(kernels::reference_kernels());
  static std::vector<std::unique_ptr<codec::ClassDecoder>> decoders;
  static Outcome expected;
  static Outcome outcome;
  const codec::State held = held_state(content.elements);
  decode(reference, table, content, held, expected);
  const auto& sets = kernels::all_cpu_kernels();
  while (decoders.size() < sets.size())
    decoders.push_back(std::make_unique<codec::ClassDecoder>(sets[decoders.size()]));
  for (const auto& decoder : decoders) {
    decode(*decoder, table, content, held, outcome);
    require_same(expected, outcome, content.elements);
  }
}

std::vector<Bytes> seeds() {
  std::vector<Bytes> all;
  for (const std::uint32_t elements : {1u, 90u, 300u, 1000u}) {
    for (const double density : {0.01, 0.1, 0.6, 1.0}) {
      const codec::State base = held_state(elements);
      codec::EncodeOptions options;
      options.with_state_hash = true;
      options.allow_classes = true;
      options.mode = &codec::kClassesMode;
      const codec::State target =
          codec::changed_state(base, density, codec::Change::kUlp, elements);
      Bytes input{static_cast<std::byte>((elements - 1) / 256),
                  static_cast<std::byte>((elements - 1) % 256)};
      for (const codec::RawSection& section :
           take_apart_leniently(codec::encode(base, target, options).bytes).sections) {
        if (section.tag == codec::kTagClassTable)
          input.insert(input.end(), section.content.begin(), section.content.end());
        if (!codec::is_block(section.tag) || codec::mode_of(section.tag) != codec::kClassesMode.id)
          continue;
        input.insert(input.end(), section.content.begin(),
                     section.content.end() - codec::kOldCheckBytes);
        all.push_back(input);
      }
    }
  }
  return all;
}

const Registration registration({"class_blocks", run, seeds});

}  // namespace
}  // namespace sparcl::fuzz
