// Stores behind the C interface.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <mutex>
#include <optional>

#include "src/api/call_options.hpp"
#include "src/api/error.hpp"
#include "src/api/replication_handles.hpp"
#include "src/api/store_handle.hpp"
#include "src/api/stored_state.hpp"
#include "src/model/files/delta_file.hpp"
#include "src/replication/model_id.hpp"
#include "src/store/address/open_store.hpp"
#include "src/store/chain_writer.hpp"
#include "src/store/compaction.hpp"
#include "src/store/retention.hpp"
#include "src/store/store_content.hpp"

using sparcl::Code;
using sparcl::Result;
using sparcl::Status;
using sparcl::api::AttachedState;
using sparcl::api::chain_state;
using sparcl::api::guarded;
using sparcl::api::guarded_with;
using sparcl::api::Held;

namespace {

namespace store = sparcl::store;

constexpr double kMaxLeaseSeconds = 1e8, kMaxAgeSeconds = 1e12;

// An unset variable must not turn signatures off.
Status check_path(const char* name, const char* path) {
  if (path == nullptr || *path != '\0') return {};
  return Status(Code::kInvalidArgument,
                fmt::format("options.{} is empty: give the file, or NULL for none", name));
}

Result<store::ChainTrustRef> read_trust(const sparclStoreOptions_t& all) {
  SPARCL_RETURN_IF_ERROR(check_path("key_path", all.key_path));
  SPARCL_RETURN_IF_ERROR(check_path("trust_path", all.trust_path));
  store::TrustFiles files;
  if (all.model_id != nullptr) files.model_id = all.model_id;
  if (all.key_path != nullptr) files.key_path = all.key_path;
  if (all.trust_path != nullptr) files.trust_path = all.trust_path;
  files.trust_threshold = std::max<std::size_t>(all.trust_threshold, 1);
  SPARCL_RETURN_IF_ERROR(sparcl::replication::check_model_id(files.model_id));
  if (all.trust_path != nullptr && files.model_id.empty())
    return Status(Code::kInvalidArgument,
                  "options.trust_path without options.model_id: a key may sign several models, "
                  "name the one that is wanted");
  if (all.trust_threshold > 1 && all.trust_path == nullptr)
    return Status(Code::kInvalidArgument,
                  "options.trust_threshold is more than 1 without options.trust_path: name the "
                  "file of trusted keys");
  return store::ChainTrust::load(files);
}

Status open_store(sparclStore_t* opened, const char* url, const sparclStoreOptions_t* given) {
  if (opened == nullptr) return Status(Code::kInvalidArgument, "store is NULL");
  if (url == nullptr) return Status(Code::kInvalidArgument, "url is NULL");
  sparclStoreOptions_t all = SPARCL_STORE_OPTIONS_INITIALIZER;
  SPARCL_RETURN_IF_ERROR(sparcl::api::read_sized(given, "options", all));
  auto made = std::make_unique<sparclStore>();
  made->url = url;
  SPARCL_ASSIGN_OR_RETURN(made->options.trust, read_trust(all));
  if (made->options.trust->trusted)
    made->trust_threshold = std::max<std::size_t>(all.trust_threshold, 1);
  SPARCL_ASSIGN_OR_RETURN(made->objects, store::open_store(url, store::Missing::kIsMade));
  if (!(all.lease_seconds >= 0 && all.lease_seconds <= kMaxLeaseSeconds))
    return Status(Code::kInvalidArgument,
                  fmt::format("options.lease_seconds is {}: give 0, or at most {} seconds",
                              all.lease_seconds, kMaxLeaseSeconds));
  if (all.single_writer > 1)
    return Status(Code::kInvalidArgument,
                  fmt::format("options.single_writer = {}: expected 0 or 1", all.single_writer));
  made->options.single_writer = all.single_writer == 1;
  if (all.chain > sparclChainIndependent)
    return Status(Code::kInvalidArgument,
                  fmt::format("options.chain = {}: expected a sparclStoreChain_t", all.chain));
  made->options.shape = static_cast<store::ChainShape>(all.chain);
  if (all.anchor_every > 0) made->options.anchor_every = all.anchor_every;
  made->options.keep.versions = all.keep_versions;
  if (all.lease_seconds > 0)
    made->options.keep.lease_s = static_cast<std::int64_t>(std::ceil(all.lease_seconds));
  made->chain.emplace(*made->objects, made->options.trust);
  made->lease.emplace(*made->objects, made->options.keep.lease_s);
  made->reader.emplace(*made->chain, *made->lease);
  *opened = made.release()->handle.get();
  return {};
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
  const Status published = publish(own, state, version);
  if (published.ok()) own.has_published = true;
  const bool is_unsure = own.writer != nullptr && own.writer->is_unsure();
  if (!published.ok() && !own.has_published && !is_unsure) {
    own.writer = nullptr;
    own.attached = nullptr;
  }
  return published;
}

Status restore(sparclStore& own, sparclState_t given, std::uint64_t version, std::uint64_t* got) {
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
  std::optional<sparcl::model::HeldVersion> held;
  const store::ChainState into_arrays = chain_state(attached->view());
  if (state.version != 0 && !own.reader->keeps_part_of(into_arrays))
    held = {state.version, attached->view().hash()};
  attached->begin_writing();
  SPARCL_ASSIGN_OR_RETURN(const store::RestoredVersion restored,
                          own.reader->restore(version, held, into_arrays));
  state.is_torn = false;
  state.version = restored.record.version;
  state.confirmed.clear();  // a root's next update sends all
  if (got != nullptr) *got = restored.record.version;
  return {};
}

// For calls that read: a folder that does not exist is no empty store.
Status check_is_there(const sparclStore& own) {
  return store::open_store(own.url, store::Missing::kIsAnError).status();
}

Status list(sparclStore& own, sparclStoreListed_t listed, void* arg) {
  if (listed == nullptr) return Status(Code::kInvalidArgument, "listed is NULL");
  SPARCL_RETURN_IF_ERROR(check_is_there(own));
  return store::list_versions(*own.chain, [&](const store::ListedVersion& each) {
    const store::VersionRecord& record = each.record;
    const std::string hash = sparcl::to_hex(record.target_hash);
    const sparclStoreVersion_t version{
        record.version,    record.base_version, record.delta ? record.delta->bytes : 0,
        each.anchor_bytes, each.skip_bytes,     hash.c_str()};
    listed(&version, arg);
  });
}

Status verify(sparclStore& own, store::Chain* copy, sparclStoreDamaged_t damaged, void* arg) {
  SPARCL_RETURN_IF_ERROR(check_is_there(own));
  SPARCL_ASSIGN_OR_RETURN(const store::VerifyReport report,
                          store::verify_content(
                              *own.chain, copy,
                              [&](const store::Damage& each) {
                                if (damaged != nullptr)
                                  damaged(each.location.c_str(), each.what.c_str(),
                                          each.is_repaired ? 1 : 0, arg);
                              },
                              own.options.keep.lease_s));
  if (report.damaged == report.repaired) return {};
  return Status(Code::kCorrupt,
                fmt::format("of {} objects of {} versions {} are missing or damaged: give a copy "
                            "of the store, which repairs them",
                            report.objects, report.versions, report.damaged - report.repaired));
}

Status prune(sparclStore& own, const sparclStoreKeep_t* given, sparclStorePruned_t* pruned) {
  sparclStoreKeep_t all = SPARCL_STORE_KEEP_INITIALIZER;
  SPARCL_RETURN_IF_ERROR(sparcl::api::read_sized(given, "keep", all));
  if (!(all.seconds >= 0)) return Status(Code::kInvalidArgument, "keep.seconds is below 0");
  SPARCL_RETURN_IF_ERROR(check_is_there(own));
  store::Keep keep;
  keep.versions = all.versions;
  if (all.seconds > 0)
    keep.age_s = static_cast<std::int64_t>(std::min(std::ceil(all.seconds), kMaxAgeSeconds));
  if (all.bytes > 0) keep.max_bytes = all.bytes;
  keep.lease_s = own.options.keep.lease_s;
  SPARCL_ASSIGN_OR_RETURN(const store::PruneReport report, store::prune(*own.chain, keep));
  if (pruned == nullptr) return {};
  const sparclStorePruned_t full{sizeof full, report.versions, report.objects, report.bytes,
                                 report.waiting};
  return sparcl::api::write_sized(full, "pruned", pruned);
}

// A call that takes one store: in its process, and one at a time.
template <class Function>
sparclResult_t call(const char* name, sparclStore_t store, Function&& function) {
  return guarded_with(name, store, "store", [&](sparclStore& own) -> Status {
    SPARCL_RETURN_IF_ERROR(own.check_process());
    const std::lock_guard lock(own.calling);
    return function(own);
  });
}

// A call that takes two; other: may be NULL.
template <class Function>
sparclResult_t call_two(const char* name, sparclStore_t store, sparclStore_t other,
                        const char* parameter, Function&& function) {
  return guarded_with(name, store, "store", [&](sparclStore& own) -> Status {
    SPARCL_RETURN_IF_ERROR(own.check_process());
    if (other == nullptr) {
      const std::lock_guard lock(own.calling);
      return function(own, nullptr);
    }
    const Held<sparclStore> second(other, parameter);
    SPARCL_RETURN_IF_ERROR(second.status());
    SPARCL_RETURN_IF_ERROR(second->check_process());
    if (second.get() == &own)
      return Status(Code::kInvalidArgument, fmt::format("{} is the same store", parameter));
    const std::scoped_lock lock(own.calling, second->calling);
    return function(own, second.get());
  });
}

}  // namespace

