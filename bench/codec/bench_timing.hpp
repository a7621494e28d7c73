#pragma once
// Times of repeated runs, and their summary: medians, and medians of ratios within one round, in
// which a disturbance of the machine affects both times.

#include <time.h>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace sparcl::bench {

// Time of this thread on its core: other work disturbs it less than a wall clock. For work that
// never waits.
inline double thread_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// For work on several threads.
inline double wall_seconds() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

inline double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

using Samples = std::vector<double>;  // seconds, one a round

// Median over the rounds of part / whole.
inline double paired_ratio(const Samples& part, const Samples& whole) {
  Samples ratios;
  for (std::size_t i = 0; i < std::min(part.size(), whole.size()); ++i)
    ratios.push_back(part[i] / whole[i]);
  return median(ratios);
}

class Stopwatch {
 public:
  explicit Stopwatch(double (*clock)() = thread_seconds) : clock_(clock), start_(clock()) {}
  // Seconds since the beginning or the last lap.
  double lap() {
    const double start = start_;
    start_ = clock_();
    return start_ - start;
  }

 private:
  double (*clock_)();
  double start_;
};

}  // namespace sparcl::bench
