// Stores of versions.

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "python/src/python_handles.hpp"

namespace sparcl::python {
namespace {

struct StoreOptions {
  std::uint64_t anchor_every = 0, keep_versions = 0, trust_threshold = 0;
  double lease_seconds = 0;
  bool single_writer = false;
  int chain = 0;
  std::optional<std::string> model_id, key_path, trust_path;
};

Store* open_store(const std::string& url, const StoreOptions& given) {
  sparclStoreOptions_t options = SPARCL_STORE_OPTIONS_INITIALIZER;
  options.anchor_every = given.anchor_every;
  options.keep_versions = given.keep_versions;
  options.trust_threshold = given.trust_threshold;
  options.lease_seconds = given.lease_seconds;
  options.single_writer = given.single_writer ? 1 : 0;
  options.chain = static_cast<std::uint64_t>(given.chain);
  options.model_id = text_or_null(given.model_id);
  options.key_path = text_or_null(given.key_path);
  options.trust_path = text_or_null(given.trust_path);
  sparclStore_t store = nullptr;
  run_released([&] { return sparclStoreOpen(&store, c_text(url), &options); });
  return new Store(store, "store");
}

std::uint64_t latest_version(const Store& store) {
  std::uint64_t version = 0;
  run_released([&, handle = store.get()] { return sparclStoreLatest(handle, &version); });
  return version;
}

std::uint64_t restore_version(const Store& store, const State& state, std::uint64_t version) {
  std::uint64_t got = 0;
  const sparclState_t into = state.get();
  run_released(
      [&, handle = store.get()] { return sparclStoreRestore(handle, into, version, &got); });
  return got;
}

struct Listed {
  std::uint64_t version, base_version, delta_bytes, anchor_bytes, skip_bytes;
  std::string hash;
};

nb::list list_store(const Store& store) {
  std::vector<Listed> all;
  run_released([&, handle = store.get()] {
    return sparclStoreList(
        handle,
        [](const sparclStoreVersion_t* each, void* into) {
          static_cast<std::vector<Listed>*>(into)->push_back({each->version, each->base_version,
                                                              each->delta_bytes, each->anchor_bytes,
                                                              each->skip_bytes, each->hash});
        },
        &all);
  });
  nb::list versions;
  for (Listed& each : all) versions.append(nb::cast(std::move(each)));
  return versions;
}

struct Damage {
  std::string location, what;
  bool is_repaired;
};

// What is damaged; `result` tells whether all of it was repaired.
nb::list verify_store(const Store& store, const nb::object& copy) {
  std::vector<Damage> all;
  const sparclStore_t from = copy.is_none() ? nullptr : nb::cast<Store&>(copy).get();
  sparclResult_t result;
  {
    const sparclStore_t handle = store.get();
    const ReleasedGil released;
    result = sparclStoreVerify(
        handle, from,
        [](const char* location, const char* what, int is_repaired, void* into) {
          static_cast<std::vector<Damage>*>(into)->push_back({location, what, is_repaired != 0});
        },
        &all);
  }
  if (result != sparclCorrupt || all.empty()) check(result);
  nb::list damages;
  for (const Damage& each : all)
    damages.append(nb::make_tuple(each.location, each.what, each.is_repaired));
  return damages;
}

sparclStorePruned_t prune_store(const Store& store, std::uint64_t versions, double seconds,
                                std::uint64_t bytes) {
  sparclStoreKeep_t keep = SPARCL_STORE_KEEP_INITIALIZER;
  keep.versions = versions;
  keep.seconds = seconds;
  keep.bytes = bytes;
  sparclStorePruned_t pruned = SPARCL_STORE_PRUNED_INITIALIZER;
  run_released([&, handle = store.get()] { return sparclStorePrune(handle, &keep, &pruned); });
  return pruned;
}

}  // namespace

void add_stores(nb::module_& module) {
  nb::class_<StoreOptions>(module, "StoreOptions")
      .def(nb::init<>())
      .def_rw("anchor_every", &StoreOptions::anchor_every)
      .def_rw("keep_versions", &StoreOptions::keep_versions)
      .def_rw("trust_threshold", &StoreOptions::trust_threshold)
      .def_rw("lease_seconds", &StoreOptions::lease_seconds)
      .def_rw("single_writer", &StoreOptions::single_writer)
      .def_rw("chain", &StoreOptions::chain)
      .def_rw("model_id", &StoreOptions::model_id, nb::arg().none())
      .def_rw("key_path", &StoreOptions::key_path, nb::arg().none())
      .def_rw("trust_path", &StoreOptions::trust_path, nb::arg().none());
  nb::class_<Listed>(module, "StoreVersion", "A version of a store.")
      .def_ro("version", &Listed::version)
      .def_ro("base_version", &Listed::base_version, "of its delta; 0: the first version")
      .def_ro("delta_bytes", &Listed::delta_bytes)
      .def_ro("anchor_bytes", &Listed::anchor_bytes, "0: it has no anchor")
      .def_ro("skip_bytes", &Listed::skip_bytes, "of all skips to it")
      .def_ro("hash", &Listed::hash, "of the state: 32 hexadecimal digits")
      .def("__repr__", [](const Listed& each) {
        return "<StoreVersion " + std::to_string(each.version) + ", delta " +
               std::to_string(each.delta_bytes) + " bytes>";
      });
  nb::class_<sparclStorePruned_t>(module, "StorePruned", "What a prune removed.")
      .def_ro("versions", &sparclStorePruned_t::versions)
      .def_ro("objects", &sparclStorePruned_t::objects)
      .def_ro("bytes", &sparclStorePruned_t::bytes)
      .def_ro("waiting", &sparclStorePruned_t::waiting, "versions that a later call removes");
  nb::class_<Store>(module, "Store")
      .def("close", &Store::close)
      .def_prop_ro("closed", &Store::is_closed)
      .def("publish",
           [](Store& store, const nb::object& state, std::uint64_t version) {
             const sparclState_t of = nb::cast<State&>(state).get();
             run_released(
                 [&, handle = store.get()] { return sparclStorePublish(handle, of, version); });
             store.keep(state);
           })
      .def("latest", &latest_version)
      .def("restore", &restore_version)
      .def("versions", &list_store)
      .def("verify", &verify_store, nb::arg("copy").none())
      .def("prune", &prune_store)
      .def("compact",
           [](const Store& store) {
             std::uint64_t added = 0;
             run_released([&, handle = store.get()] { return sparclStoreCompact(handle, &added); });
             return added;
           })
      .def("copy", [](const Store& store, const Store& to) {
        std::uint64_t copied = 0;
        const sparclStore_t target = to.get();
        run_released(
            [&, handle = store.get()] { return sparclStoreCopy(handle, target, &copied); });
        return copied;
      });
  module.def("store_open", &open_store);
}

}  // namespace sparcl::python
