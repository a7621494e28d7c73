#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>

#include "src/base/settings.hpp"
#include "src/model/text.hpp"
#include "src/net/host_port.hpp"
#include "src/replication/model_id.hpp"
#include "src/replication/replica_record.hpp"
#include "src/replication/subscriber.hpp"
#include "tools/number_checks.hpp"
#include "tools/sparcl/command.hpp"
#include "tools/sparcl/console.hpp"
#include "tools/sparcl/credentials.hpp"
#include "tools/sparcl/engine_notice.hpp"
#include "tools/sparcl/kept_record.hpp"
#include "tools/sparcl/metrics_page.hpp"
#include "tools/sparcl/model_wait.hpp"
#include "tools/sparcl/notice_options.hpp"
#include "tools/sparcl/open_chain.hpp"
#include "tools/sparcl/progress.hpp"
#include "tools/sparcl/replica_file.hpp"
#include "tools/sparcl/shell_command.hpp"
#include "tools/sparcl/signals.hpp"
#include "tools/sparcl/store_beside.hpp"
#include "tools/sparcl/store_follower.hpp"
#include "tools/sparcl/subscriber_report.hpp"
#include "tools/sparcl/trouble_teller.hpp"

namespace sparcl::tool {
namespace {

constexpr double kStopLookSeconds = 0.2;  // between two checks for a stop
constexpr double kFirstRetry = 1;         // seconds after a failed write; twice as long each time
constexpr double kLastRetry = 60;         // heuristic
constexpr double kSideFilesPatience =
    2;  // seconds, for the publisher's word of the files beside the shards

struct SubscribeOptions {
  replication::SubscriberOptions subscriber;
  std::optional<std::string> model_id;
  std::string address;
  std::string output;
  bool may_replace = false;
  PartChoice parts;
  std::string command;
  std::vector<std::string> notices;
  NoticeOptions notice;
  std::uint64_t until = 0;
  double timeout_s = kMaxSeconds;
  double poll_s = 1;  // of a store
  bool may_roll_back = false;
  MetricsPlace metrics;
  StoreBeside beside;

  StoreBesideTrust beside_trust() const {
    return {model_id.value_or(""), subscriber.trust_path, subscriber.trust_threshold};
  }
};

// Keeps the file up to date with the subscriber.
class Keeper {
 public:
  // store: of --store; nullptr: none.
  Keeper(const SubscribeOptions& options, replication::Subscriber& subscriber,
         api::StoreFallback* store, const ModelMemory& memory, ReplicaFile& file,
         KeptRecord& record, SwapCounts& counts, EngineNotice& notice, bool as_json)
      : options_(options),
        subscriber_(subscriber),
        store_(store),
        memory_(memory),
        file_(file),
        record_(record),
        counts_(counts),
        notice_(notice),
        as_json_(as_json) {}

  // Returns when a stop is asked for, the file holds the wanted version, or the timeout has passed.
  // No message from the network ends it.
  Status run() {
    while (!stop_is_asked() && !is_done_) {
      const Result<replication::Subscriber::Swap> swap = next();
      const double now = net::monotonic_seconds();
      show_progress();
      if (swap.ok()) tell_of_blocks(*swap);
      if (swap.ok() && arrived_.version == 0) arrived_.since = now;
      if (swap.ok()) arrived_.add(*swap);
      if (swap.ok()) counts_.add(*swap);
      teller_.note(subscriber_.trouble(), now);
      if (swap.ok()) teller_.restart(now);
      if (swap.ok() || subscriber_.incoming().bytes > 0) idle_since_ = now;
      // Applied versions are kept, whatever comes after.
      look_at_side_files();
      if (arrived_.version != 0 && (swap.ok() || now >= retry_at_) && has_side_files(now))
        SPARCL_RETURN_IF_ERROR(keep(now));
      if (!is_done_ && is_given_up(now)) {
        const Status none(Code::kTimeout,
                          fmt::format("publisher {} has sent no version yet", options_.address));
        return (teller_.last().ok() ? none : teller_.last())
            .with_prefix(fmt::format("nothing could come for {:g} s: ", options_.timeout_s));
      }
    }
    return {};
  }

 private:
  Result<replication::Subscriber::Swap> next() {
    return store_ != nullptr ? store_->next(subscriber_, kStopLookSeconds)
                             : subscriber_.next(kStopLookSeconds);
  }

