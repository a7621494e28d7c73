#pragma once
// What one rank has not sent yet: the residual that a top-k all-reduce adds to the next call's
// input.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "src/base/data_type.hpp"
#include "src/base/status.hpp"
#include "src/gpu/device_stream.hpp"

namespace sparcl::sparse {

// Of the last call; kept by the collective.
struct FeedbackStats {
  std::uint64_t calls = 0;     // since the feedback was made, loaded or reset
  std::uint64_t selected = 0;  // elements that this rank selected
  std::uint64_t sent =
      0;  // of which its values are in the result: mode union: those that any rank selected
  double sent_mass = 0;         // the sum of |these values|
  double returned_squares = 0;  // of the residual at the elements that are not dropped: rounding,
                                // what was not kept, acc - mean
  double drift = 0;             // threshold_drift() against the call before
  int passes = 0;               // over the array
};

// The residual is where the last call has left it: in the host's memory, or in that of a GPU, as
// long as calls come with arrays there.
class Feedback {
 public:
  // All zero. Types as Selection::supports(); count: up to 2^44.
  static Result<Feedback> create(std::uint64_t count, DataType type);

  std::uint64_t count() const { return count_; }
  DataType type() const { return type_; }  // of the elements
  DataType residual_type() const {
    return residual_;
  }  // float32 for floats of 16 bits and less, else type()
  // On the host: count() of residual_type(). To be written after use_on_host() only, to be read
  // also after fetch().
  std::byte* residual() {
    is_blank_ = false;
    return bytes_.get();
  }
  const std::byte* residual() const { return bytes_.get(); }
  std::uint64_t residual_bytes() const;

  // A call on the host has it next. Not where a graph holds it, or a stream is not through with it.
  Status use_on_host();
  // The host sees what it is now; calls on the device go on where they are. Not where a stream is
  // not through with it.
  Status fetch();
  // A call on the GPU of this context has it next; what the stream gets from now on comes behind
  // its last use. Its place there; nullptr of an empty one. is_captured: the call becomes part of a
  // graph.
  Result<std::shared_ptr<const gpu::DeviceBuffer>> use_on_device(void* context, void* stream,
                                                                 bool is_captured);
  // Such a call is in the stream, and through with it at the event; or in a graph: the residual
  // stays where it is as long as what the graph holds.
  void used_in(void* stream, gpu::DeviceEvent until);
  void used_in_graph(std::weak_ptr<const void> held) { graphs_.push_back(std::move(held)); }

  Status reset();              // as it was made
  double residual_l2() const;  // reads all of it, on the host
  // The norm of the last call's acc without the selected elements (mode union: any rank's; kMean:
  // the result's), from residual_l2(), so that calls need no pass for it.
  double dropped_l2(double residual_norm) const;
  double threshold() const;  // the magnitude of `least`

  std::uint64_t least = 0;  // the least key that was selected: Selection's hint; 0: none
  FeedbackStats stats;

 private:
  struct Free {
    void operator()(std::byte* bytes) const;
  };
  Feedback(std::uint64_t count, DataType type);  // has no memory yet
  bool is_in_graph() const;

  std::uint64_t count_;
  DataType type_, residual_;
  std::unique_ptr<std::byte[], Free> bytes_;
  bool is_blank_ = true;  // bytes_ are zeros: they need not be read
  bool is_on_host_ = true, is_on_device_ = false;
  void* context_ = nullptr;  // of what is on the device
  std::shared_ptr<const gpu::DeviceBuffer> on_device_;
  std::vector<std::weak_ptr<const void>> graphs_;
  void* stream_ = nullptr;  // of the last use
  gpu::DeviceEvent last_use_;
};

}  // namespace sparcl::sparse
