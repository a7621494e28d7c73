#include "tests/mismatch/desk.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "src/base/seeded_random.hpp"

namespace sparcl::test {
namespace {

constexpr std::uint64_t kNoIndex = ~std::uint64_t{0};
constexpr float kNoValue = -77;
constexpr std::size_t kNoCount = 4'711;

std::size_t place_of(Operation operation) { return static_cast<std::size_t>(operation); }

}  // namespace

const char* name_of(Operation operation) {
  switch (operation) {
    case Operation::kDelta:
      return "sparclBroadcastDelta";
    case Operation::kUpdate:
      return "sparclBroadcastUpdate";
    case Operation::kSparse:
      return "sparclBroadcastSparse";
    case Operation::kMasked:
      return "sparclAllReduceMasked";
    case Operation::kSparseSum:
      return "sparclAllReduceSparse";
    case Operation::kAggregate:
      return "sparclAggregate";
    case Operation::kTopK:
      break;
  }
  return "sparclAllReduceTopK";
}

sparclResult_t issue(const Arguments& a, sparclComm_t comm, sparclRequest_t* request) {
  switch (a.operation) {
    case Operation::kDelta:
      return request != nullptr
                 ? sparclIBroadcastDelta(a.weights, a.base, a.count, a.datatype, a.root,
                                         a.broadcast_options, comm, a.stream, request)
                 : sparclBroadcastDelta(a.weights, a.base, a.count, a.datatype, a.root,
                                        a.broadcast_options, comm, a.stream);
    case Operation::kUpdate:
      return request != nullptr
                 ? sparclIBroadcastUpdate(a.state, a.version, a.root, a.options, comm, a.stream,
                                          request)
                 : sparclBroadcastUpdate(a.state, a.version, a.root, a.options, comm, a.stream);
    case Operation::kSparse:
      return request != nullptr
                 ? sparclIBroadcastSparse(a.values, a.indices, a.nnz, a.capacity, a.datatype,
                                          a.root, a.broadcast_options, comm, a.stream, request)
                 : sparclBroadcastSparse(a.values, a.indices, a.nnz, a.capacity, a.datatype, a.root,
                                         a.broadcast_options, comm, a.stream);
    case Operation::kMasked:
      return request != nullptr
                 ? sparclIAllReduceMasked(a.send, a.receive, a.count, a.datatype, a.op, a.mask,
                                          a.feedback, a.masked_options, comm, a.stream, request)
                 : sparclAllReduceMasked(a.send, a.receive, a.count, a.datatype, a.op, a.mask,
                                         a.feedback, a.masked_options, comm, a.stream);
    case Operation::kSparseSum:
      return request != nullptr
                 ? sparclIAllReduceSparse(a.send, a.given_indices, a.given, a.count, a.values,
                                          a.indices, a.nnz, a.capacity, a.datatype, a.op,
                                          a.sparse_options, comm, a.stream, request)
                 : sparclAllReduceSparse(a.send, a.given_indices, a.given, a.count, a.values,
                                         a.indices, a.nnz, a.capacity, a.datatype, a.op,
                                         a.sparse_options, comm, a.stream);
    case Operation::kAggregate:
      return request != nullptr
                 ? sparclIAggregate(a.send, a.given_indices, a.given, a.count, a.weight, a.values,
                                    a.indices, a.nnz, a.capacity, a.datatype, a.aggregate_options,
                                    comm, a.stream, request)
                 : sparclAggregate(a.send, a.given_indices, a.given, a.count, a.weight, a.values,
                                   a.indices, a.nnz, a.capacity, a.datatype, a.aggregate_options,
                                   comm, a.stream);
    case Operation::kTopK:
      break;
  }
  return request != nullptr
             ? sparclIAllReduceTopK(a.send, a.receive, a.count, a.k, a.datatype, a.op, a.feedback,
                                    a.top_k_options, comm, a.stream, request)
             : sparclAllReduceTopK(a.send, a.receive, a.count, a.k, a.datatype, a.op, a.feedback,
                                   a.top_k_options, comm, a.stream);
}

OwnedState::OwnedState(const std::vector<TensorSpec>& tensors) {
  (void)sparclStateCreate(&state_);
  bytes.reserve(tensors.size());
  for (const TensorSpec& tensor : tensors) {
    std::size_t count = 1;
    for (const std::uint64_t extent : tensor.shape) count *= extent;
    bytes.emplace_back(count * 4,
                       static_cast<unsigned char>(0x11));  // large enough for every type here
    (void)sparclStateAdd(state_, tensor.name, bytes.back().data(), tensor.datatype,
                         static_cast<int>(tensor.shape.size()), tensor.shape.data());
    if (tensor.priority != 0) (void)sparclStateSetPriority(state_, tensor.name, tensor.priority);
    if (tensor.trainable == 0) (void)sparclStateSetTrainable(state_, tensor.name, 0);
  }
}

OwnedState::~OwnedState() { (void)sparclStateDestroy(state_); }

OwnedMask indices_mask(const std::vector<std::uint64_t>& indices, std::size_t count) {
  sparclMask_t mask = nullptr;
  (void)sparclMaskCreateIndices(&mask, indices.data(), indices.size(), count);
  return OwnedMask(mask);
}

OwnedMask random_mask(std::size_t count, double density, std::uint64_t seed) {
  sparclMask_t mask = nullptr;
  (void)sparclMaskCreateRandom(&mask, count, density, seed);
  return OwnedMask(mask);
}

OwnedMask blocks_mask(std::size_t count, std::size_t block, double density, std::uint64_t seed) {
  sparclMask_t mask = nullptr;
  (void)sparclMaskCreateBlocks(&mask, count, block, density, seed);
  return OwnedMask(mask);
}

OwnedAggregator::OwnedAggregator(std::size_t count, const sparclAggregatorOptions_t* how) {
  sparclAggregatorOptions_t sums = SPARCL_AGGREGATOR_OPTIONS_INITIALIZER;
  sums.mean = sparclMeanNone;
  (void)sparclAggregatorCreate(&aggregator_, count, how != nullptr ? how : &sums);
}

const std::vector<TensorSpec>& usual_tensors() {
  static const std::vector<TensorSpec> tensors{{"layer.weight", sparclFloat32, {20, 30}},
                                               {"layer.bias", sparclInt32, {100}}};
  return tensors;
}

Desk::Desk(int rank, int ranks)
    : rank_(rank),
      ranks_(ranks),
      weights_(kDeltaCount, 0x3f80),
      agreed_weights_(weights_),
      next_weights_(weights_),
      state_(usual_tensors()),
      agreed_tensors_(state_.bytes),
      next_tensors_(state_.bytes),
      mask_(random_mask(kMaskedCount, kMaskDensity, kMaskSeed)),
      feedback_(kTopKCount, sparclFloat32),
      residuals_(static_cast<std::size_t>(ranks), std::vector<float>(kTopKCount)) {}

std::uint64_t Desk::draw() { return mix64(seed_++); }

Arguments Desk::prepare(Operation operation, int root) {
  Arguments a;
  a.operation = operation;
  a.root = root;
  root_[place_of(operation)] = root;
  const bool is_root = rank_ == root;
  switch (operation) {
    case Operation::kDelta:
      weights_ = next_weights_ = agreed_weights_;
      for (int i = 0; i < 30; ++i)
        next_weights_[draw() % kDeltaCount] ^= static_cast<std::uint16_t>(1 + draw() % 0xffff);
      if (is_root) weights_ = next_weights_;
      a.datatype = sparclBfloat16;
      a.weights = weights_.data();
      a.base = agreed_weights_.data();
      a.count = kDeltaCount;
      break;
    case Operation::kUpdate:
      next_tensors_ = agreed_tensors_;
      for (auto& tensor : next_tensors_) {
        for (int i = 0; i < 10; ++i)
          tensor[draw() % tensor.size()] ^= static_cast<unsigned char>(1 + draw() % 255);
      }
      // In place: the state knows the tensors by their addresses.
      for (std::size_t i = 0; i < next_tensors_.size(); ++i) {
        const auto& from = is_root ? next_tensors_[i] : agreed_tensors_[i];
        std::copy(from.begin(), from.end(), state_.bytes[i].begin());
      }
      a.state = state_.handle();
      a.version = version_ + 1;
      break;
    case Operation::kSparse:
      next_values_.clear();
      next_indices_.clear();
      for (std::size_t i = 0; i < kEntries; ++i) {
        next_indices_.push_back((i > 0 ? next_indices_.back() + 1 : 0) + draw() % 1'000);
        next_values_.push_back(static_cast<float>(draw() % 1'000));
      }
      values_.assign(kCapacity, kNoValue);
      indices_.assign(kCapacity, kNoIndex);
      nnz_ = is_root ? kEntries : kNoCount;
      if (is_root) {
        std::copy(next_values_.begin(), next_values_.end(), values_.begin());
        std::copy(next_indices_.begin(), next_indices_.end(), indices_.begin());
      }
      a.datatype = sparclFloat32;
      a.values = values_.data();
      a.indices = indices_.data();
      a.nnz = &nnz_;
      a.capacity = kCapacity;
      break;
    case Operation::kMasked:
      prepare_masked(a);
      break;
    case Operation::kSparseSum:
    case Operation::kAggregate:
      prepare_sum(a);
      break;
    case Operation::kTopK:
      prepare_top_k(a);
      break;
  }
  return a;
}

// Whole numbers, so that every order of a sum has the same bits.
void Desk::prepare_masked(Arguments& a) {
  const std::uint64_t seed = draw();
  const auto value = [&](int rank, std::size_t i) {
    return static_cast<float>(mix64(seed ^ (static_cast<std::uint64_t>(rank) << 32 | i)) % 1'000);
  };
  contribution_.resize(kMaskedCount);
  for (std::size_t i = 0; i < kMaskedCount; ++i) contribution_[i] = value(rank_, i);
  received_.assign(kMaskedCount, kNoValue);
  next_received_ = received_;
  std::vector<std::uint64_t> indices(kMaskedCount);
  std::size_t nnz = 0;
  (void)sparclMaskGetIndices(mask_.handle(), indices.data(), indices.size(), &nnz);
  for (std::size_t at = 0; at < nnz; ++at) {
    float& sum = next_received_[indices[at]] = 0;
    for (int rank = 0; rank < ranks_; ++rank) sum += value(rank, indices[at]);
  }
  a.datatype = sparclFloat32;
  a.count = kMaskedCount;
  a.send = contribution_.data();
  a.receive = received_.data();
  a.op = sparclSum;
  a.mask = mask_.handle();
}

// Each rank has a part of the same kSumUnion entries. Whole numbers, as above.
void Desk::prepare_sum(Arguments& a) {
  Sum& sum = sum_of(a.operation);
  sum.next_indices.clear();
  for (std::size_t i = 0; i < kSumUnion; ++i)
    sum.next_indices.push_back((i > 0 ? sum.next_indices.back() + 1 : 0) + draw() % 15);
  sum.next_values.assign(kSumUnion, 0);
  sum.given.clear();
  sum.given_values.clear();
  for (int rank = 0; rank < ranks_; ++rank) {
    for (std::size_t i = 0; i < kSumUnion; ++i) {
      const auto value = static_cast<float>(draw() % 1'000);
      const bool gives = (i + 10 * static_cast<std::size_t>(rank % 3)) % kSumUnion < kSumEntries;
      if (!gives) continue;
      sum.next_values[i] += value;
      if (rank != rank_) continue;
      sum.given.push_back(sum.next_indices[i]);
      sum.given_values.push_back(value);
    }
  }
  sum.values.reserve(kSumCount);  // a row claims to have as much room
  sum.indices.reserve(kSumCount);
  sum.values.assign(kSumUnion, kNoValue);
  sum.indices.assign(kSumUnion, kNoIndex);
  sum.nnz = kNoCount;
  a.datatype = sparclFloat32;
  a.count = kSumCount;
  a.send = sum.given_values.data();
  a.given_indices = sum.given.data();
  a.given = sum.given.size();
  a.values = sum.values.data();
  a.indices = sum.indices.data();
  a.nnz = &sum.nnz;
  a.capacity = kSumUnion;
  a.op = sparclSum;
  aggregate_options_.aggregator = aggregator_.handle();
  a.aggregate_options = &aggregate_options_;
}

void Desk::prepare_top_k(Arguments& a) {
  top_k_values_.assign(static_cast<std::size_t>(ranks_), Floats(kTopKCount));
  for (Floats& values : top_k_values_) {
    for (float& value : values) value = static_cast<float>(draw() % 2'001) - 1'000;
  }
  constexpr int kNobody = -1;
  sum_top_k(kNobody);
  top_k_received_.assign(kTopKCount, kNoValue);
  a.datatype = sparclFloat32;
  a.count = kTopKCount;
  a.k = kTopKSelected;
  a.send = top_k_values_[static_cast<std::size_t>(rank_)].data();
  a.receive = top_k_received_.data();
  a.op = sparclSum;
  a.feedback = feedback_.handle();
  a.top_k_options = &top_k_options_;
}

// In mode union: at what any rank has selected, all that every rank has.
void Desk::sum_top_k(int without_feedback) {
  next_residuals_ = residuals_;
  std::vector<Floats> all = top_k_values_;
  std::vector<bool> is_kept(kTopKCount);
  for (std::size_t r = 0; r < all.size(); ++r) {
    std::vector<std::size_t> order(kTopKCount);
    for (std::size_t i = 0; i < kTopKCount; ++i) {
      order[i] = i;
      if (static_cast<int>(r) != without_feedback) all[r][i] += residuals_[r][i];
    }
    std::stable_sort(order.begin(), order.end(), [&](std::size_t i, std::size_t j) {
      return std::abs(all[r][i]) > std::abs(all[r][j]);
    });
    for (std::size_t i = 0; i < kTopKSelected; ++i) is_kept[order[i]] = true;
  }
  next_top_k_received_.assign(kTopKCount, 0);
  for (std::size_t r = 0; r < all.size(); ++r) {
    for (std::size_t i = 0; i < kTopKCount; ++i) {
      if (is_kept[i]) next_top_k_received_[i] += all[r][i];
      if (static_cast<int>(r) != without_feedback)
        next_residuals_[r][i] = is_kept[i] ? 0 : all[r][i];
    }
  }
}

void Desk::heed(int odd, const Arguments& odd_arguments) {
  if (odd_arguments.operation == Operation::kTopK && odd_arguments.feedback == nullptr)
    sum_top_k(odd);
}

bool Desk::holds_sum(Operation operation, bool is_new, std::size_t nnz) const {
  const Sum& sum = operation == Operation::kSparseSum ? sparse_sum_ : aggregate_;
  if (is_new)
    return sum.values == sum.next_values && sum.indices == sum.next_indices && sum.nnz == kSumUnion;
  return sum.values == Floats(kSumUnion, kNoValue) &&
         sum.indices == std::vector<std::uint64_t>(kSumUnion, kNoIndex) && sum.nnz == nnz;
}

bool Desk::holds_top_k(bool is_new) const {
  const void* residual = nullptr;
  if (sparclFeedbackGetResidual(feedback_.handle(), &residual, nullptr, nullptr) != sparclSuccess)
    return false;
  const Floats& left = (is_new ? next_residuals_ : residuals_)[static_cast<std::size_t>(rank_)];
  return std::equal(left.begin(), left.end(), static_cast<const float*>(residual)) &&
         top_k_received_ == (is_new ? next_top_k_received_ : Floats(kTopKCount, kNoValue));
}

bool Desk::holds(Operation operation, bool is_new, std::size_t nnz) const {
  if (sums_entries(operation)) return holds_sum(operation, is_new, nnz);
  if (operation == Operation::kTopK) return holds_top_k(is_new);
  if (operation == Operation::kMasked) {
    return received_ == (is_new ? next_received_ : std::vector<float>(kMaskedCount, kNoValue));
  }
  const bool holds_new =
      is_new || rank_ == root_[place_of(operation)];  // the root's own are new from the start
  if (operation == Operation::kDelta)
    return weights_ == (holds_new ? next_weights_ : agreed_weights_);
  if (operation == Operation::kUpdate)
    return state_.bytes == (holds_new ? next_tensors_ : agreed_tensors_);
  std::vector<float> values(kCapacity, kNoValue);
  std::vector<std::uint64_t> indices(kCapacity, kNoIndex);
  if (holds_new) {
    std::copy(next_values_.begin(), next_values_.end(), values.begin());
    std::copy(next_indices_.begin(), next_indices_.end(), indices.begin());
  }
  return values_ == values && indices_ == indices && nnz_ == (holds_new ? kEntries : nnz);
}

std::string Desk::untouched(Operation operation, sparclResult_t result) const {
  // A vector that is too long tells its length, and nothing else.
  const std::size_t truncated = sums_entries(operation) ? kSumUnion : kEntries;
  const std::size_t nnz = result == sparclTruncated ? truncated : kNoCount;
  return holds(operation, false, nnz)
             ? ""
             : fmt::format("the buffers of {} are not as before", name_of(operation));
}

std::string Desk::accept(Operation operation) {
  std::string wrong =
      holds(operation, true, kEntries)
          ? ""
          : fmt::format("the buffers of {} do not hold the result", name_of(operation));
  if (operation == Operation::kDelta) agreed_weights_ = next_weights_;
  if (operation == Operation::kUpdate) {
    agreed_tensors_ = next_tensors_;
    ++version_;
  }
  if (operation == Operation::kTopK) residuals_ = next_residuals_;
  return wrong;
}

}  // namespace sparcl::test
