#include "kernels/access.hpp"
#include "tests/kernels/every_body.hpp"

namespace sparcl::kernels {
namespace {

class AccessKernels : public EveryBody {};

constexpr std::size_t kSpan = 5000;

struct Case {
  std::vector<std::byte> array;
  std::vector<std::uint16_t> positions;
  Upcoming next;
};

// Positions count from 100 elements before the array, and another part of it comes next.
std::vector<Case> cases(std::size_t width) {
  std::mt19937_64 random(width);
  std::vector<Case> all;
  for (const unsigned percent : {0u, 1u, 5u, 30u, 100u}) {
    Case each{random_bytes(kSpan * width, random), random_positions(kSpan, percent, random), {}};
    for (std::uint16_t& position : each.positions)
      position = static_cast<std::uint16_t>(position + 100);
    all.push_back(std::move(each));
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Case& other = all[(i + 2) % all.size()];
    all[i].next = {other.array.data(), other.positions.data(), other.positions.size(), 100};
  }
  return all;
}

TEST_P(AccessKernels, GatherReadsThePositionsAsked) {
  for (std::size_t i = 0; i < 4; ++i) {
    const std::size_t width = std::size_t{1} << i;
    for (const Case& each : cases(width)) {
      std::vector<std::byte> values(each.positions.size() * width);
      body().elements[i].gather(each.array.data(), each.positions.data(), each.positions.size(),
                                100, values.data(), each.next);
      for (std::size_t j = 0; j < each.positions.size(); ++j) {
        const std::byte* expected = each.array.data() + (each.positions[j] - 100u) * width;
        ASSERT_EQ(std::memcmp(values.data() + j * width, expected, width), 0)
            << "width " << width << " entry " << j;
      }
    }
  }
}

TEST_P(AccessKernels, ScatterWritesThePositionsAskedAndNoOther) {
  std::mt19937_64 random(3);
  for (std::size_t i = 0; i < 4; ++i) {
    const std::size_t width = std::size_t{1} << i;
    for (const Case& each : cases(width)) {
      const auto values = random_bytes(each.positions.size() * width, random);
      auto array = each.array;
      auto expected = each.array;
      body().elements[i].scatter(array.data(), each.positions.data(), each.positions.size(), 100,
                                 values.data(), each.next);
      for (std::size_t j = 0; j < each.positions.size(); ++j) {
        std::memcpy(expected.data() + (each.positions[j] - 100u) * width, values.data() + j * width,
                    width);
      }
      ASSERT_TRUE(array == expected) << "width " << width;
    }
  }
}

TEST_P(AccessKernels, ExchangeIsGatherAndScatterAtOnce) {
  std::mt19937_64 random(5);
  for (std::size_t i = 0; i < 4; ++i) {
    const std::size_t width = std::size_t{1} << i;
    for (const Case& each : cases(width)) {
      const std::size_t count = each.positions.size();
      const auto news = random_bytes(count * width, random);
      auto array = each.array;
      auto values = news;
      body().elements[i].exchange(array.data(), each.positions.data(), count, 100, values.data(),
                                  each.next);

      auto expected = each.array;
      std::vector<std::byte> held(count * width);
      reference().elements[i].gather(expected.data(), each.positions.data(), count, 100,
                                     held.data(), {});
      reference().elements[i].scatter(expected.data(), each.positions.data(), count, 100,
                                      news.data(), {});
      ASSERT_TRUE(array == expected) << "width " << width;
      ASSERT_TRUE(values == held) << "width " << width;
    }
  }
}

TEST_P(AccessKernels, AddStepsAtIsGatherAddScatter) {
  std::mt19937_64 random(4);
  for (std::size_t i = 0; i < 4; ++i) {
    const std::size_t width = std::size_t{1} << i;
    for (const bool floating : {false, true}) {
      const auto order = [&](const KernelSet& set) {
        return floating ? set.elements[i].floating : set.elements[i].integer;
      };
      for (const Case& each : cases(width)) {
        const std::size_t count = each.positions.size();
        const auto steps = random_bytes(count * width, random);
        auto array = each.array;
        order(body()).add_steps_at(array.data(), each.positions.data(), count, 100, steps.data(),
                                   each.next);

        auto expected = each.array;
        std::vector<std::byte> values(count * width);
        const ElementKernels& elements = reference().elements[i];
        elements.gather(expected.data(), each.positions.data(), count, 100, values.data(), {});
        order(reference()).add_steps(values.data(), steps.data(), count, values.data());
        elements.scatter(expected.data(), each.positions.data(), count, 100, values.data(), {});
        ASSERT_TRUE(array == expected) << "width " << width << (floating ? " floats" : " integers");
      }
    }
  }
}

SPARCL_FOR_EVERY_BODY(AccessKernels);

}  // namespace
}  // namespace sparcl::kernels
