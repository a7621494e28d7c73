#pragma once
// The connections of a replica to where its updates come from, as its machine sees them.

#include <cstdint>
#include <string>

namespace sparcl::replication {

enum class UpstreamKind : std::uint8_t { kPublisher, kParent };

class UpstreamView {
 public:
  virtual bool is_ready() const = 0;    // after the WELCOME
  virtual double heard() const = 0;     // the last time
  virtual std::string who() const = 0;  // for messages

 protected:
  ~UpstreamView() = default;
};

}  // namespace sparcl::replication
