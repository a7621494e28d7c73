#include "src/store/stored_part.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "src/base/memory_size.hpp"
#include "src/base/worker_pool.hpp"
#include "src/model/model_hash.hpp"
#include "src/store/stored_schema.hpp"

namespace sparcl::store {
namespace {

constexpr std::uint64_t kAlignment = 64;

std::uint64_t aligned(std::uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

Result<std::unique_ptr<StoredPart>> StoredPart::open(const Chain& chain,
                                                     const VersionRecord& version,
                                                     const ChainState& wanted) {
  SPARCL_ASSIGN_OR_RETURN(const model::Schema parts, model::parse_schema(wanted.schema));
  SPARCL_ASSIGN_OR_RETURN(StoredSchema schema, read_schema(chain, version.schema));
  std::unique_ptr<StoredPart> made(new StoredPart);
  made->wanted_.assign(wanted.schema.begin(), wanted.schema.end());
  made->schema_ = version.schema;
  made->schema_hash_ = model::schema_hash(schema.bytes);
  made->schema_bytes_ = std::move(schema.bytes);
  Result<std::vector<model::PlacedSlice>> places = model::place_slices(parts, schema.tensors);
  if (!places.ok())
    return places.status().with_prefix(fmt::format(
        "version {} of the store has other tensors than this state: ", version.version));
  made->places_ = std::move(*places);
  made->map_ = std::make_unique<const codec::BlockMap>(model::make_block_map(schema.tensors));
  // First the addresses, which a hostile schema cannot claim without end.
  SPARCL_RETURN_IF_ERROR(made->reserve_addresses());
  made->window_ = std::make_unique<codec::BlockWindow>(*made->map_);
  for (const model::PlacedSlice& place : made->places_) made->add_to_window(place);
  SPARCL_RETURN_IF_ERROR(made->check_memory());
  return made;
}

void StoredPart::add_to_window(const model::PlacedSlice& slice) {
  const std::uint64_t width = element_bytes(map_->arrays()[slice.tensor].datatype);
  slice.place.for_each_run(
      0, slice.place.byte_count(), [&](std::uint64_t first, std::uint64_t bytes) {
        window_->add(static_cast<std::uint32_t>(slice.tensor), first / width, bytes / width);
      });
}

Status StoredPart::check_memory() const {
  const std::uint64_t free = available_memory(Paging::kToSwap);
  if (window_->byte_count() <= free) return {};
  return Status(Code::kOutOfMemory,
                fmt::format("no memory for the {} bytes of the wanted tensors' blocks: {} bytes "
                            "are free on this machine, or in the limit of this job",
                            window_->byte_count(), free));
}

Status StoredPart::reserve_addresses() {
  std::uint64_t bytes = 0;
  for (const codec::ArraySpec& array : map_->arrays()) bytes += aligned(array.bytes());
  SPARCL_ASSIGN_OR_RETURN(
      model::ZeroMemory memory,
      model::ZeroMemory::reserve(bytes, "the addresses of a version's tensors"));
  memory_.emplace(std::move(memory));
  std::byte* at = memory_->data();
  for (const codec::ArraySpec& array : map_->arrays()) {
    arrays_.push_back(at);
    at += aligned(array.bytes());
  }
  return {};
}

bool StoredPart::is_of(const ChainState& wanted) const {
  return std::ranges::equal(wanted.schema, wanted_);
}

double StoredPart::share() const {
  const auto whole = static_cast<double>(map_->byte_count());
  return whole > 0 ? static_cast<double>(window_->byte_count()) / whole : 1;
}

Status StoredPart::take(const Chain& chain, std::span<const ChainStep> steps,
                        const ChainState& wanted, ReadCounts& counts) {
  ChainState own;
  own.map = map_.get();
  own.schema = schema_bytes_;
  own.schema_hash = schema_hash_;
  own.arrays = arrays_;
  own.kernels = wanted.kernels;
  own.workers = wanted.workers;
  own.window = window_.get();
  return restore_window(chain, steps, held_, own, counts);
}

// The workers share the bytes.
void StoredPart::copy_to(const ChainState& wanted) const {
  const unsigned workers = wanted.workers != nullptr ? wanted.workers->size() : 1;
  const auto copy_share = [&](unsigned worker) {
    for (std::size_t i = 0; i < places_.size(); ++i) {
      const model::SlicePlace& place = places_[i].place;
      const std::uint64_t share = place.byte_count() / workers, first = share * worker;
      std::byte* to = wanted.arrays[i] + first;
      place.for_each_run(first, worker + 1 == workers ? place.byte_count() - first : share,
                         [&](std::uint64_t at, std::uint64_t bytes) {
                           std::memcpy(to, arrays_[places_[i].tensor] + at, bytes);
                           to += bytes;
                         });
    }
  };
  if (workers == 1) return copy_share(0);
  wanted.workers->run(workers, copy_share);
}

}  // namespace sparcl::store
