#include "tools/gateway/shipment.hpp"

#include "src/net/socket.hpp"

namespace sparcl::gateway {

StepShipment::StepShipment(VersionStepRef step, v1::Form form, const TensorFilter& filter)
    : Shipment(step->target, step->base, form), step_(std::move(step)) {
  for (const v1::Chunk& chunk : step_->of(form).chunks) {
    if (!is_sent(filter, chunk.tensor())) continue;
    chunks_.push_back(&chunk);
    bytes_ += chunk.positions().size() + chunk.values().size();
  }
}

bool StepShipment::is_revoked() const { return net::monotonic_seconds() >= step_->revoked_at; }

Result<v1::Chunk> AnchorShipment::chunk(std::uint64_t index) const {
  const AnchorPlan::Piece piece = plan_.at(index);
  const std::size_t width = element_bytes(schema_[piece.tensor].datatype);
  v1::Chunk chunk;
  chunk.set_tensor(piece.tensor);
  chunk.set_first(piece.first);
  chunk.set_values(lease_.arrays[piece.tensor] + piece.first * width, piece.count * width);
  SPARCL_RETURN_IF_ERROR(seal(chunk));
  return chunk;
}

}  // namespace sparcl::gateway
