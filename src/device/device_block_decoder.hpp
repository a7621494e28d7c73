#pragma once
// Checks and writes the blocks of an update of arrays in device memory. Only the blocks' bytes in
// the stream are transferred, and some bytes a block for the result. Nothing is written before
// apply(). It writes the changes that are still on the device, and decodes the others again, so
// that the device memory has a bound.

#include <optional>
#include <utility>
#include <vector>

#include "kernels/kernel_set.hpp"
#include "src/base/stage_range.hpp"
#include "src/codec/payload.hpp"
#include "src/codec/update.hpp"
#include "src/device/device_block_writer.hpp"
#include "src/device/device_decode_batch.hpp"
#include "src/gpu/device_stream.hpp"

namespace sparcl::device {

class DeviceBlockDecoder final : public codec::BlocksElsewhere {
 public:
  // held: the arrays of the map, which has elements; they outlive it. host: for the texts of what
  // is wrong.
  DeviceBlockDecoder(DeviceScratch& scratch, const codec::BlockMap& map,
                     std::span<std::byte* const> held, codec::Verify verify,
                     const kernels::KernelSet& host, void* stream, const BatchLimits& limits = {});
  ~DeviceBlockDecoder() override;
  DeviceBlockDecoder(const DeviceBlockDecoder&) = delete;
  DeviceBlockDecoder& operator=(const DeviceBlockDecoder&) = delete;

  // For the texts of errors.
  void set_array_name(codec::ArrayName name) { array_name_ = std::move(name); }
  // Reserves its memory. Call it first.
  Status reserve() { return batch_.reserve(); }
  // check() or flush() has failed because the device does not support a block, for its mode or
  // another reason. The host may support it.
  bool needs_host() const { return needs_host_; }

  // The next of these would find nothing to do.
  bool is_waiting() const {
    return writer_ ? writer_->is_waiting() : is_under_way_ && !has_come_.is_over();
  }
  // apply() is to be called again.
  bool is_applying() const { return is_applying_; }

  void add_table(const codec::ClassTable& table) override { batch_.add_table(table); }
  void hash_fresh() override { hashes_fresh_ = true; }
  Result<bool> check(const Staging& staging, const codec::BlockEntry& entry) override;
  Result<bool> flush(const Staging& staging) override;
  codec::BlockFindings take_findings() override;
  Status leave_to_host() override;
  Status apply(const Staging& staging, std::span<const codec::BlockEntry> entries,
               bool only_fresh) override;

 private:
  // Whether the old values of fresh blocks count. If not, the blocks are written without a check.
  bool counts_fresh() const {
    return verify_ == codec::Verify::kFull || (verify_ == codec::Verify::kTouched && hashes_fresh_);
  }
  bool is_to_hash() const { return verify_ == codec::Verify::kFull && !held_is_hashed_; }
  Status start_batch();
  Status finish_batch(const Staging& staging);
  void find(const codec::BlockEntry& entry);
  const char* read_on_host(const Staging& staging, const codec::BlockEntry& entry);
  Status refuse(const Staging& staging, const codec::BlockEntry& entry);

  DeviceScratch& scratch_;
  const codec::BlockMap& map_;
  codec::Verify verify_;
  const kernels::KernelSet& host_;
  codec::ArrayName array_name_;
  void* stream_;

  DeviceDecodeBatch batch_;
  std::size_t entries_ = 0;  // that came
  std::vector<std::size_t>
      batch_ends_;  // of each batch that was checked: how many entries came before its end
  gpu::DeviceEvent has_come_;  // the work that was started
  bool is_under_way_ = false;
  std::optional<StageRange> range_;  // while it is
  std::optional<DeviceBlockWriter> writer_;
  bool is_applying_ = false;

  bool held_is_hashed_ = false;
  bool hash_is_counted_ = false;
  bool hashes_fresh_ = false;
  bool needs_host_ = false;
  codec::BlockFindings findings_;
  codec::Payload payload_;
  codec::DecodedBlock refused_block_;
};

}  // namespace sparcl::device
