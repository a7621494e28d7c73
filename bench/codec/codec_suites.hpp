#pragma once
// The suites of bench_codec: each answers one question with rows.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bench/codec/bench_row.hpp"
#include "kernels/kernel_set.hpp"

namespace sparcl::bench {

struct Options {
  std::uint64_t elements =
      std::uint64_t{1} << 26;  // of generated inputs; at most 2^24 in the suites for sizes alone
  int rounds = 9;
  std::string trace;
  std::vector<double> densities;                   // empty: the suite's own
  std::vector<const kernels::KernelSet*> kernels;  // the first one if a suite needs only one
};

struct Suite {
  const char* name;
  const char* what;
  void (*run)(const Options&, Report&);
};

std::span<const Suite> suites();

}  // namespace sparcl::bench
