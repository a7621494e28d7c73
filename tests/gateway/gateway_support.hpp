#pragma once
// A model whose versions are shown, and a client that keeps a copy of it.

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "src/codec/update.hpp"
#include "src/trust/sha256.hpp"
#include "tools/gateway/version_shelf.hpp"

namespace sparcl::gateway {

inline const model::Schema kTensors{{"layers.0.weight", DataType::kBfloat16, {300, 1000}},
                                    {"layers.0.bias", DataType::kFloat32, {777}},
                                    {"none", DataType::kFloat32, {0}},
                                    {"ids", DataType::kInt64, {100}}};

// Plays the source of a gateway.
class ChangingModel {
 public:
  explicit ChangingModel(const model::Schema& schema = kTensors)
      : memory_(std::move(*tool::ModelMemory::create(schema))) {
    change(7, 2);
  }
  const tool::ModelMemory& memory() const { return *memory_; }
  // About one of `every` bytes.
  void change(std::uint64_t seed, std::uint64_t every) {
    std::mt19937_64 random(seed);
    const auto arrays = memory_->view().map->arrays();
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      for (std::uint64_t at = random() % every; at < arrays[i].bytes();
           at += 1 + random() % (2 * every))
        memory_->view().arrays[i][at] ^= std::byte{1};
    }
  }
  model::HeldVersion version(std::uint64_t number) const {
    return {number, memory_->view().hash()};
  }
  // nullopt: it could not be shown.
  std::optional<VersionShelf::Shown> show(VersionShelf& shelf, std::uint64_t number) {
    Result<VersionShelf::Shown> shown = shelf.show(version(number), [] { return false; });
    EXPECT_TRUE(shown.ok()) << shown.status().message();
    return shown.ok() ? std::optional(*shown) : std::nullopt;
  }

 private:
  std::unique_ptr<tool::ModelMemory> memory_;
};

inline Hash128 hash_of(const v1::Version& version) {
  Hash128 hash;
  EXPECT_EQ(version.hash().size(), 16U);
  std::memcpy(&hash.low, version.hash().data(), 8);
  std::memcpy(&hash.high, version.hash().data() + 8, 8);
  return hash;
}

// A client's tensors, written by its own reading of the protocol.
class ClientCopy {
 public:
  explicit ClientCopy(const model::Schema& schema = kTensors)
      : memory_(std::move(*tool::ModelMemory::create(schema))) {}

  void take(const v1::Chunk& chunk) {
    v1::Chunk sealed = chunk;
    EXPECT_TRUE(seal(sealed).ok());
    EXPECT_EQ(sealed.digest(), chunk.digest());
    chunks_.push_back(chunk);
  }
  void forget() { chunks_.clear(); }
  std::size_t chunk_count() const { return chunks_.size(); }

  // digest: of the COMMIT; first: the first chunk that its request asked for.
  void commit(const v1::Offer& offer, const v1::Commit& commit, std::size_t first = 0) {
    ASSERT_EQ(chunks_.size(), offer.chunks());
    trust::Sha256 all;
    for (std::size_t i = 0; i < chunks_.size(); ++i) {
      EXPECT_EQ(chunks_[i].index(), i);
      if (i >= first) all.update(std::as_bytes(std::span(chunks_[i].digest())));
    }
    const trust::Sha256::Digest digest = *all.finish();
    EXPECT_EQ(commit.digest(), std::string(digest.begin(), digest.end()));
    if (offer.form() == v1::CODED)
      decode();
    else
      for (const v1::Chunk& chunk : chunks_) write(chunk);
    chunks_.clear();
    held_ = commit.version();
  }

  bool is_same_as(const ChangingModel& model) const {
    for (std::size_t i = 0; i < memory_->schema().size(); ++i) {
      if (!is_same_tensor(model, i)) return false;
    }
    return hash_of(held_) == model.memory().view().hash();
  }
  bool is_same_tensor(const ChangingModel& model, std::size_t i) const {
    const std::size_t bytes = memory_->view().map->arrays()[i].bytes();
    return bytes == 0 ||
           std::memcmp(memory_->tensors()[i], model.memory().tensors()[i], bytes) == 0;
  }
  const v1::Version& held() const { return held_; }

 private:
  void write(const v1::Chunk& chunk) {
    const codec::ArraySpec& array = memory_->view().map->arrays()[chunk.tensor()];
    const std::size_t width = element_bytes(array.datatype);
    const std::size_t count = chunk.values().size() / width;
    for (std::size_t i = 0; i < count; ++i) {
      std::uint64_t at = chunk.first() + i;
      if (!chunk.positions().empty()) {
        std::uint32_t position = 0;
        std::memcpy(&position, chunk.positions().data() + 4 * i, 4);
        at = position;
      }
      ASSERT_LT(at, array.count);
      std::memcpy(memory_->view().arrays[chunk.tensor()] + at * width,
                  chunk.values().data() + i * width, width);
    }
  }
  void decode() {
    Staging stream;
    std::uint64_t end = 0;
    for (const v1::Chunk& chunk : chunks_) {
      EXPECT_EQ(chunk.first(), end);
      stream.write(end, std::as_bytes(std::span(chunk.values())));
      end += chunk.values().size();
    }
    const replication::ReplicatedState& view = memory_->view();
    codec::UpdateDecoder decoder(*view.map, view.arrays, codec::Verify::kFull, view.schema_hash,
                                 *view.kernels);
    for (bool more = true; more;) ASSERT_TRUE(decoder.advance(stream, end, UINT64_MAX, more).ok());
    ASSERT_TRUE(decoder.finish(end).ok());
    EXPECT_TRUE(decoder.apply(stream).ok());
  }

  std::unique_ptr<tool::ModelMemory> memory_;
  std::vector<v1::Chunk> chunks_;
  v1::Version held_;
};

inline v1::ClientMessage hello(const std::string& name = "test") {
  v1::ClientMessage message;
  message.mutable_hello()->set_name(name);
  return message;
}
inline v1::ClientMessage request(std::uint64_t offer, std::uint64_t first_chunk = 0) {
  v1::ClientMessage message;
  message.mutable_request()->set_offer(offer);
  message.mutable_request()->set_first_chunk(first_chunk);
  return message;
}
inline v1::ClientMessage ack(std::uint64_t offer) {
  v1::ClientMessage message;
  message.mutable_ack()->set_offer(offer);
  return message;
}
inline v1::ClientMessage nack(std::uint64_t offer, const std::string& reason = "no use") {
  v1::ClientMessage message;
  message.mutable_nack()->set_offer(offer);
  message.mutable_nack()->set_reason(reason);
  return message;
}

}  // namespace sparcl::gateway
