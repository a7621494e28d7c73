#include "src/api/call_predictor.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <exception>
#include <limits>

namespace sparcl::api {
namespace {

constexpr std::size_t kMaxKinds = 512;  // some 50 KB a communicator
constexpr double kClassesPerOctave = 2;

// Before any call of a kind. Heuristic, of one core of 2020 or later: two arrays are compared, or
// one is selected from, at 4 bytes an element; entries are coded and summed.
constexpr double kCallSeconds = 20e-6, kElementSeconds = 0.7e-9, kEntrySeconds = 6e-9;

int class_of(std::uint64_t count) {
  return count == 0 ? -1
                    : static_cast<int>(
                          std::lround(kClassesPerOctave * std::log2(static_cast<double>(count))));
}

double size_of(int count_class) {
  return count_class < 0 ? 0 : std::exp2(count_class / kClassesPerOctave);
}

}  // namespace

CallPredictor::Kind CallPredictor::kind_of(const CallWork& work) {
  return {work.operation,          work.variant,          work.is_root, work.is_blocking,
          class_of(work.elements), class_of(work.entries)};
}

double CallPredictor::Seen::median() const {
  std::array<float, 5> sorted = seconds;
  const auto end =
      sorted.begin() + std::min<std::ptrdiff_t>(calls, static_cast<std::ptrdiff_t>(sorted.size()));
  const auto middle = sorted.begin() + (end - sorted.begin()) / 2;
  std::nth_element(sorted.begin(), middle, end);
  return *middle;
}

std::optional<double> CallPredictor::expect(const CallWork& work) const {
  const Kind kind = kind_of(work);
  if (const auto same = seen_.find(kind); same != seen_.end()) return same->second.median();
  return scaled_from_nearest(kind);
}

double first_guess(const CallWork& work, double exchange_s) {
  return kCallSeconds + exchange_s + kElementSeconds * static_cast<double>(work.elements) +
         kEntrySeconds * static_cast<double>(work.entries);
}

// A call of another size: what elements and entries cost grows with their number, what each call
// costs does not.
std::optional<double> CallPredictor::scaled_from_nearest(const Kind& kind) const {
  const Seen* nearest = nullptr;
  Kind found{};
  int least = std::numeric_limits<int>::max();
  for (const auto& [other, seen] : seen_) {
    if (other.operation != kind.operation || other.variant != kind.variant ||
        other.is_root != kind.is_root || other.is_blocking != kind.is_blocking)
      continue;
    const int distance = std::abs(other.elements_class - kind.elements_class) +
                         std::abs(other.entries_class - kind.entries_class);
    if (distance >= least) continue;
    least = distance;
    nearest = &seen;
    found = other;
  }
  if (nearest == nullptr) return {};
  const auto cost = [](const Kind& each) {
    return kCallSeconds + kElementSeconds * size_of(each.elements_class) +
           kEntrySeconds * size_of(each.entries_class);
  };
  return nearest->median() * cost(kind) / cost(found);
}

void CallPredictor::learn(const CallWork& work, double seconds) noexcept try {
  if (seen_.size() >= kMaxKinds) seen_.clear();
  Seen& seen = seen_[kind_of(work)];
  seen.seconds[seen.calls % seen.seconds.size()] = static_cast<float>(seconds);
  ++seen.calls;
} catch (const std::exception&) {  // no memory: the next call is a first one, too
}

}  // namespace sparcl::api
