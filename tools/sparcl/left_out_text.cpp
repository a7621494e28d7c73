#include "tools/sparcl/left_out_text.hpp"

#include <fmt/format.h>

#include <cmath>

namespace sparcl::tool {
namespace {

Json size_or_null(double size) { return std::isfinite(size) ? Json(size) : Json(nullptr); }

}  // namespace

Json left_out_json(const codec::LeftOut& left_out) {
  return {{"changes", left_out.count},
          {"l2", size_or_null(std::sqrt(left_out.squares))},
          {"largest", size_or_null(left_out.largest)}};
}

std::string left_out_text(const codec::LeftOut& left_out) {
  return fmt::format(
      "partial: {} changes are left out, {:.3g} (l2), the largest {:.3g}: apply does not write the "
      "target that it was made for\n",
      left_out.count, std::sqrt(left_out.squares), left_out.largest);
}

}  // namespace sparcl::tool
