#include "src/base/wait_warning.hpp"

#include <exception>
#include <limits>

#include "src/base/settings.hpp"

namespace sparcl {

// A value that does not parse is reported by the callers that check all settings first. Here it
// counts as unset, and so does a lack of memory.
WaitWarning::WaitWarning() noexcept
    : first_s_(std::numeric_limits<double>::infinity()), next_s_(first_s_) {
  try {
    const Result<double> setting = setting_number("WAIT_WARNING_S");
    if (setting.ok() && *setting > 0) first_s_ = next_s_ = *setting;
  } catch (const std::exception&) {
  }
}

}  // namespace sparcl
