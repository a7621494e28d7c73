#include "tests/fuzz/tiny_updates.hpp"

#include <algorithm>

#include "src/codec/block_mode.hpp"
#include "tests/codec/oracle/mend.hpp"

namespace sparcl::fuzz {
namespace {

using codec::ArraySpec;
using codec::Change;
using codec::State;

TinyUpdate make(State base, double density, Change change, std::uint64_t seed) {
  TinyUpdate update{std::move(base), {}, {}, {}};
  update.target = codec::changed_state(update.base, density, change, seed + 100);
  update.other = codec::changed_state(update.base, 0.1, codec::Change::kRandom, seed + 200);
  codec::EncodeOptions options;
  options.schema_hash = kTinySchema;
  std::vector<const codec::BlockMode*> modes{nullptr};
  for (const codec::BlockMode* mode : codec::block_modes()) modes.push_back(mode);
  for (const codec::BlockMode* mode : modes) {
    for (const bool with_hash : {true, false}) {  // some modes need it
      options.mode = mode;
      options.values.values = mode != &codec::kAddedMode ? codec::Values::kExact
                              : with_hash                ? codec::Values::kInt8
                                                         : codec::Values::kFloat8;
      options.with_state_hash = options.with_runs = options.allow_classes = with_hash;
      codec::Encoded encoded = codec::encode(update.base, update.target, options);
      if (encoded.status.ok() &&
          std::ranges::find(update.streams, encoded.bytes) == update.streams.end()) {
        update.streams.push_back(std::move(encoded.bytes));
      }
    }
  }
  return update;
}

TinyUpdate make(std::vector<ArraySpec> specs, double density, Change change, std::uint64_t seed) {
  return make(codec::random_state(std::move(specs), seed), density, change, seed);
}

// Of small numbers: codes are for what is finite.
TinyUpdate make_numbers() {
  State base = codec::random_state(
      {{DataType::kFloat32, 50}, {DataType::kFloat16, 45}, {DataType::kFloat64, 20}}, 8);
  for (std::size_t i = 0; i < base.arrays.size(); ++i) {
    const std::size_t width = element_bytes(base.specs[i].datatype);
    for (std::size_t at = width - 1; at < base.arrays[i].size(); at += width)
      base.arrays[i][at] &= std::byte{0x3f};
  }
  return make(std::move(base), 0.2, Change::kUlp, 8);
}

// Array 0 has no base.
TinyUpdate make_fresh() {
  TinyUpdate update =
      make({{DataType::kInt16, 20}, {DataType::kFloat32, 30}}, 0.1, Change::kUlp, 9);
  codec::EncodeOptions options;
  options.schema_hash = kTinySchema;
  options.with_state_hash = true;
  const codec::BlockMap map = update.target.map();
  auto base = update.base.read();
  base[0] = nullptr;
  const auto target = update.target.read();
  codec::UpdateEncoder encoder(map, base, target, options, kernels::cpu_kernels());
  codec::VectorSink sink;
  while (!encoder.finished() && encoder.step(1000, sink).ok()) {
  }
  update.streams = {sink.bytes()};
  return update;
}

}  // namespace

const std::vector<TinyUpdate>& tiny_updates() {
  static const std::vector<TinyUpdate> all = [] {
    std::vector<TinyUpdate> updates;
    updates.push_back(make({{DataType::kBfloat16, 90}}, 0.1, Change::kUlp, 1));
    updates.push_back(
        make({{DataType::kFloat32, 40}, {DataType::kFloat32, 0}, {DataType::kFloat32, 25}}, 0.2,
             Change::kRandom, 2));
    updates.push_back(make({{DataType::kBfloat16, 40},
                            {DataType::kFloat32, 30},
                            {DataType::kInt8, 50},
                            {DataType::kFloat64, 20},
                            {DataType::kBfloat16, 0},
                            {DataType::kUint16, 12}},
                           0.15, Change::kUlp, 3));
    updates.push_back(make({{DataType::kInt64, 33}}, 0.3, Change::kRandom, 4));
    updates.push_back(
        make({{DataType::kFloat8e4m3, 60}, {DataType::kBool, 5}}, 0.9, Change::kUlp, 5));
    updates.push_back(make({{DataType::kFloat16, 300}}, 0.03, Change::kUlp, 6));
    updates.push_back(make({{DataType::kUint8, 16}}, 0, Change::kUlp, 7));
    updates.push_back(make_numbers());
    updates.push_back(make_fresh());
    return updates;
  }();
  return all;
}

void mend_for(codec::RawStream& stream, const oracle::Receiver& receiver,
              const std::vector<codec::Bytes>& held) {
  std::vector<oracle::MendableSection> sections;
  for (codec::RawSection& section : stream.sections) {
    if (codec::ends_in_crc(section.tag) && section.content.size() >= codec::kCrcBytes) {
      section.content.resize(section.content.size() - codec::kCrcBytes);
    }
    sections.push_back({section.tag, &section.content});
  }
  oracle::mend_update(sections, receiver, held);
  for (codec::RawSection& section : stream.sections) {
    if (codec::ends_in_crc(section.tag))
      section.content.resize(section.content.size() + codec::kCrcBytes);
  }
}

void mend_update(codec::RawStream& stream, const State& held) {
  oracle::Receiver receiver{{}, {kTinySchema.low, kTinySchema.high}, oracle::Check::kOff};
  for (const ArraySpec& spec : held.specs)
    receiver.arrays.push_back({static_cast<std::uint8_t>(spec.datatype), spec.count});
  mend_for(stream, receiver, held.arrays);
}

}  // namespace sparcl::fuzz
