#include "tools/sparcl/store_follower.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "src/base/settings.hpp"
#include "src/base/shown_text.hpp"
#include "src/net/socket.hpp"
#include "src/store/version_reader.hpp"
#include "tools/sparcl/console.hpp"
#include "tools/sparcl/followed_chain.hpp"
#include "tools/sparcl/open_chain.hpp"
#include "tools/sparcl/replica_file.hpp"
#include "tools/sparcl/shell_command.hpp"
#include "tools/sparcl/signals.hpp"
#include "tools/sparcl/trouble_teller.hpp"

namespace sparcl::tool {
namespace {

// Read by the thread of the page of figures.
struct FollowCounts {
  std::atomic<std::uint64_t> newest = 0, written = 0;  // versions
  std::atomic<std::uint64_t> updates = 0, anchors = 0, objects = 0, bytes = 0, failures = 0;
  std::atomic<double> seconds = 0, last_seconds = 0;  // of reading and applying
};

std::vector<Metric> follower_metrics(const FollowCounts& counts, std::uint64_t failed_notices) {
  const auto one = [](const char* name, const char* help, Metric::Kind kind, double value) {
    return Metric{name, help, kind, {{{}, value}}};
  };
  constexpr Metric::Kind kGauge = Metric::Kind::kGauge, kCounter = Metric::Kind::kCounter;
  const auto number = [](const std::atomic<std::uint64_t>& count) {
    return static_cast<double>(count);
  };
  return {
      one("sparcl_follower_newest_version", "Newest version that the store was seen to have.",
          kGauge, number(counts.newest)),
      one("sparcl_follower_file_version", "Version that FILE holds; 0: none since the start.",
          kGauge, number(counts.written)),
      one("sparcl_follower_updates_total", "Times that a newer version was read.", kCounter,
          number(counts.updates)),
      one("sparcl_follower_anchors_total", "Those of them that began at an anchor.", kCounter,
          number(counts.anchors)),
      one("sparcl_follower_objects_total", "Objects of updates that were read.", kCounter,
          number(counts.objects)),
      one("sparcl_follower_update_bytes_total", "Their bytes.", kCounter, number(counts.bytes)),
      one("sparcl_follower_update_seconds_total", "Time that reading and applying took.", kCounter,
          counts.seconds),
      one("sparcl_follower_last_update_seconds", "The last one's.", kGauge, counts.last_seconds),
      one("sparcl_follower_failures_total", "Looks at the store, and versions, that failed.",
          kCounter, number(counts.failures)),
      one("sparcl_follower_failed_notices_total",
          "Times that a target of --notify did not take a version.", kCounter,
          static_cast<double>(failed_notices))};
}

// The file, the memory beside it, and the store.
class StoreFollower {
 public:
  using Deadline = store::ObjectStore::Deadline;

  static Result<std::unique_ptr<StoreFollower>> open(const FollowOptions& options, bool as_json) {
    SPARCL_RETURN_IF_ERROR(ReplicaFile::check(options.output));
    SPARCL_ASSIGN_OR_RETURN(store::ChainTrustRef trust,
                            store::ChainTrust::load({.model_id = options.model_id,
                                                     .trust_path = options.trust_path,
                                                     .trust_threshold = options.trust_threshold}));
    SPARCL_ASSIGN_OR_RETURN(std::unique_ptr<EngineNotice> notice,
                            EngineNotice::open(options.notice));
    SPARCL_ASSIGN_OR_RETURN(auto chain,
                            open_chain(options.url, store::Missing::kIsMade, std::move(trust)));
    return std::unique_ptr<StoreFollower>(
        new StoreFollower(options, std::move(chain), std::move(notice), as_json));
  }
  ~StoreFollower() { lease_.release(); }
  StoreFollower(const StoreFollower&) = delete;
  StoreFollower& operator=(const StoreFollower&) = delete;

  // The version that the file holds; 0: none.
  std::uint64_t written() const { return written_; }
  // The version that was read last and could not be written; 0: there is none.
  std::uint64_t unwritten() const { return unwritten_; }

