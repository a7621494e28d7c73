#pragma once
// What calls in a stream's order take of a GPU: its context, memory, events, and whether a stream
// is being captured into a graph. By the driver that the process has loaded (device_memory.hpp);
// where it has none, errors say so.

#include <array>
#include <cstddef>
#include <utility>

#include "src/base/status.hpp"

namespace sparcl::gpu {

// The context of device memory (of a pool's, which has none: the thread's); and that of this
// thread's GPU.
Result<void*> context_of(const void* pointer);
Result<void*> current_context();
// Where what a stream is to do with device memory is enqueued: in the context of the stream; of a
// default stream in the memory's.
Result<void*> context_for(const void* pointer, void* stream);
// The number of the GPU.
Result<int> device_of(const void* pointer);
Result<int> current_device();
// What this thread's GPU is called everywhere; zeros where the driver does not tell.
using DeviceUuid = std::array<unsigned char, 16>;
DeviceUuid current_device_uuid();

// Inside a context while it lives. What is done there may be done while some stream is being
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

// Memory of a context. Not to go while something enqueued uses it.
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

// A stream of the library's own, which waits for no other, and which no other waits for.
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
  // Behind what the stream holds now. Inside the stream's context.
  static Result<DeviceEvent> record(void* context, void* stream);
  // The mark is behind what the stream holds now, and takes no memory for it. Of an error the mark
  // is where it was.
  Status move_to_end(void* stream);
  DeviceEvent(DeviceEvent&& other) noexcept { swap(other); }
  DeviceEvent& operator=(DeviceEvent&& other) noexcept {
    swap(other);
    return *this;
  }
  ~DeviceEvent();

  bool is_over() const;  // also of none, and of one that cannot be asked any more
  Status wait() const;
  // What the stream gets from now on comes behind it.
  Status order(void* stream) const;

 private:
  void swap(DeviceEvent& other) noexcept {
    std::swap(context_, other.context_);
    std::swap(event_, other.event_);
  }
  void* context_ = nullptr;
  void* event_ = nullptr;
};

// Memory of the host that streams copy to and from without a detour. Not to go while something
// enqueued uses it.
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

// Of a context's GPU, of all programs; all of it, and what nobody has taken.
struct DeviceRoom {
  std::size_t total_bytes = 0;
  std::size_t free_bytes = 0;
};
Result<DeviceRoom> device_room(void* context);

// Whether the process's driver has what copies through pinned memory take.
bool can_stage();

// Copies to device memory and from it, and zeros there, at once, beside all streams.
Status upload(void* context, void* to, const void* from, std::size_t bytes);
Status download(void* context, void* to, const void* from, std::size_t bytes);
Status clear_memory(void* context, void* to, std::size_t bytes);

// All inside the stream's context. Copies are between device memory and either kind; waits are for
// good.
Status enqueue_copy(void* to, const void* from, std::size_t bytes, void* stream);
Status enqueue_zeros(void* to, std::size_t bytes, void* stream);
Status wait_for(void* stream);
Result<bool> is_capturing(void* stream);
Result<bool> is_idle(void* stream);

}  // namespace sparcl::gpu
