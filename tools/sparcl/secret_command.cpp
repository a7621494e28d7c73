#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/base/shown_text.hpp"
#include "src/trust/role_secret.hpp"
#include "src/trust/signing_keys.hpp"
#include "tools/sparcl/command.hpp"
#include "tools/sparcl/console.hpp"

namespace sparcl::tool {
namespace {

enum class Step : std::uint8_t { kNew, kRenew, kEndOld };

// The secrets that the publisher's file is to have, the newest first.
Result<std::vector<trust::RoleSecret>> changed(const std::string& path, Step step,
                                               std::vector<trust::RoleSecret> before) {
  if (before.front().role() != trust::Role::kPublish)
    return Status(Code::kInvalidArgument,
                  fmt::format("{}: it is a secret of role {}: give the publisher's file", path,
                              role_name(before.front().role())));
  if (step == Step::kRenew && before.size() == trust::kMaxSignatures)
    return Status(Code::kInvalidArgument,
                  fmt::format("{}: it has {} secrets already: end the old ones first (--end-old)",
                              path, before.size()));
  std::vector<trust::RoleSecret> secrets;
  if (step == Step::kRenew) {
    SPARCL_ASSIGN_OR_RETURN(trust::RoleSecret made, trust::RoleSecret::generate());
    secrets.push_back(std::move(made));
  }
  const std::size_t kept = step == Step::kRenew ? before.size() : 1;
  for (std::size_t i = 0; i < kept; ++i) secrets.push_back(std::move(before[i]));
  return secrets;
}

Result<std::vector<trust::RoleSecret>> write_secrets(const std::string& path, Step step) {
  if (step != Step::kNew)
    return trust::RoleSecret::replace(path, [&](std::vector<trust::RoleSecret> before) {
      return changed(path, step, std::move(before));
    });
  SPARCL_ASSIGN_OR_RETURN(trust::RoleSecret made, trust::RoleSecret::generate());
  SPARCL_RETURN_IF_ERROR(made.save(path));
  std::vector<trust::RoleSecret> secrets;
  secrets.push_back(std::move(made));
  return secrets;
}

Status run_secret(const std::string& path, Step step, bool as_json) {
  SPARCL_ASSIGN_OR_RETURN(const std::vector<trust::RoleSecret> secrets, write_secrets(path, step));
  const trust::RoleSecret& secret = secrets.front();
  const std::string replicas = path + ".replicate", observers = path + ".observe";
  const std::string line = trust::public_key_line(secret.publisher_key());
  const std::string fingerprint = trust::fingerprint(secret.publisher_key());
  const Json json{{"output", path},
                  {"replicate", replicas},
                  {"observe", observers},
                  {"public_key", line.substr(line.find(' ') + 1)},
                  {"fingerprint", fingerprint},
                  {"secrets", secrets.size()}};
  const std::string old =
      secrets.size() == 1
          ? std::string()
          : fmt::format(
                "\n{} older {} still accepted: give replicas the new file, then run sparcl "
                "secret --end-old\n",
                secrets.size() - 1, secrets.size() == 2 ? "secret is" : "secrets are");
  return print(
      as_json, json,
      fmt::format("{1:<{0}}  for the publisher or aggregator alone: sparcl publish --secret\n"
                  "{2:<{0}}  for replicas and workers: sparcl subscribe --secret\n"
                  "{3:<{0}}  for those who look at the status: sparcl status --secret\n"
                  "{4:<{0}}  {5}, the publisher's key\n",
                  shown(replicas).size(), shown(path), shown(replicas), shown(observers),
                  "fingerprint", fingerprint) +
          old);
}

}  // namespace

void add_secret(CLI::App& app, Invocation& invocation) {
  auto path = std::make_shared<std::string>();
  auto step = std::make_shared<Step>(Step::kNew);
  app.add_option(
         "-o,--output", *path,
         "the publisher's file. FILE.replicate and FILE.observe come beside it. Without the two "
         "options below none may be there yet")
      ->required()
      ->type_name("FILE");
  CLI::Option* renew = app.add_flag_callback(
      "--renew", [step] { *step = Step::kRenew; },
      "add a new secret to FILE, which a running publisher reads again. It still accepts the old "
      "ones. FILE.replicate and FILE.observe get the new one");
  app.add_flag_callback(
         "--end-old", [step] { *step = Step::kEndOld; },
         "leave only the newest secret in FILE: a running publisher ends the connections of all "
         "who have an older one")
      ->excludes(renew);
  invocation.run = [path, step, &invocation] { return run_secret(*path, *step, invocation.json); };
}

}  // namespace sparcl::tool
