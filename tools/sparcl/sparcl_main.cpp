// The command line: a table of subcommands, and what a failure becomes.

#include <array>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "src/base/settings.hpp"
#include "tools/sparcl/command.hpp"
#include "tools/sparcl/console.hpp"
#include "tools/sparcl/signals.hpp"

namespace sparcl::tool {
namespace {

constexpr std::array kCommands{
    Command{"info", "Version, transports, kernels and settings, and why each is or is not usable here", add_info},
    Command{"diff", "Write what turns one checkpoint into another", add_diff},
    Command{"apply", "Turn a checkpoint into the delta's target", add_apply},
    Command{"inspect", "Say what a delta or a checkpoint holds", add_inspect},
    Command{"verify", "Check a delta without its base, or a checkpoint's structure", add_verify},
};

int usage_error(const CLI::App& app, const std::string& what) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  fmt::print(stderr, "sparcl: error: {}\nTry: sparcl {}--help\n", what, chosen.empty() ? "" : chosen.front()->get_name() + " ");
  return kExitUsage;
}

int run(int argc, char** argv) {
  CLI::App app(
      "sparcl: deltas of model checkpoints. Exit codes: 0 ok, 1 failure, 2 usage, 3 refused (integrity, base or signature).",
      "sparcl");
  app.set_version_flag("--version", std::string("sparcl ") + SPARCL_VERSION);
  app.require_subcommand(1);
  std::array<Invocation, kCommands.size()> invocations;
  for (std::size_t i = 0; i < kCommands.size(); ++i) {
    CLI::App* command = app.add_subcommand(kCommands[i].name, kCommands[i].summary);
    command->add_flag("--json", invocations[i].json, "one line of JSON instead of text");
    kCommands[i].add(*command, invocations[i]);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    return usage_error(app, error.what());
  }
  warn_of_unknown_settings();
  clean_up_on_signals();
  for (std::size_t i = 0; i < kCommands.size(); ++i) {
    if (!app.got_subcommand(kCommands[i].name)) continue;
    const Status status = invocations[i].run();
    return status.ok() ? kExitOk : print_error(status, invocations[i].json);
  }
  return usage_error(app, "no command");
}

}  // namespace
}  // namespace sparcl::tool

int main(int argc, char** argv) {
  try {
    return sparcl::tool::run(argc, argv);
  } catch (const std::exception& error) {  // of the standard library alone: memory, file system
    std::fprintf(stderr, "sparcl: error: %s\n", error.what());
    return sparcl::tool::kExitFailure;
  }
}
