#pragma once
// Stores: versions in a folder that all hosts share, or in a bucket.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sparcl/cpp_basics.hpp"
#include "sparcl/cpp_objects.hpp"
#include "sparcl/store.h"

namespace sparcl {

// It keeps the state that it publishes; the tensors must outlive it.
class Store {
 public:
  struct Options {
    std::uint64_t anchor_every = 0;     // 0: 64
    std::uint64_t keep_versions = 0;    // a publisher's; 0: all
    double lease_seconds = 0;           // 0: 600
    bool single_writer = false;         // also on a server of S3 that ignores conditions
    std::string model_id = {};          // empty: no name, and any model
    std::string key_path = {};          // signs what is published; empty: nothing is signed
    std::string trust_path = {};        // what is read must be signed; empty: it need not
    std::uint64_t trust_threshold = 0;  // keys of trust_path that must have signed; 0: 1
    sparclStoreChain_t chain = sparclChainHybrid;  // a publisher's: what late readers may take
  };
  struct Version {
    std::uint64_t version, base_version, delta_bytes, anchor_bytes, skip_bytes;
    std::string hash;
  };
  struct Damage {
    std::string location, what;
    bool is_repaired;
  };
  struct Keep {
    std::uint64_t versions = 0;
    double seconds = 0;
    std::uint64_t bytes = 0;
  };
  struct Pruned {
    std::uint64_t versions, objects, bytes, waiting;
  };
  explicit Store(const std::string& url) : Store(url, Options()) {}  // "file:PATH", "s3://..."
  Store(const std::string& url, const Options& options) {
    sparclStoreOptions_t given = SPARCL_STORE_OPTIONS_INITIALIZER;
    given.anchor_every = options.anchor_every;
    given.keep_versions = options.keep_versions;
    given.lease_seconds = options.lease_seconds;
    given.single_writer = options.single_writer ? 1 : 0;
    given.model_id = options.model_id.c_str();
    given.key_path = options.key_path.empty() ? nullptr : options.key_path.c_str();
    given.trust_path = options.trust_path.empty() ? nullptr : options.trust_path.c_str();
    given.trust_threshold = options.trust_threshold;
    given.chain = static_cast<std::uint64_t>(options.chain);
    sparclStore_t handle = nullptr;
    check(sparclStoreOpen(&handle, url.c_str(), &given));
    handle_ = Handle(handle, {});
  }

  void publish(const State& state, std::uint64_t version) {
    std::shared_ptr<sparclState>& published = std::get<0>(handle_.get_deleter().needed);
    if (published == nullptr) published = state.shared();
    check(sparclStorePublish(get(), state.get(), version));
  }
  // 0: there is none.
  std::uint64_t latest() const {
    std::uint64_t version = 0;
    check(sparclStoreLatest(get(), &version));
    return version;
  }
  // version: 0 is the newest. Returns the restored version.
  std::uint64_t restore(State& state, std::uint64_t version = 0) const {
    std::uint64_t got = 0;
    check(sparclStoreRestore(get(), state.get(), version, &got));
    return got;
  }
  // All versions, in ascending order.
  std::vector<Version> list() const {
    std::vector<Version> versions;
    check(sparclStoreList(
        get(),
        [](const sparclStoreVersion_t* each, void* arg) {
          static_cast<std::vector<Version>*>(arg)->push_back({each->version, each->base_version,
                                                              each->delta_bytes, each->anchor_bytes,
                                                              each->skip_bytes, each->hash});
        },
        &versions));
    return versions;
  }
  // All damage. copy: its objects take the place of those that are damaged or missing.
  std::vector<Damage> verify(const Store* copy = nullptr) const {
    std::vector<Damage> damage;
    const sparclResult_t result = sparclStoreVerify(
        get(), copy == nullptr ? nullptr : copy->get(),
        [](const char* location, const char* what, int is_repaired, void* arg) {
          static_cast<std::vector<Damage>*>(arg)->push_back({location, what, is_repaired != 0});
        },
        &damage);
    if (result != sparclCorrupt || damage.empty()) check(result);
    return damage;
  }
  Pruned prune(const Keep& keep) {
    const sparclStoreKeep_t given{sizeof given, keep.versions, keep.seconds, keep.bytes};
    sparclStorePruned_t pruned = SPARCL_STORE_PRUNED_INITIALIZER;
    check(sparclStorePrune(get(), &given, &pruned));
    return {pruned.versions, pruned.objects, pruned.bytes, pruned.waiting};
  }
  // Returns the number of objects that it has added.
  std::uint64_t compact() {
    std::uint64_t added = 0;
    check(sparclStoreCompact(get(), &added));
    return added;
  }
  // Returns the number of versions that are new there.
  std::uint64_t copy_to(Store& to) const {
    std::uint64_t copied = 0;
    check(sparclStoreCopy(get(), to.get(), &copied));
    return copied;
  }
  sparclStore_t get() const { return handle_.get(); }

 private:
  using Handle =
      std::unique_ptr<sparclStore,
                      detail::DestroyBefore<sparclStoreClose, std::shared_ptr<sparclState>>>;
  Handle handle_;
};

}  // namespace sparcl
