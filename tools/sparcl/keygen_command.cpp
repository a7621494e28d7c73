#include <fmt/format.h>

#include <memory>
#include <string>

#include "src/base/shown_text.hpp"
#include "src/trust/signing_key.hpp"
#include "tools/sparcl/command.hpp"
#include "tools/sparcl/console.hpp"

namespace sparcl::tool {
namespace {

Status run_keygen(const std::string& path, bool as_json) {
  const Result<trust::SigningKey> key = trust::SigningKey::generate();
  if (!key.ok()) return key.status();
  SPARCL_RETURN_IF_ERROR(key->save(path));
  const std::string public_path = path + ".pub";
  const std::string line = trust::public_key_line(key->public_key());
  const std::string fingerprint = trust::fingerprint(key->public_key());
  const Json json{{"output", path},
                  {"public", public_path},
                  {"public_key", line.substr(line.find(' ') + 1)},
                  {"fingerprint", fingerprint}};
  return print(
      as_json, json,
      fmt::format(
          "{1:<{0}}  the secret key, mode 0600: for its owner alone\n"
          "{2:<{0}}  the public key: its line belongs into the trusted keys of those who check\n"
          "{3:<{0}}  {4}\n",
          shown(public_path).size(), shown(path), shown(public_path), "fingerprint", fingerprint));
}

}  // namespace

void add_keygen(CLI::App& app, Invocation& invocation) {
  auto path = std::make_shared<std::string>();
  app.add_option(
         "-o,--output", *path,
         "the file of the secret key; the public key goes to FILE.pub. Neither may be there yet")
      ->required()
      ->type_name("FILE");
  invocation.run = [path, &invocation] { return run_keygen(*path, invocation.json); };
}

}  // namespace sparcl::tool
