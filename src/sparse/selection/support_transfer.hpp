#pragma once
// Transfers the values of an array in device memory at the elements of a support, to the host and
// back. It uses chunks of bounded size: the host fills or empties one while the other is in flight.
// An element takes two bytes and its value.

#include <array>

#include "kernels/device_kernel_set.hpp"
#include "src/gpu/device_stream.hpp"
#include "src/sparse/selection/support.hpp"

namespace sparcl::sparse {

class SupportTransfer {
 public:
  // The size of each kind of memory, for supports of at most `entries` elements.
  static std::size_t memory_bytes(std::uint64_t entries);

  SupportTransfer(const kernels::DeviceKernelSet& kernels, void* context, void* stream,
                  std::uint64_t max_entries, std::byte* on_device, std::byte* pinned);

  // All are in the stream's order, and done when they return. values[i] = array[i-th element], of
  // `width` bytes.
  Status gather(const Support& support, const void* array, std::size_t width, std::byte* values);
  // The same, and sets the elements to zero.
  Status take(const Support& support, void* array, std::size_t width, std::byte* values);
  // The inverse: array[i-th element] = values[i].
  Status put(const Support& support, const std::byte* values, std::size_t width, void* array);

 private:
  enum class Kind { kGather, kTake, kPut };
  struct Layout {
    std::size_t positions, values, bytes;  // their offsets; parts come first
  };
  struct Half {
    std::byte* on_device;
    std::byte* pinned;
    gpu::DeviceEvent event;  // of the work in flight
    std::byte* values = nullptr;
    const std::byte* arrived = nullptr;
    std::size_t arriving_bytes = 0;  // 0: nothing for the host
  };
  struct Chunk {
    kernels::MaskPlaces places;  // on the device
    std::size_t first, bytes;    // of its values
    Layout layout;
  };

  static Layout layout_of(std::size_t parts, std::size_t entries);
  Status move(Kind kind, const Support& support, std::size_t width, std::byte* values, void* array);
  Chunk fill(const Half& half, const Support& support, std::size_t width, std::size_t& block) const;
  Status enqueue(Kind kind, Half& half, const Chunk& chunk, std::size_t width, std::byte* values,
                 void* array);
  static Status drain(Half& half);

  const kernels::DeviceKernelSet& kernels_;
  void* context_;
  void* stream_;
  std::array<Half, 2> halves_;
};

}  // namespace sparcl::sparse
