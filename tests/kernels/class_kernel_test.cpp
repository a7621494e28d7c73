#include <algorithm>
#include <functional>
#include <set>

#include "kernels/classes.hpp"
#include "tests/kernels/every_body.hpp"

namespace sparcl::kernels {
namespace {

class ClassKernelBodies : public EveryBody {};

// Cuts of every number of classes, at random keys.
ClassCut random_cut(unsigned count, std::mt19937_64& random) {
  std::set<std::uint8_t, std::greater<>> keys;
  while (keys.size() + 1 < count) keys.insert(static_cast<std::uint8_t>(1 + random() % 255));
  ClassCut cut;
  std::copy(keys.begin(), keys.end(), cut.lowest.begin());
  cut.count = count;
  cut.lowest[count - 1] = 0;
  return cut;
}

// Changes by anything where `far`, else by a few units in the last place.
std::vector<std::byte> changed(std::vector<std::byte> values, unsigned percent, bool far,
                               std::mt19937_64& random) {
  for (std::size_t i = 0; i + 1 < values.size(); i += 2) {
    if (random() % 100 >= percent) continue;
    std::uint16_t value = 0;
    std::memcpy(&value, &values[i], 2);
    value = static_cast<std::uint16_t>(far ? random() : value + random() % 7 - 3);
    std::memcpy(&values[i], &value, 2);
  }
  return values;
}

struct Sorted {
  std::vector<std::int8_t> steps = std::vector<std::int8_t>(kClassStepBytes);
  ClassRanks ranks{};
  std::vector<std::uint16_t> positions;
  std::vector<std::byte> olds, news;
  bool operator==(const Sorted&) const = default;
};

// In two pieces, as a block of two tensors is.
Sorted sort(const KernelSet& set, const ClassCut& cut, std::span<const std::byte> base,
            std::span<const std::byte> target, std::size_t first_piece) {
  Sorted sorted;
  const std::size_t count = base.size() / 2;
  sorted.positions.resize(count + kPositionSlack);
  sorted.olds.resize(base.size() + kValueSlackBytes);
  sorted.news.resize(base.size() + kValueSlackBytes);
  std::size_t found = 0;
  for (const auto& [from, to] :
       {std::pair{std::size_t{0}, first_piece}, std::pair{first_piece, count}}) {
    found += set.classes.diff(base.data() + 2 * from, target.data() + 2 * from, to - from,
                              static_cast<std::uint32_t>(from), cut, sorted.ranks,
                              sorted.steps.data(), sorted.positions.data() + found,
                              sorted.olds.data() + 2 * found, sorted.news.data() + 2 * found);
  }
  sorted.positions.resize(found);
  sorted.olds.resize(2 * found);
  sorted.news.resize(2 * found);
  return sorted;
}

struct Found {
  ClassRanks ranks{};
  std::vector<std::uint16_t> positions;
  std::vector<std::int8_t> steps;
  bool operator==(const Found&) const = default;
};

Found find(const KernelSet& set, const ClassCut& cut, std::span<const std::byte> held,
           const std::vector<std::int8_t>& steps, std::size_t first_piece) {
  Found result;
  const std::size_t count = held.size() / 2;
  result.positions.resize(count + kPositionSlack);
  result.steps.resize(count + kPositionSlack);
  std::size_t found = 0;
  for (const auto& [from, to] :
       {std::pair{std::size_t{0}, first_piece}, std::pair{first_piece, count}}) {
    found += set.classes.find_steps(
        held.data() + 2 * from, to - from, static_cast<std::uint32_t>(from), cut, result.ranks,
        steps.data(), result.positions.data() + found, result.steps.data() + found);
  }
  result.positions.resize(found);
  result.steps.resize(found);
  return result;
}

struct Added {
  ClassRanks ranks{};
  std::vector<std::byte> values;
  std::vector<std::uint16_t> far_places;
  std::size_t found = 0;
  bool operator==(const Added&) const = default;
};

Added add(const KernelSet& set, const ClassCut& cut, std::span<const std::byte> held,
          const std::vector<std::int8_t>& steps, std::size_t first_piece) {
  Added result;
  const std::size_t count = held.size() / 2;
  result.values.assign(held.begin(), held.end());
  result.far_places.resize(count + kPositionSlack);
  std::size_t far = 0;
  for (const auto& [from, to] :
       {std::pair{std::size_t{0}, first_piece}, std::pair{first_piece, count}}) {
    const AddedSteps added = set.classes.add_steps(
        result.values.data() + 2 * from, to - from, static_cast<std::uint32_t>(from), cut,
        result.ranks, steps.data(), result.far_places.data() + far);
    result.found += added.found;
    far += added.far;
  }
  result.far_places.resize(far);
  return result;
}

std::vector<std::size_t> counts() {
  auto all = interesting_counts();
  all.push_back(65536);
  return all;
}

TEST_P(ClassKernelBodies, SortAndFindAgreeWithTheReference) {
  std::mt19937_64 random(1);
  for (const std::size_t count : counts()) {
    for (unsigned classes = 1; classes <= kMaxClasses; ++classes) {
      const ClassCut cut = random_cut(classes, random);
      const auto base = random_bytes(2 * count, random);
      const auto target =
          changed(base, random() % 3 == 0 ? 100 : random() % 20, random() % 2 == 0, random);
      const std::size_t piece = count == 0 ? 0 : random() % count;
      const Sorted sorted = sort(body(), cut, base, target, piece);
      ASSERT_TRUE(sorted == sort(reference(), cut, base, target, piece))
          << "count " << count << " classes " << classes;
      const Found found = find(body(), cut, base, sorted.steps, piece);
      ASSERT_TRUE(found == find(reference(), cut, base, sorted.steps, piece))
          << "count " << count << " classes " << classes;
      ASSERT_EQ(found.positions, sorted.positions) << "finding is the way back of sorting";
      ASSERT_EQ(found.ranks, sorted.ranks);
      const Added added = add(body(), cut, base, sorted.steps, piece);
      ASSERT_TRUE(added == add(reference(), cut, base, sorted.steps, piece))
          << "count " << count << " classes " << classes;
      ASSERT_EQ(added.found, sorted.positions.size());
      ASSERT_EQ(added.ranks, sorted.ranks);
      auto expected = target;  // but for the far steps
      for (const std::uint16_t place : added.far_places)
        std::copy_n(base.begin() + 2 * place, 2, expected.begin() + 2 * place);
      ASSERT_EQ(added.values, expected) << "adding is the way back of sorting";
    }
  }
}

TEST_P(ClassKernelBodies, SizesAreRead) {
  std::mt19937_64 random(7);
  for (const std::size_t count : {0, 1, 2, 15, 16, 17, 33, 1000}) {
    for (unsigned exponent = 0; exponent <= 7; ++exponent) {
      const auto base = static_cast<std::uint32_t>(random() % 100);
      std::vector<std::uint32_t> expected(count);
      std::vector<std::uint32_t> marks(count + kRankSlack);
      std::vector<std::byte> bits(4 * count + 64);
      BitWriter out{bits.data()};
      out.put(0x5, 3);
      std::uint32_t mark = base;
      for (std::size_t i = 0; i < count; ++i) {
        const auto zeros = static_cast<unsigned>(random() % 4 == 0 ? random() % (kMaxSizeZeros + 1)
                                                                   : random() % 3);
        const std::uint64_t suffix = low_bits(random(), zeros + exponent);
        expected[i] =
            static_cast<std::uint32_t>(suffix + (1u << (zeros + exponent)) - (1u << exponent));
        out.put(suffix, zeros + exponent);
        marks[i] = mark + zeros;
        mark = marks[i] + 1;
      }
      out.finish();
      std::vector<std::uint32_t> sizes(count + kRankSlack);
      ASSERT_TRUE(body().classes.read_sizes(bits.data(), 3, marks.data(), count, base, exponent,
                                            sizes.data()));
      sizes.resize(count);
      ASSERT_EQ(sizes, expected) << "count " << count << " exponent " << exponent;
      if (count == 0) continue;
      const std::size_t bad = random() % count;
      for (std::size_t i = bad; i < count; ++i) marks[i] += kMaxSizeZeros + 1;
      sizes.resize(count + kRankSlack);
      ASSERT_FALSE(body().classes.read_sizes(bits.data(), 3, marks.data(), count, base, exponent,
                                             sizes.data()))
          << "at " << bad;
    }
  }
}

TEST_P(ClassKernelBodies, NonzeroBytesAreTaken) {
  std::mt19937_64 random(2);
  for (const std::size_t count :
       {std::size_t{0}, std::size_t{1}, std::size_t{63}, std::size_t{64}, std::size_t{65},
        std::size_t{4095}, std::size_t{4096}, std::size_t{4161}, std::size_t{100000}}) {
    for (const unsigned percent : {0u, 1u, 30u, 100u}) {
      std::vector<std::int8_t> bytes(count + 64, 0);
      for (std::size_t i = 0; i < count; ++i)
        bytes[i] = static_cast<std::int8_t>(random() % 100 < percent ? random() : 0);
      for (std::size_t i = count; i < bytes.size(); ++i) bytes[i] = 5;  // stays
      auto expected_bytes = bytes;
      std::vector<std::uint32_t> places(count + kRankSlack), expected_places(count + kRankSlack);
      std::vector<std::int8_t> values(count + kRankSlack), expected_values(count + kRankSlack);
      const std::size_t found =
          body().classes.take_nonzero(bytes.data(), count, places.data(), values.data());
      ASSERT_EQ(found,
                reference().classes.take_nonzero(expected_bytes.data(), count,
                                                 expected_places.data(), expected_values.data()));
      ASSERT_TRUE(bytes == expected_bytes) << count;
      ASSERT_TRUE(std::equal(places.begin(), places.begin() + static_cast<std::ptrdiff_t>(found),
                             expected_places.begin()));
      ASSERT_TRUE(std::equal(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(found),
                             expected_values.begin()));
    }
  }
}

TEST_P(ClassKernelBodies, ByteStepsAreSplit) {
  std::mt19937_64 random(3);
  for (const std::size_t count : interesting_counts()) {
    std::vector<std::int8_t> steps(count + kRankSlack);
    for (std::int8_t& step : steps) {
      do step = static_cast<std::int8_t>(random());
      while (step == 0);
    }
    std::vector<std::int8_t> beyond(count + kRankSlack), expected(count + kRankSlack);
    std::vector<std::uint64_t> negative(count / 64 + 1, ~std::uint64_t{0}),
        expected_negative(count / 64 + 1);
    body().classes.split_steps(steps.data(), count, beyond.data(), negative.data());
    reference().classes.split_steps(steps.data(), count, expected.data(), expected_negative.data());
    beyond.resize(count);
    expected.resize(count);
    ASSERT_EQ(beyond, expected) << count;
    ASSERT_EQ(negative, expected_negative) << count;
  }
}

TEST_P(ClassKernelBodies, ListsOfRanksComeBackAndAreTheReferences) {
  std::mt19937_64 random(4);
  for (const std::size_t count : interesting_counts()) {
    for (const unsigned shift : {0u, 1u, 5u, 15u}) {
      std::vector<std::uint32_t> ranks(count);
      std::uint32_t rank = 0;
      for (std::uint32_t& each : ranks)
        each = (rank += 1 + static_cast<std::uint32_t>(random() % (std::uint64_t{3} << shift))) - 1;
      const auto base = static_cast<std::uint32_t>(random() % 1000);
      std::vector<std::uint16_t> remainders(count + kRankSlack),
          expected_remainders(count + kRankSlack);
      std::vector<std::uint32_t> marks(count + kRankSlack), expected_marks(count + kRankSlack);
      const auto end = body().classes.split_ranks(ranks.data(), count, shift, base,
                                                  remainders.data(), marks.data());
      ASSERT_EQ(end,
                reference().classes.split_ranks(ranks.data(), count, shift, base,
                                                expected_remainders.data(), expected_marks.data()));
      ASSERT_TRUE(remainders == expected_remainders && marks == expected_marks) << count;

      std::vector<std::byte> bits((end + 7) / 8 + kBitSlackBytes + 8), expected_bits(bits.size());
      BitWriter out{bits.data()}, expected_out{expected_bits.data()};
      body().classes.write_marks(marks.data(), count, out);
      reference().classes.write_marks(marks.data(), count, expected_out);
      out.finish();
      expected_out.finish();
      ASSERT_TRUE(bits == expected_bits) << count;

      std::vector<std::uint32_t> found(count + kRankSlack), joined(count + kRankSlack);
      ASSERT_EQ(body().classes.find_marks(bits.data(), 0, end, count, found.data()), count);
      ASSERT_TRUE(std::equal(marks.begin(), marks.begin() + static_cast<std::ptrdiff_t>(count),
                             found.begin()));
      ASSERT_EQ(
          body().classes.find_marks(bits.data(), 0, end, count + 1,
                                    std::vector<std::uint32_t>(count + 1 + kRankSlack).data()),
          count);
      const std::uint64_t last = body().classes.join_ranks(remainders.data(), found.data(), count,
                                                           shift, base, joined.data());
      ASSERT_EQ(last, count == 0 ? 0 : ranks.back());
      joined.resize(count);
      ASSERT_EQ(joined, ranks);
    }
  }
}

TEST_P(ClassKernelBodies, AHugeLastRankIsNoSmallOne) {
  const std::array<std::uint16_t, 1> remainders{7};
  const std::array<std::uint32_t, 1> marks{1u << 20};
  std::array<std::uint32_t, 1 + kRankSlack> ranks{};
  EXPECT_EQ(body().classes.join_ranks(remainders.data(), marks.data(), 1, 15, 0, ranks.data()),
            (std::uint64_t{1} << 35) + 7);
}

SPARCL_FOR_EVERY_BODY(ClassKernelBodies);

}  // namespace
}  // namespace sparcl::kernels
