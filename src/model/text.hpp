#pragma once
// Names from untrusted files: checked, and made safe for a terminal.

#include <string>
#include <string_view>

namespace sparcl::model {

// Well-formed UTF-8 without surrogates or overlong forms.
bool is_utf8(std::string_view text);

// In single quotes, as shown() has it, and cut after 120 bytes: a message must neither drive a
// terminal nor fill it.
std::string in_quotes(std::string_view text);

}  // namespace sparcl::model
