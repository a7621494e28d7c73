#pragma once
// The contract between a publisher and where its versions go: the sessions of its replicas, a
// store.

#include <memory>
#include <optional>

#include "src/model/version_update.hpp"

namespace sparcl::model {

// A version as it goes out.
struct VersionEdition {
  std::shared_ptr<VersionUpdate> delta;  // from the version before; nullptr: there is none
  VersionUpdateRef label;                // of no bytes: for readers that have the bytes
  ChangeLogRef replaced;                 // what the delta has replaced; nullptr: not known
};

class VersionSink {
 public:
  // The last version that was written since start_over(); nothing: none, or the next edition has to
  // be a first one.
  virtual std::optional<HeldVersion> newest() const = 0;
  // edition: its delta leads on from newest(). Without a delta it is the first version.
  virtual void write(VersionEdition edition) = 0;
  // No update leads on from newest(): the next edition is a first one, and readers get all bytes.
  virtual void start_over() = 0;

 protected:
  ~VersionSink() = default;
};

}  // namespace sparcl::model
