// Workers of an elastic aggregation behind the C interface.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>

#include "src/api/call_options.hpp"
#include "src/api/elastic_handles.hpp"
#include "src/api/error.hpp"
#include "src/api/long_wait.hpp"
#include "src/replication/process_name.hpp"
#include "src/trust/trusted_keys.hpp"

using sparcl::Code;
using sparcl::Result;
using sparcl::Status;
using sparcl::api::AttachedState;
using sparcl::api::guarded;
using sparcl::api::Held;
using sparcl::elastic::Contributor;
using sparcl::elastic::FlatWeights;
using sparcl::replication::Subscriber;

namespace {

constexpr double kLook = 0.5;  // seconds between two looks for another aggregator

Status read_worker_options(const sparclWorkerOptions_t* given, sparclWorkerOptions_t& all) {
  SPARCL_RETURN_IF_ERROR(sparcl::api::read_sized(given, "options", all));
  SPARCL_RETURN_IF_ERROR(sparcl::api::check_wire("options.wire", all.wire));
  SPARCL_RETURN_IF_ERROR(sparcl::api::check_toggle("options.relay", all.relay));
  SPARCL_RETURN_IF_ERROR(sparcl::api::check_path("secret_path", all.secret_path));
  SPARCL_RETURN_IF_ERROR(sparcl::api::check_path("certificates_path", all.certificates_path));
  SPARCL_RETURN_IF_ERROR(sparcl::api::check_path("key_path", all.key_path));
  SPARCL_RETURN_IF_ERROR(sparcl::api::check_path("trust_path", all.trust_path));
  if (all.trust_path != nullptr) {
    if (all.model_id == nullptr)
      return Status(Code::kInvalidArgument,
                    "options.trust_path needs options.model_id, because one key may sign several "
                    "models");
    SPARCL_RETURN_IF_ERROR(sparcl::trust::TrustedKeys::load(all.trust_path).status());
  }
  if (all.number <= sparcl::aggregate::kMaxNumber) return {};
  return Status(Code::kInvalidArgument,
                fmt::format("options.number is {}: give 1 to {}, or 0 for any", all.number,
                            sparcl::aggregate::kMaxNumber));
}

// The subscriber's own tensors, with what the user's hold.
void copy_base(sparclWorker& made) {
  const sparcl::replication::ReplicatedState& view = made.attached->view();
  for (std::size_t i = 0; i < view.arrays.size(); ++i) {
    const std::size_t bytes = view.map->arrays()[i].bytes();
    std::vector<std::byte>& copy = made.base.emplace_back(std::max<std::size_t>(bytes, 1));
    if (bytes > 0) std::memcpy(copy.data(), view.arrays[i], bytes);
  }
  for (std::vector<std::byte>& each : made.base) made.base_arrays.push_back(each.data());
  made.base_view = view;
  made.base_view.arrays = made.base_arrays;
}

Status create(sparclWorker_t* worker, sparclState_t state, const char* address,
              const sparclWorkerOptions_t* given) {
  if (worker == nullptr) return Status(Code::kInvalidArgument, "worker is NULL");
  if (address == nullptr) return Status(Code::kInvalidArgument, "address is NULL");
  sparclWorkerOptions_t all = SPARCL_WORKER_OPTIONS_INITIALIZER;
  SPARCL_RETURN_IF_ERROR(read_worker_options(given, all));
  const Held<sparclState> held(state, "state");
  SPARCL_RETURN_IF_ERROR(held.status());
  SPARCL_RETURN_IF_ERROR(held->check_in_memory());
  if (held->has_device_memory())
    return Status(Code::kUnsupported,
                  "the state has tensors in device memory: a worker's are in host memory");
  auto made = std::make_unique<sparclWorker>();
  SPARCL_ASSIGN_OR_RETURN(made->attached, AttachedState::attach(held, AttachedState::Use::kWrite));
  copy_base(*made);
  const sparcl::replication::ReplicatedState& view = made->attached->view();

  sparcl::replication::SubscriberOptions& follows = made->subscriber_options;
  if (all.model_id != nullptr) follows.model_id = all.model_id;
  if (all.secret_path != nullptr) follows.secret_path = all.secret_path;
  if (all.certificates_path != nullptr) follows.certificates_path = all.certificates_path;
  if (all.trust_path != nullptr) follows.trust_path = all.trust_path;
  SPARCL_RETURN_IF_ERROR(follows.take_settings());
  follows.passes_on = sparcl::api::is_on(all.relay, follows.passes_on);
  follows.keeps_rollback = false;

  SPARCL_ASSIGN_OR_RETURN(FlatWeights own,
                          FlatWeights::of(view.map->arrays(), view.arrays, *view.kernels));
  SPARCL_ASSIGN_OR_RETURN(FlatWeights base,
                          FlatWeights::of(view.map->arrays(), made->base_arrays, *view.kernels));
  made->worker = std::make_unique<sparcl::elastic::Worker>(
      *view.kernels, std::move(own), std::move(base),
      sparcl::elastic::WorkerOptions{all.keep, static_cast<sparcl::sparse::Wire>(all.wire)});

  sparcl::elastic::UplinkOptions sends;
  sends.addresses = address;
  sends.silence_s = follows.silence_s;
  sends.enroll.model_id = follows.model_id;
  sends.enroll.schema_hash = view.schema_hash;
  sends.enroll.silence_ms = sparcl::replication::to_ms(follows.silence_s);
  sends.enroll.name = sparcl::replication::process_name();
  sends.enroll.number = static_cast<std::uint32_t>(all.number);
  SPARCL_ASSIGN_OR_RETURN(sends.security, sparcl::replication::load_client_security(
                                              follows.secret_path, sparcl::trust::Role::kReplicate,
                                              follows.certificates_path));
  SPARCL_ASSIGN_OR_RETURN(
      made->contributor,
      Contributor::create(std::move(sends), all.key_path != nullptr ? all.key_path : ""));
  made->attached->begin_writing();
  *worker = made.release()->handle.get();
  return {};
}

// The publisher of results, which may be another one after an aggregator has ended.
Status follow(sparclWorker& own, const std::string& results) {
  if (own.subscriber != nullptr && own.results == results) return {};
  own.subscriber = nullptr;
  SPARCL_ASSIGN_OR_RETURN(own.subscriber,
                          Subscriber::create(own.base_view, results, own.subscriber_options));
  own.results = results;
  return {};
}

// One try. Timeout: no newer version has come.
Result<std::uint64_t> try_next(sparclWorker& own, double seconds) {
  const Result<std::string> results = own.contributor->uplink().results_address(seconds);
  if (!results.ok()) {
    const Code code = results.status().code();
    if (code == Code::kMismatch || code == Code::kUnsupported) return results.status();
    return Status(Code::kTimeout, results.status().message());  // next() says why
  }
  SPARCL_RETURN_IF_ERROR(follow(own, *results));
  const Result<Subscriber::Swap> swap = own.subscriber->next(std::min(seconds, kLook));
  if (!swap.ok()) return swap.status();
  if (swap->version < own.version) own.contributor->begin_anew();  // it has lost its rounds
  if (swap->version != own.version) return swap->version;
  return Status(Code::kTimeout, fmt::format("version {} is the newest", swap->version));
}

// Why there is no newer version, after the last try.
std::string why_none(const sparclWorker& own, const Status& last) {
  const bool is_waiting = own.version > 0 && own.subscriber != nullptr &&
                          last.code() == Code::kTimeout && own.subscriber->trouble().ok() &&
                          own.subscriber->versions().newest <= own.version;
  if (!is_waiting) return last.message();
  return fmt::format(
      "version {} is still the newest, because its round has not ended: sparcl status HOST:PORT "
      "shows for which workers it waits",
      own.version);
}

Result<std::uint64_t> wait_next(sparclWorker& own, double seconds) {
  const double until = sparcl::net::monotonic_seconds() + seconds;
  while (true) {
    const double left = until - sparcl::net::monotonic_seconds();
    Result<std::uint64_t> version = try_next(own, std::max(left, 0.0));
    if (version.ok()) return version;
    // Until the time is over, an aggregator that is not there may come back.
    const Code code = version.status().code();
    if (code != Code::kTimeout && code != Code::kRemoteError) return version;
    if (left > 0) continue;
    return Status(Code::kTimeout, why_none(own, version.status()));
  }
}

Status next(sparclWorker& own, double seconds, std::uint64_t* version) {
  if (std::isnan(seconds)) return Status(Code::kInvalidArgument, "seconds is NaN");
  const Result<std::uint64_t> newer = sparcl::api::wait_long(
      "sparclWorkerNext", seconds, [&](double piece) { return wait_next(own, piece); });
  if (newer.status().code() == Code::kTimeout) {  // why there is no aggregator
    SPARCL_RETURN_IF_ERROR(own.contributor->uplink().refusal());
    SPARCL_RETURN_IF_ERROR(own.contributor->uplink().trouble());
  }
  if (!newer.ok()) return newer.status();
  const sparcl::replication::ReplicatedState& view = own.attached->view();
  for (std::size_t i = 0; i < view.arrays.size(); ++i) {
    const std::size_t bytes = view.map->arrays()[i].bytes();
    if (bytes > 0) std::memcpy(view.arrays[i], own.base_arrays[i], bytes);
  }
  own.worker->take_back(*own.contributor);
  own.version = own.attached->state().version = *newer;
  own.attached->state().is_torn = false;
  if (version != nullptr) *version = *newer;
  return {};
}

Status contribute(sparclWorker& own, double weight) {
  if (!(weight >= 0) || std::isinf(weight))
    return Status(Code::kInvalidArgument,
                  fmt::format("weight is {}: give 0 or more, such as the tokens", weight));
  if (own.version == 0)
    return Status(Code::kInvalidUsage,
                  "no version is held yet: get one by sparclWorkerNext, and train from there");
  SPARCL_ASSIGN_OR_RETURN(own.last, own.worker->contribute(*own.contributor, own.version, weight));
  return {};
}

Status stats(const sparclWorker& own, sparclWorkerStats_t* into) {
  const Contributor::Counts counts = own.contributor->counts();
  sparclWorkerStats_t all = SPARCL_WORKER_STATS_INITIALIZER;
  all.version = own.version;
  all.contributed = counts.offered;
  all.committed = counts.committed;
  all.late = counts.late;
  all.refused = counts.refused;
  all.deferred = counts.deferred;
  all.entries = own.last.entries;
  all.bytes = own.last.bytes;
  all.connections = counts.connects;
  all.residual_l2 = own.worker->residual_l2();
  return sparcl::api::write_sized(all, "stats", into);
}

// Runs `use` on a worker of this process.
template <class Use>
sparclResult_t with_worker(const char* name, sparclWorker_t worker, Use&& use) {
  return sparcl::api::guarded_with(name, worker, "worker", [&](sparclWorker& own) -> Status {
    if (own.contributor->uplink().is_own_process()) return use(own);
    return Status(Code::kInvalidUsage,
                  "this worker belongs to the parent process: a child of fork() cannot use it: "
                  "make another one in the child");
  });
}

}  // namespace

