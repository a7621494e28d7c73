#include "replicated_weights.hpp"

#include <stdexcept>

namespace training {

ReplicatedWeights::ReplicatedWeights(sparcl::Comm& comm, const ParameterLayout& layout)
    : comm_(comm), values_(layout.count()) {
  for (const TensorPlace& tensor : layout.tensors()) {
    state_.add(tensor.name, values_.data() + tensor.offset, sparclBfloat16, tensor.shape);
  }
}

sparcl::Report ReplicatedWeights::update(std::uint64_t version) {
  const sparcl::Report report = comm_.broadcast_update(state_, version, 0);

  const sparcl::Hash mine = state_.hash();
  sparcl::Hash trainers = mine;
  comm_.broadcast_delta<std::uint8_t>(trainers, {}, 0);
  if (mine != trainers) {
    throw std::runtime_error("rank " + std::to_string(comm_.rank()) + ": version " +
                             std::to_string(version) + " differs from the trainer's");
  }
  return report;
}

}  // namespace training
