#include "src/gpu/device_stream.hpp"

#include "src/gpu/device_driver.hpp"

namespace sparcl::gpu {
namespace {

using driver::as_device;
using driver::status_of;

// An existing object proves that there is a driver.
const driver::Functions& cuda() { return *driver::loaded(); }

Status no_driver() {
  return Status(Code::kUnsupported,
                "CUDA: this process has loaded no driver: choose a GPU by cudaSetDevice before "
                "this call (`sparcl info` says whether there is one)");
}

Status check_driver() {
  const driver::Functions* const functions = driver::loaded();
  if (functions == nullptr) return no_driver();
  if (functions->has_streams()) return Status();
  return Status(Code::kUnsupported,
                "CUDA: the driver lacks functions that calls in a stream's order take: use one of "
                "CUDA 11 or later");
}

}  // namespace

Result<void*> context_of(const void* pointer) {
  const driver::Functions* const functions = driver::loaded();
  if (functions == nullptr) return no_driver();
  void* context = nullptr;
  SPARCL_RETURN_IF_ERROR(status_of(
      *functions,
      functions->pointer_attribute(&context, driver::kContextOfPointer, as_device(pointer)),
      "the context of device memory"));
  if (context == nullptr) return current_context();
  return context;
}

Result<void*> context_for(const void* pointer, void* stream) {
  Result<void*> context = context_of(pointer);
  if (!context.ok() || stream == nullptr || cuda().context_of_stream == nullptr) return context;
  const DeviceScope inside(*context);
  SPARCL_RETURN_IF_ERROR(inside.status());
  SPARCL_RETURN_IF_ERROR(
      status_of(cuda(), cuda().context_of_stream(stream, &*context), "the context of a stream"));
  return context;
}

Result<int> device_of(const void* pointer) {
  SPARCL_RETURN_IF_ERROR(check_driver());
  int device = -1;
  SPARCL_RETURN_IF_ERROR(status_of(
      cuda(), cuda().pointer_attribute(&device, driver::kDeviceOfPointer, as_device(pointer)),
      "the GPU of device memory"));
  return device;
}

Result<int> current_device() {
  SPARCL_RETURN_IF_ERROR(current_context().status());
  int device = -1;
  SPARCL_RETURN_IF_ERROR(status_of(cuda(), cuda().current_device(&device), "this thread's GPU"));
  return device;
}

DeviceUuid current_device_uuid() {
  const Result<int> device = current_device();
  unsigned char id[16] = {};
  if (!device.ok() || cuda().uuid == nullptr || cuda().uuid(&id, *device) != 0) return {};
  return std::to_array(id);
}

Result<void*> current_context() {
  SPARCL_RETURN_IF_ERROR(check_driver());
  void* context = nullptr;
  SPARCL_RETURN_IF_ERROR(status_of(cuda(), cuda().current_context(&context), "this thread's GPU"));
  if (context == nullptr) {
    return Status(Code::kInvalidUsage,
                  "CUDA: this thread has no GPU yet: choose it by cudaSetDevice, and allocate "
                  "something there, before this call");
  }
  return context;
}

DeviceScope::DeviceScope(void* context) {
  const driver::Functions& functions = cuda();
  status_ = status_of(functions, functions.push_context(context),
                      "entering the context of device memory");
  if (!status_.ok() || functions.exchange_capture_mode == nullptr) return;
  capture_mode_ = driver::kRelaxedCapture;
  has_mode_ = functions.exchange_capture_mode(&capture_mode_) == 0;
}

DeviceScope::~DeviceScope() {
  if (!status_.ok()) return;
  if (has_mode_) (void)cuda().exchange_capture_mode(&capture_mode_);
  void* left = nullptr;
  (void)cuda().pop_context(&left);
}

Result<DeviceRoom> device_room(void* context) {
  SPARCL_RETURN_IF_ERROR(check_driver());
  const DeviceScope inside(context);
  SPARCL_RETURN_IF_ERROR(inside.status());
  if (cuda().memory_left == nullptr)
    return Status(Code::kUnsupported, "CUDA: the driver does not tell how much memory is free");
  DeviceRoom room;
  SPARCL_RETURN_IF_ERROR(status_of(cuda(), cuda().memory_left(&room.free_bytes, &room.total_bytes),
                                   "asking for free memory"));
  return room;
}

Result<DeviceBuffer> DeviceBuffer::allocate(void* context, std::size_t bytes) {
  SPARCL_RETURN_IF_ERROR(check_driver());
  const DeviceScope inside(context);
  SPARCL_RETURN_IF_ERROR(inside.status());
  driver::DevicePointer pointer = 0;
  SPARCL_RETURN_IF_ERROR(
      status_of(cuda(), cuda().allocate(&pointer, bytes), "allocating device memory"));
  DeviceBuffer made;
  made.context_ = context;
  made.data_ = reinterpret_cast<void*>(pointer);
  made.bytes_ = bytes;
  return made;
}

DeviceBuffer::~DeviceBuffer() {
  if (data_ == nullptr) return;
  const DeviceScope inside(context_);
  if (inside.status().ok()) (void)cuda().free(as_device(data_));
}

Result<DeviceStream> DeviceStream::create(void* context) {
  SPARCL_RETURN_IF_ERROR(check_driver());
  const DeviceScope inside(context);
  SPARCL_RETURN_IF_ERROR(inside.status());
  DeviceStream made;
  SPARCL_RETURN_IF_ERROR(status_of(
      cuda(), cuda().create_stream(&made.stream_, driver::kNonBlockingStream), "making a stream"));
  made.context_ = context;
  return made;
}

DeviceStream::~DeviceStream() {
  if (stream_ == nullptr) return;
  const DeviceScope inside(context_);
  if (inside.status().ok()) (void)cuda().destroy_stream(stream_);
}

Result<DeviceEvent> DeviceEvent::record(void* context, void* stream) {
  SPARCL_RETURN_IF_ERROR(check_driver());
  DeviceEvent made;
  SPARCL_RETURN_IF_ERROR(status_of(
      cuda(), cuda().create_event(&made.event_, driver::kEventWithoutTime), "making an event"));
  made.context_ = context;
  SPARCL_RETURN_IF_ERROR(
      status_of(cuda(), cuda().record_event(made.event_, stream), "recording an event"));
  return made;
}

Status DeviceEvent::move_to_end(void* stream) {
  const DeviceScope inside(context_);
  SPARCL_RETURN_IF_ERROR(inside.status());
  return status_of(cuda(), cuda().record_event(event_, stream), "recording an event");
}

DeviceEvent::~DeviceEvent() {
  if (event_ == nullptr) return;
  const DeviceScope inside(context_);
  if (inside.status().ok()) (void)cuda().destroy_event(event_);
}

bool DeviceEvent::is_over() const {
  if (event_ == nullptr) return true;
  const DeviceScope inside(context_);
  return !inside.status().ok() || cuda().query_event(event_) != driver::kNotReady;
}

Status DeviceEvent::wait() const {
  if (event_ == nullptr) return Status();
  const DeviceScope inside(context_);
  SPARCL_RETURN_IF_ERROR(inside.status());
  return status_of(cuda(), cuda().await_event(event_), "waiting for an event");
}

Status DeviceEvent::order(void* stream) const {
  if (event_ == nullptr) return Status();
  return status_of(cuda(), cuda().order_after_event(stream, event_, 0),
                   "ordering a stream behind an event");
}

Result<PinnedBuffer> PinnedBuffer::allocate(void* context, std::size_t bytes) {
  SPARCL_RETURN_IF_ERROR(check_driver());
  const DeviceScope inside(context);
  SPARCL_RETURN_IF_ERROR(inside.status());
  void* pointer = nullptr;
  SPARCL_RETURN_IF_ERROR(
      status_of(cuda(), cuda().allocate_pinned(&pointer, bytes, driver::kPinnedForAllContexts),
                "allocating pinned memory"));
  PinnedBuffer made;
  made.context_ = context;
  made.data_ = static_cast<std::byte*>(pointer);
  made.bytes_ = bytes;
  return made;
}

PinnedBuffer::~PinnedBuffer() {
  if (data_ == nullptr) return;
  const DeviceScope inside(context_);
  if (inside.status().ok()) (void)cuda().free_pinned(data_);
}

bool can_stage() { return driver::loaded() != nullptr && driver::loaded()->can_stage(); }

namespace {

// Runs enqueue(stream) on a stream of its own, and waits for it.
template <class Enqueue>
Status do_beside_streams(void* context, std::size_t bytes, const Enqueue& enqueue) {
  if (bytes == 0) return Status();
  SPARCL_RETURN_IF_ERROR(check_driver());
  const DeviceScope inside(context);
  SPARCL_RETURN_IF_ERROR(inside.status());
  void* stream = nullptr;
  SPARCL_RETURN_IF_ERROR(status_of(
      cuda(), cuda().create_stream(&stream, driver::kNonBlockingStream), "making a stream"));
  Status done = enqueue(stream);
  if (done.ok()) done = wait_for(stream);
  (void)cuda().destroy_stream(stream);
  return done;
}

}  // namespace

Status upload(void* context, void* to, const void* from, std::size_t bytes) {
  return do_beside_streams(context, bytes,
                           [=](void* stream) { return enqueue_copy(to, from, bytes, stream); });
}

Status download(void* context, void* to, const void* from, std::size_t bytes) {
  return upload(context, to, from, bytes);
}

Status clear_memory(void* context, void* to, std::size_t bytes) {
  return do_beside_streams(context, bytes,
                           [=](void* stream) { return enqueue_zeros(to, bytes, stream); });
}

Status enqueue_copy(void* to, const void* from, std::size_t bytes, void* stream) {
  if (bytes == 0) return Status();
  SPARCL_RETURN_IF_ERROR(check_driver());
  return status_of(cuda(), cuda().copy(as_device(to), as_device(from), bytes, stream),
                   "a copy of device memory");
}

Status enqueue_zeros(void* to, std::size_t bytes, void* stream) {
  if (bytes == 0) return Status();
  SPARCL_RETURN_IF_ERROR(check_driver());
  return status_of(cuda(), cuda().set_bytes(as_device(to), 0, bytes, stream),
                   "clearing device memory");
}

Status wait_for(void* stream) {
  SPARCL_RETURN_IF_ERROR(check_driver());
  return status_of(cuda(), cuda().synchronize(stream), "waiting for a stream");
}

Result<bool> is_capturing(void* stream) {
  SPARCL_RETURN_IF_ERROR(check_driver());
  constexpr int kNotCapturing = 0;
  int status = kNotCapturing;
  SPARCL_RETURN_IF_ERROR(status_of(cuda(), cuda().is_capturing(stream, &status),
                                   "whether a stream is being captured"));
  return status != kNotCapturing;
}

Result<bool> is_idle(void* stream) {
  SPARCL_RETURN_IF_ERROR(check_driver());
  const driver::Result_t found = cuda().query_stream(stream);
  if (found == driver::kNotReady) return false;
  SPARCL_RETURN_IF_ERROR(status_of(cuda(), found, "a stream"));
  return true;
}

}  // namespace sparcl::gpu