extern "C" {

sparclResult_t sparclWorkerCreate(sparclWorker_t* worker, sparclState_t state, const char* address,
                                  const sparclWorkerOptions_t* options) {
  return guarded(
      [&] { return create(worker, state, address, options).with_prefix("sparclWorkerCreate: "); });
}

sparclResult_t sparclWorkerNext(sparclWorker_t worker, double seconds, uint64_t* version) {
  return with_worker(__func__, worker,
                     [&](sparclWorker& own) { return next(own, seconds, version); });
}

sparclResult_t sparclWorkerContribute(sparclWorker_t worker, double weight) {
  return with_worker(__func__, worker, [&](sparclWorker& own) { return contribute(own, weight); });
}

sparclResult_t sparclWorkerFlush(sparclWorker_t worker, double seconds) {
  return with_worker(__func__, worker, [&](sparclWorker& own) -> Status {
    if (std::isnan(seconds)) return Status(Code::kInvalidArgument, "seconds is NaN");
    const Status flushed = sparcl::api::wait_long("sparclWorkerFlush", seconds, [&](double piece) {
      return own.contributor->wait_all(piece);
    });
    own.worker->take_back(*own.contributor);
    return flushed;
  });
}

sparclResult_t sparclWorkerStats(sparclWorker_t worker, sparclWorkerStats_t* into) {
  return with_worker(__func__, worker, [&](const sparclWorker& own) { return stats(own, into); });
}

sparclResult_t sparclWorkerDestroy(sparclWorker_t worker) {
  return sparcl::api::destroy_own(__func__, worker, "worker", [](const sparclWorker& own) {
    return own.contributor->uplink().is_own_process();
  });
}

}  // extern "C"
