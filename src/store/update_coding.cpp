#include "src/store/update_coding.hpp"

#include "src/net/socket.hpp"
#include "src/store/object_stream.hpp"

namespace sparcl::store {
namespace {

constexpr std::uint64_t kStepElements = std::uint64_t{16} << 20;
constexpr std::uint64_t kFrameBytes = 1 << 16;  // of headers; an update has at most all bytes else

}  // namespace

std::uint64_t max_update_bytes(const codec::BlockMap& map) {
  return map.byte_count() + map.byte_count() / 256 + kFrameBytes;
}

std::vector<const std::byte*> readable(std::span<std::byte* const> arrays) {
  return {arrays.begin(), arrays.end()};
}

codec::EncodeOptions encode_options(const ChainState& state, const model::HeldVersion& base,
                                    std::uint64_t version) {
  codec::EncodeOptions options;
  options.base_version = base.version;
  if (base.version != 0) options.base_hash = base.hash;
  options.target_version = version;
  options.schema_hash = state.schema_hash;
  options.with_state_hash = true;
  options.target_source = state.source;
  options.workers = state.workers;
  return options;
}

Result<StoredObject> put_update(ObjectStore& store, const std::string& key, const ChainState& state,
                                codec::UpdateEncoder& encoder, CodingTimes* times) {
  const double begin = net::monotonic_seconds();
  SPARCL_ASSIGN_OR_RETURN(ObjectStream stream,
                          ObjectStream::begin(store, key, max_update_bytes(*state.map)));
  while (!encoder.finished()) {
    SPARCL_RETURN_IF_ERROR(encoder.step(kStepElements, stream));
    if (state.source != nullptr) SPARCL_RETURN_IF_ERROR(state.source->status());
    SPARCL_RETURN_IF_ERROR(stream.status());
  }
  SPARCL_ASSIGN_OR_RETURN(StoredObject object, stream.finish());
  if (times != nullptr) {
    times->putting = stream.seconds();
    times->coding = net::monotonic_seconds() - begin - times->putting;
  }
  return object;
}

}  // namespace sparcl::store
