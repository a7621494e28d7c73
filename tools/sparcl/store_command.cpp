// `sparcl store`: versions in a store, and what is done with them.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "src/base/shown_text.hpp"
#include "src/model/files/delta_file.hpp"
#include "src/store/compaction.hpp"
#include "src/store/retention.hpp"
#include "src/store/store_content.hpp"
#include "tools/number_checks.hpp"
#include "tools/sparcl/command.hpp"
#include "tools/sparcl/console.hpp"
#include "tools/sparcl/open_chain.hpp"
#include "tools/sparcl/store_follower.hpp"
#include "tools/sparcl/store_presence.hpp"

namespace sparcl::tool {
namespace {

using store::Chain;
using store::Missing;

struct StoreOptions {
  FollowOptions restore;
  std::uint64_t version = 0;
  std::string key_path;    // of compact
  std::string url, other;  // other: --copy, or the target
  std::uint64_t keep = 0, bytes = 0;
  double keep_seconds = 0, lease_seconds = store::kLeaseSeconds;
};

std::string bytes_or_dash(std::uint64_t bytes) { return bytes > 0 ? human_bytes(bytes) : "-"; }

std::string date_of(std::int64_t seconds) {
  constexpr std::int64_t kEnd = 253402300800;  // of the year 9999
  if (seconds < 0 || seconds >= kEnd) return "-";
  return fmt::format("{:%Y-%m-%d %H:%M:%S}", fmt::gmtime(seconds));
}

// What was found, as text and as JSON.
struct Found {
  std::string text = {};
  Json list = Json::array();

