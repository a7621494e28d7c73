// Updates at every level of checking, written late and early, by every body: refused, and what is
// held stays as it was; or accepted, and then the oracle comes to the same state, and what came out
// can be sent on.

#include "tests/fuzz/tiny_updates.hpp"

namespace sparcl::fuzz {
namespace {

using codec::State;

constexpr std::size_t kHeadBytes = 6;

struct Case {
  State held;
  codec::DecoderSetup setup;
};

const kernels::KernelSet& some_kernels(unsigned choice) {
  const auto& sets = kernels::all_cpu_kernels();
  return choice == 0 ? kernels::reference_kernels() : sets[(choice - 1) % sets.size()];
}

Case read_case(Choices& choices) {
  const TinyUpdate& update =
      tiny_updates()[choices.below(static_cast<unsigned>(tiny_updates().size()))];
  const State* held[] = {&update.base, &update.target, &update.base, &update.other};
  Case chosen{*held[choices.below(std::size(held))], {}};
  chosen.setup.verify = static_cast<codec::Verify>(choices.below(3));
  chosen.setup.writing = choices.below(2) == 0 ? codec::Writing::kStaged : codec::Writing::kEarly;
  chosen.setup.kernels = &some_kernels(choices.below(4));
  chosen.setup.piece_bytes = 1 + 40 * choices.below(256);
  return chosen;
}

void require_passes_on(const State& held, const State& state) {
  codec::EncodeOptions options;
  options.schema_hash = kTinySchema;
  const codec::Encoded encoded = codec::encode(held, state, options);
  require(encoded.status.ok(), "an accepted state can be encoded");
  const codec::Decoded again = codec::run_decoder(encoded.bytes, held, kTinySchema, {});
  require(again.status.ok() && again.state.arrays == state.arrays,
          "an accepted state can be sent on");
}

void run(std::span<const std::byte> input) {
  Choices choices(input);
  const Case chosen = read_case(choices);
  const codec::Decoded decoded =
      codec::run_decoder(choices.rest(), chosen.held, kTinySchema, chosen.setup);
  const auto outcome =
      codec::run_oracle(choices.rest(), chosen.held, kTinySchema, chosen.setup.verify);
  const auto differs = codec::difference(decoded, chosen.held, outcome);
  require(!differs, "codec and oracle agree: " + differs.value_or(""));
  if (decoded.status.ok()) require_passes_on(chosen.held, decoded.state);
}

std::vector<Bytes> seeds() {
  std::vector<Bytes> all;
  for (std::size_t i = 0; i < tiny_updates().size(); ++i) {
    for (const codec::Bytes& stream : tiny_updates()[i].streams) {
      const auto n = static_cast<unsigned>(all.size());
      Bytes input{static_cast<std::byte>(i),     static_cast<std::byte>(n % 4),
                  static_cast<std::byte>(n % 3), static_cast<std::byte>(n / 2 % 2),
                  static_cast<std::byte>(n % 4), static_cast<std::byte>(37 * n)};
      input.insert(input.end(), stream.begin(), stream.end());
      all.push_back(std::move(input));
    }
  }
  return all;
}

Bytes mutate(const Bytes& input, ByteMutation mutate_bytes, Random& random) {
  Choices choices(input);
  const State held = read_case(choices).held;
  return mutate_behind_head(input, kHeadBytes, random, [&](std::span<const std::byte> stream) {
    return mutate_stream(stream, mutate_bytes, random,
                         [&](codec::RawStream& raw) { mend_update(raw, held); });
  });
}

const Registration registration({"update", run, seeds, mutate});

}  // namespace
}  // namespace sparcl::fuzz