  // Figures until the follower ends, where that is wanted.
  Status open_page() {
    if (options_.metrics.where.empty()) return {};
    SPARCL_ASSIGN_OR_RETURN(page_, MetricsPage::open(options_.metrics, [this] {
                              return follower_metrics(counts_, notice_->failed());
                            }));
    print_note(fmt::format("metrics at {}", page_->address()));
    return {};
  }

  // InProgress: the store is empty. look_until: when the look for a version ends; what it finds is
  // read as long as it takes. nullopt: the store's own limits.
  Status bring_to(std::uint64_t version, std::optional<Deadline> look_until) {
    const Status brought = try_to_bring(version, look_until);
    if (!brought.ok() && brought.code() != Code::kInProgress) ++counts_.failures;
    return brought;
  }

 private:
  Status try_to_bring(std::uint64_t version, std::optional<Deadline> look_until) {
    chain_->objects->set_deadline(look_until);
    const auto looked = version == 0 ? followed_.newest(net::monotonic_seconds())
                                     : chain_->chain.newest_for(version);
    chain_->objects->set_deadline(std::nullopt);
    if (!looked.ok()) return looked.status();
    const std::optional<store::VersionRecord>& newest = *looked;
    if (!newest)
      return Status(
          Code::kInProgress,
          fmt::format("{}: there is no version yet: is the address right?", options_.url));
    counts_.newest = newest->version;
    if (version == 0 && newest->version == written_) return {};
    if (memory_ == nullptr) {
      // Each version has files of its own; the first one that is read says what is written.
      SPARCL_ASSIGN_OR_RETURN(
          const std::optional<store::VersionRecord> wanted,
          chain_->chain.find(version == 0 ? newest->version : version, *newest));
      if (!wanted) return no_version(version, *newest);
      SPARCL_RETURN_IF_ERROR(begin(*wanted));
    }
    const double begin = net::monotonic_seconds();
    chain_->objects->show("the version is read");
    const auto read = this->read(version, *newest);
    chain_->objects->hide();
    if (!read.ok()) return read.status();
    const store::RestoredVersion& restored = *read;
    held_ = restored.record.target();
    unwritten_ = held_->version;
    SPARCL_RETURN_IF_ERROR(
        write(restored.record)
            .with_prefix(fmt::format("version {} could not be written safely: ", held_->version)));
    written_ = std::exchange(unwritten_, 0);
    const double seconds = net::monotonic_seconds() - begin;
    count(restored, seconds);
    tell(restored, seconds);
    return tell_others();
  }

  Status no_version(std::uint64_t version, const store::VersionRecord& newest) const {
    SPARCL_ASSIGN_OR_RETURN(const std::uint64_t first, chain_->chain.oldest());
    SPARCL_ASSIGN_OR_RETURN(const store::VersionRecord oldest, chain_->chain.record(first));
    return Status(Code::kInvalidArgument,
                  fmt::format("{}: there is no version {}: the oldest is {} and the newest {}, as "
                              "sparcl store list {} shows",
                              options_.url, version, oldest.version, newest.version, options_.url));
  }

  // The newest version may be removed while it is read: a later one does not need it.
  Result<store::RestoredVersion> read(std::uint64_t version, store::VersionRecord newest) {
    constexpr int kTries = 3;
    store::ChainState state = chain_state(*memory_);
    state.may_tear = !held_;
    if (version != 0) return reader_.restore(version, held_, state);
    for (int tries = 1;; ++tries) {
      Result<store::RestoredVersion> restored = reader_.restore_record(newest, held_, state);
      if (restored.ok() || restored.status().code() != Code::kCorrupt || tries == kTries)
        return restored;
      const auto later = followed_.newest(net::monotonic_seconds());
      if (!later.ok() || !*later || (*later)->number <= newest.number) return restored;
      newest = **later;
    }
  }

