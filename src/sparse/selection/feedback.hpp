#pragma once
// The residual of one rank: the values that it has not sent yet. A top-k all-reduce adds it to the
// next call's input.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "src/base/data_type.hpp"
#include "src/base/status.hpp"
#include "src/gpu/device_stream.hpp"

namespace sparcl::sparse {

// Statistics of the last call; the collective sets them.
struct FeedbackStats {
  std::uint64_t calls = 0;     // since the feedback was made, loaded or reset
  std::uint64_t selected = 0;  // elements that this rank selected
  std::uint64_t sent =
      0;  // elements whose values are in the result; mode union: those that any rank selected
  double sent_mass = 0;         // the sum of |these values|
  double returned_squares = 0;  // of the residual at the elements that are not dropped: rounding,
                                // values that were not kept, acc - mean
  double drift = 0;             // threshold_drift() from the call before
  int passes = 0;               // over the array
};

// The residual is in the memory where the last call left it: in host memory, or in a GPU's memory
// while calls have arrays there.
class Feedback {
 public:
  // All zeros. Types as Selection::supports(); count: up to 2^44.
  static Result<Feedback> create(std::uint64_t count, DataType type);

  std::uint64_t count() const { return count_; }
  DataType type() const { return type_; }  // of the elements
  DataType residual_type() const {
    return residual_;
  }  // float32 for floats of at most 16 bits, otherwise type()
  // On the host: count() of residual_type(). It may be written only after use_on_host(), and read
  // also after fetch().
  std::byte* residual() {
    is_blank_ = false;
    return bytes_.get();
  }
  const std::byte* residual() const { return bytes_.get(); }
  std::uint64_t residual_bytes() const;

  // The next call is on the host. Fails if a graph holds the residual, or a stream still uses it.
  Status use_on_host();
  // Copies the current residual to the host; calls on the device continue there. Fails if a stream
  // still uses it.
  Status fetch();
  // The next call is on the GPU of this context. Work enqueued in the stream from now on comes
  // after the residual's last use. Returns its memory there; nullptr if it is empty. is_captured:
  // the call becomes part of a graph.
  Result<std::shared_ptr<const gpu::DeviceBuffer>> use_on_device(void* context, void* stream,
                                                                 bool is_captured);
  // Such a call is enqueued, and is done at the event. If it is in a graph, the residual stays in
  // place as long as the graph holds it.
  void used_in(void* stream, gpu::DeviceEvent until);
  void used_in_graph(std::weak_ptr<const void> held) { graphs_.push_back(std::move(held)); }

  Status reset();              // as it was made
  double residual_l2() const;  // reads all of it, on the host
  // The norm of the last call's acc without the selected elements (mode union: any rank's; kMean:
  // the result's). It follows from residual_l2(), so that calls need no pass for it.
  double dropped_l2(double residual_norm) const;
  double threshold() const;  // the magnitude of `least`

  std::uint64_t least = 0;  // the smallest selected key: Selection's hint; 0: none
  FeedbackStats stats;

 private:
  struct Free {
    void operator()(std::byte* bytes) const;
  };
  Feedback(std::uint64_t count, DataType type);  // does not allocate memory yet
  bool is_in_graph() const;

  std::uint64_t count_;
  DataType type_, residual_;
  std::unique_ptr<std::byte[], Free> bytes_;
  bool is_blank_ = true;  // bytes_ are zeros and need not be read
  bool is_on_host_ = true, is_on_device_ = false;
  void* context_ = nullptr;  // of the residual on the device
  std::shared_ptr<const gpu::DeviceBuffer> on_device_;
  std::vector<std::weak_ptr<const void>> graphs_;
  void* stream_ = nullptr;  // of the last use
  gpu::DeviceEvent last_use_;
};

}  // namespace sparcl::sparse
