// An update read without its base, and composed with one that follows it: what comes out leads
// where the two lead one after the other.

#include <cstring>

#include "src/codec/compose.hpp"
#include "src/codec/layout.hpp"
#include "tests/fuzz/tiny_updates.hpp"

namespace sparcl::fuzz {
namespace {

constexpr std::size_t kHeadBytes = 2;

struct Case {
  const TinyUpdate* update;
  bool alone;
};

Case read_case(Choices& choices) {
  const TinyUpdate& update =
      tiny_updates()[choices.below(static_cast<unsigned>(tiny_updates().size()))];
  return {&update, choices.below(2) == 0};
}

// An update that follows `first`, whatever that leads to: it was made for the tiny update's target,
// and its header and end say otherwise.
Bytes follow(const codec::UpdateReader& first, const TinyUpdate& update) {
  codec::EncodeOptions options;
  options.schema_hash = kTinySchema;
  options.with_state_hash = true;
  options.with_runs = true;
  const codec::State target = codec::changed_state(update.target, 0.2, codec::Change::kUlp, 77);
  codec::RawStream stream =
      take_apart_leniently(codec::encode(update.target, target, options).bytes);
  codec::UpdateHeader header = first.header();
  header.base_version = header.target_version;
  header.flags = codec::kFlagBaseHash | codec::kFlagTargetHash;
  const auto bytes = serialise(header);
  std::memcpy(stream.sections.front().content.data(), bytes.data(), bytes.size());
  std::byte* end = stream.sections.back().content.data();
  store_le(end + 24, first.end().target_hash.low);
  store_le(end + 32, first.end().target_hash.high);
  return codec::put_together(stream);
}

codec::Decoded applied(std::span<const std::byte> stream, const codec::State& held) {
  return codec::run_decoder(stream, held, kTinySchema, {.verify = codec::Verify::kOff});
}

void run(std::span<const std::byte> input) {
  Choices choices(input);
  const Case chosen = read_case(choices);
  const std::span<const std::byte> stream = choices.rest();
  Staging staging;
  staging.write(0, stream);
  Result<codec::UpdateReader> reader = codec::UpdateReader::open(staging, stream.size());
  const codec::Decoded once = applied(stream, chosen.update->base);
  if (!reader.ok()) return;
  // Who has the arrays skips the section of runs; who composes without them believes it. What comes
  // of a false one does not have the target's hash.
  if (reader->map() &&
      codec::serialise_runs(*reader->map()) != codec::serialise_runs(chosen.update->base.map()))
    return;
  std::vector<codec::UpdateReader> readers;
  readers.push_back(std::move(*reader));
  std::vector<std::string> names{"first"};
  Staging next_staging;
  Bytes next;
  if (!chosen.alone) {
    next = follow(readers[0], *chosen.update);
    next_staging.write(0, next);
    Result<codec::UpdateReader> second = codec::UpdateReader::open(next_staging, next.size());
    if (!second.ok()) return;  // its totals do not fit the first one's header
    readers.push_back(std::move(*second));
    names.emplace_back("second");
  }
  codec::VectorSink sink;
  const Result<codec::ComposeStats> composed =
      codec::compose_updates(readers, names, {}, kernels::cpu_kernels(), sink);
  if (!composed.ok() || !once.status.ok()) return;
  const codec::Decoded in_turn = chosen.alone ? once : applied(next, once.state);
  if (!in_turn.status.ok()) return;
  const codec::Decoded at_once = applied(sink.bytes(), chosen.update->base);
  require(at_once.status.ok(), "what was composed can be read: " + at_once.status.message());
  require(at_once.state.arrays == in_turn.state.arrays,
          "what was composed leads to where its parts lead");
}

std::vector<Bytes> seeds() {
  std::vector<Bytes> all;
  for (std::size_t i = 0; i < tiny_updates().size(); ++i) {
    for (const codec::Bytes& stream : tiny_updates()[i].streams) {
      Bytes input{static_cast<std::byte>(i), static_cast<std::byte>(all.size() % 2)};
      input.insert(input.end(), stream.begin(), stream.end());
      all.push_back(std::move(input));
    }
  }
  return all;
}

Bytes mutate(const Bytes& input, ByteMutation mutate_bytes, Random& random) {
  Choices choices(input);
  const codec::State& held = read_case(choices).update->base;
  return mutate_behind_head(input, kHeadBytes, random, [&](std::span<const std::byte> stream) {
    return mutate_stream(stream, mutate_bytes, random,
                         [&](codec::RawStream& raw) { mend_update(raw, held); });
  });
}

const Registration registration({"compose", run, seeds, mutate});

}  // namespace
}  // namespace sparcl::fuzz