  StoreFollower(const FollowOptions& options, std::unique_ptr<OpenChain> chain,
                std::unique_ptr<EngineNotice> notice, bool as_json)
      : options_(options),
        chain_(std::move(chain)),
        notice_(std::move(notice)),
        lease_(*chain_->objects, options.lease_seconds > 0
                                     ? static_cast<std::int64_t>(std::ceil(options.lease_seconds))
                                     : store::kLeaseSeconds),
        followed_(chain_->chain),
        reader_(chain_->chain, lease_),
        as_json_(as_json) {}

  Status begin(const store::VersionRecord& newest) {
    SPARCL_ASSIGN_OR_RETURN(const StoredModel stored,
                            read_stored_model(chain_->chain, newest, options_.parts));
    SPARCL_RETURN_IF_ERROR(notice_->check_output(options_.output, stored.model.layout.is_folder));
    SPARCL_ASSIGN_OR_RETURN(ReplicaFile file,
                            ReplicaFile::open(options_.output, stored.model.layout));
    SPARCL_ASSIGN_OR_RETURN(std::unique_ptr<ModelMemory> memory,
                            ModelMemory::create(stored.model.schema));
    if (const Status status = file.read_into(*memory); !status.ok()) {
      if (status.code() == Code::kMismatch && !options_.may_replace)
        return status.with_prefix(
            "the checkpoint that is there is another model's, and would be replaced: give another "
            "output, or --replace: ");
      print_note(fmt::format("all bytes have to be read, and then replace what is there: {}",
                             status.message()));
    }
    if (file.holds() && options_.parts.is_all()) {
      SPARCL_ASSIGN_OR_RETURN(held_, reader_.find_state(*file.holds()));
    }
    file_.emplace(std::move(file));
    memory_ = std::move(memory);
    return {};
  }

  Status write(const store::VersionRecord& record) {
    if (record.description != described_by_ && options_.parts.is_all())
      SPARCL_RETURN_IF_ERROR(take_side_files(record));
    before_ = written_;
    if (notice_->has_engines() && written_ != 0) file_->keep_previous();
    file_hash_ = options_.parts.is_all() ? record.target_hash : memory_->view().hash();
    return file_->write(*memory_, file_hash_, side_files_, options_.may_replace);
  }

  Status take_side_files(const store::VersionRecord& record) {
    SPARCL_ASSIGN_OR_RETURN(StoredModel stored, read_stored_model(chain_->chain, record));
    ReplicaFile::SideFiles files{.since = record.version};
    SPARCL_ASSIGN_OR_RETURN(files.digest, model::digest_of(stored.side_files));
    files.files =
        std::make_shared<const std::vector<model::SideFile>>(std::move(stored.side_files));
    side_files_ = std::move(files);
    described_by_ = record.description;
    return {};
  }

  void count(const store::RestoredVersion& restored, double seconds) {
    ++counts_.updates;
    counts_.written = written_;
    counts_.anchors += restored.by_anchor ? 1 : 0;
    counts_.objects += static_cast<std::uint64_t>(restored.objects);
    counts_.bytes += restored.object_bytes;
    counts_.seconds += seconds;
    counts_.last_seconds = seconds;
  }

  void tell(const store::RestoredVersion& restored, double seconds) const {
    const store::VersionRecord& record = restored.record;
    const char* const source = restored.objects == 0 ? "held"
                               : restored.by_anchor  ? "anchor"
                                                     : "delta";
    print_news(
        as_json_,
        {{"version", record.version},
         {"hash", to_hex(file_hash_)},
         {"objects", restored.objects},
         {"bytes", restored.object_bytes},
         {"bytes_dense", memory_->byte_count()},
         {"source", source},
         {"seconds", seconds}},
        fmt::format("version {}: {} of {} in {} objects ({}), {:.3f} s, {}\n", record.version,
                    human_bytes(restored.object_bytes), human_bytes(memory_->byte_count()),
                    restored.objects, source, seconds, to_hex(file_hash_)));
  }

