// Stores behind the C interface.
#include <fmt/format.h>
#include <unistd.h>

#include <memory>
#include <mutex>
#include <optional>

#include "src/api/call_options.hpp"
#include "src/api/error.hpp"
#include "src/api/replication_handles.hpp"
#include "src/store/chain_reader.hpp"
#include "src/store/chain_writer.hpp"
#include "src/store/open_store.hpp"

using sparcl::Code;
using sparcl::Result;
using sparcl::Status;
using sparcl::api::AttachedState;
using sparcl::api::guarded;
using sparcl::api::guarded_with;
using sparcl::api::Held;

struct sparclStore {
  sparcl::api::OwnHandle<sparclStore> handle{this};
  std::mutex calling;  // guards all below
  std::unique_ptr<sparcl::store::ObjectStore> objects;
  sparcl::store::WriterOptions options;
  std::unique_ptr<AttachedState> attached;  // of the writer
  std::unique_ptr<sparcl::store::ChainWriter> writer;
  bool has_published = false;
  const pid_t process = ::getpid();

  bool is_own_process() const { return process == ::getpid(); }
  // In a child of fork() a lock of the parent's may be held by a thread that is not there.
  Status check_process() const {
    if (is_own_process()) return {};
    return Status(Code::kInvalidUsage,
                  "this store belongs to the parent process: a child of fork() opens it again");
  }
};

namespace {

namespace store = sparcl::store;

Status open_store(sparclStore_t* opened, const char* url, const sparclStoreOptions_t* given) {
  if (opened == nullptr) return Status(Code::kInvalidArgument, "store is NULL");
  if (url == nullptr) return Status(Code::kInvalidArgument, "url is NULL");
  sparclStoreOptions_t all = SPARCL_STORE_OPTIONS_INITIALIZER;
  SPARCL_RETURN_IF_ERROR(sparcl::api::read_sized(given, "options", all));
  auto made = std::make_unique<sparclStore>();
  SPARCL_ASSIGN_OR_RETURN(made->objects, store::open_store(url, store::Missing::kIsMade));
  if (all.anchor_every > 0) made->options.anchor_every = all.anchor_every;
  *opened = made.release()->handle.get();
  return {};
}

store::ChainState chain_state(const sparcl::replication::ReplicatedState& view) {
  return {view.map,    view.schema,  view.schema_hash, view.arrays,
          view.source, view.kernels, view.workers};
}

Status begin_publishing(sparclStore& own, const Held<sparclState>& state) {
  SPARCL_ASSIGN_OR_RETURN(std::unique_ptr<AttachedState> attached,
                          AttachedState::attach(state, AttachedState::Use::kRead));
  const AttachedState::Reading reading(*attached);
  SPARCL_ASSIGN_OR_RETURN(
      own.writer,
      store::ChainWriter::open(*own.objects, chain_state(attached->view()), own.options));
  own.attached = std::move(attached);
  return {};
}

Status publish(sparclStore& own, sparclState_t state, std::uint64_t version) {
  const Held<sparclState> given(state, "state");
  SPARCL_RETURN_IF_ERROR(given.status());
  if (own.writer == nullptr) {
    SPARCL_RETURN_IF_ERROR(begin_publishing(own, given));
  } else if (given.get() != &own.attached->state()) {
    return Status(Code::kInvalidUsage,
                  "this store publishes another state already: open a second store for this one");
  }
  SPARCL_RETURN_IF_ERROR(own.attached->state().check_complete());
  const AttachedState::Reading reading(*own.attached);
  const Status published = own.writer->publish(version);
  if (published.ok()) own.attached->state().version = version;
  return published;
}

// A state that could not be published at all is given back.
Status publish_or_give_back(sparclStore& own, sparclState_t state, std::uint64_t version) {
  SPARCL_RETURN_IF_ERROR(own.check_process());
  const std::lock_guard lock(own.calling);
  const Status published = publish(own, state, version);
  if (published.ok()) own.has_published = true;
  if (!published.ok() && !own.has_published) {
    own.writer = nullptr;
    own.attached = nullptr;
  }
  return published;
}

// Walks back from the newest: versions ascend.
Result<store::VersionRecord> find_version(const store::Chain& chain, std::uint64_t version) {
  SPARCL_ASSIGN_OR_RETURN(std::optional<store::VersionRecord> at, chain.newest());
  if (!at) return Status(Code::kInvalidArgument, "the store is empty: publish a version first");
  const std::uint64_t newest = at->version;
  while (version != 0 && at->version > version && at->number > 1) {
    SPARCL_ASSIGN_OR_RETURN(at, chain.record(at->number - 1));
  }
  if (version == 0 || at->version == version) return std::move(*at);
  return Status(Code::kInvalidArgument,
                fmt::format("the store has no version {}: its newest is {}", version, newest));
}

Status restore(sparclStore& own, sparclState_t given, std::uint64_t version, std::uint64_t* got) {
  SPARCL_RETURN_IF_ERROR(own.check_process());
  const std::lock_guard lock(own.calling);
  const Held<sparclState> into(given, "state");
  SPARCL_RETURN_IF_ERROR(into.status());
  if (into->has_device_memory())
    return Status(
        Code::kUnsupported,
        "a tensor is in device memory: restore into tensors in host memory, and copy them");
  SPARCL_RETURN_IF_ERROR(into->check_in_memory());
  SPARCL_ASSIGN_OR_RETURN(const std::unique_ptr<AttachedState> attached,
                          AttachedState::attach(into, AttachedState::Use::kWrite));
  sparclState& state = attached->state();
  const store::Chain chain(*own.objects);
  SPARCL_ASSIGN_OR_RETURN(const store::VersionRecord target, find_version(chain, version));
  std::optional<sparcl::model::HeldVersion> held;
  if (state.version != 0) held = {state.version, attached->view().hash()};
  attached->begin_writing();
  SPARCL_RETURN_IF_ERROR(store::restore(chain, target, held, chain_state(attached->view())));
  state.is_torn = false;
  state.version = target.version;
  state.confirmed.clear();  // a root's next update sends all
  if (got != nullptr) *got = target.version;
  return {};
}

}  // namespace

