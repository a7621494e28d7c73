#pragma once
// Reports why versions do not reach a subscriber, once or seldom, and how long the trouble has
// lasted.

#include <fmt/format.h>

#include <limits>
#include <optional>

#include "src/base/status.hpp"
#include "tools/sparcl/console.hpp"

namespace sparcl::tool {

// An answer that waiting alone does not change. It is still asked for again, because its sender is
// not authenticated.
inline bool is_refusal(Code code) {
  return code == Code::kMismatch || code == Code::kUnauthorized || code == Code::kUnsupported ||
         code == Code::kCorrupt;
}

class TroubleTeller {
 public:
  // repeat_s: a trouble that lasts is reported again after so long.
  explicit TroubleTeller(double repeat_s = std::numeric_limits<double>::infinity())
      : repeat_s_(repeat_s) {}

  void note(const Status& trouble, double now) {
    if (trouble.ok()) {
      if (last_.ok() || now - last_at_ <= kFineSeconds) return;
      told_.reset();
      last_ = Status();
      return;
    }
    if (last_.ok()) since_ = now;
    last_at_ = now;
    last_ = trouble;
    if (told_ == trouble.code() && now - told_at_ < repeat_s_) return;
    told_ = trouble.code();
    told_at_ = now;
    print_warning(
        fmt::format("{} ({}); it is tried again", trouble.message(), code_name(trouble.code())));
  }
  // A version has come: the trouble has ended, even if it was reported already.
  void restart(double now) { since_ = now; }
  double lasts(double now) const { return last_.ok() ? 0 : now - since_; }
  const Status& last() const { return last_; }

 private:
  static constexpr double kFineSeconds =
      5;  // after this time a trouble that returns is reported again; heuristic

  double repeat_s_;
  std::optional<Code> told_;
  double told_at_ = 0;
  Status last_;
  double since_ = 0;    // the first
  double last_at_ = 0;  // the last
};

}  // namespace sparcl::tool
