#pragma once
// Text out of files, from peers and from the command line, made fit to be shown: it must neither
// drive a terminal nor forge a line.

#include <cstddef>
#include <string>
#include <string_view>

namespace sparcl {

// The length of the well-formed UTF-8 sequence at the front of `text` (Unicode 15, table 3-7), or
// 0. `text` is not empty.
std::size_t utf8_length(std::string_view text);

// A name as text shows it: `printf %b` gives the name back. Bytes of control and format characters
// (line ends, ESC, marks that turn the direction of writing) become \xNN. So do bytes that are no
// UTF-8, and a backslash becomes two.
std::string shown(std::string_view name);

// The same for a whole message, in which names may be escaped already: backslashes stay as they
// are.
std::string shown_line(std::string_view text);

// The same for text of several lines: line ends stay, too.
std::string shown_lines(std::string_view text);

// A name as UTF-8 that any JSON writer takes. Bytes that are no UTF-8 become U+FFFD and two
// hexadecimal digits each. The three bytes of a U+FFFD in the name do so too, so the name can be
// recovered. All other names stay as they are.
std::string as_utf8(std::string_view name);

}  // namespace sparcl
