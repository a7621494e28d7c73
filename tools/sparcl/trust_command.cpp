#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "src/base/shown_text.hpp"
#include "src/trust/trust_changes.hpp"
#include "src/trust/trusted_keys.hpp"
#include "tools/sparcl/command.hpp"
#include "tools/sparcl/console.hpp"

namespace sparcl::tool {
namespace {

struct TrustOptions {
  std::string path;
  std::vector<std::string> add;
  std::vector<std::string> remove;
};

Status run_trust(const TrustOptions& options, bool as_json) {
  if (!options.add.empty() || !options.remove.empty())
    SPARCL_RETURN_IF_ERROR(trust::change_trusted_keys(options.path, options.add, options.remove));
  SPARCL_ASSIGN_OR_RETURN(const trust::TrustedKeys keys, trust::TrustedKeys::load(options.path));
  Json json{{"file", options.path}, {"keys", Json::array()}};
  std::string text;
  for (const trust::TrustedKeys::Trusted& each : keys.all()) {
    const std::string fingerprint = trust::fingerprint(each.key);
    json["keys"].push_back(
        {{"fingerprint", fingerprint}, {"line", each.line}, {"comment", each.comment}});
    text += fmt::format("{}  line {}{}{}\n", fingerprint, each.line,
                        each.comment.empty() ? "" : ": ", shown(each.comment));
  }
  return print(as_json, json, text);
}

}  // namespace

void add_trust(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<TrustOptions>();
  app.add_option("KEYFILE", options->path,
                 "trusted keys, as for --trust of sparcl subscribe. Without the two options below "
                 "they are listed; a program that runs reads the file again")
      ->required();
  app.add_option("--add", options->add,
                 "add the keys of a .pub file, also to a KEYFILE that is not there yet; may be "
                 "given more than once")
      ->type_name("FILE")
      ->check(empty_name_fault)
      ->take_all();
  app.add_option("--remove", options->remove,
                 "remove the key with this fingerprint; may be given more than once")
      ->type_name("FINGERPRINT")
      ->take_all();
  invocation.run = [options, &invocation] { return run_trust(*options, invocation.json); };
}

}  // namespace sparcl::tool
