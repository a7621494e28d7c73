#include "src/base/wait_warning.hpp"

#include <exception>
#include <limits>

#include "src/base/settings.hpp"

namespace sparcl {

// A value that does not parse is an error of those who check all settings first. Here it is as
// none, and so is no memory.
WaitWarning::WaitWarning() noexcept
    : first_s_(std::numeric_limits<double>::infinity()), next_s_(first_s_) {
  try {
    const Result<double> setting = setting_number("WAIT_WARNING_S");
    if (setting.ok() && *setting > 0) first_s_ = next_s_ = *setting;
  } catch (const std::exception&) {
  }
}

}  // namespace sparcl
