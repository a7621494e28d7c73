// The publisher behind the C interface.
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <string>

#include "src/api/call_options.hpp"
#include "src/api/comm.hpp"
#include "src/api/error.hpp"
#include "src/api/long_wait.hpp"
#include "src/api/replication_handles.hpp"
#include "src/api/store_handle.hpp"
#include "src/api/stored_state.hpp"
#include "src/store/address/open_store.hpp"

using sparcl::Code;
using sparcl::Result;
using sparcl::Status;
using sparcl::api::AttachedState;
using sparcl::api::guarded;
using sparcl::api::Held;
using sparcl::replication::Publisher;
using sparcl::replication::PublisherOptions;

namespace {

constexpr std::uint64_t kMaxQueued = 1 << 20;

std::string text_or_empty(const char* text) { return text != nullptr ? text : ""; }

Result<PublisherOptions> read_publisher_options(const sparclPublisherOptions_t* given) {
  sparclPublisherOptions_t all = SPARCL_PUBLISHER_OPTIONS_INITIALIZER;
  SPARCL_RETURN_IF_ERROR(sparcl::api::read_sized(given, "options", all));
  SPARCL_RETURN_IF_ERROR(sparcl::api::check_toggle("options.insecure", all.insecure));
  SPARCL_RETURN_IF_ERROR(sparcl::api::check_toggle("options.shared_memory", all.shared_memory));
  if (all.queue > kMaxQueued) {
    return Status(Code::kInvalidArgument,
                  fmt::format("options.queue = {}: expected 1 to {} versions, or 0 for 64",
                              all.queue, kMaxQueued));
  }
  if (all.key_path != nullptr && *all.key_path == '\0')
    return Status(Code::kInvalidArgument,
                  "options.key_path is empty: give the key's file, or NULL to sign nothing");
  if (all.secret_path != nullptr && *all.secret_path == '\0')  // an unset variable is no choice
    return Status(Code::kInvalidArgument,
                  "options.secret_path is empty: give the secret's file, or NULL for none");
  if (all.witness_path != nullptr && *all.witness_path == '\0')
    return Status(Code::kInvalidArgument,
                  "options.witness_path is empty: give the witness's file, or NULL for none");
  if (all.certificates_path != nullptr && *all.certificates_path == '\0')
    return Status(Code::kInvalidArgument,
                  "options.certificates_path is empty: give the folder, or NULL for none");
  PublisherOptions options;
  options.listen = text_or_empty(all.listen);
  options.model_id = text_or_empty(all.model_id);
  options.key_path = text_or_empty(all.key_path);
  options.state_path = text_or_empty(all.state_path);
  options.witness_path = text_or_empty(all.witness_path);
  options.peer_bytes = all.peer_bytes;
  options.secret_path = text_or_empty(all.secret_path);
  options.certificates_path = text_or_empty(all.certificates_path);
  options.is_insecure = all.insecure == sparclOn;
  if (all.queue > 0) options.queue = all.queue;
  SPARCL_RETURN_IF_ERROR(options.take_settings());
  options.shares_memory = sparcl::api::is_on(all.shared_memory, options.shares_memory);
  return options;
}

// Runs `use` on a publisher of this process. In a child of fork() a lock of the parent's may be
// held by a thread that is not there.
template <class Use>
sparclResult_t with_publisher(const char* name, sparclPublisher_t publisher, Use&& use) {
  return sparcl::api::guarded_with(
      name, publisher, "publisher", [&](sparclPublisher& own) -> Status {
        if (own.publisher->is_own_process()) return use(own);
        return Status(Code::kInvalidUsage,
                      "this publisher belongs to the parent process: a child of fork() cannot use "
                      "it: make another one in the child");
      });
}

Result<sparcl::store::WriterOptions> writer_options(const sparclStore& store,
                                                    const PublisherOptions& options) {
  sparcl::store::WriterOptions made = store.options;
  sparcl::store::ChainTrust trust = *made.trust;
  if (trust.model_id.empty()) trust.model_id = options.model_id;
  if (trust.keys == nullptr && !options.key_path.empty()) {
    SPARCL_ASSIGN_OR_RETURN(trust.keys, sparcl::trust::SigningKeys::load(options.key_path));
  }
  made.trust = std::make_shared<const sparcl::store::ChainTrust>(std::move(trust));
  return made;
}

// The store of the options, if there is one.
Status open_sink(const sparclPublisherOptions_t* given, PublisherOptions& options,
                 sparclPublisher& publisher) {
  sparclPublisherOptions_t all = SPARCL_PUBLISHER_OPTIONS_INITIALIZER;
  SPARCL_RETURN_IF_ERROR(sparcl::api::read_sized(given, "options", all));
  if (all.store == nullptr) return {};
  const Held<sparclStore> store(all.store, "options.store");
  SPARCL_RETURN_IF_ERROR(store.status());
  SPARCL_RETURN_IF_ERROR(store->check_process());
  SPARCL_ASSIGN_OR_RETURN(const sparcl::store::WriterOptions writing,
                          writer_options(*store, options));
  SPARCL_ASSIGN_OR_RETURN(std::unique_ptr<sparcl::store::ObjectStore> objects,
                          sparcl::store::open_store(store->url, sparcl::store::Missing::kIsMade));
  SPARCL_ASSIGN_OR_RETURN(
      publisher.stored,
      sparcl::store::StoreSink::create(
          std::move(objects), sparcl::api::chain_state(publisher.attached->view()), writing));
  options.sinks.push_back(publisher.stored.get());
  return {};
}

// The store's versions may come from a life before.
Status check_after_stored(const sparclPublisher& publisher, std::uint64_t version) {
  if (publisher.stored == nullptr) return {};
  const std::uint64_t last = publisher.stored->last();
  if (version > last) return {};
  return Status(Code::kInvalidArgument,
                fmt::format("version {} does not come after version {}, the newest of the store: "
                            "publish {} or more",
                            version, last, last + 1));
}

Status create(sparclPublisher_t* publisher, sparclState_t state,
              const sparclPublisherOptions_t* given) {
  if (publisher == nullptr) return Status(Code::kInvalidArgument, "publisher is NULL");
  SPARCL_ASSIGN_OR_RETURN(PublisherOptions options, read_publisher_options(given));
  SPARCL_ASSIGN_OR_RETURN(
      std::unique_ptr<AttachedState> attached,
      AttachedState::attach(Held<sparclState>(state, "state"), AttachedState::Use::kRead));
  auto made = std::make_unique<sparclPublisher>();
  made->attached = std::move(attached);
  SPARCL_RETURN_IF_ERROR(open_sink(given, options, *made));
  SPARCL_ASSIGN_OR_RETURN(std::unique_ptr<Publisher> opened,
                          Publisher::create(made->attached->view(), options));
  made->publisher = std::move(opened);
  *publisher = made.release()->handle.get();
  return {};
}

Status publish(sparclPublisher& publisher, std::uint64_t version) {
  sparclState& state = publisher.attached->state();
  if (version == 0)
    return Status(Code::kInvalidArgument, "version is 0, which is none: begin with 1");
  SPARCL_RETURN_IF_ERROR(state.check_complete());
  SPARCL_RETURN_IF_ERROR(check_after_stored(publisher, version));
  const AttachedState::Reading reading(*publisher.attached);
  SPARCL_ASSIGN_OR_RETURN(const Publisher::PublishReport report,
                          publisher.publisher->publish(version, state.hints()));
  state.marks.clear();
  state.version = version;
  const std::lock_guard lock(publisher.reporting);
  publisher.last_report = report;
  return {};
}

Status report_last(sparclPublisher& publisher, sparclReport_t* report) {
  if (report == nullptr) return Status(Code::kInvalidArgument, "report is NULL");
  sparcl::comm::CallReport full;
  const std::lock_guard lock(publisher.reporting);
  if (publisher.last_report) {
    full.nnz_in = publisher.last_report->changed;
    full.traffic.bytes_sent = publisher.last_report->stream_bytes;
    full.dense_bytes = publisher.attached->view().map->byte_count();
    full.seconds = publisher.last_report->seconds;
  }
  return sparcl::api::write_report(full, report);
}

Status wait(const sparclPublisher& publisher, std::uint64_t version, int acks, double seconds) {
  if (acks < 0) return Status(Code::kInvalidArgument, fmt::format("acks is {}", acks));
  if (std::isnan(seconds)) return Status(Code::kInvalidArgument, "seconds is NaN");
  return sparcl::api::wait_long("sparclPublisherWait", seconds, [&](double piece) {
    return publisher.publisher->wait(version, acks, piece);
  });
}

}  // namespace

