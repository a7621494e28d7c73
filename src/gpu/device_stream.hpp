#pragma once
// Resources of a GPU for calls in a stream's order: its context, memory, events, and whether a
// stream is being captured into a graph. They use the driver that the process has loaded
// (device_memory.hpp); without one they return errors.

#include <array>
#include <cstddef>
#include <utility>

#include "src/base/status.hpp"

namespace sparcl::gpu {

// The context of device memory (for a pool's memory, which has none, the thread's), and the context
// of this thread's GPU.
Result<void*> context_of(const void* pointer);
Result<void*> current_context();
// The context in which a stream's work on device memory is enqueued: the stream's; for a default
// stream the memory's.
Result<void*> context_for(const void* pointer, void* stream);
// The number of the GPU.
Result<int> device_of(const void* pointer);
Result<int> current_device();
// The system-wide identifier of this thread's GPU; zeros if the driver does not provide it.
using DeviceUuid = std::array<unsigned char, 16>;
DeviceUuid current_device_uuid();

// Enters a context during its lifetime. Calls inside it are allowed while a stream is being
// captured.
class DeviceScope {
 public:
  explicit DeviceScope(void* context);
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;
  const Status& status() const { return status_; }

 private:
  Status status_;
  int capture_mode_ = 0;
  bool has_mode_ = false;
};

// Memory of a context. Must not be freed while enqueued work uses it.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  static Result<DeviceBuffer> allocate(void* context, std::size_t bytes);
  DeviceBuffer(DeviceBuffer&& other) noexcept { swap(other); }
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~DeviceBuffer();

  void* context() const { return context_; }
  void* data() const { return data_; }
  std::size_t size_bytes() const { return bytes_; }

 private:
  void swap(DeviceBuffer& other) noexcept {
    std::swap(context_, other.context_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }
  void* context_ = nullptr;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// A stream of the library that does not synchronise with other streams.
class DeviceStream {
 public:
  DeviceStream() = default;
  static Result<DeviceStream> create(void* context);
  DeviceStream(DeviceStream&& other) noexcept { swap(other); }
  DeviceStream& operator=(DeviceStream&& other) noexcept {
    swap(other);
    return *this;
  }
  ~DeviceStream();

  void* get() const { return stream_; }

 private:
  void swap(DeviceStream& other) noexcept {
    std::swap(context_, other.context_);
    std::swap(stream_, other.stream_);
  }
  void* context_ = nullptr;
  void* stream_ = nullptr;
};

// A mark in a stream. Not for streams that are being captured.
class DeviceEvent {
 public:
  DeviceEvent() = default;
  // Marks the end of the stream's current work. Inside the stream's context.
  static Result<DeviceEvent> record(void* context, void* stream);
  // Moves the mark to the end of the stream's current work, without allocating memory. After an
  // error the mark is unchanged.
  Status move_to_end(void* stream);
  DeviceEvent(DeviceEvent&& other) noexcept { swap(other); }
  DeviceEvent& operator=(DeviceEvent&& other) noexcept {
    swap(other);
    return *this;
  }
  ~DeviceEvent();

  bool is_over() const;  // also for no mark, and for one that cannot be queried any more
  Status wait() const;
  // Work enqueued in the stream from now on waits for the mark.
  Status order(void* stream) const;

 private:
  void swap(DeviceEvent& other) noexcept {
    std::swap(context_, other.context_);
    std::swap(event_, other.event_);
  }
  void* context_ = nullptr;
  void* event_ = nullptr;
};

// Host memory that streams copy to and from directly. Must not be freed while enqueued work uses
// it.
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  static Result<PinnedBuffer> allocate(void* context, std::size_t bytes);
  PinnedBuffer(PinnedBuffer&& other) noexcept { swap(other); }
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~PinnedBuffer();

  std::byte* data() const { return data_; }
  std::size_t size_bytes() const { return bytes_; }

 private:
  void swap(PinnedBuffer& other) noexcept {
    std::swap(context_, other.context_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }
  void* context_ = nullptr;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// The memory of a context's GPU, over all programs: total and free.
struct DeviceRoom {
  std::size_t total_bytes = 0;
  std::size_t free_bytes = 0;
};
Result<DeviceRoom> device_room(void* context);

// Whether the process's driver has the functions for copies through pinned memory.
bool can_stage();

// Copies to and from device memory, and zeros it, immediately and independently of all streams.
Status upload(void* context, void* to, const void* from, std::size_t bytes);
Status download(void* context, void* to, const void* from, std::size_t bytes);
Status clear_memory(void* context, void* to, std::size_t bytes);

// All inside the stream's context. Copies are between device memory and either kind; waits have no
// timeout.
Status enqueue_copy(void* to, const void* from, std::size_t bytes, void* stream);
Status enqueue_zeros(void* to, std::size_t bytes, void* stream);
Status wait_for(void* stream);
Result<bool> is_capturing(void* stream);
Result<bool> is_idle(void* stream);

}  // namespace sparcl::gpu
