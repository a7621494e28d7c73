#include "bench/codec/bench_data.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "bench/codec/bench_random.hpp"

namespace sparcl::bench {
namespace {

std::uint16_t ord(std::uint16_t bits) {
  return static_cast<std::uint16_t>((bits & 0x8000) ? ~bits : bits | 0x8000);
}
std::uint16_t unord(std::uint16_t order) {
  return static_cast<std::uint16_t>((order & 0x8000) ? order & 0x7fff : ~order);
}

// Step sizes of the trace of a fine-tuning with bf16 weights (89.5 % are 1): entropy 0.84 bits, and
// one for the sign.
unsigned draw_magnitude(Random& random) {
  struct Row {
    double share;
    unsigned first, last;
  };
  static constexpr Row kRows[] = {{0.8949, 1, 1},   {0.0430, 2, 2},   {0.0201, 3, 3},
                                  {0.0092, 4, 4},   {0.0060, 5, 5},   {0.0045, 6, 6},
                                  {0.0035, 7, 7},   {0.0021, 8, 8},   {0.0080, 9, 16},
                                  {0.0044, 17, 32}, {0.0023, 33, 64}, {1, 65, 256}};
  double at = random.uniform();
  for (const Row& row : kRows) {
    if (at < row.share)
      return row.first + static_cast<unsigned>(random.below(row.last - row.first + 1));
    at -= row.share;
  }
  return 1;
}

std::uint16_t stepped(std::uint16_t value, Random& random) {
  const unsigned magnitude = draw_magnitude(random);
  const bool negative = (random.bits() & 1) != 0;
  return unord(
      static_cast<std::uint16_t>(negative ? ord(value) - magnitude : ord(value) + magnitude));
}

// Two equal states of bf16 weights with exponents 0x70 to 0x7f. They are far from zero and from
// infinity, so that no step leaves the finite numbers. All are equally likely to change.
Input equal_states(const char* kind, std::string name, std::uint64_t elements, Random& random) {
  Input input;
  input.kind = kind;
  input.name = std::move(name);
  input.elements = elements;
  input.base = HugeBuffer(input.bytes());
  input.target = HugeBuffer(input.bytes());
  auto* base = input.base.as<std::uint16_t>();
  for (std::uint64_t i = 0; i < elements; ++i) {
    const std::uint64_t bits = random.bits();
    base[i] = static_cast<std::uint16_t>((bits & 0x807f) | ((0x70 + ((bits >> 16) & 15)) << 7));
  }
  std::memcpy(input.target.data(), base, input.bytes());
  return input;
}

void find_limits(Input& input) {
  input.limits = limits_of(input.type, input.base.data(), input.target.data(), input.elements);
}

// The bits of all positions together: the changes share them.
void set_place_bits(Input& input, double bits) {
  if (input.limits.changed > 0)
    input.limits.blind.place_bits = bits / static_cast<double>(input.limits.changed);
  input.limits.given_old = input.limits.blind;
}

}  // namespace

Input iid_input(std::uint64_t elements, double density) {
  Random random(1);
  Input input = equal_states("iid", fmt::format("iid {:g} %", density * 100), elements, random);
  auto* target = input.target.as<std::uint16_t>();
  for (std::uint64_t i = random.gap(density); i < elements; i += 1 + random.gap(density))
    target[i] = stepped(target[i], random);
  find_limits(input);
  input.limits.given_old = input.limits.blind;  // by construction: the exponent says nothing
  return input;
}

Input random_input(std::uint64_t elements, double density) {
  Random random(2);
  Input input =
      equal_states("random", fmt::format("random bits {:g} %", density * 100), elements, random);
  if (density <= 0) input.name = "nothing changed";
  auto* target = input.target.as<std::uint16_t>();
  for (std::uint64_t i = density > 0 ? random.gap(density) : elements; i < elements;
       i += 1 + random.gap(density)) {
    target[i] = static_cast<std::uint16_t>(random.bits());
  }
  find_limits(input);
  return input;
}

Input clustered_input(std::uint64_t elements, const Clusters& clusters) {
  Random random(1);
  Input input = equal_states("clusters",
                             fmt::format("{:g} % in runs of {:g}, {:g} inside",
                                         clusters.density * 100, clusters.run, clusters.inside),
                             elements, random);
  const double share = clusters.density / clusters.inside;
  const double leave = 1 / clusters.run;
  const double enter = leave * share / (1 - share);
  auto* target = input.target.as<std::uint16_t>();
  bool active = random.with(share);
  for (std::uint64_t i = 0; i < elements; ++i) {
    if (active && random.with(clusters.inside)) target[i] = stepped(target[i], random);
    active = random.with(active ? 1 - leave : enter);
  }
  find_limits(input);
  set_place_bits(input, chain_place_bits(input.base.as<std::uint16_t>(), target, elements,
                                         clusters.inside, leave, enter));
  return input;
}

Input block_input(std::uint64_t elements, std::uint64_t block, double density, double inside) {
  Random random(1);
  Input input = equal_states(
      "blocks", fmt::format("{:g} % in blocks of {}, {:g} inside", density * 100, block, inside),
      elements, random);
  auto* target = input.target.as<std::uint16_t>();
  for (std::uint64_t first = 0; first < elements; first += block) {
    if (!random.with(density / inside)) continue;
    for (std::uint64_t i = first; i < std::min(first + block, elements); ++i) {
      if (random.with(inside)) target[i] = stepped(target[i], random);
    }
  }
  find_limits(input);
  set_place_bits(input, block_place_bits(input.base.as<std::uint16_t>(), target, elements, block,
                                         density / inside, inside));
  return input;
}

namespace {

std::vector<char> read_bf16(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::uint64_t header_bytes = 0;
  if (!file.read(reinterpret_cast<char*>(&header_bytes), 8)) return {};
  std::string header(header_bytes, ' ');
  file.read(header.data(), static_cast<std::streamsize>(header_bytes));
  std::size_t bytes = 0;
  const nlohmann::json tensors = nlohmann::json::parse(header);
  for (const auto& [name, tensor] : tensors.items()) {
    if (name != "__metadata__")
      bytes = std::max(bytes, tensor["data_offsets"][1].get<std::size_t>());
  }
  std::vector<char> values(bytes);
  file.read(values.data(), static_cast<std::streamsize>(bytes));
  return values;
}

}  // namespace

Input trace_input(const std::string& folder, int step) {
  Input input;
  input.kind = "trace";
  input.name = fmt::format("trace {}", step);
  const std::vector<char> before =
      read_bf16(fmt::format("{}/weights/step_{:02d}.safetensors", folder, step - 1));
  const std::vector<char> after =
      read_bf16(fmt::format("{}/weights/step_{:02d}.safetensors", folder, step));
  if (before.size() != after.size()) return input;
  input.elements = before.size() / 2;
  input.base = HugeBuffer(before.size());
  input.target = HugeBuffer(after.size());
  std::memcpy(input.base.data(), before.data(), before.size());
  std::memcpy(input.target.data(), after.data(), after.size());
  find_limits(input);
  return input;
}

}  // namespace sparcl::bench
