#include "src/comm/sum_shape.hpp"

#include <algorithm>

namespace sparcl::comm {

double coded_place_bytes(double entries, std::uint64_t count) {
  const double density = count > 0 ? entries / static_cast<double>(count) : 0;
  if (density <= 0 || density >= 1) return 0;
  return (-std::log2(density) - (1 - density) / density * std::log2(1 - density)) / 8;
}

double SumShape::union_of(double ranks_together) const {
  if (count == 0) return 0;
  const double own = static_cast<double>(max_entries);
  return own + (independent_union(ranks_together) - own) * union_share;
}

double SumShape::share_of(std::uint64_t found) const {
  const double own = static_cast<double>(max_entries), beyond = independent_union(ranks) - own;
  return beyond < 1 ? 1 : std::clamp((static_cast<double>(found) - own) / beyond, 0.0, 1.0);
}

double SumShape::independent_union(double ranks_together) const {
  const auto n = static_cast<double>(count);
  const double density = std::min(1.0, static_cast<double>(max_entries) / n);
  return n * -std::expm1(ranks_together * std::log1p(-std::min(density, 1 - 1e-12)));
}

}  // namespace sparcl::comm
