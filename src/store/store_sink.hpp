#pragma once
// Writes a publisher's versions to a chain, by a thread of its own, so that a slow store does not
// slow the publisher down before many versions wait.

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "src/base/repeated_messages.hpp"
#include "src/model/snapshot.hpp"
#include "src/model/version_sink.hpp"
#include "src/store/chain_writer.hpp"

namespace sparcl::store {

class StoreSink final : public model::VersionSink {
 public:
  // state: the publisher's; its arrays and its source are read in write() alone. Reads the newest
  // version of the store, as ChainWriter::open() does. description: of ChainWriter::describe().
  static Result<std::unique_ptr<StoreSink>> create(std::unique_ptr<ObjectStore> store,
                                                   const ChainState& state,
                                                   const WriterOptions& options,
                                                   std::span<const std::byte> description = {});
  // Ends when what waits is written, or has failed.
  ~StoreSink();
  StoreSink(const StoreSink&) = delete;
  StoreSink& operator=(const StoreSink&) = delete;

  // Nothing after a failure, too: all bytes are written then.
  std::optional<model::HeldVersion> newest() const override;
  // Waits while too many versions wait. If a version could not be written, the next one is written
  // from all bytes of the state.
  void write(model::VersionEdition edition) override;
  void start_over() override;

  // The last version that waits, or is in the store, also from a life before; 0: none.
  std::uint64_t last() const;
  // Until the version, or a later one, is in the store. Timeout; or why it is not written.
  Status wait(std::uint64_t version, double seconds);
  std::string location() const { return store_->location_of(""); }

 private:
  struct Item {
    std::uint64_t version = 0;
    std::shared_ptr<model::VersionUpdate> delta = nullptr;  // nullptr: `whole` has all bytes
    std::unique_ptr<model::Snapshot> whole = nullptr;
    std::uint64_t bytes = 0;  // of the delta
  };
  StoreSink(std::unique_ptr<ObjectStore> store, const ChainState& state,
            const WriterOptions& options);
  bool is_full() const;
  void wait_for_room(std::unique_lock<std::mutex>& lock, std::uint64_t version);
  Result<Item> make_item(model::VersionEdition& edition, bool is_whole) const;
  void serve();
  Status store_one(const Item& item);
  void fail(std::uint64_t version, const Status& why) noexcept;
  void tell_failure(std::uint64_t version, const Status& why);

  std::unique_ptr<ObjectStore> store_;
  ChainState state_;
  WriterOptions options_;
  std::unique_ptr<ChainWriter> writer_;  // the thread's

  mutable std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::deque<Item> waiting_;
  std::uint64_t waiting_bytes_ = 0;           // with those of the version that is being written
  std::optional<model::HeldVersion> newest_;  // the last that waits, or is in the store
  std::uint64_t stored_ = 0;
  bool needs_whole_ = true;  // no delta leads on from what is in the store, or waits
  bool is_ending_ = false;
  Status trouble_;  // why the last version is not in the store
  RepeatedMessages failures_;

  std::thread thread_;
};

}  // namespace sparcl::store
