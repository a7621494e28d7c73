// The contents of blocks, each mode by itself: the reference and the SIMD bodies say the same, and
// what is accepted lies inside the block.

#include <cstring>
#include <memory>

#include "src/codec/block_mode.hpp"
#include "tests/fuzz/tiny_updates.hpp"

namespace sparcl::fuzz {
namespace {

constexpr DataType kTypes[] = {DataType::kInt8,   DataType::kBfloat16, DataType::kFloat32,
                               DataType::kInt64,  DataType::kFloat64,  DataType::kFloat8e5m2,
                               DataType::kUint16, DataType::kInt32};

struct Content {
  const codec::BlockMode* mode;
  codec::BlockShape shape;
  std::span<const std::byte> payload;
};

Content read_content(std::span<const std::byte> input) {
  Choices choices(input);
  const auto modes = codec::block_modes();
  const codec::BlockMode* mode = modes[choices.below(static_cast<unsigned>(modes.size()))];
  const DataType type = kTypes[choices.below(std::size(kTypes))];
  const unsigned low = choices.below(256);
  const unsigned elements =
      choices.below(256) == 255 ? 65536 : 1 + low;  // one in 256: a whole block
  return {mode, {type, elements}, choices.rest()};
}

// A payload of just the size that it has, so that AddressSanitizer sees the byte behind it.
class Payload {
 public:
  explicit Payload(const Content& content)
      : slack_(content.mode->in_place ? 0 : kernels::kBitSlackBytes),
        bytes_(content.payload.size()),
        data_(std::make_unique<std::byte[]>(bytes_ + slack_)) {
    if (bytes_ > 0) std::memcpy(data_.get(), content.payload.data(), bytes_);
  }
  std::span<const std::byte> bytes() const { return {data_.get(), bytes_}; }

 private:
  std::size_t slack_;
  std::size_t bytes_;
  std::unique_ptr<std::byte[]> data_;
};

void require_inside(const codec::DecodedBlock& block, const codec::BlockShape& shape) {
  require(block.count >= 1 && block.count <= shape.elements,
          "a block changes some of its elements");
  if (block.kind == codec::DecodedKind::kWhole) return;
  for (std::size_t i = 0; i < block.count; ++i) {
    require(block.changed()[i] < shape.elements, "positions lie in the block");
    require(i == 0 || block.changed()[i - 1] < block.changed()[i], "positions ascend");
  }
}

void require_same(const codec::DecodedBlock& a, const codec::DecodedBlock& b, std::size_t width) {
  require(a.kind == b.kind && a.count == b.count, "all bodies read the same block");
  if (a.kind == codec::DecodedKind::kWhole) {
    require(std::memcmp(a.whole, b.whole, a.count * width) == 0, "all bodies read the same values");
    return;
  }
  require(std::ranges::equal(a.changed(), b.changed()), "all bodies read the same positions");
  if (a.kind == codec::DecodedKind::kAdded) width = 1;  // codes
  require(std::memcmp(a.values.data(), b.values.data(), a.count * width) == 0,
          "all bodies read the same values");
}

// Two steps for modes whose changes depend on what is held: 1 accepted, 0 refused, -1 does not fit
// what is held.
int read_block(const Content& content, std::span<const std::byte> payload,
               const kernels::KernelSet& kernels, codec::DecodedBlock& block) {
  static const codec::Bytes held = codec::random_state({{DataType::kInt64, 65536}}, 5).arrays[0];
  if (content.mode->decode(content.shape, payload, kernels, block) != nullptr) return 0;
  if (content.mode->resolve == nullptr) return 1;
  return content.mode->resolve(content.shape, held.data(), kernels, block) ? 1 : -1;
}

void run(std::span<const std::byte> input) {
  const Content content = read_content(input);
  const Payload payload(content);
  static codec::DecodedBlock expected;  // kept, as decoders keep theirs
  static codec::DecodedBlock block;
  const int accepted = read_block(content, payload.bytes(), kernels::reference_kernels(), expected);
  if (accepted == 1) require_inside(expected, content.shape);
  for (const kernels::KernelSet& kernels : kernels::all_cpu_kernels()) {
    require(read_block(content, payload.bytes(), kernels, block) == accepted,
            "all bodies accept alike");
    if (accepted == 1) require_same(expected, block, content.shape.element_bytes());
  }
}

std::size_t place_of(unsigned mode) {
  const auto modes = codec::block_modes();
  std::size_t at = 0;
  while (at < modes.size() && modes[at]->id != mode) ++at;
  return at;
}

std::vector<Bytes> seeds() {
  std::vector<Bytes> all;
  for (const TinyUpdate& update : tiny_updates()) {
    for (const codec::Bytes& stream : update.streams) {
      for (const codec::RawSection& section : take_apart_leniently(stream).sections) {
        if (!codec::is_block(section.tag) || codec::has_gap(section.tag)) continue;
        Bytes content = section.content;
        const std::size_t mode = place_of(codec::mode_of(section.tag));
        if (!codec::block_modes()[mode]->whole)
          content.erase(content.end() - static_cast<std::ptrdiff_t>(codec::kOldCheckBytes),
                        content.end());
        for (std::size_t type = 0; type < std::size(kTypes); ++type) {
          if (kTypes[type] != update.base.specs[0].datatype) continue;
          Bytes input{static_cast<std::byte>(mode), static_cast<std::byte>(type),
                      static_cast<std::byte>(update.base.specs[0].count - 1), std::byte{0}};
          input.insert(input.end(), content.begin(), content.end());
          all.push_back(std::move(input));
        }
      }
    }
  }
  return all;
}

const Registration registration({"block_modes", run, seeds});

}  // namespace
}  // namespace sparcl::fuzz
