#pragma once
// Shared by all commands: exit codes, errors, output for people and for programs.

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "src/base/checksum.hpp"
#include "src/base/status.hpp"

namespace sparcl::tool {

using Json = nlohmann::ordered_json;

constexpr int kExitOk = 0;
constexpr int kExitFailure = 1;
constexpr int kExitUsage = 2;
constexpr int kExitRefused = 3;  // integrity, base or signature

int exit_code(Code code);

// Writes all bytes to standard output. A reader that has closed its end (`sparcl inspect FILE |
// head`) is no error.
Status write_out(const std::string& text);

// The result of a command: `text`, or with as_json one line of {"ok":true, ...} with the members of
// `json`. An error if standard output cannot take it. Names in `text` are those of shown(); in
// `json` they are unchanged.
Status print(bool as_json, const Json& json, const std::string& text);

// The same for a program that continues: it is warned once if standard output cannot take the text.
void print_news(bool as_json, const Json& json, const std::string& text);

// None of these needs a writable standard error. "sparcl: error: ..." on standard error, and with
// as_json {"ok":false,"error":"sparclCorrupt","message":...,"exit_code":3} on standard output.
// Returns the exit code.
int print_error(const Status& status, bool as_json);

// Returns the error, of which print_error() also prints these members in JSON.
Status with_members(Status error, Json members);

// The same as print_error() for an invalid command line: "error" is "usage". hint: lines for
// people, after the message.
int print_usage_error(const std::string& what, const std::string& hint, bool as_json);

// "sparcl: warning: ..." on standard error: the command continues.
void print_warning(const std::string& text);
// The same without "warning".
void print_note(const std::string& text);

std::string human_bytes(std::uint64_t bytes);  // "1.6 MB"
Json hash_or_null(const Hash128* hash);

// a / b, or 0 if b is 0.
double ratio(double a, double b);

}  // namespace sparcl::tool
