// The subscriber behind the C interface.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "src/api/call_options.hpp"
#include "src/api/error.hpp"
#include "src/api/long_wait.hpp"
#include "src/api/replication_handles.hpp"
#include "src/api/store_handle.hpp"
#include "src/model/text.hpp"
#include "src/store/address/open_store.hpp"

using sparcl::Code;
using sparcl::Result;
using sparcl::Status;
using sparcl::api::AttachedState;
using sparcl::api::guarded;
using sparcl::api::Held;
using sparcl::replication::Subscriber;
using sparcl::replication::SubscriberOptions;

namespace {

Result<SubscriberOptions> read_subscriber_options(const sparclSubscriberOptions_t* given) {
  sparclSubscriberOptions_t all = SPARCL_SUBSCRIBER_OPTIONS_INITIALIZER;
  SPARCL_RETURN_IF_ERROR(sparcl::api::read_sized(given, "options", all));
  SPARCL_RETURN_IF_ERROR(sparcl::api::check_toggle("options.double_buffer", all.double_buffer));
  SPARCL_RETURN_IF_ERROR(sparcl::api::check_toggle("options.relay", all.relay));
  SPARCL_RETURN_IF_ERROR(sparcl::api::check_toggle("options.from_store", all.from_store));
  SubscriberOptions options;
  options.double_buffer = all.double_buffer == sparclOn;
  options.only_told = all.from_store == sparclOn;
  if (all.model_id != nullptr) options.model_id = all.model_id;
  if (all.trust_path != nullptr &&
      *all.trust_path == '\0')  // an unset variable must not turn signatures off
    return Status(Code::kInvalidArgument,
                  "options.trust_path is empty: give the file of trusted keys, or NULL to ask for "
                  "no signatures");
  if (all.trust_path != nullptr) options.trust_path = all.trust_path;
  if (all.record_path != nullptr) options.record_path = all.record_path;
  if (all.secret_path != nullptr && *all.secret_path == '\0')
    return Status(Code::kInvalidArgument,
                  "options.secret_path is empty: give the secret's file, or NULL for none");
  if (all.certificates_path != nullptr && *all.certificates_path == '\0')
    return Status(Code::kInvalidArgument,
                  "options.certificates_path is empty: give the folder, or NULL for none");
  if (all.secret_path != nullptr) options.secret_path = all.secret_path;
  if (all.trust_threshold > 1 && all.trust_path == nullptr)
    return Status(
        Code::kInvalidArgument,
        "options.trust_threshold is more than 1 without options.trust_path: name the file "
        "of trusted keys");
  options.trust_threshold = std::max<std::size_t>(all.trust_threshold, 1);
  if (!(all.max_age_s >= 0))
    return Status(
        Code::kInvalidArgument,
        fmt::format("options.max_age_s is {}: give seconds, or 0 for any age", all.max_age_s));
  options.max_age_s = all.max_age_s;
  if (all.certificates_path != nullptr) options.certificates_path = all.certificates_path;
  SPARCL_RETURN_IF_ERROR(options.take_settings());
  if (options.max_age_s > 0 && !options.has_proof())
    return Status(Code::kInvalidArgument,
                  "options.max_age_s without options.trust_path, secret_path or certificates_path: "
                  "any program on the way could say that a version is the newest");
  options.passes_on = sparcl::api::is_on(all.relay, options.passes_on);
  if (all.on_swap != nullptr)
    options.on_swap = [swap = all.on_swap, arg = all.arg](std::uint64_t version) {
      swap(version, arg);
    };
  return options;
}

// Runs `use` on a subscriber of this process. In a child of fork() a lock of the parent's may be
// held by a thread that is not there.
template <class Use>
sparclResult_t with_subscriber(const char* name, sparclSubscriber_t subscriber, Use&& use) {
  return sparcl::api::guarded_with(
      name, subscriber, "subscriber", [&](sparclSubscriber& own) -> Status {
        if (own.subscriber->is_own_process()) return use(own);
        return Status(Code::kInvalidUsage,
                      "this subscriber belongs to the parent process: a child of fork() cannot use "
                      "it: make another one in the child");
      });
}

// The store of the options; nullptr: none.
Result<std::unique_ptr<sparcl::api::StoreFallback>> open_fallback(
    const sparclSubscriberOptions_t* given, const SubscriberOptions& options,
    const sparcl::model::Schema& schema) {
  std::unique_ptr<sparcl::api::StoreFallback> made;
  sparclSubscriberOptions_t all = SPARCL_SUBSCRIBER_OPTIONS_INITIALIZER;
  SPARCL_RETURN_IF_ERROR(sparcl::api::read_sized(given, "options", all));
  if (all.store == nullptr && (options.only_told || all.store_patience_ms != 0))
    return Status(Code::kInvalidArgument,
                  "options.from_store and store_patience_ms are for a subscriber with a store: set "
                  "options.store");
  if (all.store_patience_ms != 0 && !options.only_told)
    return Status(
        Code::kInvalidArgument,
        "options.store_patience_ms is for a subscriber with options.from_store: set both");
  if (all.store == nullptr) return made;
  const auto slice =
      std::ranges::find_if(schema, [](const auto& tensor) { return tensor.slice.has_value(); });
  if (slice != schema.end())
    return Status(
        Code::kInvalidArgument,
        fmt::format("options.store with a state that has a slice of {}: a store gives a subscriber "
                    "whole models. Leave it out, or follow the store by sparclStoreRestore",
                    sparcl::model::in_quotes(slice->name)));
  const Held<sparclStore> store(all.store, "options.store");
  SPARCL_RETURN_IF_ERROR(store.status());
  SPARCL_RETURN_IF_ERROR(store->check_process());
  if (options.has_proof() && !store->options.trust->trusted)
    return Status(
        Code::kInvalidArgument,
        "options.store was opened without trust_path, and this subscriber takes only what "
        "it can check: open the store with trust_path and model_id");
  const bool is_as_strict =
      options.trust_path.empty() || (store->options.trust->model_id == options.model_id &&
                                     store->trust_threshold >= options.trust_threshold);
  if (!is_as_strict)
    return Status(
        Code::kInvalidArgument,
        "options.store was opened with another model_id, or a lower trust_threshold, than "
        "this subscriber has: open it with the same");
  if (!options.record_path.empty())
    return Status(Code::kInvalidArgument,
                  "options.store with options.record_path: versions of a store are not recorded, "
                  "leave one of them out");
  SPARCL_ASSIGN_OR_RETURN(auto objects,
                          sparcl::store::open_store(store->url, sparcl::store::Missing::kIsMade));
  sparcl::api::StoreFallback::Options from{.trust = store->options.trust,
                                           .lease_s = store->options.keep.lease_s,
                                           .is_first = options.only_told};
  if (all.store_patience_ms != 0) from.patience_s = all.store_patience_ms / 1e3;
  made = std::make_unique<sparcl::api::StoreFallback>(std::move(objects), std::move(from));
  return made;
}

Status create(sparclSubscriber_t* subscriber, sparclState_t state, const char* address,
              const sparclSubscriberOptions_t* given) {
  if (subscriber == nullptr) return Status(Code::kInvalidArgument, "subscriber is NULL");
  if (address == nullptr) return Status(Code::kInvalidArgument, "address is NULL");
  SPARCL_ASSIGN_OR_RETURN(SubscriberOptions options, read_subscriber_options(given));
  const Held<sparclState> held(state, "state");
  SPARCL_RETURN_IF_ERROR(held.status());
  SPARCL_RETURN_IF_ERROR(held->check_in_memory());
  SPARCL_ASSIGN_OR_RETURN(std::unique_ptr<AttachedState> attached,
                          AttachedState::attach(held, AttachedState::Use::kWrite));
  auto made = std::make_unique<sparclSubscriber>();
  made->attached = std::move(attached);
  SPARCL_ASSIGN_OR_RETURN(made->fallback,
                          open_fallback(given, options, made->attached->state().schema));
  made->has_buffers = options.double_buffer;
  if (made->attached->mirrored() != nullptr &&
      std::exchange(options.double_buffer, false)) {  // the mirror has none
    SPARCL_RETURN_IF_ERROR(made->attached->mirrored()->make_second_set());
  }
  SPARCL_ASSIGN_OR_RETURN(std::unique_ptr<Subscriber> opened,
                          Subscriber::create(made->attached->view(), address, options));
  made->subscriber = std::move(opened);
  made->attached->begin_writing();
  *subscriber = made.release()->handle.get();
  return {};
}

Status next(sparclSubscriber& subscriber, double seconds, std::uint64_t* version) {
  if (std::isnan(seconds)) return Status(Code::kInvalidArgument, "seconds is NaN");
  const Result<Subscriber::Swap> swap =
      sparcl::api::wait_long("sparclSubscriberNext", seconds, [&](double piece) {
        return subscriber.fallback != nullptr
                   ? subscriber.fallback->next(*subscriber.subscriber, piece)
                   : subscriber.subscriber->next(piece);
      });
  SPARCL_RETURN_IF_ERROR(sparcl::api::note_swap(subscriber, swap));
  if (version != nullptr) *version = swap->version;
  return {};
}

// Timeout, or why nothing comes: there is nothing to show.
Result<std::uint64_t> prepare_once(Subscriber& subscriber, double seconds) {
  SPARCL_ASSIGN_OR_RETURN(const Subscriber::Prepared prepared, subscriber.prepare(seconds));
  if (prepared.ready.empty()) return subscriber.nothing_newer(seconds);
  return prepared.ready.back().version;
}

Status prepare(sparclSubscriber& subscriber, double seconds, std::uint64_t* version) {
  SPARCL_RETURN_IF_ERROR(sparcl::api::check_takes_updates(subscriber, "sparclSubscriberPrepare"));
  if (std::isnan(seconds)) return Status(Code::kInvalidArgument, "seconds is NaN");
  SPARCL_ASSIGN_OR_RETURN(
      const std::uint64_t prepared,
      sparcl::api::wait_long("sparclSubscriberPrepare", seconds, [&](double piece) {
        return prepare_once(*subscriber.subscriber, piece);
      }));
  if (version != nullptr) *version = prepared;
  return {};
}

Status tensor(const sparclSubscriber& subscriber, std::size_t i, const void** data) {
  if (data == nullptr) return Status(Code::kInvalidArgument, "data is NULL");
  const std::size_t tensors = subscriber.attached->state().data.size();
  if (i >= tensors) {
    return Status(Code::kInvalidArgument,
                  fmt::format("tensor {} is asked for, and the state has {}: they count from 0, in "
                              "the order in which they were added",
                              i, tensors));
  }
  const sparcl::model::DeviceTensors* const mirrored = subscriber.attached->mirrored();
  *data = mirrored != nullptr ? mirrored->shown(i) : subscriber.subscriber->array(i);
  return {};
}

}  // namespace

