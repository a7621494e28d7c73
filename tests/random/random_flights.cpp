#include <fmt/format.h>

#include <algorithm>

#include "tests/random/flight_roles.hpp"

namespace sparcl::test {

const char* name_of(Slip slip) {
  constexpr std::array kNames{"",
                              ", another root",
                              ", another count",
                              ", another type",
                              ", another version",
                              ", another base",
                              ", too little room",
                              ", indices out of order",
                              ", another mask",
                              ", another op",
                              ", an index beyond all",
                              ", NULL",
                              ", another option",
                              ", a feedback of another array"};
  return kNames[static_cast<std::size_t>(slip)];
}

namespace {

constexpr std::array<std::size_t, 9> kEdges{63, 64, 65, 255, 256, 257, 65'535, 65'536, 65'537};

std::size_t draw_small_count(SeededRandom& random) {
  const double kind = random.unit();
  if (kind < 0.1) return 0;
  if (kind < 0.2) return 1;
  return kind < 0.8 ? 2 + random.below(100) : pick(kEdges, random);
}

}  // namespace

std::size_t draw_count(SeededRandom& random) {
  const double kind = random.unit();
  if (kind < 0.04) return 0;
  if (kind < 0.08) return 1;
  if (kind < 0.30) return 2 + random.below(100);
  if (kind < 0.42) return pick(kEdges, random);
  if (kind < 0.85) return 100 + random.below(20'000);
  return kind < 0.985 ? 20'000 + random.below(130'000) : 1'000'000 + random.below(500'000);
}

std::size_t draw_sum_count(SeededRandom& random) {
  const double kind = random.unit();
  if (kind < 0.5) return draw_small_count(random);
  return kind < 0.92 ? 100 + random.below(6'000) : 6'000 + random.below(70'000);
}

sparclRedOp_t draw_op(sparclDataType_t datatype, SeededRandom& random) {
  if (random.chance(0.5)) return sparclSum;
  const auto op = static_cast<sparclRedOp_t>(random.below(5));
  return op == sparclAvg && datatype == sparclBool ? sparclSum : op;
}

std::string wrong_result(sparclResult_t result, sparclResult_t expected,
                         const sparclReport_t& report) {
  if (result != expected)
    return fmt::format("returned {}, not {}; ", static_cast<int>(result),
                       static_cast<int>(expected));
  if (report.applied != (result == sparclSuccess ? 1 : 0))
    return fmt::format("applied is {}; ", report.applied);
  return {};
}

void spoil(HeldArray& array) {
  if (array.changed.empty()) return;
  const std::size_t width = width_of(array.plan.datatype),
                    at = array.changed[array.changed.size() / 2] * width;
  ByteList spoilt = array.agreed;
  for (const unsigned char flip : {1, 2, 4}) {
    spoilt[at] = static_cast<unsigned char>(array.agreed[at] ^ flip);
    if (!std::equal(spoilt.begin() + static_cast<std::ptrdiff_t>(at),
                    spoilt.begin() + static_cast<std::ptrdiff_t>(at + width),
                    array.next.begin() + static_cast<std::ptrdiff_t>(at)))
      break;
  }
  array.held.set(spoilt);
}

ArrayPlan draw_array(SeededRandom& random) {
  return {pick(kAllTypes, random), draw_count(random), static_cast<Style>(random.below(3)),
          random.below(4)};
}

HeldArray::HeldArray(const ArrayPlan& given, SeededRandom& random)
    : plan(given),
      held(given.count * width_of(given.datatype), given.offset * width_of(given.datatype)),
      agreed(make_values(given.datatype, given.count, given.style, random)),
      next(agreed) {}

void HeldArray::draw_next(double share, SeededRandom& random) {
  next = agreed;
  changed = change_values(next, plan.datatype, share, plan.style, random);
}

HeldModel::HeldModel(int count, SeededRandom& random) {
  (void)sparclStateCreate(&state);
  tensors.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    HeldArray& tensor = tensors.emplace_back(draw_array(random), random);
    const std::uint64_t shape[] = {tensor.plan.count};
    (void)sparclStateAdd(state, fmt::format("tensor.{}", i).c_str(), tensor.held.data(),
                         tensor.plan.datatype, 1, shape);
  }
}

HeldModel::~HeldModel() { (void)sparclStateDestroy(state); }

}  // namespace sparcl::test
