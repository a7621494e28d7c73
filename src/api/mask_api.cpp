// Shared masks behind the C interface.
#include <fmt/format.h>

#include <memory>
#include <span>
#include <string>
#include <utility>

#include "src/api/call_checks.hpp"
#include "src/api/error.hpp"
#include "src/api/mask_handle.hpp"

using sparcl::Code;
using sparcl::Result;
using sparcl::Status;
using sparcl::api::guarded;
using sparcl::api::guarded_with;
using sparcl::sparse::Mask;

namespace {

template <class Make>
sparclResult_t create(const char* function, sparclMask_t* mask, Make&& make) {
  return guarded([&]() -> Status {
    const std::string prefix = std::string(function) + ": ";
    if (mask == nullptr) return Status(Code::kInvalidArgument, prefix + "mask is NULL");
    Result<Mask> made = make();
    if (!made.ok()) return made.status().with_prefix(prefix);
    *mask = std::make_unique<sparclMask>(std::move(*made)).release()->handle.get();
    return Status();
  });
}

Status check_idle_mask(const sparclMask& mask) {
  if (mask.calls_in_flight == 0) return Status();
  return Status(
      Code::kInvalidUsage,
      "a call with this mask is in flight: wait for it, or destroy its communicator, first");
}

}  // namespace

extern "C" {

sparclResult_t sparclMaskCreateIndices(sparclMask_t* mask, const uint64_t* indices, size_t nnz,
                                       size_t count) {
  return create(__func__, mask, [&]() -> Result<Mask> {
    SPARCL_RETURN_IF_ERROR(sparcl::api::check_array("nnz", nnz, sizeof(uint64_t)));
    if (nnz > 0 && indices == nullptr) return Status(Code::kInvalidArgument, "indices is NULL");
    return Mask::of_indices(std::span(indices, nnz), count);
  });
}

sparclResult_t sparclMaskCreateRandom(sparclMask_t* mask, size_t count, double density,
                                      uint64_t seed) {
  return create(__func__, mask, [&] { return Mask::random(count, density, seed); });
}

sparclResult_t sparclMaskCreateBlocks(sparclMask_t* mask, size_t count, size_t block,
                                      double density, uint64_t seed) {
  return create(__func__, mask, [&] { return Mask::random_blocks(count, block, density, seed); });
}

sparclResult_t sparclMaskSetStep(sparclMask_t mask, uint64_t step) {
  return guarded_with(__func__, mask, "mask", [&](sparclMask& own) -> Status {
    SPARCL_RETURN_IF_ERROR(check_idle_mask(own));
    own.mask.set_step(step);
    own.on_devices.clear();
    return Status();
  });
}

sparclResult_t sparclMaskGetIndices(sparclMask_t mask, uint64_t* indices, size_t capacity,
                                    size_t* nnz) {
  return guarded_with(__func__, mask, "mask", [&](const sparclMask& own) -> Status {
    if (nnz == nullptr) return Status(Code::kInvalidArgument, "nnz is NULL");
    *nnz = own.mask.size();
    if (indices == nullptr) return Status();
    if (*nnz > capacity)
      return Status(Code::kTruncated,
                    fmt::format("{} indices do not fit a capacity of {}", *nnz, capacity));
    own.mask.write_indices(indices);
    return Status();
  });
}

sparclResult_t sparclMaskDestroy(sparclMask_t mask) {
  return sparcl::api::destroy_handle(__func__, mask, "mask", check_idle_mask);
}

}  // extern "C"
