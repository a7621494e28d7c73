#include <algorithm>
#include <numeric>

#include "tests/kernels/every_body.hpp"

namespace sparcl::kernels {
namespace {

// Frequencies of all contexts, with the tables that kernels want.
struct Tables {
  std::vector<RansPush> push;
  std::vector<std::uint32_t> pop;

  explicit Tables(const std::vector<std::vector<std::uint32_t>>& contexts) {
    for (const auto& frequencies : contexts) {
      push.resize(push.size() + kRansSymbols);
      std::uint32_t start = 0;
      for (std::uint32_t symbol = 0; symbol < frequencies.size(); ++symbol) {
        if (frequencies[symbol] == 0) continue;
        push[push.size() - kRansSymbols + symbol] = rans_push(frequencies[symbol], start);
        for (std::uint32_t i = 0; i < frequencies[symbol]; ++i)
          pop.push_back(rans_pop(symbol, frequencies[symbol], i));
        start += frequencies[symbol];
      }
    }
  }
};

// One symbol alone, one rare one, all alike, powers of two, and a run in the middle.
std::vector<std::vector<std::uint32_t>> shapes() {
  std::vector<std::vector<std::uint32_t>> all{
      {kRansSlots}, {kRansSlots - 1, 1}, {1, kRansSlots - 1}};
  all.emplace_back(kRansSymbols, kRansSlots / kRansSymbols);
  all.push_back({0, 0, 1024, 512, 256, 128, 64, 32, 16, 8, 4, 2, 1, 0, 0, 1});
  all.push_back({0, 7, 600, 800, 333, 300, 0, 8});
  return all;
}

struct RansCoded {
  std::vector<std::uint16_t> room;
  std::uint16_t* first = nullptr;
  RansStates states;

  std::size_t count() const { return static_cast<std::size_t>(room.data() + room.size() - first); }
  const std::byte* bytes() const { return reinterpret_cast<const std::byte*>(first); }
};

RansCoded encode(const KernelSet& set, const std::vector<std::uint8_t>& symbols,
                 const std::uint8_t* contexts, const Tables& tables) {
  RansCoded coded;
  coded.room.resize(symbols.size());
  coded.states.fill(kRansLeast);
  coded.first = set.rans.encode(symbols.data(), contexts, symbols.size(), tables.push.data(),
                                coded.room.data() + coded.room.size(), coded.states);
  return coded;
}

std::vector<std::uint8_t> draw(const std::vector<std::uint32_t>& frequencies, std::size_t count,
                               std::mt19937_64& random) {
  std::discrete_distribution<int> symbol(frequencies.begin(), frequencies.end());
  std::vector<std::uint8_t> symbols(count);
  for (std::uint8_t& each : symbols) each = static_cast<std::uint8_t>(symbol(random));
  return symbols;
}

class RansKernel : public EveryBody {};
SPARCL_FOR_EVERY_BODY(RansKernel);

TEST_P(RansKernel, ComesBackInTheReferencesWords) {
  std::mt19937_64 random(1);
  for (const auto& frequencies : shapes()) {
    const Tables tables({frequencies});
    for (const std::size_t count : interesting_counts()) {
      const auto symbols = draw(frequencies, count, random);
      const RansCoded coded = encode(body(), symbols, nullptr, tables);
      const RansCoded expected = encode(reference(), symbols, nullptr, tables);
      ASSERT_EQ(coded.count(), expected.count());
      ASSERT_TRUE(std::equal(coded.first, coded.first + coded.count(), expected.first));
      ASSERT_EQ(coded.states, expected.states);
      RansStates states = coded.states;
      std::vector<std::uint8_t> back(count);
      ASSERT_EQ(body().rans.decode(coded.bytes(), coded.count(), nullptr, count, tables.pop.data(),
                                   states, back.data()),
                coded.count());
      ASSERT_EQ(back, symbols);
      EXPECT_TRUE(std::all_of(states.begin(), states.end(),
                              [](std::uint32_t state) { return state == kRansLeast; }));
    }
  }
}

TEST_P(RansKernel, KeepsContextsApart) {
  std::mt19937_64 random(2);
  const auto contexts_of = shapes();
  const Tables tables(contexts_of);
  for (const std::size_t count : interesting_counts()) {
    std::vector<std::uint8_t> contexts(count);
    std::vector<std::uint8_t> symbols(count);
    for (std::size_t i = 0; i < count; ++i) {
      contexts[i] = static_cast<std::uint8_t>(random() % contexts_of.size());
      symbols[i] = draw(contexts_of[contexts[i]], 1, random)[0];
    }
    const RansCoded coded = encode(body(), symbols, contexts.data(), tables);
    ASSERT_EQ(coded.states, encode(reference(), symbols, contexts.data(), tables).states);
    RansStates states = coded.states;
    std::vector<std::uint8_t> back(count);
    ASSERT_EQ(body().rans.decode(coded.bytes(), coded.count(), contexts.data(), count,
                                 tables.pop.data(), states, back.data()),
              coded.count());
    ASSERT_EQ(back, symbols);
  }
}

TEST_P(RansKernel, TakesTheEntropyAndLittleMore) {
  std::mt19937_64 random(3);
  const std::vector<std::uint32_t> frequencies{1024, 512, 256, 256};
  const std::size_t count = 65536;
  const RansCoded coded =
      encode(body(), draw(frequencies, count, random), nullptr, Tables({frequencies}));
  EXPECT_NEAR(static_cast<double>(coded.count()) * 16, 1.75 * static_cast<double>(count),
              0.01 * static_cast<double>(count));
}

TEST_P(RansKernel, RefusesTooFewWordsAndReadsAnyOthersAsTheReferenceDoes) {
  std::mt19937_64 random(4);
  const auto frequencies = shapes()[4];
  const Tables tables({frequencies});
  const std::size_t count = 3001;
  const RansCoded coded = encode(body(), draw(frequencies, count, random), nullptr, tables);
  for (std::size_t words = 0; words < coded.count(); words += 7) {
    const std::vector<std::byte> cut(
        coded.bytes(), coded.bytes() + 2 * words);  // of its own, so that a sanitizer sees its end
    RansStates states = coded.states;
    std::vector<std::uint8_t> back(count);
    ASSERT_EQ(body().rans.decode(cut.data(), words, nullptr, count, tables.pop.data(), states,
                                 back.data()),
              kNoRans);
  }
  for (int seed = 0; seed < 300; ++seed) {
    const std::vector<std::byte> bytes = random_bytes(2 * (random() % 4000), random);
    RansStates start;
    for (std::uint32_t& state : start)
      state = static_cast<std::uint32_t>(random()) >> (random() % 2 == 0 ? 1 : 20);
    RansStates states = start;
    RansStates expected_states = start;
    std::vector<std::uint8_t> back(count);
    std::vector<std::uint8_t> expected(count);
    const std::size_t used = body().rans.decode(bytes.data(), bytes.size() / 2, nullptr, count,
                                                tables.pop.data(), states, back.data());
    ASSERT_EQ(used, reference().rans.decode(bytes.data(), bytes.size() / 2, nullptr, count,
                                            tables.pop.data(), expected_states, expected.data()));
    if (used == kNoRans) continue;
    ASSERT_EQ(back, expected);
    ASSERT_EQ(states, expected_states);
  }
}

}  // namespace
}  // namespace sparcl::kernels
