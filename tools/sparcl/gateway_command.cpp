// `sparcl gateway`: the program sparcl-gateway, so that sparcl itself needs no gRPC.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "tools/sparcl/command.hpp"

namespace sparcl::tool {
namespace {

constexpr const char* kProgram = "sparcl-gateway";

// Beside this program, as both are installed, or in the build folder.
std::vector<std::filesystem::path> places() {
  std::error_code error;
  const std::filesystem::path own = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return {};
  const std::filesystem::path folder = own.parent_path();
  return {folder / kProgram, folder.parent_path() / "gateway" / kProgram};
}

// Signals were blocked for a thread of this program, which the other one does not have.
void unblock_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, number);
  ::pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
}

// Returns only if it fails.
Status run_program(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), kProgram);
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  unblock_signals();
  for (const std::filesystem::path& place : places()) ::execv(place.c_str(), pointers.data());
  ::execvp(kProgram, pointers.data());
  const std::string why = std::generic_category().message(errno);
  return Status(
      Code::kUnsupported,
      fmt::format("the program {} is neither beside sparcl nor in PATH: {}. It is built where gRPC "
                  "is found (CMake option SPARCL_GRPC; Debian: libgrpc++-dev, "
                  "protobuf-compiler-grpc)",
                  kProgram, why));
}

}  // namespace

void add_gateway(CLI::App& app, Invocation& invocation) {
  app.set_help_flag();  // its own options, which it explains itself
  app.prefix_command();
  invocation.run = [&app, &invocation] {
    std::vector<std::string> arguments = app.remaining();
    if (invocation.json) arguments.insert(arguments.begin(), "--json");
    return run_program(std::move(arguments));
  };
}

}  // namespace sparcl::tool
