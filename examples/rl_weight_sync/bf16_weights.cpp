#include "bf16_weights.hpp"

namespace training {

Bf16Weights::Bf16Weights(const ParameterLayout& layout) : values_(layout.count()) {
  for (const TensorPlace& tensor : layout.tensors()) {
    state_.add(tensor.name, values_.data() + tensor.offset, sparclBfloat16, tensor.shape);
  }
}

}  // namespace training
