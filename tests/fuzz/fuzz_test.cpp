// Each fuzz target without libFuzzer: its seeds, and seeded mutations of them. A broken promise
// ends the program; the last lines name the target and the seed, and SPARCL_TEST_SEED replays it.

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "tests/fuzz/fuzz_target.hpp"
#include "tests/support/tier.hpp"

namespace sparcl::fuzz {
namespace {

Random* mutation_random = nullptr;  // ByteMutation has no room for it

std::size_t mutate_bytes(std::byte* data, std::size_t bytes, std::size_t room) {
  Random& random = *mutation_random;
  for (std::uint64_t edits = 1 + random() % 3; edits > 0; --edits) {
    const std::size_t at = bytes == 0 ? 0 : random() % bytes;
    const std::size_t count = std::min<std::size_t>(1 + random() % 8, bytes - at);
    switch (random() % 6) {
      case 0:
        if (bytes > 0) data[at] ^= static_cast<std::byte>(1 << random() % 8);
        break;
      case 1:
        if (bytes > 0) data[at] = static_cast<std::byte>(random());
        break;
      case 2:
        std::fill_n(data + at, count, random() % 2 == 0 ? std::byte{0} : std::byte{0xff});
        break;
      case 3:
        std::copy(data + at + count, data + bytes, data + at);
        bytes -= count;
        break;
      case 4:
        if (bytes + count > room) break;
        std::copy_backward(data + at, data + bytes, data + bytes + count);
        bytes += count;
        break;
      default:
        if (bytes > 0)
          std::copy_n(data + random() % bytes,
                      std::min<std::size_t>(count, bytes - std::max(at, bytes - count)), data + at);
    }
  }
  return bytes;
}

Bytes mutated(const Target& target, const Bytes& input, Random& random) {
  mutation_random = &random;
  if (target.mutate != nullptr) return target.mutate(input, mutate_bytes, random);
  Bytes bytes = input;
  if (!target.words.empty() && random() % 3 == 0) {
    const std::string& word = target.words[random() % target.words.size()];
    const auto at = static_cast<std::ptrdiff_t>(random() % (bytes.size() + 1));
    const Bytes inserted = bytes_of(word);
    bytes.insert(bytes.begin() + at, inserted.begin(), inserted.end());
  }
  const std::size_t used = bytes.size();
  bytes.resize(used + 64);
  bytes.resize(mutate_bytes(bytes.data(), used, bytes.size()));
  return bytes;
}

std::string* running = nullptr;

void name_what_ran(int) {
  if (running != nullptr) std::fprintf(stderr, "%s\n", running->c_str());
  std::signal(SIGABRT, SIG_DFL);
  std::raise(SIGABRT);
}

class FuzzTargets : public testing::TestWithParam<std::size_t> {};

TEST_P(FuzzTargets, KeepTheirPromises) {
  const Target& target = targets()[GetParam()];
  const std::vector<Bytes> seeds = target.seeds();
  ASSERT_FALSE(seeds.empty());
  std::string what;
  running = &what;
  std::signal(SIGABRT, name_what_ran);
  for (std::size_t i = 0; i < seeds.size(); ++i) {
    what = "target " + target.name + ", seed input " + std::to_string(i);
    target.run(seeds[i]);
  }
  std::vector<Bytes> pool = seeds;
  const char* one = std::getenv("SPARCL_TEST_SEED");
  const std::uint64_t count = test::by_tier(3000, 100'000);
  for (std::uint64_t seed = one != nullptr ? std::strtoull(one, nullptr, 10) : 0; seed < count;
       ++seed) {
    what = "target " + target.name + ", SPARCL_TEST_SEED=" + std::to_string(seed);
    Random random(seed);
    Bytes input = seeds[random() % seeds.size()];
    for (std::uint64_t edits = 1 + random() % 4; edits > 0; --edits)
      input = mutated(target, input, random);
    target.run(input);
    if (one != nullptr) break;
  }
  running = nullptr;
  std::signal(SIGABRT, SIG_DFL);
}

INSTANTIATE_TEST_SUITE_P(All, FuzzTargets, testing::Range(std::size_t{0}, targets().size()),
                         [](const auto& tested) { return targets()[tested.param].name; });

}  // namespace
}  // namespace sparcl::fuzz
