#pragma once
// The two ends of an update's stream: where it is made, and where it is checked and written.

#include <cstdint>
#include <memory>

#include "collectives/broadcast/broadcast.hpp"

namespace sparcl::collectives::broadcast {

class UpdateSource : public StreamSource {
 public:
  virtual std::uint64_t changed() const = 0;
  virtual double dropped_l2() const { return 0; }  // of a lossy update
  // After the call: a GPU is still at what it has enqueued, and is waited for.
  virtual bool is_settling() { return false; }
};

class UpdateTarget : public StreamTarget {
 public:
  virtual std::uint64_t changed() const = 0;
  virtual bool is_settling() { return false; }
};

// The call and the comm outlive them.
std::unique_ptr<UpdateSource> host_source(UpdateCall& call, const CommContext& comm);
std::unique_ptr<UpdateTarget> host_target(UpdateCall& call, const CommContext& comm);
// Of a call whose arrays are in device memory (UpdateCall::device). A target turns to the host
// where it meets with what the device cannot read.
std::unique_ptr<UpdateSource> device_source(UpdateCall& call, const CommContext& comm);
std::unique_ptr<UpdateTarget> device_target(UpdateCall& call, const CommContext& comm);

// Of an update that is whole: it is the one that was asked for, and one for what is held.
Status check_target(const UpdateCall& call, const CommContext& comm,
                    const codec::UpdateDecoder& decoder);

}  // namespace sparcl::collectives::broadcast