extern "C" {

sparclResult_t sparclStoreOpen(sparclStore_t* store, const char* url,
                               const sparclStoreOptions_t* options) {
  return guarded(
      [&, name = __func__] { return sparcl::api::in_call(name, open_store(store, url, options)); });
}

sparclResult_t sparclStorePublish(sparclStore_t store, sparclState_t state, uint64_t version) {
  return call(__func__, store,
              [&](sparclStore& own) { return publish_or_give_back(own, state, version); });
}

sparclResult_t sparclStoreLatest(sparclStore_t store, uint64_t* version) {
  return call(__func__, store, [&](sparclStore& own) -> Status {
    if (version == nullptr) return Status(Code::kInvalidArgument, "version is NULL");
    SPARCL_ASSIGN_OR_RETURN(const auto newest, own.chain->newest());
    *version = newest ? newest->version : 0;
    return {};
  });
}

sparclResult_t sparclStoreRestore(sparclStore_t store, sparclState_t state, uint64_t version,
                                  uint64_t* got) {
  return call(__func__, store, [&](sparclStore& own) { return restore(own, state, version, got); });
}

sparclResult_t sparclStoreList(sparclStore_t store, sparclStoreListed_t listed, void* arg) {
  return call(__func__, store, [&](sparclStore& own) { return list(own, listed, arg); });
}

sparclResult_t sparclStoreVerify(sparclStore_t store, sparclStore_t copy,
                                 sparclStoreDamaged_t damaged, void* arg) {
  return call_two(__func__, store, copy, "copy", [&](sparclStore& own, sparclStore* from) {
    return verify(own, from == nullptr ? nullptr : &*from->chain, damaged, arg);
  });
}

sparclResult_t sparclStorePrune(sparclStore_t store, const sparclStoreKeep_t* keep,
                                sparclStorePruned_t* pruned) {
  return call(__func__, store, [&](sparclStore& own) { return prune(own, keep, pruned); });
}

sparclResult_t sparclStoreCompact(sparclStore_t store, uint64_t* added) {
  return call(__func__, store, [&](sparclStore& own) -> Status {
    SPARCL_RETURN_IF_ERROR(check_is_there(own));
    SPARCL_ASSIGN_OR_RETURN(const auto* const kernels, sparcl::model::chosen_kernels());
    SPARCL_ASSIGN_OR_RETURN(const std::uint64_t made,
                            store::compact(*own.chain, *kernels, own.options.keep.lease_s));
    if (added != nullptr) *added = made;
    return {};
  });
}

sparclResult_t sparclStoreCopy(sparclStore_t store, sparclStore_t to, uint64_t* copied) {
  return call_two(__func__, store, to, "to", [&](sparclStore& own, sparclStore* target) -> Status {
    if (target == nullptr) return Status(Code::kInvalidArgument, "to is NULL");
    SPARCL_RETURN_IF_ERROR(check_is_there(own));
    SPARCL_ASSIGN_OR_RETURN(
        const std::uint64_t made,
        store::copy_content(*own.chain, *target->chain, own.options.keep.lease_s));
    if (copied != nullptr) *copied = made;
    return {};
  });
}

sparclResult_t sparclStoreClose(sparclStore_t store) {
  return sparcl::api::destroy_own(__func__, store, "store",
                                  [](const sparclStore& own) { return own.is_own_process(); });
}

}  // extern "C"
