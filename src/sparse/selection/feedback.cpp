#include "src/sparse/selection/feedback.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "kernels/kernel_set.hpp"
#include "src/sparse/selection/selection.hpp"

namespace sparcl::sparse {
namespace {

constexpr std::uint64_t kMaxCount = std::uint64_t{1} << 44;

// Side by side sums, so that additions do not wait for each other.
template <class T>
double sum_of_squares(const std::byte* bytes, std::uint64_t count) {
  const T* values = reinterpret_cast<const T*>(bytes);
  std::array<double, 8> sums{};
  for (std::uint64_t i = 0; i < count; i += sums.size()) {
    const std::uint64_t own = std::min<std::uint64_t>(sums.size(), count - i);
    for (std::uint64_t j = 0; j < own; ++j)
      sums[j] += static_cast<double>(values[i + j]) * static_cast<double>(values[i + j]);
  }
  double sum = 0;
  for (const double part : sums) sum += part;
  return sum;
}

double sum_of_squares(DataType type, const std::byte* bytes, std::uint64_t count) {
  switch (type) {
    case DataType::kFloat64:
      return sum_of_squares<double>(bytes, count);
    case DataType::kInt32:
      return sum_of_squares<std::int32_t>(bytes, count);
    case DataType::kUint32:
      return sum_of_squares<std::uint32_t>(bytes, count);
    case DataType::kInt64:
      return sum_of_squares<std::int64_t>(bytes, count);
    case DataType::kUint64:
      return sum_of_squares<std::uint64_t>(bytes, count);
    default:
      return sum_of_squares<float>(bytes, count);
  }
}

}  // namespace

Result<Feedback> Feedback::create(std::uint64_t count, DataType type) {
  if (!Selection::supports(type, kernels::reference_kernels())) {
    return Status(
        Code::kUnsupported,
        fmt::format(
            "error feedback of {}: there is none for integers of 8 and 16 bits and for bool",
            info(type).name));
  }
  if (count > kMaxCount)
    return Status(Code::kInvalidArgument, fmt::format("count is {}, the most is 2^44", count));
  Feedback made(count, type);
  // Zeros of the kernel's: memory is taken when it is first written, by the thread that will use
  // it.
  made.bytes_.reset(
      static_cast<std::byte*>(std::calloc(std::max<std::size_t>(made.residual_bytes(), 1), 1)));
  if (made.bytes_ != nullptr) return made;
  return Status(Code::kOutOfMemory,
                fmt::format("no memory for a residual of {} bytes: {} elements of {}",
                            made.residual_bytes(), count, info(made.residual_).name));
}

Feedback::Feedback(std::uint64_t count, DataType type)
    : count_(count), type_(type), residual_(kernels::accumulator_type(type)) {}

void Feedback::Free::operator()(std::byte* bytes) const { std::free(bytes); }

std::uint64_t Feedback::residual_bytes() const { return count_ * element_bytes(residual_); }

bool Feedback::is_in_graph() const {
  return std::ranges::any_of(graphs_, [](const auto& held) { return !held.expired(); });
}

Status Feedback::fetch() {
  if (is_on_host_ || count_ == 0) return Status();
  if (!last_use_.is_over()) {
    return Status(Code::kInvalidUsage,
                  "a stream is not through with the last call that has this feedback: wait for the "
                  "stream first (sparclCommStreamSynchronize)");
  }
  SPARCL_RETURN_IF_ERROR(gpu::download(context_, bytes_.get(), on_device_->data(), residual_bytes())
                             .with_prefix("the residual, from the device: "));
  is_blank_ = false;
  is_on_host_ = !is_in_graph();  // a launch of the graph may change it at any time
  return Status();
}

Status Feedback::use_on_host() {
  if (is_in_graph()) {
    return Status(Code::kInvalidUsage,
                  "a CUDA graph holds this feedback: its residual stays on the device, and only "
                  "calls between GPUs take it");
  }
  SPARCL_RETURN_IF_ERROR(fetch());
  on_device_ = nullptr;
  is_on_device_ = false;
  return Status();
}

Result<std::shared_ptr<const gpu::DeviceBuffer>> Feedback::use_on_device(void* context,
                                                                         void* stream,
                                                                         bool is_captured) {
  if (count_ == 0) return std::shared_ptr<const gpu::DeviceBuffer>();
  if (is_on_device_ && context == context_) {
    // The user orders the launch of a graph after the work in its streams.
    if (!is_captured && stream != stream_) SPARCL_RETURN_IF_ERROR(last_use_.order(stream));
  } else {
    if (is_in_graph())
      return Status(Code::kInvalidUsage, "a CUDA graph of another GPU holds this feedback");
    SPARCL_RETURN_IF_ERROR(fetch());
    Result<gpu::DeviceBuffer> made = gpu::DeviceBuffer::allocate(context, residual_bytes());
    if (!made.ok()) return made.status().with_prefix("a residual: ");
    const Status brought = is_blank_
                               ? gpu::clear_memory(context, made->data(), residual_bytes())
                               : gpu::upload(context, made->data(), bytes_.get(), residual_bytes());
    if (!brought.ok()) return brought.with_prefix("the residual, to the device: ");
    on_device_ = std::make_shared<const gpu::DeviceBuffer>(std::move(*made));
    context_ = context;
    is_on_device_ = true;
  }
  is_on_host_ = false;
  return on_device_;
}

void Feedback::used_in(void* stream, gpu::DeviceEvent until) {
  stream_ = stream;
  last_use_ = std::move(until);
}

Status Feedback::reset() {
  if (is_in_graph()) {
    SPARCL_RETURN_IF_ERROR(fetch());  // no stream is in it
    SPARCL_RETURN_IF_ERROR(gpu::clear_memory(context_, on_device_->data(), residual_bytes()));
  } else {
    if (!is_blank_) std::memset(bytes_.get(), 0, residual_bytes());
    on_device_ = nullptr;
    is_on_host_ = is_blank_ = true;
    is_on_device_ = false;
  }
  least = 0;
  stats = {};
  return Status();
}

double Feedback::residual_l2() const {
  return std::sqrt(sum_of_squares(residual_, bytes_.get(), count_));
}

double Feedback::dropped_l2(double residual_norm) const {
  return stats.calls == 0
             ? 0
             : std::sqrt(std::max(0.0, residual_norm * residual_norm - stats.returned_squares));
}

double Feedback::threshold() const { return magnitude_of(type_, least); }

}  // namespace sparcl::sparse