  // Files beside the shards may come after their version: the folder is written again.
  void look_at_side_files() {
    if (arrived_.version != 0 || written_.version == 0) return;
    if (!file_.lacks(subscriber_.side_files(written_.version).entry)) return;
    arrived_.version = written_.version;
    arrived_.hash = written_.hash;
    arrived_.is_of_files = true;
  }

  // The publisher tells of them before the version; a version of another replica may come earlier.
  bool has_side_files(double now) const {
    return !options_.subscriber.side_files || now - arrived_.since >= kSideFilesPatience ||
           subscriber_.side_files(arrived_.version).is_settled;
  }

  // The file's bytes had another hash, or the same hash by an attacker's choice: it is rewritten.
  void tell_of_blocks(const replication::Subscriber::Swap& swap) {
    if (swap.by_anchor || swap.damaged_blocks > 0) file_.doubt();
    if (swap.damaged_blocks == 0) return;
    print_warning(
        fmt::format("{} was damaged, or changed: {} of {} blocks were not version {}'s (SHA-256), "
                    "and {} were fetched for them",
                    file_.path(), swap.damaged_blocks, memory_.view().map->block_count(),
                    swap.version, human_bytes(swap.stream_bytes)));
  }

  void show_progress() {
    const replication::Subscriber::Incoming incoming = subscriber_.incoming();
    if (incoming.bytes == 0 || !subscriber_.trouble().ok()) return progress_.reset();
    if (!progress_) progress_.emplace("an update comes");
    progress_->update(incoming.received_bytes, incoming.bytes);
  }

  // The command's time limit: before the first version, or before the version that it is to end
  // with.
  bool is_given_up(double now) const {
    const bool has_none = counts_.file_version == 0;
    const double troubled_s = has_none || options_.until != 0 ? teller_.lasts(now) : 0;
    const bool is_idle = has_none && arrived_.version == 0;
    return std::max(troubled_s, is_idle ? now - idle_since_ : 0) >= options_.timeout_s;
  }

  // The record is written first: if the process is killed in between, the record is later than the
  // file, never earlier.
  Status write() {
    if (record_.trusted) {
      const replication::LatestHeld latest = subscriber_.latest();
      const bool is_new =
          latest.proof && (!record_.latest || record_.latest->commit != latest.proof->commit);
      if (is_new)
        SPARCL_RETURN_IF_ERROR(replication::save_replica_record(record_.path, *latest.proof));
      record_.latest = latest.proof;
    }
    if (notice_.has_engines() && written_.version != 0) file_.keep_previous();
    return file_.write(memory_, arrived_.hash, subscriber_.side_files(arrived_.version).entry,
                       options_.may_replace);
  }

  Status keep(double now) {
    progress_.reset();
    const bool is_wanted = options_.until != 0 && arrived_.version >= options_.until;
    if (const Status written = write(); !written.ok()) {
      const Status status = written.with_prefix(
          fmt::format("version {} could not be written safely: ", arrived_.version));
      if (is_wanted) return status;
      ++counts_.failed_writes;
      print_warning(fmt::format("{}; it is tried again in {:g} s", status.message(), retry_s_));
      retry_at_ = now + retry_s_;
      retry_s_ = std::min(2 * retry_s_, kLastRetry);
      return {};
    }
    retry_s_ = kFirstRetry;
    counts_.file_version = arrived_.version;
    print_line(arrived_, memory_, as_json_);
    if (!options_.command.empty()) run_command();
    const int untold = tell_engines();
    written_ = std::exchange(arrived_, {});
    is_done_ = is_wanted;
    if (!is_wanted || untold == 0) return {};
    return Status(Code::kRemoteError,
                  fmt::format("version {} is written, but {} of {} targets of --notify did not "
                              "take it: see the warnings above",
                              written_.version, untold, options_.notice.targets.size()));
  }

  int tell_engines() {
    std::optional<EngineNotice::Version> previous;
    if (file_.previous()) previous = {written_.version, *file_.previous()};
    const int failed = notice_.tell_all({arrived_.version, file_.path()}, previous, as_json_);
    file_.drop_previous();
    return failed;
  }

