#pragma once
// The two ends of an update's stream: the source encodes it, and the target checks and writes it.

#include <cstdint>
#include <memory>

#include "collectives/broadcast/broadcast.hpp"

namespace sparcl::collectives::broadcast {

class UpdateSource : public StreamSource {
 public:
  virtual std::uint64_t changed() const = 0;
  virtual double dropped_l2() const { return 0; }  // of a lossy update
  // After the call: a GPU still runs the enqueued work, and is waited for.
  virtual bool is_settling() { return false; }
};

class UpdateTarget : public StreamTarget {
 public:
  virtual std::uint64_t changed() const = 0;
  virtual bool is_settling() { return false; }
};

// The call and the communicator outlive them.
std::unique_ptr<UpdateSource> host_source(UpdateCall& call, const CommContext& comm);
std::unique_ptr<UpdateTarget> host_target(UpdateCall& call, const CommContext& comm);
// For a call whose arrays are in device memory (UpdateCall::device). A target changes to the host
// if the device cannot read the stream.
std::unique_ptr<UpdateSource> device_source(UpdateCall& call, const CommContext& comm);
std::unique_ptr<UpdateTarget> device_target(UpdateCall& call, const CommContext& comm);

// Checks that the root's version is the requested one, and later than the held one.
Status check_version(const UpdateCall& call, const CommContext& comm, std::uint64_t target);

// Checks a complete update: it is the requested one, and its base is the held state.
Status check_target(const UpdateCall& call, const CommContext& comm,
                    const codec::UpdateDecoder& decoder);

}  // namespace sparcl::collectives::broadcast