Status sparcl::api::note_swap(sparclSubscriber& subscriber, const Result<Subscriber::Swap>& swap) {
  sparclState& state = subscriber.attached->state();
  const model::DeviceTensors* const mirrored = subscriber.attached->mirrored();
  if (!swap.ok()) {
    state.is_torn = state.is_torn || (mirrored != nullptr && mirrored->is_torn());
    return swap.status();
  }
  if (subscriber.has_buffers) return {};
  state.version = swap->version;
  state.is_torn = false;
  return {};
}

Status sparcl::api::check_takes_updates(const sparclSubscriber& subscriber, const char* call) {
  if (subscriber.fallback == nullptr || !subscriber.fallback->is_first()) return {};
  return Status(
      Code::kInvalidUsage,
      fmt::format("this subscriber has the option from_store, and {} needs updates of the "
                  "publisher: use sparclSubscriberNext, or leave from_store out",
                  call));
}

extern "C" {

sparclResult_t sparclSubscriberCreate(sparclSubscriber_t* subscriber, sparclState_t state,
                                      const char* address,
                                      const sparclSubscriberOptions_t* options) {
  return guarded([&] {
    return create(subscriber, state, address, options).with_prefix("sparclSubscriberCreate: ");
  });
}

sparclResult_t sparclSubscriberNext(sparclSubscriber_t subscriber, double seconds,
                                    uint64_t* version) {
  return with_subscriber(__func__, subscriber,
                         [&](sparclSubscriber& own) { return next(own, seconds, version); });
}

sparclResult_t sparclSubscriberPrepare(sparclSubscriber_t subscriber, double seconds,
                                       uint64_t* version) {
  return with_subscriber(__func__, subscriber,
                         [&](sparclSubscriber& own) { return prepare(own, seconds, version); });
}

sparclResult_t sparclSubscriberCommit(sparclSubscriber_t subscriber, uint64_t version) {
  return with_subscriber(__func__, subscriber, [&](sparclSubscriber& own) {
    return sparcl::api::note_swap(own, own.subscriber->commit(version));
  });
}

sparclResult_t sparclSubscriberVersion(sparclSubscriber_t subscriber, uint64_t* held,
                                       uint64_t* newest) {
  return with_subscriber(__func__, subscriber, [&](const sparclSubscriber& own) -> Status {
    const Subscriber::Versions versions = own.subscriber->versions();
    if (held != nullptr) *held = versions.held;
    if (newest != nullptr) *newest = versions.newest;
    return {};
  });
}

sparclResult_t sparclSubscriberTensor(sparclSubscriber_t subscriber, size_t i, const void** data) {
  return with_subscriber(__func__, subscriber,
                         [&](const sparclSubscriber& own) { return tensor(own, i, data); });
}

sparclResult_t sparclSubscriberPin(sparclSubscriber_t subscriber, uint64_t version) {
  return with_subscriber(__func__, subscriber, [&](sparclSubscriber& own) -> Status {
    SPARCL_RETURN_IF_ERROR(sparcl::api::check_takes_updates(own, "sparclSubscriberPin"));
    return own.subscriber->pin(version);
  });
}

sparclResult_t sparclSubscriberDestroy(sparclSubscriber_t subscriber) {
  return sparcl::api::destroy_own(
      __func__, subscriber, "subscriber",
      [](const sparclSubscriber& own) { return own.subscriber->is_own_process(); });
}

}  // extern "C"
