// Sparse vectors: the oracle comes to the same entries, and an accepted vector can be encoded
// again.

#include <algorithm>

#include "tests/codec/both_decoders.hpp"
#include "tests/codec/oracle/mend.hpp"
#include "tests/fuzz/stream_mutator.hpp"

namespace sparcl::fuzz {
namespace {

constexpr DataType kTypes[] = {DataType::kInt8, DataType::kBfloat16, DataType::kFloat32,
                               DataType::kInt64};
constexpr std::size_t kHeadBytes = 2;

Bytes encode(const std::vector<std::uint64_t>& indices, const codec::Array& values, DataType type) {
  codec::SparseEncoder encoder(indices, values.data(), type, kernels::cpu_kernels());
  codec::VectorSink sink;
  while (!encoder.finished())
    require(encoder.step(1000, sink).ok(), "a sparse vector can be encoded");
  return sink.bytes();
}

void run(std::span<const std::byte> input) {
  Choices choices(input);
  const DataType type = kTypes[choices.below(std::size(kTypes))];
  const std::uint64_t piece = 1 + 40 * choices.below(256);
  const codec::DecodedSparse decoded =
      codec::run_sparse_decoder(choices.rest(), type, kernels::cpu_kernels(), piece);
  const auto differs = codec::difference(
      decoded, oracle::decode_sparse(choices.rest(), static_cast<std::uint8_t>(type)));
  require(!differs, "codec and oracle agree: " + differs.value_or(""));
  if (!decoded.status.ok()) return;
  require(
      std::ranges::adjacent_find(decoded.indices, std::greater_equal()) == decoded.indices.end(),
      "indices ascend");
  const codec::DecodedSparse again =
      codec::run_sparse_decoder(encode(decoded.indices, decoded.values, type), type);
  require(again.status.ok() && again.indices == decoded.indices && again.values == decoded.values,
          "an accepted vector can be sent on");
}

std::vector<Bytes> seeds() {
  std::vector<Bytes> all;
  for (std::size_t i = 0; i < std::size(kTypes); ++i) {
    for (const std::uint64_t apart :
         {std::uint64_t{1}, std::uint64_t{900}, std::uint64_t{1} << 40}) {
      std::vector<std::uint64_t> indices;
      for (std::uint64_t n = 0; n < 24; ++n) indices.push_back(n * n / 3 + n * apart);
      codec::Array values(indices.size() * element_bytes(kTypes[i]));
      for (std::size_t at = 0; at < values.size(); ++at)
        values[at] = static_cast<std::byte>(at * 29);
      Bytes input{static_cast<std::byte>(i), static_cast<std::byte>(255)};
      const Bytes stream = encode(indices, values, kTypes[i]);
      input.insert(input.end(), stream.begin(), stream.end());
      all.push_back(std::move(input));
    }
  }
  return all;
}

void mend(codec::RawStream& stream, DataType type) {
  std::vector<oracle::MendableSection> sections;
  for (codec::RawSection& section : stream.sections) {
    if (section.tag == codec::kTagChunkEnd || section.tag == codec::kTagEnd)
      sections.push_back({section.tag, &section.content});
    if (codec::is_block(section.tag)) sections.push_back({section.tag, &section.content});
  }
  oracle::mend_sparse(sections, static_cast<std::uint8_t>(type));
  for (codec::RawSection& section : stream.sections) {
    const std::size_t bytes =
        section.tag == codec::kTagChunkEnd ? codec::kChunkEndBytes : codec::kEndBytes;
    if (section.tag == codec::kTagChunkEnd || section.tag == codec::kTagEnd)
      section.content.resize(bytes);
  }
}

Bytes mutate(const Bytes& input, ByteMutation mutate_bytes, Random& random) {
  Choices choices(input);
  const DataType type = kTypes[choices.below(std::size(kTypes))];
  return mutate_behind_head(input, kHeadBytes, random, [&](std::span<const std::byte> stream) {
    return mutate_stream(stream, mutate_bytes, random,
                         [&](codec::RawStream& raw) { mend(raw, type); });
  });
}

const Registration registration({"sparse", run, seeds, mutate});

}  // namespace
}  // namespace sparcl::fuzz
