#pragma once
// What keeps versions from coming to a subscriber: told once, and for how long it has lasted.

#include <fmt/format.h>

#include <optional>

#include "src/base/status.hpp"
#include "tools/sparcl/console.hpp"

namespace sparcl::tool {

// An answer that waiting alone does not cure. It is asked for again all the same: nobody proves who
// has given it.
inline bool is_refusal(Code code) {
  return code == Code::kMismatch || code == Code::kUnauthorized || code == Code::kUnsupported ||
         code == Code::kCorrupt;
}

class TroubleTeller {
 public:
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
    if (told_ == trouble.code()) return;
    told_ = trouble.code();
    print_warning(
        fmt::format("{} ({}); it is tried again", trouble.message(), code_name(trouble.code())));
  }
  // A version has come: what was is over, though it may be told already.
  void restart(double now) { since_ = now; }
  double lasts(double now) const { return last_.ok() ? 0 : now - since_; }
  const Status& last() const { return last_; }

 private:
  static constexpr double kFineSeconds =
      5;  // after which a trouble that comes again is told again; heuristic

  std::optional<Code> told_;
  Status last_;
  double since_ = 0;    // the first
  double last_at_ = 0;  // the last
};

}  // namespace sparcl::tool
