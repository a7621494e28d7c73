#pragma once
// A subcommand: one file, one row of the table in sparcl_main.cpp.

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "src/base/status.hpp"

namespace sparcl::tool {

struct Invocation {
  bool json = false;
  std::function<Status()> run;
};

struct Command {
  const char* name;
  const char* summary;
  // Declares the options on `app` and sets invocation.run, called once they are parsed. Both
  // outlive the call.
  void (*add)(CLI::App& app, Invocation& invocation);
};

// The fault of an option that names a file: an unset variable of a shell is no choice.
inline std::string empty_name_fault(const std::string& name) {
  return name.empty() ? "the name is empty: give a file, or leave the option out" : "";
}

void add_info(CLI::App& app, Invocation& invocation);
void add_diff(CLI::App& app, Invocation& invocation);
void add_apply(CLI::App& app, Invocation& invocation);
void add_compose(CLI::App& app, Invocation& invocation);
void add_invert(CLI::App& app, Invocation& invocation);
void add_convert(CLI::App& app, Invocation& invocation);
void add_advise(CLI::App& app, Invocation& invocation);
void add_inspect(CLI::App& app, Invocation& invocation);
void add_hash(CLI::App& app, Invocation& invocation);
void add_verify(CLI::App& app, Invocation& invocation);
void add_status(CLI::App& app, Invocation& invocation);
void add_aggregate(CLI::App& app, Invocation& invocation);
void add_publish(CLI::App& app, Invocation& invocation);
void add_subscribe(CLI::App& app, Invocation& invocation);
void add_keygen(CLI::App& app, Invocation& invocation);
void add_secret(CLI::App& app, Invocation& invocation);
void add_sign(CLI::App& app, Invocation& invocation);
void add_verify_signature(CLI::App& app, Invocation& invocation);
void add_trust(CLI::App& app, Invocation& invocation);
void add_store(CLI::App& app, Invocation& invocation);
void add_gateway(CLI::App& app, Invocation& invocation);

}  // namespace sparcl::tool
