#pragma once
// Publishes checkpoints in files, one version each: to replicas, to a store, or to both.

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "src/replication/empty_publisher.hpp"
#include "src/replication/publisher.hpp"
#include "tools/sparcl/acknowledgement.hpp"
#include "tools/sparcl/model_memory.hpp"
#include "tools/sparcl/version_store.hpp"

namespace sparcl::tool {

using replication::Digest256;

class VersionPublisher {
 public:
  // first_version: of the first checkpoint; nullopt: 1, or the one after the store's newest. Until
  // start_serving() replicas that ask are told that there is no version yet. store: nullptr: none.
  static Result<std::unique_ptr<VersionPublisher>> create(
      replication::Listener listener, replication::PublisherOptions options,
      std::unique_ptr<VersionStore> store, std::optional<std::uint64_t> first_version,
      bool as_json);
  // To a store alone.
  static std::unique_ptr<VersionPublisher> create(std::unique_ptr<VersionStore> store,
                                                  std::optional<std::uint64_t> first_version,
                                                  bool as_json);

  const std::string& address() const { return address_; }  // "": of a store alone

  // Versions have the numbers in the names of their files, not 1, 2, ...
  // The store then takes each version above its newest one.
  void take_versions_from_names() { is_by_name_ = has_settled_ = true; }

  // What was read from this folder is acknowledged in it once it has been published, and is in the
  // store if there is one (Acknowledger).
  void acknowledge(const std::string& folder, const std::string& reader) {
    acknowledger_.emplace(folder, reader);
  }

  // Reads the checkpoint at `path` for publish(): a file, a folder of shards, or a folder of a
  // version (VersionFolder), which may hold a change of what was read before it. WrongBase: that is
  // not the version that the change is for. InvalidArgument: its name has no number, or none above
  // the newest version, but versions have the numbers of names. Mismatch: its tensors differ from
  // those of the first one, whose files define what replicas write. InProgress: it has changed
  // meanwhile. SystemError, Corrupt: it cannot be read, or not yet.
  Status read(const std::string& path);

  // Whether a file of that name with this content was published: it was touched, or replaced by a
  // copy.
  bool has_published_what_was_read() const;

  // How many of these checkpoints are the store's last versions, in their order: after a restart.
  // Reads them from the last one on.
  Result<std::size_t> count_stored(std::span<const std::string> paths);

  // Publishes the checkpoint that was read as the next version; prints its line.
  Status publish();

  // Serves replicas from now on, once there is a version. May be called several times. What was
  // read last is then in the store, though the store may hold a later state (VersionStore).
  Status start_serving();
  // The files are what the user wants in the store, whatever it holds.
  void publish_all_to_store() { has_settled_ = true; }

  std::uint64_t version() const { return version_; }  // the newest; 0: none
  int held_by() const;                  // how many replicas report that they hold the newest
  bool is_held_by(int replicas) const;  // the newest, by so many; false before there is one
  std::string status() const;           // of the publisher, from any thread

 private:
  VersionPublisher(std::optional<replication::Listener> listener,
                   replication::PublisherOptions options, std::unique_ptr<VersionStore> store,
                   std::optional<std::uint64_t> first_version, bool as_json);
  Status begin();
  struct Published {
    bool is_complete = false;
    Hash128 hash;
    std::uint64_t changed = 0, bytes = 0;
    std::optional<VersionStore::Stored> stored{};
  };
  Result<Published> publish_to_all();
  Status settle_store();
  Result<bool> is_stored(const std::string& path, std::uint64_t places_before);
  void warn_of_store(const Status& why);
  bool holds_newest() const;
  Result<VersionStore::Stored> put_into_store(const Hash128& hash);
  void tell(const Published& published, double seconds);
  void acknowledge_published();
  Status read_whole(const std::string& path, const std::string& marked);
  Status read_side_files(const std::string& path);
  void give_side_files();
  Status read_change(const std::string& path);
  Status take_number(const std::string& path);

  std::optional<replication::Listener> listener_;  // nullopt: there is no service
  std::string address_;
  replication::PublisherOptions options_;
  bool has_settled_ = false;  // the store takes what comes
  bool has_told_of_store_ = false;
  bool has_told_ = false;  // a line of a version
  std::optional<Acknowledger> acknowledger_;
  std::chrono::steady_clock::time_point store_retry_at_{};
  bool store_waits_ = false;  // for that, of the newest version
  Hash128 newest_hash_;
  model::Layout layout_;  // of the last checkpoint that was read as a whole
  std::uint64_t next_version_;
  bool as_json_;
  bool is_by_name_ = false;
  bool is_whole_ = false;  // the memory holds what was read last, and no part of something else
  bool is_serving_ = false;
  std::uint64_t version_ = 0;
  std::unique_ptr<ModelMemory> memory_;  // once one checkpoint was read as a whole
  std::unique_ptr<VersionStore>
      store_;  // nullptr: none. Its thread reads the memory: it ends first
  struct Content {
    Hash128 hash;
    Digest256 side_digest{};
    friend bool operator==(const Content&, const Content&) = default;
  };
  std::string path_;                          // of the last checkpoint read
  std::vector<model::SideFile> side_files_;   // of the last folder read
  Digest256 side_digest_{};                   // their digest
  Digest256 given_digest_{};                  // of those that the publisher has
  std::string skipped_;                       // names of files that were told of as too large
  std::map<std::string, Content> published_;  // the last content, by path
  double read_s_ = 0;                         // the time of that read
  mutable std::mutex
      beginning_;  // guards the pointers below while other threads may ask for the status
  std::unique_ptr<replication::EmptyPublisher> empty_;
  std::unique_ptr<replication::Publisher> publisher_;  // it reads the memory: it ends first
};

}  // namespace sparcl::tool