  // Commands and engines.
  Status tell_others() {
    if (!options_.command.empty()) {
      const Status run = run_shell(
          options_.command,
          {{"SUBSCRIBED_VERSION", std::to_string(written_)}, {"SUBSCRIBED_FILE", file_->path()}});
      if (!run.ok())
        print_warning(fmt::format("--exec after version {}: {}", written_, run.message()));
    }
    std::optional<EngineNotice::Version> previous;
    if (file_->previous()) previous = {before_, *file_->previous()};
    const int untold = notice_->tell_all({written_, file_->path()}, previous, as_json_);
    file_->drop_previous();
    if (untold == 0 || options_.until == 0 || written_ < options_.until) return {};
    return Status(Code::kRemoteError,
                  fmt::format("version {} is written, but {} of {} targets of --notify did not "
                              "take it: see the warnings above",
                              written_, untold, options_.notice.targets.size()));
  }

  const FollowOptions& options_;
  std::unique_ptr<OpenChain> chain_;
  std::unique_ptr<EngineNotice> notice_;
  store::Lease lease_;
  FollowedChain followed_;
  store::VersionReader reader_;
  bool as_json_;
  std::optional<ReplicaFile> file_;
  std::unique_ptr<ModelMemory> memory_;
  std::optional<model::HeldVersion> held_;  // by the memory
  std::optional<store::StoredObject> described_by_;
  std::optional<ReplicaFile::SideFiles> side_files_;  // that it describes; nullopt: none
  Hash128 file_hash_;                                 // of what was written last
  std::uint64_t written_ = 0;
  std::uint64_t unwritten_ = 0;
  std::uint64_t before_ = 0;  // the version that the file held before that
  FollowCounts counts_;
  std::unique_ptr<MetricsPage> page_;  // reads them: it ends first
};

constexpr double kTellSeconds = 600;  // while a trouble lasts it is told again; heuristic

// Waiting does not change them: before there is a version they end the command.
bool is_lasting(Code code) {
  return code == Code::kMismatch || code == Code::kUnauthorized || code == Code::kUnsupported ||
         code == Code::kInvalidArgument || code == Code::kOutOfMemory;
}

// Of a look that has so many seconds.
std::optional<store::ObjectStore::Deadline> look_deadline(double seconds) {
  if (seconds >= kMaxSeconds) return std::nullopt;
  const std::chrono::duration<double> left(std::max(seconds, 0.1));
  return std::chrono::steady_clock::now() +
         std::chrono::duration_cast<std::chrono::steady_clock::duration>(left);
}

}  // namespace

Status follow_store(const FollowOptions& options, bool as_json) {
  stop_on_signals();
  SPARCL_ASSIGN_OR_RETURN(const std::unique_ptr<StoreFollower> follower,
                          StoreFollower::open(options, as_json));
  SPARCL_RETURN_IF_ERROR(follower->open_page());
  TroubleTeller teller(kTellSeconds);
  const double begin = net::monotonic_seconds();
  // For a version that is needed; below 0: none is.
  const auto waited = [&](double now) -> double {
    if (follower->written() == 0) return now - begin;
    return options.until != 0 ? teller.lasts(now) : -kMaxSeconds;
  };
  while (!stop_is_asked()) {
    const Status status =
        follower->bring_to(0, look_deadline(options.timeout_s - waited(net::monotonic_seconds())));
    const double now = net::monotonic_seconds();
    const bool has_version = follower->written() != 0;
    if (!status.ok() && !has_version && is_lasting(status.code())) return status;
    teller.note(status, now);
    if (status.ok()) teller.restart(now);
    const std::uint64_t latest = std::max(follower->written(), follower->unwritten());
    if (options.until != 0 && latest >= options.until) return status;
    if (!status.ok() && waited(now) >= options.timeout_s)
      return status.with_prefix(fmt::format("nothing came for {:g} s: ", options.timeout_s));
    (void)wait_for_stop(options.poll_s);
  }
  return {};
}

Status restore_from_store(const FollowOptions& options, std::uint64_t version, bool as_json) {
  SPARCL_ASSIGN_OR_RETURN(const std::unique_ptr<StoreFollower> follower,
                          StoreFollower::open(options, as_json));
  const Status status = follower->bring_to(version, std::nullopt);
  return status.code() == Code::kInProgress
             ? Status(Code::kInvalidArgument, std::string(status.message()))
             : status;
}

}  // namespace sparcl::tool
