#pragma once
// Publishes checkpoints in files, one version each.

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "src/replication/empty_publisher.hpp"
#include "src/replication/publisher.hpp"
#include "tools/sparcl/model_memory.hpp"

namespace sparcl::tool {

class VersionPublisher {
 public:
  // first_version: of the first checkpoint. Until start_serving() replicas that ask are told that
  // there is no version yet.
  static Result<std::unique_ptr<VersionPublisher>> create(replication::Listener listener,
                                                          replication::PublisherOptions options,
                                                          std::uint64_t first_version,
                                                          bool as_json);

  const std::string& address() const { return address_; }

  // Versions have the numbers in the names of their files, not 1, 2, ...
  void take_versions_from_names() { is_by_name_ = true; }

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

  // Publishes the checkpoint that was read as the next version; prints its line.
  Status publish();

  // Serves replicas from now on, once there is a version. May be called several times.
  Status start_serving();

  std::uint64_t version() const { return version_; }  // the newest; 0: none
  int held_by() const;                  // how many replicas report that they hold the newest
  bool is_held_by(int replicas) const;  // the newest, by so many; false before there is one
  std::string status() const;           // of the publisher, from any thread

 private:
  VersionPublisher(replication::Listener listener, replication::PublisherOptions options,
                   std::uint64_t first_version, bool as_json);
  Status begin();
  Status read_whole(const std::string& path, const std::string& marked);
  Status read_change(const std::string& path);
  Status take_number(const std::string& path);

  replication::Listener listener_;
  std::string address_;
  replication::PublisherOptions options_;
  std::uint64_t next_version_;
  bool as_json_;
  bool is_by_name_ = false;
  bool is_whole_ = false;  // the memory holds what was read last, and no part of something else
  bool is_serving_ = false;
  std::uint64_t version_ = 0;
  std::unique_ptr<ModelMemory> memory_;       // once one checkpoint was read as a whole
  std::string path_;                          // of the last checkpoint read
  std::map<std::string, Hash128> published_;  // the last state, by path
  double read_s_ = 0;                         // the time of that read
  mutable std::mutex
      beginning_;  // guards the pointers below while other threads may ask for the status
  std::unique_ptr<replication::EmptyPublisher> empty_;
  std::unique_ptr<replication::Publisher> publisher_;  // it reads the memory: it ends first
};

}  // namespace sparcl::tool
