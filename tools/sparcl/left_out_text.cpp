#include "tools/sparcl/left_out_text.hpp"

#include <fmt/format.h>

#include <cmath>

namespace sparcl::tool {
namespace {

Json size_or_null(double size) { return std::isfinite(size) ? Json(size) : Json(nullptr); }

}  // namespace

Json left_out_json(std::uint64_t changes, double l2, double largest) {
  return {{"changes", changes}, {"l2", size_or_null(l2)}, {"largest", size_or_null(largest)}};
}

std::string left_out_text(std::uint64_t changes, double l2, double largest) {
  return fmt::format(
      "partial: {} changes are left out, {:.3g} (l2), the largest {:.3g}: apply does not write the "
      "target that it was made for\n",
      changes, l2, largest);
}

}  // namespace sparcl::tool
