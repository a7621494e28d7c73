#pragma once
// How much of the announced updates a parent gives. Bytes count, signs of life do not.

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>

#include "src/base/status.hpp"

namespace sparcl::replication {

class ParentProgress {
 public:
  static constexpr double kPatience = 0.5;  // seconds without a byte; heuristic
  static constexpr double kMinRate =
      256 << 10;  // bytes a second: slower links are no use to others. Heuristic

  // Another parent, or none.
  void begin() { wanted_since_.reset(); }
  // Whether there is something announced that the parent should give now.
  void want(bool is_wanted, double now) {
    if (!is_wanted) return begin();
    if (wanted_since_) return;
    wanted_since_ = moved_at_ = now;
    bytes_ = 0;
  }
  void received(std::uint64_t bytes, double now) {
    bytes_ += bytes;
    moved_at_ = now;
  }

  // Timeout: it does not give what is wanted, or too slowly.
  Status verdict(std::uint64_t version, double now) const {
    if (!wanted_since_) return {};
    const double waited = now - *wanted_since_, quiet = now - moved_at_;
    if (quiet >= kPatience) {
      return Status(
          Code::kTimeout,
          fmt::format(
              "it gives nothing: {} bytes of version {} came, and none in the last {:.1f} s",
              bytes_, version, quiet));
    }
    if (waited < kPatience || static_cast<double>(bytes_) >= kMinRate * (waited - kPatience))
      return {};
    return Status(Code::kTimeout,
                  fmt::format("it gives slowly: {} bytes of version {} came in {:.1f} s", bytes_,
                              version, waited));
  }

 private:
  std::optional<double> wanted_since_;
  double moved_at_ = 0;
  std::uint64_t bytes_ = 0;  // since then
};

}  // namespace sparcl::replication
