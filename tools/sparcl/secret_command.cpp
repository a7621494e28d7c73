#include <fmt/format.h>

#include <memory>
#include <string>

#include "src/base/shown_text.hpp"
#include "src/trust/role_secret.hpp"
#include "tools/sparcl/command.hpp"
#include "tools/sparcl/console.hpp"

namespace sparcl::tool {
namespace {

Status run_secret(const std::string& path, bool as_json) {
  SPARCL_ASSIGN_OR_RETURN(const trust::RoleSecret secret, trust::RoleSecret::generate());
  SPARCL_RETURN_IF_ERROR(secret.save(path));
  const std::string replicas = path + ".replicate", observers = path + ".observe";
  const std::string line = trust::public_key_line(secret.publisher_key());
  const std::string fingerprint = trust::fingerprint(secret.publisher_key());
  const Json json{{"output", path},
                  {"replicate", replicas},
                  {"observe", observers},
                  {"public_key", line.substr(line.find(' ') + 1)},
                  {"fingerprint", fingerprint}};
  return print(as_json, json,
               fmt::format("{1:<{0}}  for the publisher alone: sparcl publish --secret\n"
                           "{2:<{0}}  for replicas: sparcl subscribe --secret\n"
                           "{3:<{0}}  for those who look at the status: sparcl status --secret\n"
                           "{4:<{0}}  {5}, the publisher's key\n",
                           shown(replicas).size(), shown(path), shown(replicas), shown(observers),
                           "fingerprint", fingerprint));
}

}  // namespace

void add_secret(CLI::App& app, Invocation& invocation) {
  auto path = std::make_shared<std::string>();
  app.add_option(
         "-o,--output", *path,
         "the publisher's file. FILE.replicate and FILE.observe come beside it. None may be "
         "there yet")
      ->required()
      ->type_name("FILE");
  invocation.run = [path, &invocation] { return run_secret(*path, invocation.json); };
}

}  // namespace sparcl::tool