extern "C" {

sparclResult_t sparclPublisherCreate(sparclPublisher_t* publisher, sparclState_t state,
                                     const sparclPublisherOptions_t* options) {
  return guarded(
      [&] { return create(publisher, state, options).with_prefix("sparclPublisherCreate: "); });
}

sparclResult_t sparclPublisherAddress(sparclPublisher_t publisher, char* address, size_t capacity) {
  return with_publisher(__func__, publisher, [&](const sparclPublisher& own) {
    return sparcl::api::copy_text(own.publisher->address(), address, capacity, "address");
  });
}

sparclResult_t sparclPublish(sparclPublisher_t publisher, uint64_t version) {
  return with_publisher(__func__, publisher,
                        [&](sparclPublisher& own) { return publish(own, version); });
}

sparclResult_t sparclPublisherWait(sparclPublisher_t publisher, uint64_t version, int acks,
                                   double seconds) {
  return with_publisher(__func__, publisher, [&](const sparclPublisher& own) {
    return wait(own, version, acks, seconds);
  });
}

sparclResult_t sparclPublisherCount(sparclPublisher_t publisher, uint64_t version, int* connected,
                                    int* holding) {
  return with_publisher(__func__, publisher, [&](const sparclPublisher& own) -> Status {
    const Publisher::Count count = own.publisher->count(version);
    if (connected != nullptr) *connected = count.connected;
    if (holding != nullptr) *holding = count.holding;
    return {};
  });
}

sparclResult_t sparclPublisherLastReport(sparclPublisher_t publisher, sparclReport_t* report) {
  return with_publisher(__func__, publisher,
                        [&](sparclPublisher& own) { return report_last(own, report); });
}

sparclResult_t sparclPublisherWaitStored(sparclPublisher_t publisher, uint64_t version,
                                         double seconds) {
  return with_publisher(__func__, publisher, [&](const sparclPublisher& own) -> Status {
    if (own.stored == nullptr)
      return Status(Code::kInvalidUsage,
                    "this publisher has no store: give options.store to sparclPublisherCreate");
    if (std::isnan(seconds)) return Status(Code::kInvalidArgument, "seconds is NaN");
    return sparcl::api::wait_long("sparclPublisherWaitStored", seconds,
                                  [&](double piece) { return own.stored->wait(version, piece); });
  });
}

sparclResult_t sparclPublisherDestroy(sparclPublisher_t publisher) {
  return sparcl::api::destroy_own(__func__, publisher, "publisher", [](const sparclPublisher& own) {
    return own.publisher->is_own_process();
  });
}

}  // extern "C"
