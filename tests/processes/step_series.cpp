#include "tests/processes/step_series.hpp"

#include <array>

namespace sparcl::test {
namespace {

constexpr std::array kTypes{sparclInt8,    sparclFloat16, sparclBfloat16, sparclFloat32,
                            sparclFloat64, sparclUint16,  sparclInt32,    sparclInt64};
// From one element to several fragments of 64 KiB; more costs seconds of the quick tier and shows
// nothing new.
constexpr std::array<std::uint64_t, 6> kCounts{1, 7, 1'000, 20'000, 60'000, 150'000};

template <class List>
auto pick(const List& list, SeededRandom& random) {
  return list[random.below(list.size())];
}

SeededRandom random_of(std::uint64_t series, std::uint64_t purpose) {
  return SeededRandom(mix64(mix64(series) ^ purpose));
}

}  // namespace

std::size_t bytes_of(sparclDataType_t datatype) {
  switch (datatype) {
    case sparclInt8:
      return 1;
    case sparclFloat16:
    case sparclBfloat16:
    case sparclUint16:
      return 2;
    case sparclFloat64:
    case sparclInt64:
      return 8;
    default:
      return 4;
  }
}

const char* name_of(StepKind kind) {
  constexpr std::array kNames{"delta",      "update", "sparse",   "masked",
                              "sparse sum", "top-k",  "aggregate"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::vector<TensorShape> shapes_of(StepKind kind, std::uint64_t series) {
  SeededRandom random = random_of(series, 100 + static_cast<std::uint64_t>(kind));
  std::vector<TensorShape> shapes(kind == StepKind::kDelta ? 1 : 1 + random.below(4));
  for (TensorShape& shape : shapes) shape = {pick(kTypes, random), pick(kCounts, random)};
  return shapes;
}

std::vector<ByteList> first_state(const std::vector<TensorShape>& shapes, std::uint64_t series) {
  SeededRandom random = random_of(series, 200);
  std::vector<ByteList> state;
  for (const TensorShape& shape : shapes) {
    ByteList& bytes = state.emplace_back(shape.count * bytes_of(shape.datatype));
    for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(random.next());
  }
  return state;
}

// Bit by bit: NaN, Inf and -0 come up by themselves.
std::vector<ByteList> changed_state(const std::vector<ByteList>& state,
                                    const std::vector<TensorShape>& shapes, const Step& step) {
  SeededRandom random(step.seed);
  std::vector<ByteList> changed = state;
  for (std::size_t tensor = 0; tensor < state.size(); ++tensor) {
    const std::size_t width = bytes_of(shapes[tensor].datatype);
    for (std::size_t at = 0; at < changed[tensor].size(); at += width) {
      if (!random.chance(step.share)) continue;
      changed[tensor][at + random.below(width)] ^=
          static_cast<unsigned char>(1 + random.below(255));
    }
  }
  return changed;
}

SparseContent sparse_content(const Step& step) {
  SeededRandom random(step.seed);
  SparseContent content;
  content.datatype = pick(kTypes, random);
  const std::uint64_t entries = random.below(2) == 0 ? random.below(20) : random.below(30'000);
  std::uint64_t index = 0;
  for (std::uint64_t i = 0; i < entries; ++i)
    content.indices.push_back(index += 1 + random.below(random.chance(0.01) ? 1'000'000'000 : 100));
  content.values.resize(entries * bytes_of(content.datatype));
  for (unsigned char& byte : content.values) byte = static_cast<unsigned char>(random.next());
  return content;
}

MaskedContent masked_content(const Step& step) {
  SeededRandom random(step.seed);
  return {pick(kCounts, random), step.share, random.next()};
}

std::vector<std::int64_t> masked_values(const Step& step, int rank) {
  SeededRandom random(mix64(step.seed ^ static_cast<std::uint64_t>(rank + 1)));
  std::vector<std::int64_t> values(masked_content(step).count);
  for (std::int64_t& value : values)
    value = static_cast<std::int64_t>(random.next());  // sums modulo 2^64
  return values;
}

SumContent sum_content(const Step& step, int rank) {
  SeededRandom random(mix64(step.seed ^ static_cast<std::uint64_t>(rank + 1)));
  SumContent content;
  const auto gap = static_cast<std::uint64_t>(2 / (step.share + 0.001));
  for (std::uint64_t i = random.below(gap); i < kSumCount; i += 1 + random.below(gap)) {
    content.indices.push_back(i);
    content.values.push_back(static_cast<std::int64_t>(random.next()));  // sums modulo 2^64
  }
  return content;
}

std::uint64_t top_k_count(std::uint64_t series) {
  SeededRandom random = random_of(series, 400);
  return pick(kCounts, random);
}

std::vector<std::int64_t> top_k_values(const Step& step, int rank, std::uint64_t count) {
  SeededRandom random(mix64(step.seed ^ static_cast<std::uint64_t>(rank + 1)));
  std::vector<std::int64_t> values(count);
  for (std::int64_t& value : values)
    value = static_cast<std::int64_t>(random.next());  // sums modulo 2^64
  return values;
}

std::vector<Step> make_series(std::uint64_t series, int ranks, int steps) {
  SeededRandom random = random_of(series, 300);
  std::vector<Step> all(static_cast<std::size_t>(steps));
  for (Step& step : all) {
    step.kind = static_cast<StepKind>(random.below(7));
    step.root = static_cast<int>(random.below(static_cast<std::uint64_t>(ranks)));
    step.nonblocking = random.chance(0.5);
    constexpr std::array kShares{0.0, 0.01, 0.1, 0.9};
    step.share = pick(kShares, random);
    step.seed = random.next();
  }
  return all;
}

}  // namespace sparcl::test