  void add(const store::Damage& each) {
    const std::string line = shown(each.location + ": " + each.what);
    text += (text.empty() ? "" : "; ") + line;
    list.push_back({{"place", each.location}, {"what", each.what}});
  }
};

Status list_store(const StoreOptions& options, bool as_json) {
  SPARCL_ASSIGN_OR_RETURN(const auto chain, open_chain(options.url, Missing::kIsAnError));
  std::map<std::uint64_t, std::int64_t> times;  // of records, by their numbers
  chain->objects->watch_lists([&](const store::ObjectInfo& each) {
    const std::uint64_t number = store::number_in(each.key);
    if (each.key == store::commit_key(number)) times[number] = each.written_s;
  });
  Json versions = Json::array();
  std::string text;
  const auto row = [&](const auto& version, const std::string& time, const auto& delta,
                       const auto& skips, const auto& anchor, const auto& hash) {
    text += fmt::format("{:>8}  {:<19}  {:>12}  {:>12}  {:>12}  {}\n", version, time, delta, skips,
                        anchor, hash);
  };
  row("version", "written (UTC)", "delta", "skips", "anchor", "state hash");
  Found left;
  const auto add_row = [&](const store::ListedVersion& each) {
    const store::VersionRecord& record = each.record;
    const std::uint64_t delta = record.delta ? record.delta->bytes : 0;
    const auto time = times.find(record.number);
    const bool has_time = time != times.end();
    versions.push_back({{"number", record.number},
                        {"version", record.version},
                        {"base_version", record.base_version},
                        {"anchor_bytes", each.anchor_bytes},
                        {"delta_bytes", delta},
                        {"skip_bytes", each.skip_bytes},
                        {"written", has_time ? Json(time->second) : Json(nullptr)},
                        {"hash", to_hex(record.target_hash)}});
    row(record.version, has_time ? date_of(time->second) : "-", bytes_or_dash(delta),
        bytes_or_dash(each.skip_bytes), bytes_or_dash(each.anchor_bytes),
        to_hex(record.target_hash));
  };
  const Status listed = store::list_versions(chain->chain, add_row,
                                             [&](const store::Damage& each) { left.add(each); });
  if (listed.code() == Code::kCorrupt && !left.list.empty()) {
    if (!as_json) SPARCL_RETURN_IF_ERROR(print(false, {}, text));
    return with_members(
        Status(Code::kCorrupt,
               fmt::format("{} records or shortcuts are damaged or missing, and the list has the "
                           "others. sparcl store verify URL --copy COPY repairs them: {}",
                           left.list.size(), left.text)),
        {{"versions", versions}, {"damaged", left.list}});
  }
  SPARCL_RETURN_IF_ERROR(listed);
  if (versions.empty()) SPARCL_RETURN_IF_ERROR(has_versions(chain->chain, options.url).status());
  return print(as_json, {{"versions", versions}},
               versions.empty() ? "the store is empty: no version was published at this address "
                                  "(folders of other programs are read by sparcl convert)\n"
                                : text);
}

// Remarks go to standard error: the result is the same with them.
void tell_remarks(const store::VerifyReport& report, Found& repaired, Json& remarks) {
  for (const store::Damage& each : report.remarks) {
    if (each.is_repaired) {
      repaired.add(each);
      continue;
    }
    remarks.push_back({{"place", each.location}, {"what", each.what}});
    print_note("remark: " + shown(each.location + ": " + each.what));
  }
}

Status verify_store(const StoreOptions& options, bool as_json) {
  SPARCL_ASSIGN_OR_RETURN(const auto chain, open_chain(options.url, Missing::kIsAnError));
  std::unique_ptr<OpenChain> copy;
  if (!options.other.empty()) {
    SPARCL_ASSIGN_OR_RETURN(copy, open_chain(options.other, Missing::kIsAnError));
  }
  Found repaired, left;
  chain->objects->show("verify");
  SPARCL_ASSIGN_OR_RETURN(const store::VerifyReport report,
                          store::verify_content(chain->chain, copy ? &copy->chain : nullptr,
                                                [&](const store::Damage& each) {
                                                  (each.is_repaired ? repaired : left).add(each);
                                                }));
  chain->objects->hide();
  Json remarks = Json::array();
  tell_remarks(report, repaired, remarks);
  if (report.versions == 0 && report.damaged == 0)
    return Status(Code::kInvalidArgument,
                  "the store is empty, so nothing was verified: is its address right?");
  const Json json{{"versions", report.versions}, {"objects", report.objects},
                  {"bytes", report.bytes},       {"repaired", repaired.list},
                  {"damaged", left.list},        {"remarks", remarks}};
  const std::string mended = repaired.text.empty() ? "" : ". Repaired: " + repaired.text;
  if (report.damaged > report.repaired) {
    const char* const next = copy == nullptr
                                 ? "Repair them with --copy URL from a copy of the store, or "
                                   "publish to another store"
                                 : "The copy does not have them, or has them damaged";
    return with_members(
        Status(Code::kCorrupt,
               fmt::format("of {} objects of {} versions {} are missing or damaged. {}: {}{}",
                           report.objects, report.versions, report.damaged - report.repaired, next,
                           left.text, mended)),
        json);
  }
  return print(as_json, json,
               fmt::format("{} versions, {}: every object is what was published (SHA-256){}\n",
                           report.versions, human_bytes(report.bytes), mended));
}

// What stays although it is old, and why.
std::string reason_of(const store::PruneReport& report, const store::Keep& keep) {
  std::string text;
  if (report.lease)
    text += fmt::format(
        "; the lease {} of a reader needs {} until {:%Y-%m-%d %H:%M:%S} UTC, and "
        "longer if the reader renews it",
        report.lease->key,
        report.lease->number == 0 ? std::string("all records, as it is damaged,")
                                  : fmt::format("record {} and later ones", report.lease->number),
        fmt::gmtime(report.lease->until_s));
  if (report.waiting > 0)
    text += fmt::format(
        "; {} more are no longer listed or given to readers that ask for them by number: a call in "
        "{} s removes those that no reader needs",
        report.waiting, keep.lease_s);
  else if (report.objects == 0)
    text += ": all versions that are left are to be kept, or lead from an anchor to one that is";
  if (report.has_damaged_marks)
    text += "; nothing was removed by what earlier calls have marked, as the marks are damaged";
  return text;
}

Json json_of(const store::PruneReport& report) {
  Json json{{"versions", report.versions},
            {"objects", report.objects},
            {"bytes", report.bytes},
            {"waiting", report.waiting},
            {"damaged_marks", report.has_damaged_marks},
            {"lease", nullptr}};
  if (report.lease)
    json["lease"] = {{"key", report.lease->key},
                     {"record", report.lease->number},
                     {"until", report.lease->until_s}};
  return json;
}

Status prune_store(const StoreOptions& options, bool as_json) {
  SPARCL_ASSIGN_OR_RETURN(const auto chain, open_chain(options.url, Missing::kIsAnError));
  SPARCL_RETURN_IF_ERROR(check_has_versions(chain->chain, options.url, "pruned"));
  store::Keep keep;
  keep.versions = options.keep;
  if (options.keep_seconds > 0)
    keep.age_s = static_cast<std::int64_t>(std::ceil(options.keep_seconds));
  if (options.bytes > 0) keep.max_bytes = options.bytes;
  keep.lease_s = static_cast<std::int64_t>(std::ceil(options.lease_seconds));
  SPARCL_ASSIGN_OR_RETURN(const store::PruneReport report, store::prune(chain->chain, keep));
  const std::string removed =
      report.objects > 0 ? fmt::format("removed {} versions, {} objects, {}", report.versions,
                                       report.objects, human_bytes(report.bytes))
                         : "removed nothing";
  return print(as_json, json_of(report), removed + reason_of(report, keep) + "\n");
}

Status compact_store(const StoreOptions& options, bool as_json) {
  SPARCL_ASSIGN_OR_RETURN(store::ChainTrustRef trust,
                          store::ChainTrust::load({.key_path = options.key_path}));
  SPARCL_ASSIGN_OR_RETURN(const auto chain,
                          open_chain(options.url, Missing::kIsAnError, std::move(trust)));
  SPARCL_RETURN_IF_ERROR(check_has_versions(chain->chain, options.url, "compacted"));
  SPARCL_ASSIGN_OR_RETURN(const auto* const kernels, model::chosen_kernels());
  SPARCL_ASSIGN_OR_RETURN(const std::uint64_t added, store::compact(chain->chain, *kernels));
  return print(as_json, {{"added", added}},
               fmt::format("objects added (skips and anchors): {}\n", added));
}

Status copy_store(const StoreOptions& options, bool as_json) {
  SPARCL_ASSIGN_OR_RETURN(const auto from, open_chain(options.url, Missing::kIsAnError));
  const Status found = check_has_versions(from->chain, options.url, "copied");
  if (!found.ok() && found.code() != Code::kCorrupt) return found;  // else what is left is copied
  SPARCL_ASSIGN_OR_RETURN(const auto to, open_chain(options.other, Missing::kIsMade));
  from->objects->show("copy");
  const auto copied = store::copy_content(from->chain, to->chain);
  from->objects->hide();
  if (!copied.ok()) return copied.status();
  if (*copied == 0 && !found.ok()) return found;
  const std::uint64_t objects = to->objects->put_objects(), bytes = to->objects->put_bytes();
  return print(
      as_json, {{"versions", *copied}, {"objects", objects}, {"bytes", bytes}},
      fmt::format("copied {} versions, {} objects, {}\n", *copied, objects, human_bytes(bytes)));
}

Status restore_version(const StoreOptions& options, bool as_json) {
  FollowOptions restore = options.restore;
  restore.url = options.url;
  // Reading must not make a store.
  SPARCL_RETURN_IF_ERROR(open_chain(options.url, Missing::kIsAnError).status());
  return restore_from_store(restore, options.version, as_json);
}

// --model-id, --trust and --trust-threshold.
void add_trust_options(CLI::App& app, FollowOptions& options) {
  CLI::Option* const model =
      app.add_option("--model-id", options.model_id, "refuse versions of another model");
  model->type_name("ID");
  CLI::Option* const trust =
      app.add_option("--trust", options.trust_path,
                     "public keys, a line each: what none of them has signed is refused")
          ->check(empty_name_fault)
          ->type_name("KEYFILE")
          ->needs(model);
  app.add_option("--trust-threshold", options.trust_threshold,
                 "so many keys of --trust must have signed (default: 1)")
      ->type_name("N")
      ->transform(whole_number(1, trust::kMaxSignatures))
      ->needs(trust);
}

using Use = Status (*)(const StoreOptions&, bool);

}  // namespace

void add_store(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<StoreOptions>();
  const auto add = [&](const char* name, const char* summary, Use use) {
    CLI::App* const own = app.add_subcommand(name, summary);
    own->add_flag("--json", invocation.json, "one line of JSON instead of text");
    own->add_option("URL", options->url, kStoreUrlHelp)->required()->check(store_url_fault, "", "");
    own->callback([options, use, &invocation] {
      invocation.run = [options, use, &invocation] { return use(*options, invocation.json); };
    });
    return own;
  };
  app.require_subcommand(1);
  add("list", "List the versions, with the bytes of their deltas, skips and anchors", list_store);
  add("verify", "Read all objects, and check that they are what was published", verify_store)
      ->add_option("--copy", options->other,
                   "a copy of the store: its objects take the place of those that are damaged")
      ->type_name("URL")
      ->check(store_url_fault, "", "");

  CLI::App* const restore = add(
      "restore", "Write a version to a checkpoint: a file, or a folder of shards", restore_version);
  restore
      ->add_option("-o,--out", options->restore.output, "the checkpoint, which is replaced whole")
      ->required()
      ->type_name("FILE");
  restore->add_option("--version", options->version, "which (default: the newest)")
      ->type_name("N")
      ->transform(whole_number(1));
  restore->add_flag("--replace", options->restore.may_replace,
                    "also where FILE is a checkpoint of another model, which is lost then");
  add_part_options(*restore, options->restore.parts);
  add_trust_options(*restore, options->restore);

  CLI::App* const prune =
      add("prune", "Remove old versions that no reader needs, and what killed writers have left",
          prune_store);
  CLI::Option_group* const kept = prune->add_option_group("kept");
  kept->add_option("--keep", options->keep, "so many of the newest versions")
      ->type_name("N")
      ->transform(whole_number(1));
  kept->add_option("--keep-seconds", options->keep_seconds, "versions that are younger")
      ->type_name("SECONDS")
      ->transform(real_number(1.0, 1e12));
  kept->add_option("--max-bytes", options->bytes,
                   "fewer versions, so that all objects have at most so many bytes")
      ->type_name("BYTES")
      ->transform(whole_number(1));
  kept->require_option(1, 3);
  prune
      ->add_option("--lease-seconds", options->lease_seconds,
                   "how long readers may need what is to be removed: as the readers' own option "
                   "(default: 600)")
      ->type_name("SECONDS")
      ->transform(real_number(0.0, 1e8));

  add("compact", "Add skips that are missing, and an anchor of the newest version", compact_store)
      ->add_option("--key", options->key_path,
                   "of sparcl keygen, which signs what is added; needed if versions are signed")
      ->check(empty_name_fault)
      ->type_name("FILE");
  add("copy", "Copy the versions that another store lacks", copy_store)
      ->add_option("TO", options->other, "the other store; a folder that is missing is made")
      ->required()
      ->check(store_url_fault, "", "");
}

}  // namespace sparcl::tool
