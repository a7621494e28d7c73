#include "src/store/update_coding.hpp"

#include "src/net/socket.hpp"
#include "src/store/anchor_index.hpp"
#include "src/store/object_stream.hpp"
#include "src/store/stored_object.hpp"

namespace sparcl::store {
namespace {

constexpr std::uint64_t kStepElements = std::uint64_t{16} << 20;
constexpr std::uint64_t kFrameBytes = 1 << 16;  // of headers; an update has at most all bytes else

struct PutUpdate {
  StoredObject object;
  std::vector<model::Digest256> leaves;
  CodingTimes times;
};

Result<PutUpdate> put_encoded(ObjectStore& store, const std::string& key, const ChainState& state,
                              codec::UpdateEncoder& encoder) {
  const double begin = net::monotonic_seconds();
  SPARCL_ASSIGN_OR_RETURN(ObjectStream stream,
                          ObjectStream::begin(store, key, max_update_bytes(*state.map)));
  while (!encoder.finished()) {
    SPARCL_RETURN_IF_ERROR(encoder.step(kStepElements, stream));
    if (state.source != nullptr) SPARCL_RETURN_IF_ERROR(state.source->status());
    SPARCL_RETURN_IF_ERROR(stream.status());
  }
  PutUpdate put;
  SPARCL_ASSIGN_OR_RETURN(put.object, stream.finish());
  put.leaves = stream.take_leaves();
  put.times.putting = stream.seconds();
  put.times.coding = net::monotonic_seconds() - begin - put.times.putting;
  return put;
}

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
  SPARCL_ASSIGN_OR_RETURN(PutUpdate put, put_encoded(store, key, state, encoder));
  if (times != nullptr) *times = put.times;
  return std::move(put.object);
}

Result<PutAnchor> put_anchor(ObjectStore& store, const std::string& key, const ChainState& state,
                             std::uint64_t version) {
  const std::vector<const std::byte*> none(state.arrays.size(), nullptr);
  codec::EncodeOptions options = encode_options(state, {}, version);
  set_anchor_effort(options, EffortChoice(store.link()).next());
  codec::UpdateEncoder encoder(*state.map, none, readable(state.arrays), options, *state.kernels);
  SPARCL_ASSIGN_OR_RETURN(PutUpdate put, put_encoded(store, key, state, encoder));
  const std::span<const codec::ChunkStart> chunks = encoder.chunk_starts();
  const std::vector<std::byte> index =
      serialise(AnchorIndex{std::move(put.leaves), {chunks.begin(), chunks.end()}});
  Staging staged;
  staged.write(0, index);
  PutAnchor anchor;
  anchor.object = std::move(put.object);
  anchor.hash = encoder.stats().target_hash;
  SPARCL_ASSIGN_OR_RETURN(anchor.index,
                          put_object(store, key + kIndexSuffix, staged, index.size()));
  return anchor;
}

}  // namespace sparcl::store