extern "C" {

sparclResult_t sparclStoreOpen(sparclStore_t* store, const char* url,
                               const sparclStoreOptions_t* options) {
  return guarded(
      [&, name = __func__] { return sparcl::api::in_call(name, open_store(store, url, options)); });
}

sparclResult_t sparclStorePublish(sparclStore_t store, sparclState_t state, uint64_t version) {
  return guarded_with(__func__, store, "store",
                      [&](sparclStore& own) { return publish_or_give_back(own, state, version); });
}

sparclResult_t sparclStoreLatest(sparclStore_t store, uint64_t* version) {
  return guarded_with(__func__, store, "store", [&](sparclStore& own) -> Status {
    if (version == nullptr) return Status(Code::kInvalidArgument, "version is NULL");
    SPARCL_RETURN_IF_ERROR(own.check_process());
    const std::lock_guard lock(own.calling);
    SPARCL_ASSIGN_OR_RETURN(const std::optional<store::VersionRecord> newest,
                            store::Chain(*own.objects).newest());
    *version = newest ? newest->version : 0;
    return {};
  });
}

sparclResult_t sparclStoreRestore(sparclStore_t store, sparclState_t state, uint64_t version,
                                  uint64_t* got) {
  return guarded_with(__func__, store, "store",
                      [&](sparclStore& own) { return restore(own, state, version, got); });
}

sparclResult_t sparclStoreClose(sparclStore_t store) {
  return sparcl::api::destroy_own(__func__, store, "store",
                                  [](const sparclStore& own) { return own.is_own_process(); });
}

}  // extern "C"
