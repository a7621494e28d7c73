#pragma once
// Stores: versions in a folder that all hosts share.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "sparcl/cpp_basics.hpp"
#include "sparcl/cpp_objects.hpp"
#include "sparcl/store.h"

namespace sparcl {

// It keeps the state that it publishes; the tensors must outlive it.
class Store {
 public:
  struct Options {
    std::uint64_t anchor_every = 0;  // 0: 64
  };
  explicit Store(const std::string& url) : Store(url, Options()) {}  // "file:PATH"
  Store(const std::string& url, const Options& options) {
    sparclStoreOptions_t given = SPARCL_STORE_OPTIONS_INITIALIZER;
    given.anchor_every = options.anchor_every;
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
  sparclStore_t get() const { return handle_.get(); }

 private:
  using Handle =
      std::unique_ptr<sparclStore,
                      detail::DestroyBefore<sparclStoreClose, std::shared_ptr<sparclState>>>;
  Handle handle_;
};

}  // namespace sparcl
