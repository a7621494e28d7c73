#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/base/settings.hpp"
#include "src/net/host_port.hpp"
#include "src/replication/model_id.hpp"
#include "tools/number_checks.hpp"
#include "tools/sparcl/acknowledgement.hpp"
#include "tools/sparcl/command.hpp"
#include "tools/sparcl/console.hpp"
#include "tools/sparcl/credentials.hpp"
#include "tools/sparcl/metrics_page.hpp"
#include "tools/sparcl/open_chain.hpp"
#include "tools/sparcl/signals.hpp"
#include "tools/sparcl/version_publisher.hpp"
#include "tools/sparcl/watched_folder.hpp"

namespace sparcl::tool {
namespace {

constexpr double kLookSeconds =
    0.1;  // between two looks at what replicas hold, or a folder; heuristic
constexpr double kSettleSeconds =
    15;  // for files that are there at the start; longer than WatchedFolder's patience

struct PublishOptions {
  replication::PublisherOptions publisher;
  StoreChoice store;
  bool has_service = true;  // replicas may connect
  std::vector<std::string> files;
  std::string folder;
  double interval_s = 0;
  int replicas = -1;  // end once so many hold the last version; -1: do not end
  std::optional<std::uint64_t> first_version;
  std::string version_from = "count";  // or "name"
  MetricsPlace metrics;
  std::string reader;  // which acknowledges what it has read from the folder; "": none
};

// Checked before anything is published: an error in the last file must not be found after hours.
Status check_files(const std::vector<std::string>& files) {
  SPARCL_ASSIGN_OR_RETURN(const model::Checkpoint first,
                          model::Checkpoint::open_unread(files.front()));
  for (const std::string& file : files) {
    SPARCL_ASSIGN_OR_RETURN(const model::Checkpoint checkpoint,
                            model::Checkpoint::open_unread(file));
    const Status status = find_tensors(first.schema(), checkpoint).status();
    if (!status.ok())
      return Status(status.code(), fmt::format("{}, as in {}", status.message(), files.front()));
  }
  return {};
}

bool is_done(const VersionPublisher& publisher, const PublishOptions& options) {
  return options.replicas >= 0 && publisher.is_held_by(options.replicas);
}

// Says which replicas are counted: those that say so themselves.
void report_acknowledged(const VersionPublisher& publisher, const PublishOptions& options,
                         bool as_json) {
  if (!is_done(publisher, options)) return;
  const int replicas = publisher.held_by();
  print_news(
      as_json,
      {{"acknowledged", replicas},
       {"acknowledged_version", publisher.version()},
       {"acknowledgements", "advisory"}},
      fmt::format("replicas that say they hold version {}: {} (advisory: nothing proves it)\n",
                  publisher.version(), replicas));
}

Status publish_files(VersionPublisher& publisher, const PublishOptions& options) {
  publisher.publish_all_to_store();
  std::span<const std::string> files(options.files);
  SPARCL_ASSIGN_OR_RETURN(const std::size_t stored, publisher.count_stored(files));
  for (const std::string& file : files.subspan(stored)) {
    if (publisher.version() != 0 && wait_for_stop(options.interval_s)) return {};
    SPARCL_RETURN_IF_ERROR(publisher.read(file));
    SPARCL_RETURN_IF_ERROR(publisher.publish());
    if (options.interval_s > 0) SPARCL_RETURN_IF_ERROR(publisher.start_serving());
  }
  SPARCL_RETURN_IF_ERROR(publisher.start_serving());
  while (options.has_service && !is_done(publisher, options) && !wait_for_stop(kLookSeconds))
    continue;
  return {};
}

// The file's writer may not have finished, or the disk may answer next time.
bool may_pass(Code code) {
  return code == Code::kInProgress || code == Code::kCorrupt || code == Code::kSystemError ||
         code == Code::kRemoteError || code == Code::kTimeout;
}

// Publishes the ready files of a watched folder. A file that cannot be published does not end the
// command. True: all were tried; false: some will come again.
Result<bool> publish_ready(VersionPublisher& publisher, WatchedFolder& folder,
                           std::span<const std::string> files) {
  for (; !files.empty(); files = files.subspan(1)) {
    if (stop_is_asked()) return true;
    const Status read = publisher.read(files.front());
    std::error_code error;
    if (!read.ok() && !std::filesystem::exists(files.front(), error)) {
      print_warning(fmt::format("{}: it disappeared while it was read; it is skipped: {}",
                                files.front(), read.message()));
      continue;
    }
    if (!read.ok() && may_pass(read.code())) {
      folder.put_back(files, read);
      return false;
    }
    if (read.ok() && publisher.has_published_what_was_read()) {
      print_note(
          fmt::format("{}: new or touched, and what it holds was published already: no new version",
                      files.front()));
      continue;
    }
    const Status status = read.ok() ? publisher.publish() : read;
    if (status.ok()) continue;
    if (read.ok() && publisher.version() != 0 && may_pass(status.code())) {  // the store's
      folder.put_back(files, status);
      return false;
    }
    const bool is_over = status.code() == Code::kStale;  // another process publishes there
    if (is_over || (publisher.version() == 0 && status.code() != Code::kWrongBase)) return status;
    print_warning(fmt::format("{}; it is skipped", status.message()));
  }
  return true;
}

Status publish_folder(VersionPublisher& publisher, const PublishOptions& options) {
  WatchedFolder folder(options.folder, {});
  const double begin = net::monotonic_seconds();
  bool is_listed = true;
  do {
    const Result<WatchedFolder::Look> look = folder.look(net::monotonic_seconds());
    if (!look.ok() && publisher.version() == 0) return look.status();
    if (!look.ok() && is_listed) print_warning(look.status().message());
    is_listed = look.ok();
    if (!look.ok()) continue;
    for (const Status& status : look->given_up)
      print_warning(fmt::format("{}; it is skipped", status.message()));
    for (const std::string& note : look->unmarked) print_note(note);
    if (!look->held_up.ok()) {
      print_note(fmt::format("{}; it, and files with later names, wait for {:g} s",
                             look->held_up.message(), WatchedFolder::Times().patience_s));
    }
    SPARCL_ASSIGN_OR_RETURN(const bool all, publish_ready(publisher, folder, look->ready));
    const bool has_more = look->has_more || !all;
    // Files that are there at the start are one step for replicas, like given files.
    if (!has_more || net::monotonic_seconds() - begin > kSettleSeconds)
      SPARCL_RETURN_IF_ERROR(publisher.start_serving());
    if (!has_more && is_done(publisher, options)) return {};
  } while (!wait_for_stop(kLookSeconds));
  return {};
}

// Beside the watched folder, which the trainer alone writes to: DIR/.NAME.sparcl-publisher. Without
// a folder, the user's file for all publishers, because epochs need only rise. "": there is none.
std::string default_state_path(const std::string& folder) {
  namespace fs = std::filesystem;
  if (!folder.empty()) {
    std::error_code error;
    fs::path watched = fs::absolute(folder, error).lexically_normal();
    if (!watched.has_filename()) watched = watched.parent_path();  // it ended with a slash
    return (watched.parent_path() /
            fmt::format(".{}.sparcl-publisher", watched.filename().string()))
        .string();
  }
  const char* state_home = std::getenv("XDG_STATE_HOME");
  const char* home = std::getenv("HOME");
  fs::path path;
  if (state_home != nullptr && *state_home == '/') path = state_home;
  if (path.empty() && home != nullptr && *home == '/') path = fs::path(home) / ".local" / "state";
  if (path.empty()) return {};
  std::error_code error;
  fs::create_directories(
      path / "sparcl",
      error);  // if this fails the file cannot be written, which is reported then
  return (path / "sparcl" / "publisher").string();
}

// Before the first version.
void report_removed(const std::optional<RemovedVersions>& removed, bool as_json) {
  if (!removed || removed->versions == 0) return;
  print_news(
      as_json, {{"removed_versions", removed->versions}, {"removed_bytes", removed->bytes}},
      fmt::format("removed {} versions, {}\n", removed->versions, human_bytes(removed->bytes)));
}

Result<std::unique_ptr<VersionPublisher>> create_publisher(PublishOptions& options, bool as_json) {
  std::unique_ptr<VersionStore> store;
  if (!options.store.url.empty()) {
    options.store.model_id = options.publisher.model_id;
    options.store.key_path = options.publisher.key_path;
    SPARCL_ASSIGN_OR_RETURN(store, VersionStore::open(options.store));
    report_removed(store->removed_at_start(), as_json);
  }
  if (!options.has_service)
    return VersionPublisher::create(std::move(store), options.first_version, as_json);
  SPARCL_RETURN_IF_ERROR(options.publisher.take_settings());
  if (!options.publisher.key_path.empty()) {
    SPARCL_ASSIGN_OR_RETURN(const trust::SigningKeysRef keys,
                            trust::SigningKeys::load(options.publisher.key_path));
  }
  SPARCL_ASSIGN_OR_RETURN(
      replication::Listener listener,
      replication::Listener::open(options.publisher.listen, options.publisher.reach()));
  return VersionPublisher::create(std::move(listener), options.publisher, std::move(store),
                                  options.first_version, as_json);
}

Status run_publish(PublishOptions options, bool as_json) {
  stop_on_signals();
  if (!options.files.empty()) SPARCL_RETURN_IF_ERROR(check_files(options.files));
  if (options.publisher.state_path.empty() && options.has_service)
    options.publisher.state_path = default_state_path(options.folder);
  if (!options.publisher.key_path.empty() && options.publisher.model_id.empty()) {
    print_note(
        "--key without --model-id: subscribers can trust the key (--trust) only if the model has a "
        "name");
  }
  if (!options.folder.empty())
    SPARCL_RETURN_IF_ERROR(
        WatchedFolder(options.folder, {}).look(net::monotonic_seconds()).status());
  const Result<std::unique_ptr<VersionPublisher>> created = create_publisher(options, as_json);
  if (!created.ok()) return created.status();
  VersionPublisher& publisher = **created;
  if (options.version_from == "name") publisher.take_versions_from_names();
  if (!options.reader.empty()) publisher.acknowledge(options.folder, options.reader);
  std::unique_ptr<MetricsPage> page;  // it asks the publisher: it ends first
  if (!options.metrics.where.empty()) {
    Result<std::unique_ptr<MetricsPage>> opened = MetricsPage::open(options.metrics, [&] {
      return publisher_metrics(Json::parse(publisher.status(), nullptr, false));
    });
    if (!opened.ok()) return opened.status();
    page = std::move(*opened);
    print_note(fmt::format("metrics at {}", page->address()));
  }
  if (options.has_service)
    print_news(as_json, {{"address", publisher.address()}},
               fmt::format("listening on {}\n", publisher.address()));
  SPARCL_RETURN_IF_ERROR(options.folder.empty() ? publish_files(publisher, options)
                                                : publish_folder(publisher, options));
  report_acknowledged(publisher, options, as_json);
  return {};
}

// A usage error, before anything is opened.
void check_reach(const PublishOptions& options) {
  const bool is_near = options.publisher.reach() == replication::Reach::kThisMachine;
  if (is_near && replication::is_reachable(options.publisher.listen))
    throw CLI::ValidationError(
        "--listen",
        fmt::format("other machines can reach {}: give --secret FILE (sparcl secret makes one) or "
                    "--certificates FOLDER, or --insecure if everybody who reaches the port may "
                    "read the weights",
                    options.publisher.listen));
  options.metrics.check();
}

// Readers of our own layout hold leases.
void check_readers(const StoreChoice& choice) {
  if (!choice.readers.empty() && choice.layout == "sparcl")
    throw CLI::ValidationError(
        "--readers",
        "for --layout hf-xor, hf-xor_xxh3 or hf-overwrite: versions in "
        "layout sparcl are removed by --keep-versions or sparcl store prune");
}

// Without the service its options mean nothing.
void check_store_alone(const CLI::App& app) {
  for (const char* const name :
       {"--secret", "--certificates", "--insecure", "--exit-when-acked", "--state", "--witness",
        "--peer-bytes", "--metrics", "--interval"}) {
    if (app.count(name) > 0)
      throw CLI::ValidationError(name,
                                 "with --store it also needs --listen HOST:PORT: without it "
                                 "no replica can connect");
  }
}

void add_store_options(CLI::App& app, PublishOptions& options) {
  CLI::Option* store =
      app.add_option("--store", options.store.url,
                     "versions also go to this store: " + std::string(kStoreUrlHelp) +
                         ". Without --listen they go there alone")
          ->type_name("URL")
          ->check(store_url_fault, "", "");
  CLI::Option* layout =
      app.add_option(
             "--layout", options.store.layout,
             "of the store: sparcl, or folders weight_vNNNNNN of another program, which "
             "its engines read. The first one of a process is complete, and so is one with changed "
             "files beside the shards (default: sparcl)")
          ->check(CLI::IsMember(VersionStore::layouts()))
          ->needs(store);
  app.add_option(
         "--anchor-every", options.store.anchor_every,
         "versions from one that has all bytes to the next (default: 64; with --layout hf-... "
         "and without --readers only the first one has all)")
      ->type_name("K")
      ->transform(whole_number(1))
      ->needs(store);
  app.add_option("--chain", options.store.chain,
                 "what readers that are late may take in place of many updates. hybrid: skips over "
                 "8 and 64 versions. plain: nothing. independent: a skip from the last version "
                 "that has all bytes, to each version (default: hybrid)")
      ->check(CLI::IsMember({"hybrid", "plain", "independent"}))
      ->excludes(layout)
      ->needs(store);
  app.add_option("--readers", options.store.readers,
                 "names of all readers of the folders of --layout: versions before the newest "
                 "complete one that each reader has acknowledged in PATH/acks/NAME are removed "
                 "(default: none is removed)")
      ->type_name("NAME")
      ->check(reader_name_fault, "", "")
      ->needs(layout);
  app.add_option("--keep-versions", options.store.keep_versions,
                 "prune the store after each anchor: keep so many versions (default: all)")
      ->type_name("N")
      ->transform(whole_number(1))
      ->excludes(layout)
      ->needs(store);
  app.add_option("--lease-seconds", options.store.lease_seconds,
                 "how long readers may need what is pruned: as the readers' own (default: 600)")
      ->type_name("SECONDS")
      ->transform(real_number(0.0, 1e8))
      ->needs(store);
  app.add_flag("--single-writer", options.store.single_writer,
               "publish also to a server that ignores conditions, where a second publisher is "
               "detected and not prevented")
      ->needs(store);
}

std::string listen_fault(const std::string& text) {
  const Result<net::HostPort> where = net::parse_host_port(text);
  return where.ok() ? std::string() : where.status().message();
}

}  // namespace

void add_publish(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<PublishOptions>();
  CLI::Option* files = app.add_option("FILE", options->files,
                                      "checkpoints with the same tensors: .safetensors files, or "
                                      "folders of shards. Their versions are 1, 2, ...");
  CLI::Option* watch = app.add_option("--watch", options->folder,
                                      "instead: each .safetensors file, and each folder of one "
                                      "version, that is in this folder or comes into it, in the "
                                      "order of names, once it is complete")
                           ->type_name("DIR")
                           ->excludes(files);
  app.add_option("--acknowledge", options->reader,
                 "write the number of each version of the watched folder, once it is published, "
                 "to acks/NAME in it, for a publisher with --readers")
      ->type_name("NAME")
      ->check(reader_name_fault, "", "")
      ->needs(watch);
  app.add_option(
         "--listen", options->publisher.listen,
         "where replicas connect; without a host on all interfaces. Beyond this machine it needs "
         "--secret, --certificates or --insecure (default: any port of the loopback interface)")
      ->type_name("HOST:PORT")
      ->check(listen_fault, "", "");
  app.add_option("--model-id", options->publisher.model_id,
                 "a name: replicas that ask for another model are refused")
      ->type_name("ID")
      ->check([](const std::string& id) { return replication::check_model_id(id).message(); }, "",
              "");
  app.add_option(
         "--key", options->publisher.key_path,
         "of sparcl keygen, one or more lines: versions are signed by each key. For replicas the "
         "file is read again when it changes, for --store it is not")
      ->type_name("FILE")
      ->check(empty_name_fault);
  app.add_option("--secret", options->publisher.secret_path,
                 "of sparcl secret, role publish: connections are encrypted, replicas need the "
                 "secret of role replicate, and versions are signed (default: SPARCL_SECRET)")
      ->type_name("FILE")
      ->check(empty_name_fault);
  add_certificates(app, options->publisher.certificates_path, "publish");
  app.add_flag(
      "--insecure", options->publisher.is_insecure,
      "the ports of --listen and --metrics may be in the clear for other machines. Each process "
      "that reaches them may read what is sent");
  app.add_option("--interval", options->interval_s,
                 "between two given files; with 0, the default, replicas meet the last one only")
      ->type_name("SECONDS")
      ->transform(real_number(0.0, kMaxSeconds))
      ->excludes(watch);
  app.add_option(
         "--exit-when-acked", options->replicas,
         "end once N replicas say that they hold the last version, or held it when they ended, and "
         "no file is left. The number is advisory: it is their own word")
      ->type_name("N")
      ->transform(whole_number(0, 1 << 20));
  app.add_option("--state", options->publisher.state_path,
                 "where the publisher's epoch is kept for its next life (default: "
                 ".NAME.sparcl-publisher beside the watched folder NAME, else sparcl/publisher in "
                 "$XDG_STATE_HOME or ~/.local/state)")
      ->type_name("FILE")
      ->check([](const std::string& name) {
        return std::string(name.empty() ? "the name is empty: give a file" : "");
      });
  app.add_option(
         "--witness", options->publisher.witness_path,
         "file on a file system that all publishers of the model share, instead of --state: "
         "each takes the next term there. One that comes back after another has taken over "
         "publishes nothing more")
      ->type_name("FILE")
      ->check(empty_name_fault)
      ->excludes("--state");
  app.add_option("--peer-bytes", options->publisher.peer_bytes,
                 "memory that peers may cause beside what is kept for all of them (default: "
                 "SPARCL_PEER_BYTES; if that is 0, twice the model's bytes, 64 MiB at least)")
      ->transform(whole_number())
      ->type_name("BYTES");
  app.add_option("--metrics", options->metrics.where,
                 "figures for Prometheus at http://HOST:PORT/metrics. With --certificates at "
                 "https://, for readers with a certificate")
      ->type_name("HOST:PORT")
      ->check(listen_fault, "", "");
  CLI::Option* first_version =
      app.add_option("--first-version", options->first_version, "the first file's number")
          ->transform(whole_number(1, 1ULL << 62))
          ->type_name("N");
  app.add_option("--version-from", options->version_from,
                 "count: versions are 1, 2, ...; name: the last number in the name of each file or "
                 "folder, which must rise")
      ->check(CLI::IsMember({"count", "name"}))
      ->excludes(first_version);
  add_store_options(app, *options);
  // Checked after parsing, because the parser's own message for "one of the two" is hard to read.
  app.parse_complete_callback([&app, files, watch, options] {
    if (files->count() + watch->count() == 0) throw CLI::RequiredError("FILE or --watch");
    check_readers(options->store);
    options->has_service = options->store.url.empty() || app.count("--listen") > 0;
    if (!options->has_service) return check_store_alone(app);
    take_credentials(options->publisher.secret_path, options->publisher.certificates_path);
    options->metrics.certificates_path = options->publisher.certificates_path;
    options->metrics.is_insecure = options->publisher.is_insecure;
    check_reach(*options);
  });
  invocation.run = [options, &invocation] { return run_publish(*options, invocation.json); };
}

}  // namespace sparcl::tool
