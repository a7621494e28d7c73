#pragma once
// What every command shares: exit codes, errors, output for people and for programs.

#include <functional>
#include <string>

#include <nlohmann/json.hpp>

#include "src/base/checksum.hpp"
#include "src/base/status.hpp"

namespace sparcl::tool {

using Json = nlohmann::ordered_json;

constexpr int kExitOk = 0;
constexpr int kExitFailure = 1;
constexpr int kExitUsage = 2;
constexpr int kExitRefused = 3;  // integrity, base or signature

int exit_code(Code code);

// Prints `text`, or `json` as one line where as_json; an error if standard output cannot take it.
Status print(bool as_json, const Json& json, const std::string& text);

// "sparcl: error: ..." on standard error, and {"ok":false,...} on standard output where as_json. Returns the exit code.
int print_error(const Status& status, bool as_json);

std::string human_bytes(std::uint64_t bytes);  // "1.6 MB"
Json hash_or_null(const Hash128* hash);

// a / b, or 0 where there is nothing to divide by.
double ratio(double a, double b);

}  // namespace sparcl::tool
