// The command line: a table of subcommands, and the handling of failures.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <clocale>
#include <exception>
#include <new>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/table/collective_table.hpp"
#include "src/base/near_name.hpp"
#include "src/base/settings.hpp"
#include "src/base/standard_streams.hpp"
#include "src/model/text.hpp"
#include "tools/sparcl/command.hpp"
#include "tools/sparcl/console.hpp"
#include "tools/sparcl/last_resort.hpp"
#include "tools/sparcl/signals.hpp"

namespace sparcl::tool {
namespace {

constexpr std::array kCommands{
    Command{"info",
            "Version, transports, kernels and settings, and why each is or is not usable here",
            add_info},
    Command{"diff", "Write the delta between two checkpoints", add_diff},
    Command{"apply", "Turn a checkpoint into the delta's target", add_apply},
    Command{"inspect", "Say what a delta or a checkpoint holds", add_inspect},
    Command{"hash", "Say the hash of a checkpoint: ours, XXH3 or SHA-256", add_hash},
    Command{"verify", "Check a delta without its base, or a checkpoint's structure", add_verify},
    Command{"compose", "Make one delta of several that follow each other", add_compose},
    Command{"invert", "Make the delta that leads back", add_invert},
    Command{"convert", "Read and write the layouts in which other programs exchange changes",
            add_convert},
    Command{"advise",
            "From two checkpoints and a link: density, best mode, times, and when dense wins",
            add_advise},
    Command{"publish", "Publish checkpoints as versions, for replicas that come and go",
            add_publish},
    Command{"subscribe", "Keep a checkpoint at the newest version that a publisher has",
            add_subscribe},
    Command{"aggregate",
            "Serve workers that come and go: sum their contributions, and publish the results",
            add_aggregate},
    Command{"status",
            "Say what the calls of a process are doing (one that runs, is stuck, stopped or dead), "
            "a publisher's replicas, or an aggregator's workers",
            add_status},
    Command{"store", "List, check, restore, prune, compact and copy the versions of a store",
            add_store},
    Command{"gateway", "Serve versions over gRPC to workers in any language (sparcl-gateway)",
            add_gateway},
    Command{"keygen", "Make the pair of keys that a publisher or a worker signs with", add_keygen},
    Command{"secret", "Make the secrets of a publisher, its replicas and its observers",
            add_secret},
    Command{"sign", "Sign a checkpoint, a delta, or any file or folder", add_sign},
    Command{"verify-signature", "Check that files are what was signed, by keys that you trust",
            add_verify_signature},
    Command{"trust", "List, add and remove keys of a file of trusted keys", add_trust},
};

// Asked before the command line is parsed, because the parser may refuse it.
bool wants_json(std::span<char* const> arguments) {
  return std::any_of(arguments.begin(), arguments.end(),
                     [](std::string_view each) { return each == "--json"; });
}

std::string command_names() {
  std::string names;
  for (const Command& command : kCommands)
    names += (names.empty() ? "" : ", ") + std::string(command.name);
  return names;
}

// The parser's own message for a missing or misspelt command does not list the commands.
std::string without_command(std::span<char* const> arguments) {
  const auto word = std::find_if(arguments.begin(), arguments.end(),
                                 [](std::string_view each) { return !each.starts_with('-'); });
  if (word == arguments.end())
    return fmt::format("a command is missing; the commands are {}", command_names());
  const auto near = std::ranges::find_if(
      kCommands, [&](const Command& each) { return is_near_name(*word, each.name); });
  return fmt::format("there is no command {}{}; the commands are {}", model::in_quotes(*word),
                     near == kCommands.end() ? "" : fmt::format(" (did you mean {}?)", near->name),
                     command_names());
}

// Of a command that has others below it: one of those is misspelt. "": it is not that.
std::string without_subcommand(const CLI::App& command, const std::vector<std::string>& left) {
  const auto word =
      std::ranges::find_if(left, [](const std::string& each) { return !each.starts_with('-'); });
  std::string names, near;
  for (const CLI::App* const each : command.get_subcommands([](const CLI::App*) { return true; })) {
    names += (names.empty() ? "" : ", ") + each->get_name();
    if (word != left.end() && near.empty() && is_near_name(*word, each->get_name()))
      near = fmt::format(" (did you mean {}?)", each->get_name());
  }
  if (names.empty() || word == left.end() || !command.get_subcommands().empty()) return "";
  return fmt::format("there is no command {}{}; the commands of sparcl {} are {}",
                     model::in_quotes(*word), near, command.get_name(), names);
}

// The parser's texts, but for three: "Could not convert: --rounds = x", and that an option is
// missing or a command is missing where another one is misspelt.
std::string words_of(const CLI::App& command, const CLI::ParseError& error) {
  const std::string text = error.what();
  constexpr std::string_view kConvert = "Could not convert: ", kEquals = " = ";
  if (const std::size_t at = text.find(kEquals);
      text.starts_with(kConvert) && at != std::string::npos)
    return fmt::format("{}: {} is no number", text.substr(kConvert.size(), at - kConvert.size()),
                       model::in_quotes(text.substr(at + kEquals.size())));
  const std::vector<std::string> left = command.remaining();
  const auto unknown =
      std::ranges::find_if(left, [](const std::string& each) { return each.starts_with('-'); });
  if (error.get_name() == "RequiredError" && unknown != left.end())
    return fmt::format("there is no option {}", model::in_quotes(*unknown));
  const std::string misspelt = without_subcommand(command, left);
  return misspelt.empty() ? text : misspelt;
}

int usage_error(const CLI::App& app, const CLI::ParseError& error,
                std::span<char* const> arguments) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  std::string command;  // "store restore "
  for (std::vector<CLI::App*> each = chosen; !each.empty(); each = each.front()->get_subcommands())
    command += each.front()->get_name() + " ";
  const std::string hint = fmt::format("Try: sparcl {}--help\n", command);
  return print_usage_error(
      chosen.empty() ? without_command(arguments) : words_of(*chosen.front(), error), hint,
      wants_json(arguments));
}

// Checks all settings: an invalid one that this command does not use is still a mistake.
Status check_settings() {
  for (const SettingRow& row : collectives::all_setting_rows())
    SPARCL_RETURN_IF_ERROR(check_setting(row));
  return {};
}

// Or the version.
int print_help(const CLI::App& app, const CLI::ParseError& error) {
  std::ostringstream out;
  (void)app.exit(error, out, out);
  const Status status = write_out(out.str());
  return status.ok() ? kExitOk : print_error(status, false);
}

int run(int argc, char** argv, std::span<char* const> arguments) {
  CLI::App app(
      "sparcl: deltas of model checkpoints. Exit codes: 0 ok, 1 failure, 2 usage, 3 refused "
      "(integrity, base or signature).",
      "sparcl");
  app.set_version_flag("--version", std::string("sparcl ") + SPARCL_VERSION_TEXT);
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
    if (error.get_exit_code() == 0) return print_help(app, error);
    return usage_error(app, error, arguments);
  }
  warn_of_unknown_settings(collectives::algorithm_settings());
  clean_up_on_signals();
  for (std::size_t i = 0; i < kCommands.size(); ++i) {
    if (!app.got_subcommand(kCommands[i].name)) continue;
    const bool shows_settings = std::string_view(kCommands[i].name) == "info";
    Status status = shows_settings ? Status() : check_settings();
    if (status.ok()) status = invocations[i].run();
    return status.ok() ? kExitOk : print_error(status, invocations[i].json);
  }
  return kExitUsage;  // not reached: the parser requires a command
}

int fail(Code code, const char* what, bool as_json) noexcept try {
  return print_error(Status(code, what), as_json);
} catch (...) {  // no memory for the message
  return print_out_of_memory();
}

}  // namespace
}  // namespace sparcl::tool

int main(int argc, char** argv) {
  sparcl::prepare_standard_streams();
  std::setlocale(
      LC_ALL,
      "C");  // whatever a library has set when it was loaded: the parser reads numbers by it
  const std::span<char* const> arguments(argv + std::min(argc, 1), argv + argc);
  try {
    return sparcl::tool::run(argc, argv, arguments);
  } catch (const std::bad_alloc&) {
    return sparcl::tool::print_out_of_memory();
  } catch (const std::exception& error) {  // of the standard library: the file system
    return sparcl::tool::fail(sparcl::Code::kSystemError, error.what(),
                              sparcl::tool::wants_json(arguments));
  }
}
