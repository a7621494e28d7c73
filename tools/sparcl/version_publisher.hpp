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
  // first_version: the first checkpoint's. Until replicas are served all who ask are told that
  // there is nothing yet.
  static Result<std::unique_ptr<VersionPublisher>> create(replication::Listener listener,
                                                          replication::PublisherOptions options,
                                                          std::uint64_t first_version,
                                                          bool as_json);

  const std::string& address() const { return address_; }

  // The checkpoint at `path` is what publish() takes. Mismatch: it has not the tensors of the first
  // one, whose files are the model for what replicas write. InProgress: it has changed meanwhile.
  // SystemError, Corrupt: it cannot be read, or not yet.
  Status read(const std::string& path);

  // A file of that name with this content was published: it was touched, or replaced by its like.
  bool has_published_what_was_read() const;

  // What was read becomes the next version; prints its line.
  Status publish();

  // Replicas are served from here on, once there is a version. Any number of times.
  Status start_serving();

  std::uint64_t version() const { return version_; }  // the newest; 0: none
  int held_by() const;                  // how many replicas hold the newest, by their own word
  bool is_held_by(int replicas) const;  // the newest, by so many; never before there is one
  std::string status() const;           // Publisher's. From any thread

 private:
  VersionPublisher(replication::Listener listener, replication::PublisherOptions options,
                   std::uint64_t first_version, bool as_json);
  Status begin();

  replication::Listener listener_;
  std::string address_;
  replication::PublisherOptions options_;
  std::uint64_t next_version_;
  bool as_json_;
  bool is_serving_ = false;
  std::uint64_t version_ = 0;
  std::unique_ptr<ModelMemory> memory_;       // as soon as one checkpoint was read whole
  std::string path_;                          // of what was read
  std::map<std::string, Hash128> published_;  // the last state, by path
  double read_s_ = 0;                         // the time of it
  mutable std::mutex
      beginning_;  // guards the pointers below while other threads may ask for the status
  std::unique_ptr<replication::EmptyPublisher> empty_;
  std::unique_ptr<replication::Publisher> publisher_;  // it reads the memory: it ends first
};

}  // namespace sparcl::tool
