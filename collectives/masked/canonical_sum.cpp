// Reduce-scatter and all-gather with sums in the ranks' tree: each rank combines one piece of all
// ranks' values, and the pieces are gathered. It sends the bytes of Thakur, Rabenseifner, Gropp
// 2005: 2 (P - 1) / P B. If the bytes are few, each rank gathers all values and combines them
// itself: (P - 1) B, in one exchange instead of two.
#include "collectives/masked/canonical_sum.hpp"

#include <algorithm>

#include "src/base/stage_range.hpp"
#include "src/device/memory_layout.hpp"

namespace sparcl::collectives::masked {
namespace {

// Limits for one exchange, in bytes of all ranks' values. Heuristic, not measured. A saved exchange
// is some 20 us, in which a link of 50 GB/s carries 1 MiB. Two ranks send no more bytes in one
// exchange than in two: there the limit is for the sums that each rank makes itself.
constexpr std::uint64_t kMaxGathered = std::uint64_t{1} << 20,
                        kMaxGatheredByTwo = std::uint64_t{32} << 20;
constexpr std::uint8_t kDirect = 1;  // in dense_table(), from 1

}  // namespace

bool takes_canonical(int ranks) { return ranks <= static_cast<int>(kernels::kMaxCombinedRows); }

Status CanonicalSum::prepare() {
  const gpu::DeviceScope inside(calls_.context());
  SPARCL_RETURN_IF_ERROR(inside.status());
  SPARCL_ASSIGN_OR_RETURN(std::shared_ptr<const sparse::DeviceMask> mask,
                          call_.device_masks->get(*call_.mask, calls_.context()));
  mask_ = std::move(mask);
  const std::size_t width = element_bytes(call_.datatype);
  const std::uint64_t count = mask_->places.count;
  bytes_ = count * width;
  const std::uint64_t most = ranks_ > 2 ? kMaxGathered : kMaxGatheredByTwo;
  gathers_all_ = ranks_ == 1 || (forced_ == 0 ? bytes_ <= most / ranks_ : forced_ == kDirect);
  if (gathers_all_)
    row_bytes_ = mask_->is_full ? bytes_ : device::padded(bytes_);  // an array is sent as it is
  else
    row_bytes_ = device::padded((count + ranks_ - 1) / ranks_ * width);
  device::MemoryLayout layout;
  if (ranks_ > 1 || !mask_->is_full) rows_ = layout.place(ranks_ * row_bytes_);
  // Gathered pieces may be longer than the array.
  has_packed_ = !gathers_all_ && (!mask_->is_full || ranks_ * row_bytes_ != bytes_);
  if (has_packed_) packed_ = layout.place(ranks_ * row_bytes_);
  Result<DeviceCalls::Memory> memory = calls_.reserve(layout.size_bytes(), call_.stream);
  if (!memory.ok()) return memory.status().with_prefix("a canonical sum's memory: ");
  memory_ = std::move(*memory);
  return Status();
}

Status CanonicalSum::enqueue() {
  const gpu::DeviceScope inside(calls_.context());
  SPARCL_RETURN_IF_ERROR(inside.status());
  const Status enqueued = enqueue_steps();
  const Status held = calls_.hold(memory_, mask_, call_.stream);
  return enqueued.ok() ? held : enqueued;
}

std::byte* CanonicalSum::packed() const {
  return at(gathers_all_ ? rows_ + rank_ * row_bytes_ : packed_);
}

Status CanonicalSum::enqueue_steps() const {
  const kernels::MaskPlaces& places = mask_->places;
  const std::size_t width = element_bytes(call_.datatype);
  const std::byte* source = call_.send;
  std::byte* sum = call_.receive;
  if (!mask_->is_full) {
    const StageRange range("gather");
    source = sum = packed();
    SPARCL_RETURN_IF_ERROR(
        calls_.kernels().gather_mask(places, call_.send, width, sum, call_.stream));
  } else if (has_packed_) {
    sum = packed();
  }
  {
    const StageRange range("exchange");
    SPARCL_RETURN_IF_ERROR(gathers_all_ ? sum_all(source, sum) : sum_pieces(source, sum));
  }
  const StageRange range("scatter");
  if (!mask_->is_full) {
    if (call_.clears_outside)
      SPARCL_RETURN_IF_ERROR(
          gpu::enqueue_zeros(call_.receive, call_.mask->count() * width, call_.stream));
    return calls_.kernels().scatter_mask(places, sum, width, call_.receive, call_.stream);
  }
  return sum != call_.receive ? gpu::enqueue_copy(call_.receive, sum, bytes_, call_.stream)
                              : Status();
}

Status CanonicalSum::sum_all(const std::byte* source, std::byte* sum) const {
  if (ranks_ == 1) return combine(source, bytes_, sum);
  SPARCL_RETURN_IF_ERROR(calls_.engine().all_gather(source, at(rows_), row_bytes_, call_.stream));
  return combine(at(rows_), bytes_, sum);
}

Status CanonicalSum::sum_pieces(const std::byte* source, std::byte* sum) const {
  const std::uint64_t begin = rank_ * row_bytes_,
                      own = begin < bytes_ ? std::min(row_bytes_, bytes_ - begin) : 0;
  SPARCL_RETURN_IF_ERROR(
      calls_.engine().all_to_all(source, bytes_, row_bytes_, at(rows_), call_.stream));
  SPARCL_RETURN_IF_ERROR(combine(at(rows_), own, sum + begin));
  return calls_.engine().all_gather(sum + begin, sum, row_bytes_, call_.stream);
}

Status CanonicalSum::combine(const std::byte* rows, std::uint64_t bytes, std::byte* result) const {
  const kernels::DeviceRows all{rows, row_bytes_, static_cast<std::uint32_t>(ranks_),
                                bytes / element_bytes(call_.datatype)};
  return calls_.kernels().combine_rows(all, call_.datatype, call_.reduction.op,
                                       call_.reduction.is_mean, result, call_.stream);
}

}  // namespace sparcl::collectives::masked
