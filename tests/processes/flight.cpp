#include "tests/processes/flight.hpp"

#include <algorithm>

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

sparclDataType_t other_type(sparclDataType_t datatype) { return datatype == sparclUint8 ? sparclInt8 : sparclUint8; }

class ModelFlight : public Flight {
 public:
  ModelFlight(const Step& step, int rank, int ranks, Model& model, Deviation deviation)
      : root_(deviation == Deviation::kRoot ? (step.root + 1) % ranks : step.root),
        is_root_(rank == step.root),
        deviation_(deviation),
        model_(model),
        next_(changed_state(model.agreed, model.shapes, step)) {
    if (!is_root_) return;
    for (std::size_t i = 0; i < next_.size(); ++i) std::copy(next_[i].begin(), next_[i].end(), model_.held[i].begin());
  }

  // The root's own tensors are the new state from the start, whatever comes of the call.
  Holds judge(bool succeeded) final {
    const bool is_new = model_.held == next_;
    const Holds holds = is_root_ ? (is_new ? Holds::kBoth : Holds::kNeither) : compare(model_.held == model_.agreed, is_new);
    if (succeeded) {
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
    // A deviating rank's array is as large as the others', and of no type in which it would be larger.
    const std::size_t count = shape.count - (deviation_ == Deviation::kCount ? 1 : 0);
    const sparclDataType_t type = deviation_ == Deviation::kDatatype ? other_type(shape.datatype) : shape.datatype;
    void* weights = model_.held[0].data();
    return request != nullptr ? sparclIBroadcastDelta(weights, base, count, type, root_, comm, request)
                              : sparclBroadcastDelta(weights, base, count, type, root_, comm, nullptr);
  }
};

class UpdateFlight final : public ModelFlight {
 public:
  using ModelFlight::ModelFlight;
  sparclResult_t call(sparclComm_t comm, sparclRequest_t* request) override {
    const std::uint64_t version = is_root_ ? model_.version + 1 : 0;
    return request != nullptr ? sparclIBroadcastUpdate(model_.state, version, root_, comm, request)
                              : sparclBroadcastUpdate(model_.state, version, root_, comm, nullptr);
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
    const sparclDataType_t type = type_ == Deviation::kDatatype ? other_type(content_.datatype) : content_.datatype;
    return request != nullptr
               ? sparclIBroadcastSparse(values_.data(), indices_.data(), &count_, capacity_, type, root_, comm, request)
               : sparclBroadcastSparse(values_.data(), indices_.data(), &count_, capacity_, type, root_, comm, nullptr);
  }

  Holds judge(bool) override {
    const bool is_old = indices_ == before_.indices && values_ == before_.values && count_ == before_.count;
    if (is_root_) return is_old ? Holds::kBoth : Holds::kNeither;
    Content after{std::vector(capacity_, ~std::uint64_t{0}), ByteList(values_.size(), kUntouched), content_.indices.size()};
    std::copy(content_.indices.begin(), content_.indices.end(), after.indices.begin());
    std::copy(content_.values.begin(), content_.values.end(), after.values.begin());
    return compare(is_old, indices_ == after.indices && values_ == after.values && count_ == after.count);
  }

  std::uint64_t hash() const override {
    const std::uint64_t hash = add_to_hash(0xcbf29ce484222325u, indices_.data(), indices_.size() * sizeof indices_[0]);
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

// In place. What is in the mask becomes the sum over all ranks; after an error that ends the communicator some of it may be.
class MaskedFlight final : public Flight {
 public:
  MaskedFlight(const Step& step, int rank, int ranks, Deviation deviation)
      : content_(masked_content(step)), deviation_(deviation), before_(masked_values(step, rank)), held_(before_), after_(before_) {
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
               ? sparclIAllReduceMasked(held_.data(), held_.data(), content_.count, type, sparclSum, mask_, comm, request)
               : sparclAllReduceMasked(held_.data(), held_.data(), content_.count, type, sparclSum, mask_, comm, nullptr);
  }

  Holds judge(bool succeeded) override {
    if (succeeded) return compare(held_ == before_, held_ == after_);
    for (std::size_t i = 0; i < held_.size(); ++i) {
      if (held_[i] != before_[i] && held_[i] != after_[i]) return Holds::kNeither;
    }
    return Holds::kOld;
  }

  // Of what all ranks hold alike.
  std::uint64_t hash() const override {
    std::uint64_t hash = 0xcbf29ce484222325u;
    for (const std::uint64_t i : indices_) hash = add_to_hash(hash, &held_[i], sizeof held_[i]);
    return hash;
  }

 private:
  static std::int64_t add(std::int64_t a, std::int64_t b) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  }

  MaskedContent content_;
  Deviation deviation_;
  sparclMask_t mask_ = nullptr;
  std::vector<std::uint64_t> indices_;
  std::vector<std::int64_t> before_, held_, after_;
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
    (void)sparclStateAdd(state, name.c_str(), held[i].data(), shapes[i].datatype, 1, &shapes[i].count);
  }
}

Model::~Model() { (void)sparclStateDestroy(state); }

std::unique_ptr<Flight> make_flight(const Step& step, int rank, int ranks, Model& array, Model& model, Deviation deviation) {
  Step own = step;
  if (deviation == Deviation::kOperation) own.kind = step.kind == StepKind::kSparse ? StepKind::kDelta : StepKind::kSparse;
  switch (own.kind) {
    case StepKind::kDelta:
      return std::make_unique<DeltaFlight>(own, rank, ranks, array, deviation);
    case StepKind::kUpdate:
      return std::make_unique<UpdateFlight>(own, rank, ranks, model, deviation);
    case StepKind::kMasked:
      return std::make_unique<MaskedFlight>(own, rank, ranks, deviation);
    case StepKind::kSparse:
      break;
  }
  return std::make_unique<SparseFlight>(own, rank, ranks, deviation);
}

}  // namespace sparcl::test
