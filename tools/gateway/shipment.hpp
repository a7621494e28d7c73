#pragma once
// What one offer holds: a step, an anchor, or nothing but a number for the same bytes. A session
// asks for its chunks one by one.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "tools/gateway/anchor_plan.hpp"
#include "tools/gateway/version_step.hpp"

namespace sparcl::gateway {

class Shipment {
 public:
  virtual ~Shipment() = default;

  virtual std::uint64_t chunk_count() const = 0;
  virtual std::uint64_t byte_count() const = 0;
  // index < chunk_count(). SystemError: OpenSSL refuses.
  virtual Result<v1::Chunk> chunk(std::uint64_t index) const = 0;
  // The memory that it reads is wanted for a newer version: its session has to end.
  virtual bool is_revoked() const { return false; }

  const model::HeldVersion& target() const { return target_; }
  const std::optional<model::HeldVersion>& base() const { return base_; }  // nullopt: an anchor
  v1::Form form() const { return form_; }

 protected:
  Shipment(const model::HeldVersion& target, std::optional<model::HeldVersion> base, v1::Form form)
      : target_(target), base_(base), form_(form) {}

 private:
  model::HeldVersion target_;
  std::optional<model::HeldVersion> base_;
  v1::Form form_;
};
using ShipmentRef = std::unique_ptr<const Shipment>;

// The same bytes have got another number.
class LabelShipment final : public Shipment {
 public:
  LabelShipment(const model::HeldVersion& target, const model::HeldVersion& base, v1::Form form)
      : Shipment(target, base, form) {}
  std::uint64_t chunk_count() const override { return 0; }
  std::uint64_t byte_count() const override { return 0; }
  Result<v1::Chunk> chunk(std::uint64_t) const override {
    return Status(Code::kInternalError, "a new number has no chunks");
  }
};

// Chunks of a step, of the chosen tensors.
class StepShipment final : public Shipment {
 public:
  StepShipment(VersionStepRef step, v1::Form form, const TensorFilter& filter);
  std::uint64_t chunk_count() const override { return chunks_.size(); }
  std::uint64_t byte_count() const override { return bytes_; }
  Result<v1::Chunk> chunk(std::uint64_t index) const override { return *chunks_[index]; }
  bool is_revoked() const override;

 private:
  VersionStepRef step_;
  std::vector<const v1::Chunk*> chunks_;
  std::uint64_t bytes_ = 0;
};

// All values of the chosen tensors, read from arrays that are not written to meanwhile.
class AnchorShipment final : public Shipment {
 public:
  struct Lease {  // of the arrays
    std::span<std::byte* const> arrays;
    std::function<bool()> is_revoked;
    std::function<void()> end;
  };
  AnchorShipment(const model::HeldVersion& target, AnchorPlan plan, const model::Schema& schema,
                 Lease lease)
      : Shipment(target, std::nullopt, v1::PLAIN),
        plan_(std::move(plan)),
        schema_(schema),
        lease_(std::move(lease)) {}
  ~AnchorShipment() override { lease_.end(); }
  AnchorShipment(const AnchorShipment&) = delete;
  AnchorShipment& operator=(const AnchorShipment&) = delete;

  std::uint64_t chunk_count() const override { return plan_.chunk_count(); }
  std::uint64_t byte_count() const override { return plan_.byte_count(); }
  Result<v1::Chunk> chunk(std::uint64_t index) const override;
  bool is_revoked() const override { return lease_.is_revoked(); }

 private:
  AnchorPlan plan_;
  const model::Schema& schema_;
  Lease lease_;
};

}  // namespace sparcl::gateway
