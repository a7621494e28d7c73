// `sparcl store list` and `sparcl store verify`.
#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "src/base/shown_text.hpp"
#include "src/store/open_store.hpp"
#include "src/store/version_chain.hpp"
#include "tools/sparcl/command.hpp"
#include "tools/sparcl/console.hpp"

namespace sparcl::tool {
namespace {

using store::Chain;
using store::StoredObject;
using store::VersionRecord;

std::uint64_t bytes_of(const std::optional<StoredObject>& object) {
  return object ? object->bytes : 0;
}

// Calls use(record) for all records, in their order.
template <class Use>
Status for_records(const Chain& chain, Use&& use) {
  SPARCL_ASSIGN_OR_RETURN(const std::optional<VersionRecord> newest, chain.newest());
  for (std::uint64_t number = 1; newest && number <= newest->number; ++number)
    SPARCL_RETURN_IF_ERROR(use(number, chain.record(number)));
  return {};
}

Status list_versions(const Chain& chain, bool as_json) {
  Json versions = Json::array();
  std::string text;
  const Status walked =
      for_records(chain, [&](std::uint64_t number, const Result<VersionRecord>& record) -> Status {
        SPARCL_RETURN_IF_ERROR(record.status());
        const std::uint64_t anchor = bytes_of(record->anchor), delta = bytes_of(record->delta);
        versions.push_back({{"number", number},
                            {"version", record->version},
                            {"base_version", record->base_version},
                            {"anchor_bytes", anchor},
                            {"delta_bytes", delta},
                            {"hash", to_hex(record->target_hash)}});
        text +=
            fmt::format("{:>8}  {:>12}  {:>12}  {}\n", record->version,
                        record->delta ? human_bytes(delta) : "-",
                        record->anchor ? human_bytes(anchor) : "-", to_hex(record->target_hash));
        return {};
      });
  if (!walked.ok()) return walked;
  const std::string head =
      fmt::format("{:>8}  {:>12}  {:>12}  {}\n", "version", "delta", "anchor", "state hash");
  return print(as_json, {{"versions", versions}},
               text.empty() ? "the store is empty\n" : head + text);
}

Status verify_versions(const Chain& chain, bool as_json) {
  std::uint64_t versions = 0, bytes = 0;
  std::vector<std::string> damage;
  std::optional<StoredObject> schema;
  const auto check = [&](const std::optional<StoredObject>& object) {
    if (!object) return;
    const Status status = chain.check(*object);
    if (status.ok())
      bytes += object->bytes;
    else
      damage.emplace_back(status.message());
  };
  const Status walked =
      for_records(chain, [&](std::uint64_t, const Result<VersionRecord>& record) -> Status {
        if (!record.ok()) {
          damage.emplace_back(record.status().message());
          return {};
        }
        ++versions;
        if (schema != record->schema) check(schema = record->schema);
        check(record->delta);
        check(record->anchor);
        return {};
      });
  if (!walked.ok()) return walked;
  if (damage.empty()) {
    return print(as_json, {{"versions", versions}, {"bytes", bytes}},
                 fmt::format("{} versions, {}: every object is what was published (SHA-256)\n",
                             versions, human_bytes(bytes)));
  }
  std::string all;
  for (const std::string& each : damage) all += "\n  " + shown(each);
  return Status(Code::kCorrupt,
                fmt::format("of the objects of {} versions {} are missing or damaged. "
                            "Restore these files from a copy of the store, or publish to another "
                            "folder:{}",
                            versions, damage.size(), all));
}

Status run_store(const std::string& url, Status (*use)(const Chain&, bool), bool as_json) {
  SPARCL_ASSIGN_OR_RETURN(const std::unique_ptr<store::ObjectStore> opened,
                          store::open_store(url, store::Missing::kIsAnError));
  return use(Chain(*opened), as_json);
}

}  // namespace

void add_store(CLI::App& app, Invocation& invocation) {
  const auto add = [&](const char* name, const char* summary, Status (*use)(const Chain&, bool)) {
    CLI::App* const own = app.add_subcommand(name, summary);
    own->fallthrough();  // --json
    auto url = std::make_shared<std::string>();
    own->add_option("URL", *url, "file:PATH, the folder of the store")->required();
    own->callback([url, use, &invocation] {
      invocation.run = [url, use, &invocation] { return run_store(*url, use, invocation.json); };
    });
  };
  app.require_subcommand(1);
  add("list", "List the versions, with the bytes of their deltas and anchors", list_versions);
  add("verify", "Read all objects, and check that they are what was published", verify_versions);
}

}  // namespace sparcl::tool
