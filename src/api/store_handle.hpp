#pragma once
// The object behind the handle of a store.

#include <unistd.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "sparcl/sparcl.h"
#include "src/api/handles.hpp"
#include "src/api/replication_handles.hpp"
#include "src/store/chain_writer.hpp"
#include "src/store/reader_lease.hpp"
#include "src/store/version_reader.hpp"

struct sparclStore {
  sparcl::api::OwnHandle<sparclStore> handle{this};
  std::mutex calling;  // guards all below
  std::string url;
  std::unique_ptr<sparcl::store::ObjectStore> objects;
  sparcl::store::WriterOptions options;
  std::size_t trust_threshold = 0;  // of options.trust; 0: no key is trusted
  std::optional<sparcl::store::Chain> chain;
  std::optional<sparcl::store::Lease> lease;
  std::optional<sparcl::store::VersionReader> reader;    // of chain and lease
  std::unique_ptr<sparcl::api::AttachedState> attached;  // of the writer
  std::unique_ptr<sparcl::store::ChainWriter> writer;
  bool has_published = false;
  const pid_t process = ::getpid();

  ~sparclStore() {
    if (lease && is_own_process()) lease->release();
  }

  bool is_own_process() const { return process == ::getpid(); }
  // In a child of fork() a lock of the parent's may be held by a thread that is not there.
  sparcl::Status check_process() const {
    if (is_own_process()) return {};
    return sparcl::Status(
        sparcl::Code::kInvalidUsage,
        "this store belongs to the parent process: a child of fork() opens it again");
  }
};
