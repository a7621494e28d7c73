#include "tests/processes/flight.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <type_traits>
#include <utility>

namespace sparcl::test {
namespace {

constexpr unsigned char kUntouched = 0xa5;

std::uint64_t add_to_hash(std::uint64_t hash, const void* data, std::size_t bytes) {  // FNV-1a
  const auto* at = static_cast<const unsigned char*>(data);
  for (std::size_t i = 0; i < bytes; ++i) hash = (hash ^ at[i]) * 0x100000001b3u;
  return hash;
}

Holds compare(bool is_old, bool is_new) {
  if (is_old) return is_new ? Holds::kBoth : Holds::kOld;
  return is_new ? Holds::kNew : Holds::kNeither;
}

float add(float a, float b) { return a + b; }

std::int64_t add(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

// As after an error that ends the communicator: each element is an old or a new one.
template <class List>
bool is_mixture(const List& held, const List& before, const List& after) {
  for (std::size_t i = 0; i < held.size(); ++i) {
    if (held[i] != before[i] && held[i] != after[i]) return false;
  }
  return true;
}

sparclDataType_t other_type(sparclDataType_t datatype) {
  return datatype == sparclUint8 ? sparclInt8 : sparclUint8;
}

class ModelFlight : public Flight {
 public:
  ModelFlight(const Step& step, int rank, int ranks, Model& model, Deviation deviation)
      : root_(deviation == Deviation::kRoot ? (step.root + 1) % ranks : step.root),
        is_root_(rank == step.root),
        deviation_(deviation),
        model_(model),
        next_(changed_state(model.agreed, model.shapes, step)) {
    if (!is_root_) return;
    for (std::size_t i = 0; i < next_.size(); ++i)
      std::copy(next_[i].begin(), next_[i].end(), model_.held[i].begin());
  }

  // The root's own tensors are the new state from the start, whatever comes of the call.
  Holds judge(sparclResult_t result) final {
    const bool is_new = model_.held == next_;
    const Holds holds = is_root_ ? (is_new ? Holds::kBoth : Holds::kNeither)
                                 : compare(model_.held == model_.agreed, is_new);
    if (result == sparclSuccess) {
      model_.agreed = std::move(next_);
      ++model_.version;
    } else if (is_root_) {
      for (std::size_t i = 0; i < model_.held.size(); ++i)
        std::copy(model_.agreed[i].begin(), model_.agreed[i].end(), model_.held[i].begin());
    }
    return holds;
  }

  std::uint64_t hash() const final {
    std::uint64_t hash = 0xcbf29ce484222325u;
    for (const ByteList& bytes : model_.held) hash = add_to_hash(hash, bytes.data(), bytes.size());
    return hash;
  }

 protected:
  int root_;
  bool is_root_;
  Deviation deviation_;
  Model& model_;
  std::vector<ByteList> next_;
};

class DeltaFlight final : public ModelFlight {
 public:
  using ModelFlight::ModelFlight;
  sparclResult_t call(sparclComm_t comm, sparclRequest_t* request) override {
    const TensorShape& shape = model_.shapes[0];
    const void* base = is_root_ ? model_.agreed[0].data() : nullptr;
    // A deviating rank's array is as large as the others', and of no type in which it would be
    // larger.
    const std::size_t count = shape.count - (deviation_ == Deviation::kCount ? 1 : 0);
    const sparclDataType_t type =
        deviation_ == Deviation::kDatatype ? other_type(shape.datatype) : shape.datatype;
    void* weights = model_.held[0].data();
    return request != nullptr
               ? sparclIBroadcastDelta(weights, base, count, type, root_, nullptr, comm, nullptr,
                                       request)
               : sparclBroadcastDelta(weights, base, count, type, root_, nullptr, comm, nullptr);
  }
};

class UpdateFlight final : public ModelFlight {
 public:
  using ModelFlight::ModelFlight;
  sparclResult_t call(sparclComm_t comm, sparclRequest_t* request) override {
    const std::uint64_t version = is_root_ ? model_.version + 1 : 0;
    return request != nullptr
               ? sparclIBroadcastUpdate(model_.state, version, root_, nullptr, comm, nullptr,
                                        request)
               : sparclBroadcastUpdate(model_.state, version, root_, nullptr, comm, nullptr);
  }
};

class SparseFlight final : public Flight {
 public:
  SparseFlight(const Step& step, int rank, int ranks, Deviation deviation)
      : root_(deviation == Deviation::kRoot ? (step.root + 1) % ranks : step.root),
        is_root_(rank == step.root),
        type_(deviation),
        content_(sparse_content(step)),
        capacity_(content_.indices.size() + 3),
        indices_(capacity_, ~std::uint64_t{0}),
        values_(capacity_ * sizeof(std::uint64_t), kUntouched) {
    if (is_root_) {
      std::copy(content_.indices.begin(), content_.indices.end(), indices_.begin());
      std::copy(content_.values.begin(), content_.values.end(), values_.begin());
      count_ = content_.indices.size();
    }
    before_ = {indices_, values_, count_};
  }

  sparclResult_t call(sparclComm_t comm, sparclRequest_t* request) override {
    const sparclDataType_t type =
        type_ == Deviation::kDatatype ? other_type(content_.datatype) : content_.datatype;
    return request != nullptr
               ? sparclIBroadcastSparse(values_.data(), indices_.data(), &count_, capacity_, type,
                                        root_, nullptr, comm, nullptr, request)
               : sparclBroadcastSparse(values_.data(), indices_.data(), &count_, capacity_, type,
                                       root_, nullptr, comm, nullptr);
  }

  Holds judge(sparclResult_t) override {
    const bool is_old =
        indices_ == before_.indices && values_ == before_.values && count_ == before_.count;
    if (is_root_) return is_old ? Holds::kBoth : Holds::kNeither;
    Content after{std::vector(capacity_, ~std::uint64_t{0}), ByteList(values_.size(), kUntouched),
                  content_.indices.size()};
    std::copy(content_.indices.begin(), content_.indices.end(), after.indices.begin());
    std::copy(content_.values.begin(), content_.values.end(), after.values.begin());
    return compare(is_old,
                   indices_ == after.indices && values_ == after.values && count_ == after.count);
  }

  std::uint64_t hash() const override {
    const std::uint64_t hash =
        add_to_hash(0xcbf29ce484222325u, indices_.data(), indices_.size() * sizeof indices_[0]);
    return add_to_hash(hash, values_.data(), values_.size());
  }

 private:
  struct Content {
    std::vector<std::uint64_t> indices;
    ByteList values;
    std::size_t count = 0;
  };

  int root_;
  bool is_root_;
  Deviation type_;
  SparseContent content_;
  std::size_t capacity_;
  std::vector<std::uint64_t> indices_;
  ByteList values_;
  std::size_t count_ = 0;
  Content before_;
};

// In place. What is in the mask becomes the sum over all ranks; after an error that ends the
// communicator some of it may be.
class MaskedFlight final : public Flight {
 public:
  MaskedFlight(const Step& step, int rank, int ranks, Deviation deviation)
      : content_(masked_content(step)),
        deviation_(deviation),
        before_(masked_values(step, rank)),
        held_(before_),
        after_(before_) {
    if (deviation == Deviation::kCount && content_.count > 1) --content_.count;
    if (deviation == Deviation::kRoot) ++content_.mask_seed;
    (void)sparclMaskCreateRandom(&mask_, content_.count, content_.density, content_.mask_seed);
    std::size_t entries = 0;
    (void)sparclMaskGetIndices(mask_, nullptr, 0, &entries);
    indices_.resize(entries);
    (void)sparclMaskGetIndices(mask_, indices_.data(), entries, &entries);
    for (const std::uint64_t i : indices_) after_[i] = 0;
    for (int other = 0; other < ranks; ++other) {
      const std::vector<std::int64_t> values = masked_values(step, other);
      for (const std::uint64_t i : indices_) after_[i] = add(after_[i], values[i]);
    }
  }
  ~MaskedFlight() override { (void)sparclMaskDestroy(mask_); }

  sparclResult_t call(sparclComm_t comm, sparclRequest_t* request) override {
    const sparclDataType_t type = deviation_ == Deviation::kDatatype ? sparclUint8 : sparclInt64;
    return request != nullptr
               ? sparclIAllReduceMasked(held_.data(), held_.data(), content_.count, type, sparclSum,
                                        mask_, nullptr, nullptr, comm, nullptr, request)
               : sparclAllReduceMasked(held_.data(), held_.data(), content_.count, type, sparclSum,
                                       mask_, nullptr, nullptr, comm, nullptr);
  }

  Holds judge(sparclResult_t result) override {
    if (!poisons(result)) return compare(held_ == before_, held_ == after_);
    return is_mixture(held_, before_, after_) ? Holds::kOld : Holds::kNeither;
  }

  // Of what all ranks hold alike.
  std::uint64_t hash() const override {
    std::uint64_t hash = 0xcbf29ce484222325u;
    for (const std::uint64_t i : indices_) hash = add_to_hash(hash, &held_[i], sizeof held_[i]);
    return hash;
  }

 private:
  MaskedContent content_;
  Deviation deviation_;
  sparclMask_t mask_ = nullptr;
  std::vector<std::uint64_t> indices_;
  std::vector<std::int64_t> before_, held_, after_;
};

// A sum of entries, of whole numbers.
template <class Value>
class EntriesFlight : public Flight {
 public:
  EntriesFlight(const Step& step, int rank, int ranks, Deviation deviation)
      : deviation_(deviation), own_(sum_content(step, rank)) {
    std::map<std::uint64_t, Value> sums;
    for (int other = 0; other < ranks; ++other) {
      const SumContent theirs = sum_content(step, other);
      for (std::size_t i = 0; i < theirs.indices.size(); ++i) {
        const Value value = value_of(theirs.values[i]);
        sums[theirs.indices[i]] = add(sums[theirs.indices[i]], value);
        if (other == rank) values_.push_back(value);
      }
    }
    const std::size_t capacity = sums.size() + 3;
    before_ = held_ = after_ = {std::vector<std::uint64_t>(capacity, ~std::uint64_t{0}),
                                std::vector<Value>(capacity, Value{-77}), 4'711};
    after_.count = 0;
    for (const auto& [index, sum] : sums) {
      after_.indices[after_.count] = index;
      after_.values[after_.count++] = sum;
    }
  }

  Holds judge(sparclResult_t result) override {
    if (!poisons(result)) return compare(held_ == before_, held_ == after_);
    const bool is_old = held_.count == before_.count &&
                        is_mixture(held_.indices, before_.indices, after_.indices) &&
                        is_mixture(held_.values, before_.values, after_.values);
    return is_old ? Holds::kOld : Holds::kNeither;
  }

  std::uint64_t hash() const override {
    const std::uint64_t hash = add_to_hash(0xcbf29ce484222325u, held_.indices.data(),
                                           held_.indices.size() * sizeof held_.indices[0]);
    return add_to_hash(hash, held_.values.data(), held_.values.size() * sizeof held_.values[0]);
  }

 protected:
  struct Content {
    std::vector<std::uint64_t> indices;
    std::vector<Value> values;
    std::size_t count = 0;
    bool operator==(const Content&) const = default;
  };

  Deviation deviation_;
  SumContent own_;
  std::vector<Value> values_;  // own ones
  Content before_, held_, after_;

 private:
  static Value value_of(std::int64_t value) {
    return std::is_integral_v<Value> ? static_cast<Value>(value)
                                     : static_cast<Value>(value % 1'000);  // sums are exact
  }
};

class SparseSumFlight final : public EntriesFlight<std::int64_t> {
 public:
  using EntriesFlight::EntriesFlight;
  sparclResult_t call(sparclComm_t comm, sparclRequest_t* request) override {
    const sparclDataType_t type = deviation_ == Deviation::kDatatype ? sparclUint8 : sparclInt64;
    const std::size_t given = own_.indices.size(), capacity = held_.indices.size();
    return request != nullptr
               ? sparclIAllReduceSparse(values_.data(), own_.indices.data(), given, kSumCount,
                                        held_.values.data(), held_.indices.data(), &held_.count,
                                        capacity, type, sparclSum, nullptr, comm, nullptr, request)
               : sparclAllReduceSparse(values_.data(), own_.indices.data(), given, kSumCount,
                                       held_.values.data(), held_.indices.data(), &held_.count,
                                       capacity, type, sparclSum, nullptr, comm, nullptr);
  }
};

// Each call has an aggregator of its own: no rank's is a round ahead.
class AggregateFlight final : public EntriesFlight<float> {
 public:
  AggregateFlight(const Step& step, int rank, int ranks, Deviation deviation)
      : EntriesFlight(step, rank, ranks, deviation) {
    sparclAggregatorOptions_t how = SPARCL_AGGREGATOR_OPTIONS_INITIALIZER;
    how.mean = sparclMeanNone;
    (void)sparclAggregatorCreate(&options_.aggregator, kSumCount, &how);
  }
  ~AggregateFlight() override { (void)sparclAggregatorDestroy(options_.aggregator); }
  AggregateFlight(const AggregateFlight&) = delete;
  AggregateFlight& operator=(const AggregateFlight&) = delete;
  sparclResult_t call(sparclComm_t comm, sparclRequest_t* request) override {
    const sparclDataType_t type =
        deviation_ == Deviation::kDatatype ? sparclBfloat16 : sparclFloat32;
    const std::size_t given = own_.indices.size(), capacity = held_.indices.size();
    return request != nullptr
               ? sparclIAggregate(values_.data(), own_.indices.data(), given, kSumCount, 1,
                                  held_.values.data(), held_.indices.data(), &held_.count, capacity,
                                  type, &options_, comm, nullptr, request)
               : sparclAggregate(values_.data(), own_.indices.data(), given, kSumCount, 1,
                                 held_.values.data(), held_.indices.data(), &held_.count, capacity,
                                 type, &options_, comm, nullptr);
  }

 private:
  sparclAggregateOptions_t options_ = SPARCL_AGGREGATE_OPTIONS_INITIALIZER;
};

// With feedback. Integers: nothing is lost by rounding.
class TopKFlight final : public Flight {
 public:
  TopKFlight(const Step& step, int rank, int ranks, Residuals& residuals, Deviation deviation)
      : rank_(static_cast<std::size_t>(rank)), deviation_(deviation), residuals_(residuals) {
    options_.mode = static_cast<sparclTopKMode_t>(step.seed % 3);
    k_ = static_cast<std::size_t>(step.share * static_cast<double>(residuals.count));
    for (int other = 0; other < ranks; ++other)
      given_.push_back(top_k_values(step, other, residuals.count));
    before_ = held_ = std::vector<std::int64_t>(residuals.count, -77);
    work_out();
  }

  sparclResult_t call(sparclComm_t comm, sparclRequest_t* request) override {
    const bool deviates = deviation_ == Deviation::kDatatype;
    const sparclDataType_t type = deviates ? sparclFloat8e4m3 : sparclInt64;
    const sparclFeedback_t feedback = deviates ? nullptr : residuals_.feedback;
    return request != nullptr
               ? sparclIAllReduceTopK(given_[rank_].data(), held_.data(), residuals_.count, k_,
                                      type, sparclSum, feedback, &options_, comm, nullptr, request)
               : sparclAllReduceTopK(given_[rank_].data(), held_.data(), residuals_.count, k_, type,
                                     sparclSum, feedback, &options_, comm, nullptr);
  }

  // After an error that ends the communicator the residual is as before, or all that is to be sent,
  // or what is left of that.
  Holds judge(sparclResult_t result) override {
    const std::vector<std::int64_t> left = residuals_.own();
    const bool is_before = left == residuals_.by_rank[rank_], is_after = left == next_[rank_];
    if (poisons(result)) {
      const bool is_known = is_before || is_after || left == acc_[rank_];
      return is_known && is_mixture(held_, before_, after_) ? Holds::kOld : Holds::kNeither;
    }
    if (result == sparclSuccess) residuals_.by_rank = next_;
    return compare(held_ == before_ && is_before, held_ == after_ && is_after);
  }

  std::uint64_t hash() const override {
    return add_to_hash(0xcbf29ce484222325u, held_.data(), held_.size() * sizeof held_[0]);
  }

 private:
  using List = std::vector<std::int64_t>;

  static std::uint64_t magnitude(std::int64_t value) {
    return value < 0 ? std::uint64_t{0} - static_cast<std::uint64_t>(value)
                     : static_cast<std::uint64_t>(value);
  }

  // The k largest of those; zeros, which nobody sends, are none in random numbers.
  std::vector<std::size_t> largest_of(const List& values, std::vector<std::size_t> among) const {
    if (among.size() <= k_) return among;
    std::nth_element(among.begin(), among.begin() + static_cast<std::ptrdiff_t>(k_), among.end(),
                     [&](std::size_t i, std::size_t j) {
                       const std::uint64_t a = magnitude(values[i]), b = magnitude(values[j]);
                       return a != b ? a > b : i < j;
                     });
    among.resize(k_);
    return among;
  }

  void work_out() {
    const std::size_t ranks = given_.size(), count = residuals_.count;
    std::vector<std::vector<bool>> selects(ranks, std::vector<bool>(count));
    std::vector<std::size_t> all(count);
    std::iota(all.begin(), all.end(), std::size_t{0});
    acc_ = residuals_.by_rank;
    List sums(count);
    std::vector<bool> is_selected(count);
    for (std::size_t r = 0; r < ranks; ++r) {
      for (std::size_t i = 0; i < count; ++i) acc_[r][i] = add(acc_[r][i], given_[r][i]);
      for (const std::size_t i : largest_of(acc_[r], all)) is_selected[i] = selects[r][i] = true;
    }
    const auto contributes = [&](std::size_t r, std::size_t i) {
      return options_.mode == sparclTopKUnion || selects[r][i];
    };
    std::vector<std::size_t> kept;
    for (std::size_t i = 0; i < count; ++i) {
      if (is_selected[i]) kept.push_back(i);
      for (std::size_t r = 0; r < ranks && is_selected[i]; ++r)
        sums[i] = add(sums[i], contributes(r, i) ? acc_[r][i] : 0);
    }
    if (options_.mode == sparclTopKGlobal) kept = largest_of(sums, std::move(kept));
    after_.assign(count, 0);
    next_ = acc_;
    for (const std::size_t i : kept) {
      after_[i] = sums[i];
      for (std::size_t r = 0; r < ranks; ++r) next_[r][i] = contributes(r, i) ? 0 : next_[r][i];
    }
  }

  std::size_t rank_, k_ = 0;
  Deviation deviation_;
  Residuals& residuals_;
  sparclTopKOptions_t options_ = SPARCL_TOPK_OPTIONS_INITIALIZER;
  std::vector<List> given_, acc_, next_;  // by rank
  List before_, held_, after_;
};

}  // namespace

const char* name_of(Holds holds) {
  switch (holds) {
    case Holds::kOld:
      return "old";
    case Holds::kNew:
      return "new";
    case Holds::kBoth:
      return "both";
    case Holds::kNeither:
      break;
  }
  return "neither";
}

Model::Model(StepKind kind, std::uint64_t series)
    : shapes(shapes_of(kind, series)), agreed(first_state(shapes, series)), held(agreed) {
  if (kind != StepKind::kUpdate) return;
  (void)sparclStateCreate(&state);
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const std::string name = "tensor." + std::to_string(i);
    (void)sparclStateAdd(state, name.c_str(), held[i].data(), shapes[i].datatype, 1,
                         &shapes[i].count);
  }
}

Model::~Model() { (void)sparclStateDestroy(state); }

Residuals::Residuals(std::uint64_t series, int ranks)
    : count(top_k_count(series)),
      by_rank(static_cast<std::size_t>(ranks), std::vector<std::int64_t>(count)) {
  (void)sparclFeedbackCreate(&feedback, count, sparclInt64);
}

Residuals::~Residuals() { (void)sparclFeedbackDestroy(feedback); }

std::vector<std::int64_t> Residuals::own() const {
  const void* residual = nullptr;
  if (sparclFeedbackGetResidual(feedback, &residual, nullptr, nullptr) != sparclSuccess) return {};
  const auto* values = static_cast<const std::int64_t*>(residual);
  return {values, values + count};
}

// Each rank's in a place of its own: with zeros of the others the sum is all of them.
sparclResult_t Residuals::meet_again(sparclComm_t comm, int rank, int ranks) {
  const std::vector<std::int64_t> mine = own();
  if (mine.empty()) return sparclInternalError;  // a call that is over still has the feedback
  std::vector<std::int64_t> all(count * static_cast<std::uint64_t>(ranks));
  std::copy(mine.begin(), mine.end(), all.begin() + static_cast<std::ptrdiff_t>(count) * rank);
  sparclMask_t mask = nullptr;
  (void)sparclMaskCreateRandom(&mask, all.size(), 1, 0);
  const sparclResult_t result =
      sparclAllReduceMasked(all.data(), all.data(), all.size(), sparclInt64, sparclSum, mask,
                            nullptr, nullptr, comm, nullptr);
  (void)sparclMaskDestroy(mask);
  by_rank.clear();
  for (auto at = all.begin(); at != all.end(); at += static_cast<std::ptrdiff_t>(count))
    by_rank.emplace_back(at, at + static_cast<std::ptrdiff_t>(count));
  return result;
}

std::unique_ptr<Flight> make_flight(const Step& step, int rank, int ranks, Holdings& held,
                                    Deviation deviation) {
  Step own = step;
  if (deviation == Deviation::kOperation)
    own.kind = step.kind == StepKind::kSparse ? StepKind::kDelta : StepKind::kSparse;
  switch (own.kind) {
    case StepKind::kDelta:
      return std::make_unique<DeltaFlight>(own, rank, ranks, held.array, deviation);
    case StepKind::kUpdate:
      return std::make_unique<UpdateFlight>(own, rank, ranks, held.model, deviation);
    case StepKind::kMasked:
      return std::make_unique<MaskedFlight>(own, rank, ranks, deviation);
    case StepKind::kSparseSum:
      return std::make_unique<SparseSumFlight>(own, rank, ranks, deviation);
    case StepKind::kAggregate:
      return std::make_unique<AggregateFlight>(own, rank, ranks, deviation);
    case StepKind::kTopK:
      return std::make_unique<TopKFlight>(own, rank, ranks, held.residuals, deviation);
    case StepKind::kSparse:
      break;
  }
  return std::make_unique<SparseFlight>(own, rank, ranks, deviation);
}

}  // namespace sparcl::test
