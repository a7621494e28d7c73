#include "src/elastic/worker.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "src/base/float_environment.hpp"
#include "src/elastic/dense_part.hpp"

namespace sparcl::elastic {
namespace {

// Whether room for all values costs less than a list of the indices of those that are not 0: from
// about a half on, as bench_elastic measures.
bool is_dense(const std::vector<float>& values) {
  std::size_t found = 0;
  for (const float value : values) found += value != 0 ? 1 : 0;
  return found > values.size() / 2;
}

}  // namespace

Worker::Worker(const kernels::KernelSet& kernels, FlatWeights own, FlatWeights base,
               const WorkerOptions& options)
    : kernels_(kernels),
      own_(std::move(own)),
      base_(std::move(base)),
      options_(options),
      selection_(DataType::kFloat32, kernels),
      residual_(own_.count()) {}

Result<Worker::Contribution> Worker::contribute(Contributor& to, std::uint64_t version,
                                                double weight) {
  SPARCL_RETURN_IF_ERROR(to.claim(version));  // the difference is added once
  take_back(to);
  own_.add_difference(base_, residual_);
  if (!to.has_room()) return Contribution{};  // the residual keeps it
  const std::uint64_t k = options_.keep > 0 ? std::min(options_.keep, own_.count()) : own_.count();
  const sparse::WireType wire = sparse::wire_type(DataType::kFloat32, options_.wire);
  if (k == own_.count() && !wire.is_scaled() && is_dense(residual_)) {
    return contribute_all(to, version, weight, wire);
  }
  auto* const bytes = reinterpret_cast<std::byte*>(residual_.data());
  const sparse::Selected chosen = selection_.select(bytes, nullptr, residual_.size(), k);
  const std::size_t count = chosen.indices.size();
  std::vector<float> rest(count);
  if (count > 0) std::memcpy(rest.data(), chosen.accumulators, count * sizeof(float));
  std::vector<std::byte> sent(count * element_bytes(wire.sent));
  sparse::round_to_wire(kernels_, wire, chosen.accumulators, count, sent.data());
  SPARCL_ASSIGN_OR_RETURN(Packed packed,
                          pack(buffers_, kernels_, own_.run(), wire, chosen.indices, sent.data()));
  const Contribution made{count, packed.offered.bytes};
  to.contribute(version, weight, std::move(packed));
  (void)sparse::leave_rest(kernels_, wire, sent.data(), count,
                           reinterpret_cast<std::byte*>(rest.data()));
  for (std::size_t i = 0; i < count; ++i) residual_[chosen.indices[i]] = rest[i];
  return made;
}

Result<Worker::Contribution> Worker::contribute_all(Contributor& to, std::uint64_t version,
                                                    double weight, const sparse::WireType& wire) {
  SPARCL_ASSIGN_OR_RETURN(PackedAll all, pack_all(buffers_, kernels_, own_.run(), wire, residual_));
  const Contribution made{all.entries, all.packed.offered.bytes};
  std::vector<float> rest = rest_of_all(kernels_, wire, residual_);
  to.contribute(version, weight, std::move(all.packed));
  residual_.swap(rest);  // needs no memory: what is on its way is not in the residual
  return made;
}

void Worker::take_back(Contributor& from) {
  const FloatEnvironment ieee;
  for (const Packed& each : from.take_refused()) {
    const DataType type = value_type(each.offered);
    const Result<Buffer> part =
        unpack(buffers_, kernels_, own_.run(), own_.count(), each.offered, each.bytes);
    if (!part.ok()) continue;  // never: this worker made it
    const Entries entries = entries_of(kernels_, own_.run(), part->bytes(), type);
    for (std::size_t i = 0; i < entries.indices.size(); ++i) {
      const float value = entries.values[i];
      if (std::isfinite(value)) residual_[entries.indices[i]] += value;  // else it would stay there
    }
  }
}

double Worker::residual_l2() const {
  double squares = 0;
  for (const float value : residual_)
    squares += static_cast<double>(value) * static_cast<double>(value);
  return std::sqrt(squares);
}

}  // namespace sparcl::elastic
