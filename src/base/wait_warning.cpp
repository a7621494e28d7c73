#include "src/base/wait_warning.hpp"

#include <limits>

#include "src/base/settings.hpp"

namespace sparcl {

// A value that does not parse is an error of those who check all settings first: here it is as none.
WaitWarning::WaitWarning() {
  const Result<double> setting = setting_number("WAIT_WARNING_S");
  first_s_ = setting.ok() && *setting > 0 ? *setting : std::numeric_limits<double>::infinity();
  next_s_ = first_s_;
}

}  // namespace sparcl