  void run_command() const {
    const Status status =
        run_shell(options_.command, {{"SUBSCRIBED_VERSION", std::to_string(arrived_.version)},
                                     {"SUBSCRIBED_FILE", file_.path()}});
    if (!status.ok())
      print_warning(fmt::format("--exec after version {}: {}", arrived_.version, status.message()));
  }

  const SubscribeOptions& options_;
  replication::Subscriber& subscriber_;
  api::StoreFallback* store_;
  const ModelMemory& memory_;
  ReplicaFile& file_;
  KeptRecord& record_;
  SwapCounts& counts_;
  EngineNotice& notice_;
  bool as_json_;
  Arrived arrived_;
  Arrived written_;  // the last one
  TroubleTeller teller_;
  std::optional<Progress> progress_;
  double idle_since_ = net::monotonic_seconds();  // neither a version nor a part of one
  double retry_at_ = 0;
  double retry_s_ = kFirstRetry;
  bool is_done_ = false;
};

// By the record, which only replicas with trusted keys have.
void tell_of_damage(const std::string& path, const ReplicaFile& file, const KeptRecord& record) {
  if (!record.latest || !file.holds() || *file.holds() == record.latest->commit.target_hash) return;
  print_warning(fmt::format(
      "{} does not hold version {}, which was written there last: its hash is {} instead of {}. It "
      "is damaged, was changed, or its last write was interrupted. Missing blocks are fetched",
      path, record.latest->commit.version, to_hex(*file.holds()),
      to_hex(record.latest->commit.target_hash)));
}

RecordPlace record_place_of(const SubscribeOptions& options) {
  return {options.output, options.model_id, options.may_roll_back};
}

// Errors of this command's own, before it waits for anything.
Status check_own(SubscribeOptions& options) {
  SPARCL_RETURN_IF_ERROR(options.subscriber.take_settings());
  return ReplicaFile::check(options.output);
}

Result<std::optional<PublishedModel>> ask_until_answered(SubscribeOptions& options,
                                                         KeptRecord& record) {
  RenewedQuestion renewed(record_place_of(options), *options.subscriber.credentials, record);
  ModelQuestion question;
  question.address = options.address;
  question.model_id = options.model_id;
  question.parts = options.parts;
  question.timeout_s = options.timeout_s;
  renewed.fill(question);
  question.renew = renewed;
  std::string told;
  if (options.beside.is_on()) {
    question.elsewhere = [&] { return model_beside(options.beside, options.beside_trust(), told); };
  }
  return wait_for_model(std::move(question));
}

Status run_subscribe(SubscribeOptions options, bool as_json) {
  stop_on_signals();
  SPARCL_RETURN_IF_ERROR(check_own(options));
  SPARCL_ASSIGN_OR_RETURN(const std::unique_ptr<EngineNotice> notice,
                          EngineNotice::open(options.notice));
  SPARCL_ASSIGN_OR_RETURN(options.subscriber.credentials,
                          replication::ReplicaCredentials::load(
                              {options.subscriber.secret_path, options.subscriber.certificates_path,
                               options.subscriber.trust_path, options.subscriber.trust_threshold}));
  Result<KeptRecord> record =
      open_record(record_place_of(options), *options.subscriber.credentials);
  if (!record.ok()) return record.status();
  const Result<std::optional<PublishedModel>> published = ask_until_answered(options, *record);
  if (!published.ok()) return published.status();
  if (!*published) return {};
  const PublishedModel& model = **published;
  if (record->latest && record->latest->commit.model_id != model.model_id) {
    return Status(
        Code::kMismatch,
        fmt::format("{}: the record is of the model {}, publisher {} has {}: give another "
                    "output, or remove the record to replace what is there",
                    record->path, model::in_quotes(record->latest->commit.model_id),
                    options.address, model::in_quotes(model.model_id)));
  }
  options.subscriber.model_id = model.model_id;
  options.subscriber.latest = record->latest;

  SPARCL_ASSIGN_OR_RETURN(ReplicaFile file, ReplicaFile::open(options.output, model.layout));
  Result<std::unique_ptr<ModelMemory>> memory = ModelMemory::create(model.schema);
  if (!memory.ok()) return memory.status();
  if (const Status status = file.read_into(**memory); !status.ok()) {
    if (status.code() == Code::kMismatch && !options.may_replace) {
      return status.with_prefix(
          "the checkpoint that is there is another model's, and would be replaced: give another "
          "output, or --replace: ");
    }
    print_note(fmt::format("all bytes have to travel, and then replace what is there: {}",
                           status.message()));
  }
  SPARCL_RETURN_IF_ERROR(notice->check_output(options.output, model.layout.is_folder));
  if (!options.beside.is_on()) tell_of_damage(options.output, file, *record);
  options.subscriber.holds_copy = file.holds().has_value();
  options.subscriber.side_files = file.side_digest();
  options.subscriber.only_told = options.beside.is_first;
  std::unique_ptr<api::StoreFallback> store;
  if (options.beside.is_on()) {
    StoreBesideTrust trust = options.beside_trust();
    trust.model_id = model.model_id;
    SPARCL_ASSIGN_OR_RETURN(store, open_beside(options.beside, trust, file.holds()));
  }
  const Result<std::unique_ptr<replication::Subscriber>> subscriber =
      replication::Subscriber::create((*memory)->view(), options.address, options.subscriber);
  if (!subscriber.ok()) return subscriber.status();
  SwapCounts counts;
  std::unique_ptr<MetricsPage> page;  // it asks the subscriber: it ends first
  if (!options.metrics.where.empty()) {
    Result<std::unique_ptr<MetricsPage>> opened = MetricsPage::open(options.metrics, [&] {
      return subscriber_metrics(**subscriber, counts, notice->failed());
    });
    if (!opened.ok()) return opened.status();
    page = std::move(*opened);
    print_note(fmt::format("metrics at {}", page->address()));
  }
  return Keeper(options, **subscriber, store.get(), **memory, file, *record, counts, *notice,
                as_json)
      .run();
}

std::string address_fault(const std::string& text) {
  const Result<net::HostPort> where = net::parse_host_port(text);
  return where.ok() ? std::string() : where.status().message();
}

// A store has no peers, and no word on the age of versions. A page of figures has readers.
void check_store_options(const CLI::App& app) {
  const bool has_page = app.count("--metrics") > 0;
  for (const char* const name : {"--max-age", "--secret", "--allow-rollback", "--store",
                                 "--from-store", "--certificates", "--insecure"}) {
    const bool is_of_page =
        std::string_view(name) == "--certificates" || std::string_view(name) == "--insecure";
    if (app.count(name) > 0 && !(is_of_page && has_page))
      throw CLI::ValidationError(name, "is for a publisher HOST:PORT, and a store is followed");
  }
}

Status run_follow(const SubscribeOptions& options, bool as_json) {
  FollowOptions follow;
  follow.url = options.address;
  follow.output = options.output;
  follow.model_id = options.model_id.value_or("");
  follow.trust_path = options.subscriber.trust_path;
  follow.trust_threshold = options.subscriber.trust_threshold;
  follow.parts = options.parts;
  follow.may_replace = options.may_replace;
  follow.command = options.command;
  follow.notice = options.notice;
  follow.metrics = options.metrics;
  follow.until = options.until;
  follow.timeout_s = options.timeout_s;
  follow.poll_s = options.poll_s;
  return follow_store(follow, as_json);
}

std::string publisher_fault(const std::string& text) {
  if (is_store_url(text)) return store_url_fault(text);
  const std::string fault = address_fault(text);
  if (!fault.empty())
    return fmt::format(
        "{}. A store is file:PATH or s3://BUCKET/PREFIX{}", fault,
        text.find('/') == std::string::npos ? "" : fmt::format(": is file:{} meant?", text));
  return net::parse_host_port(text)->port == 0
             ? "port 0 names no publisher: give the port that the publisher prints"
             : "";
}

}  // namespace

void add_subscribe(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<SubscribeOptions>();
  app.add_option("PUBLISHER", options->address,
                 "its address, as sparcl publish prints it, or a store of sparcl publish --store")
      ->required()
      ->type_name("HOST:PORT|URL")
      ->check(publisher_fault, "", "");
  app.add_option(
         "-o,--out", options->output,
         "what to keep at the newest version: a .safetensors file, or a folder where the publisher "
         "has shards. Replaced whole, never half; what it holds at the start need not travel")
      ->required()
      ->type_name("FILE");
  app.add_flag("--replace", options->may_replace,
               "also where FILE is a checkpoint of another model, which is lost then");
  app.add_option("--model-id", options->model_id, "refuse a publisher of another model")
      ->type_name("ID")
      ->check([](const std::string& id) { return replication::check_model_id(id).message(); }, "",
              "");
  add_part_options(app, options->parts);
  app.add_option("--trust", options->subscriber.trust_path,
                 "public keys, a line each: what none of them has signed is refused. The file is "
                 "read again when it changes")
      ->check(empty_name_fault)
      ->type_name("KEYFILE");
  app.add_option("--trust-threshold", options->subscriber.trust_threshold,
                 "so many keys of --trust must have signed (default: 1)")
      ->transform(whole_number(1, trust::kMaxSignatures))
      ->type_name("N");
  app.add_option("--max-age", options->subscriber.max_age_s,
                 "warn, and say so in --metrics, once the held version was not the newest for so "
                 "long, by the publisher's signed word (default: any time)")
      ->type_name("SECONDS")
      ->transform(real_number(0.0, kMaxSeconds));
  app.add_option("--secret", options->subscriber.secret_path,
                 "of sparcl secret, role replicate: the publisher must have the key that it names, "
                 "which also signs the versions (default: SPARCL_SECRET)")
      ->check(empty_name_fault)
      ->type_name("FILE");
  add_certificates(app, options->subscriber.certificates_path, "replicate");
  app.add_flag("--insecure", options->metrics.is_insecure, "other machines may read --metrics");
  app.add_flag("--allow-rollback", options->may_roll_back,
               "with --trust or --secret: take any signed version first, also one that is older "
               "than what FILE held last (FILE.sparcl-record)");
  app.add_option("--until", options->until, "end once FILE holds this version, or a later one")
      ->transform(whole_number(1, 1ULL << 62))
      ->type_name("VERSION");
  app.add_option("--exec", options->command,
                 "run by /bin/sh each time FILE has come to a version. SUBSCRIBED_VERSION and "
                 "SUBSCRIBED_FILE are in its environment")
      ->type_name("CMD");
  add_notices(app, options->notices, options->notice);
  app.add_option("--metrics", options->metrics.where,
                 "figures for Prometheus at http://HOST:PORT/metrics, once the model is known. "
                 "With --certificates at https://, for readers with a certificate")
      ->type_name("HOST:PORT")
      ->check(address_fault, "", "");
  app.add_option("--timeout", options->timeout_s,
                 "give up if nothing could come for this time, or if every answer was refused. It "
                 "holds before the first version, and with --until at any time (default: never)")
      ->type_name("SECONDS")
      ->transform(real_number(0.0, kMaxSeconds));
  app.add_option("--poll", options->poll_s,
                 "seconds between two looks at a store for a newer version (default: 1)")
      ->type_name("SECONDS")
      ->transform(real_number(0.01, kMaxSeconds));
  add_store_beside(app, options->beside);
  app.parse_complete_callback([&app, options] {
    for (const std::string& text : options->notices)
      options->notice.targets.push_back(*EngineTarget::parse(text));
    if (is_store_url(options->address))
      check_store_options(app);
    else
      take_credentials(options->subscriber.secret_path, options->subscriber.certificates_path);
    check_store_beside(app, options->subscriber.has_proof(),
                       !options->subscriber.trust_path.empty());
    options->metrics.certificates_path = options->subscriber.certificates_path;
    options->metrics.check();
    if (options->subscriber.max_age_s > 0 && !options->subscriber.has_proof())
      throw CLI::ValidationError("--max-age",
                                 "needs --trust KEYFILE, --secret FILE or --certificates FOLDER: "
                                 "any program on the way could say that a version is the newest");
    if (options->subscriber.trust_threshold > 1 && options->subscriber.trust_path.empty())
      throw CLI::ValidationError("--trust-threshold", "needs --trust KEYFILE: name the keys");
    const bool is_named = options->model_id && !options->model_id->empty();
    if (options->subscriber.trust_path.empty() || is_named) return;
    throw CLI::ValidationError(
        "--trust",
        "needs --model-id ID: a key may sign several models, and whoever answers could give "
        "another one of them. Give the ID that the publisher was started with (sparcl publish "
        "--key KEY --model-id ID)");
  });
  invocation.run = [options, &invocation] {
    return is_store_url(options->address) ? run_follow(*options, invocation.json)
                                          : run_subscribe(*options, invocation.json);
  };
}

}  // namespace sparcl::tool
