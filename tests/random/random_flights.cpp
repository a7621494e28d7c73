#include "tests/random/random_flights.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace sparcl::test {
namespace {

template <class List>
auto pick(const List& list, SeededRandom& random) {
  return list[random.below(list.size())];
}

// What one rank does wrong.
enum class Slip : std::uint8_t { kNone, kRoot, kCount, kType, kVersion, kBase, kCapacity, kOrder };
const char* name_of(Slip slip) {
  constexpr std::array kNames{"",
                              ", another root",
                              ", another count",
                              ", another type",
                              ", another version",
                              ", another base",
                              ", too little room",
                              ", indices out of order"};
  return kNames[static_cast<std::size_t>(slip)];
}

constexpr std::array kShares{0.0, 1e-5, 1e-3, 0.01, 0.03, 0.2, 0.5, 0.9, 1.0};
constexpr double kSlipChance = 0.06;

std::size_t draw_count(SeededRandom& random) {
  constexpr std::array<std::size_t, 9> kEdges{63, 64, 65, 255, 256, 257, 65'535, 65'536, 65'537};
  const double kind = random.unit();
  if (kind < 0.04) return 0;
  if (kind < 0.08) return 1;
  if (kind < 0.30) return 2 + random.below(100);
  if (kind < 0.42) return pick(kEdges, random);
  if (kind < 0.85) return 100 + random.below(20'000);
  return kind < 0.985 ? 20'000 + random.below(130'000) : 1'000'000 + random.below(500'000);
}

struct Roles {
  int root = 0, odd = 0;
  Slip slip = Slip::kNone;

  Roles(const Scene& scene, SeededRandom& random, std::initializer_list<Slip> slips) {
    const auto ranks = static_cast<std::uint64_t>(scene.ranks);
    root = static_cast<int>(random.below(ranks));
    odd = static_cast<int>(random.below(ranks));
    if (random.chance(kSlipChance) && ranks > 1) slip = slips.begin()[random.below(slips.size())];
  }
  int another_root(const Scene& scene) const { return (root + 1) % scene.ranks; }
};

std::string wrong_result(sparclResult_t result, sparclResult_t expected, const sparclReport_t& report) {
  if (result != expected) return fmt::format("returned {}, not {}; ", static_cast<int>(result), static_cast<int>(expected));
  if (report.applied != (result == sparclSuccess ? 1 : 0)) return fmt::format("applied is {}; ", report.applied);
  return {};
}

// Makes an element that the update changes neither what it was nor what it becomes.
bool spoil(HeldArray& array) {
  if (array.changed.empty()) return false;
  const std::size_t width = width_of(array.plan.datatype), at = array.changed[array.changed.size() / 2] * width;
  ByteList spoilt = array.agreed;
  for (const unsigned char flip : {1, 2, 4}) {
    spoilt[at] = static_cast<unsigned char>(array.agreed[at] ^ flip);
    if (!std::equal(spoilt.begin() + static_cast<std::ptrdiff_t>(at), spoilt.begin() + static_cast<std::ptrdiff_t>(at + width),
                    array.next.begin() + static_cast<std::ptrdiff_t>(at)))
      break;
  }
  array.held.set(spoilt);
  return true;
}

class DeltaFlight final : public RandomFlight {
 public:
  DeltaFlight(const Scene& scene, HeldArray& array, SeededRandom& random)
      : scene_(scene),
        array_(array),
        roles_(scene, random, {Slip::kRoot, Slip::kCount, Slip::kType, Slip::kBase}),
        share_(pick(kShares, random)) {
    array_.draw_next(share_, random);
    has_base_ = !random.chance(0.1);
    const bool is_odd = scene.rank == roles_.odd;
    // Slips that would be none.
    if (roles_.slip == Slip::kCount && array_.plan.count == 0) roles_.slip = Slip::kNone;
    const bool can_spoil = has_base_ && scene.checks_base && roles_.odd != roles_.root && !array_.changed.empty() && share_ < 0.1;
    if (roles_.slip == Slip::kBase && !can_spoil) roles_.slip = Slip::kNone;
    expected_ = roles_.slip == Slip::kNone ? sparclSuccess : roles_.slip == Slip::kBase ? sparclWrongBase : sparclMismatch;

    array_.held.set(scene.rank == roles_.root ? array_.next : array_.agreed);
    if (roles_.slip == Slip::kBase && is_odd) spoil(array_);
    before_.assign(array_.held.bytes().begin(), array_.held.bytes().end());
    base_ = array_.agreed;
    root_ = roles_.slip == Slip::kRoot && is_odd ? roles_.another_root(scene) : roles_.root;
    count_ = array_.plan.count - (roles_.slip == Slip::kCount && is_odd ? 1 : 0);
    type_ = array_.plan.datatype;
    if (roles_.slip == Slip::kType && is_odd) type_ = type_ == sparclUint8 ? sparclInt8 : sparclUint8;
  }

  sparclResult_t start(sparclComm_t comm, sparclRequest_t* request) override {
    const void* base = has_base_ ? base_.data() : nullptr;
    return request != nullptr ? sparclIBroadcastDelta(array_.held.data(), base, count_, type_, root_, comm, request)
                              : sparclBroadcastDelta(array_.held.data(), base, count_, type_, root_, comm, nullptr);
  }

  std::string judge(sparclResult_t result, const sparclReport_t& report) override {
    std::string wrong = wrong_result(result, expected_, report);
    if (!array_.held.holds(result == sparclSuccess ? array_.next : before_)) wrong += "the array holds something else; ";
    if (result == sparclSuccess && has_base_ && report.nnz_out != array_.changed.size())
      wrong += fmt::format("{} changes are reported; ", report.nnz_out);
    if (expected_ == sparclSuccess) array_.agreed = array_.next;
    array_.held.set(array_.agreed);
    return wrong;
  }

  std::string describe() const override {
    return fmt::format("BroadcastDelta, {} elements of type {}, {} changed, root {}{}{}", array_.plan.count,
                       static_cast<int>(array_.plan.datatype), array_.changed.size(), roles_.root, has_base_ ? "" : ", no base",
                       name_of(roles_.slip)) +
           (roles_.slip != Slip::kNone ? fmt::format(" on rank {}", roles_.odd) : "");
  }
  sparclResult_t expected() const override { return expected_; }

 private:
  Scene scene_;
  HeldArray& array_;
  Roles roles_;
  double share_;
  bool has_base_ = true;
  ByteList before_, base_;
  int root_ = 0;
  std::size_t count_ = 0;
  sparclDataType_t type_ = sparclFloat32;
  sparclResult_t expected_ = sparclSuccess;
};

// What of the changes an update carries.
enum class Choice : std::uint8_t { kAll, kMarked, kThreshold, kTopK };

class UpdateFlight final : public RandomFlight {
 public:
  UpdateFlight(const Scene& scene, HeldModel& model, SeededRandom& random)
      : scene_(scene),
        model_(model),
        roles_(scene, random, {Slip::kRoot, Slip::kVersion, Slip::kBase}),
        is_root_(scene.rank == roles_.root),
        has_base_(model.confirmed_root == roles_.root) {
    const double share = pick(kShares, random);
    for (HeldArray& tensor : model_.tensors) tensor.draw_next(random.chance(0.2) ? 0 : share, random);
    choose(random);
    settle_slip(share);
    const bool is_odd = scene.rank == roles_.odd;
    for (HeldArray& tensor : model_.tensors) tensor.held.set(is_root_ ? tensor.next : tensor.agreed);
    if (roles_.slip == Slip::kBase && is_odd) spoil(*spoilt_);
    for (HeldArray& tensor : model_.tensors) before_.emplace_back(tensor.held.bytes().begin(), tensor.held.bytes().end());
    root_ = roles_.slip == Slip::kRoot && is_odd ? roles_.another_root(scene) : roles_.root;
    const bool any_version = random.next() >> scene.rank & 1;
    version_ = !is_root_ && any_version ? 0 : model.version + 1;
    if (roles_.slip == Slip::kVersion && is_odd) version_ = model.version + 5;
    if (is_root_ && choice_ == Choice::kMarked) mark();
  }

  sparclResult_t start(sparclComm_t comm, sparclRequest_t* request) override {
    if (options_.select == sparclSelectAll && !takes_options_) {
      return request != nullptr ? sparclIBroadcastUpdate(model_.state, version_, root_, comm, request)
                                : sparclBroadcastUpdate(model_.state, version_, root_, comm, nullptr);
    }
    return request != nullptr ? sparclIBroadcastUpdateEx(model_.state, version_, root_, &options_, comm, request)
                              : sparclBroadcastUpdateEx(model_.state, version_, root_, comm, nullptr, &options_);
  }

  std::string judge(sparclResult_t result, const sparclReport_t& report) override {
    std::string wrong = wrong_result(result, expected_, report);
    for (std::size_t i = 0; i < model_.tensors.size(); ++i) {
      HeldArray& tensor = model_.tensors[i];
      const bool keeps_own = is_root_ && options_.adopt == 0;
      const ByteList& right = result != sparclSuccess ? before_[i] : keeps_own ? tensor.next : sent_[i];
      if (!tensor.held.holds(right)) wrong += fmt::format("tensor {} holds something else; ", i);
      if (expected_ == sparclSuccess) tensor.agreed = sent_[i];
      tensor.held.set(tensor.agreed);
    }
    if (expected_ == sparclSuccess) {
      ++model_.version;
      model_.confirmed_root = roles_.root;
      std::uint64_t version = 0;
      (void)sparclStateVersion(model_.state, &version);
      if (version != model_.version) wrong += fmt::format("its version is {}, not {}; ", version, model_.version);
    }
    return wrong;
  }

  std::string describe() const override {
    constexpr std::array kChoices{"", ", marked", ", above a threshold", ", the largest"};
    return fmt::format("BroadcastUpdate, {} tensors, version {}, root {}{}{}{}{}", model_.tensors.size(), model_.version + 1,
                       roles_.root, has_base_ ? "" : ", whole", kChoices[static_cast<std::size_t>(choice_)],
                       options_.adopt != 0 ? ", adopted" : "", name_of(roles_.slip)) +
           (roles_.slip != Slip::kNone ? fmt::format(" on rank {}", roles_.odd) : "");
  }
  sparclResult_t expected() const override { return expected_; }

 private:
  struct Change {
    double size;  // NaN counts as infinitely much, and more
    std::size_t tensor;
    std::uint64_t index;
  };

  std::vector<Change> changes() const {
    std::vector<Change> all;
    for (std::size_t t = 0; t < model_.tensors.size(); ++t) {
      const HeldArray& tensor = model_.tensors[t];
      const std::size_t width = width_of(tensor.plan.datatype);
      for (const std::uint64_t i : tensor.changed) {
        const double size = std::fabs(number_at(tensor.plan.datatype, tensor.next.data() + i * width) -
                                      number_at(tensor.plan.datatype, tensor.agreed.data() + i * width));
        all.push_back({size, t, i});
      }
    }
    return all;
  }

  // Works out what the replicas will hold.
  void choose(SeededRandom& random) {
    const double kind = random.unit();
    takes_options_ = random.chance(0.2);
    choice_ = kind < 0.6 ? Choice::kAll : kind < 0.75 ? Choice::kMarked : kind < 0.88 ? Choice::kThreshold : Choice::kTopK;
    std::vector<Change> all = changes();
    const std::size_t middle = all.empty() ? 0 : random.below(all.size());
    if (choice_ == Choice::kMarked || choice_ == Choice::kAll || !has_base_) {
      for (const HeldArray& tensor : model_.tensors) sent_.push_back(tensor.next);
      if (choice_ > Choice::kMarked) choice_ = Choice::kAll;
      return;
    }
    options_.adopt = random.chance(0.5) ? 1 : 0;
    if (choice_ == Choice::kThreshold) {
      options_.select = sparclSelectThreshold;
      options_.threshold = all.empty() || !std::isfinite(all[middle].size) ? 0 : all[middle].size;
      std::erase_if(all, [&](const Change& change) { return change.size <= options_.threshold; });
    } else {
      options_.select = sparclSelectTopK;
      options_.count = middle;
      const auto key = [](const Change& change) { return std::isnan(change.size) ? 2 : std::isinf(change.size) ? 1 : 0; };
      std::stable_sort(all.begin(), all.end(), [&](const Change& a, const Change& b) {
        const double least = std::numeric_limits<double>::denorm_min();  // no change is smaller, one from +0 to -0 neither
        return key(a) != key(b) ? key(a) > key(b) : key(a) == 0 && std::max(a.size, least) > std::max(b.size, least);
      });
      all.resize(std::min<std::size_t>(all.size(), middle));
    }
    for (const HeldArray& tensor : model_.tensors) sent_.push_back(tensor.agreed);
    for (const Change& change : all) {
      const HeldArray& tensor = model_.tensors[change.tensor];
      const std::size_t width = width_of(tensor.plan.datatype);
      std::copy_n(tensor.next.begin() + static_cast<std::ptrdiff_t>(change.index * width), width,
                  sent_[change.tensor].begin() + static_cast<std::ptrdiff_t>(change.index * width));
    }
  }

  void settle_slip(double share) {
    for (HeldArray& tensor : model_.tensors) {
      if (!tensor.changed.empty()) spoilt_ = &tensor;
    }
    const bool can_spoil = has_base_ && scene_.checks_base && roles_.odd != roles_.root && spoilt_ != nullptr && share < 0.1 &&
                           choice_ == Choice::kAll;
    if (roles_.slip == Slip::kBase && !can_spoil) roles_.slip = Slip::kNone;
    if (roles_.slip == Slip::kVersion && roles_.odd == roles_.root) roles_.slip = Slip::kNone;
    if (choice_ == Choice::kMarked) roles_.slip = Slip::kNone;  // marks outlive a call that fails
    expected_ = roles_.slip == Slip::kNone ? sparclSuccess : roles_.slip == Slip::kBase ? sparclWrongBase : sparclMismatch;
  }

  // All that changed, and some more.
  void mark() {
    for (std::size_t t = 0; t < model_.tensors.size(); ++t) {
      const HeldArray& tensor = model_.tensors[t];
      std::vector<std::uint64_t> indices = tensor.changed;
      if (tensor.plan.count > 0 && (indices.empty() || indices.back() + 1 < tensor.plan.count))
        indices.push_back(tensor.plan.count - 1);
      (void)sparclStateMarkIndices(model_.state, fmt::format("tensor.{}", t).c_str(), indices.data(), indices.size());
    }
  }

  Scene scene_;
  HeldModel& model_;
  Roles roles_;
  bool is_root_;
  bool has_base_;
  Choice choice_ = Choice::kAll;
  bool takes_options_ = false;
  sparclUpdateOptions_t options_ = SPARCL_UPDATE_OPTIONS_INITIALIZER;
  HeldArray* spoilt_ = nullptr;
  std::vector<ByteList> sent_, before_;
  int root_ = 0;
  std::uint64_t version_ = 0;
  sparclResult_t expected_ = sparclSuccess;
};

class SparseFlight final : public RandomFlight {
 public:
  SparseFlight(const Scene& scene, SeededRandom& random)
      : scene_(scene),
        roles_(scene, random, {Slip::kRoot, Slip::kType, Slip::kCapacity, Slip::kOrder}),
        type_(pick(kAllTypes, random)) {
    std::size_t entries = random.chance(0.5) ? random.below(50) : draw_count(random) / 2;
    draw_indices(entries, random);
    entries = sent_indices_.size();
    sent_values_ = make_values(type_, entries, static_cast<Style>(random.below(3)), random);
    capacity_ = entries + (random.chance(0.5) ? 0 : random.below(10));
    settle_slip();

    const bool is_odd = scene.rank == roles_.odd;
    is_root_ = scene.rank == roles_.root;
    root_ = roles_.slip == Slip::kRoot && is_odd ? roles_.another_root(scene) : roles_.root;
    own_type_ = roles_.slip == Slip::kType && is_odd ? (type_ == sparclUint8 ? sparclInt8 : sparclUint8) : type_;
    own_capacity_ = roles_.slip == Slip::kCapacity && is_odd ? entries - 1 : capacity_;
    values_ = Fenced(std::max(own_capacity_, entries) * width_of(type_));
    indices_ = Fenced(std::max(own_capacity_, entries) * sizeof(std::uint64_t));
    if (is_root_) {
      put(values_, sent_values_);
      put(indices_, index_bytes());
      nnz_ = entries;
    }
    values_before_.assign(values_.bytes().begin(), values_.bytes().end());
    indices_before_.assign(indices_.bytes().begin(), indices_.bytes().end());
    nnz_before_ = nnz_;
  }

  sparclResult_t start(sparclComm_t comm, sparclRequest_t* request) override {
    auto* indices = reinterpret_cast<std::uint64_t*>(indices_.data());  // the fence is a multiple of its alignment
    return request != nullptr
               ? sparclIBroadcastSparse(values_.data(), indices, &nnz_, own_capacity_, own_type_, root_, comm, request)
               : sparclBroadcastSparse(values_.data(), indices, &nnz_, own_capacity_, own_type_, root_, comm, nullptr);
  }

  std::string judge(sparclResult_t result, const sparclReport_t& report) override {
    std::string wrong = wrong_result(result, expected_, report);
    ByteList values = values_before_, indices = indices_before_;
    std::size_t nnz = nnz_before_;
    if (result == sparclSuccess) {
      const ByteList sent = index_bytes();
      std::copy(sent_values_.begin(), sent_values_.end(), values.begin());
      std::copy(sent.begin(), sent.end(), indices.begin());
    }
    if (result == sparclSuccess || result == sparclTruncated) nnz = sent_indices_.size();
    if (!values_.holds(values)) wrong += "the values are others; ";
    if (!indices_.holds(indices)) wrong += "the indices are others; ";
    if (nnz_ != nnz) wrong += fmt::format("nnz is {}, not {}; ", nnz_, nnz);
    return wrong;
  }

  std::string describe() const override {
    return fmt::format("BroadcastSparse, {} entries of type {}, capacity {}, root {}{}", sent_indices_.size(),
                       static_cast<int>(type_), capacity_, roles_.root, name_of(roles_.slip)) +
           (roles_.slip != Slip::kNone ? fmt::format(" on rank {}", roles_.odd) : "");
  }
  sparclResult_t expected() const override { return expected_; }

 private:
  void draw_indices(std::size_t entries, SeededRandom& random) {
    constexpr std::array<std::uint64_t, 5> kGaps{1, 3, 100, 100'000, std::uint64_t{1} << 44};
    const std::uint64_t gap = pick(kGaps, random);
    std::uint64_t index = random.below(gap);
    for (std::size_t i = 0; i < entries && index < std::uint64_t{1} << 62; ++i, index += 1 + random.below(gap))
      sent_indices_.push_back(index);
  }

  void settle_slip() {
    const bool needs_other = roles_.slip == Slip::kCapacity && (roles_.odd == roles_.root || sent_indices_.empty());
    const bool needs_two = roles_.slip == Slip::kOrder && sent_indices_.size() < 2;
    if (needs_other || needs_two) roles_.slip = Slip::kNone;
    if (roles_.slip == Slip::kOrder) {
      roles_.odd = roles_.root;
      std::swap(sent_indices_.front(), sent_indices_.back());
    }
    expected_ = roles_.slip == Slip::kNone       ? sparclSuccess
                : roles_.slip == Slip::kCapacity ? sparclTruncated
                : roles_.slip == Slip::kOrder    ? sparclInvalidArgument
                                                 : sparclMismatch;
  }

  ByteList index_bytes() const {
    const auto* begin = reinterpret_cast<const unsigned char*>(sent_indices_.data());
    return {begin, begin + sent_indices_.size() * sizeof(std::uint64_t)};
  }

  static void put(Fenced& into, const ByteList& bytes) { std::copy(bytes.begin(), bytes.end(), into.data()); }

  Scene scene_;
  Roles roles_;
  sparclDataType_t type_, own_type_ = sparclFloat32;
  std::vector<std::uint64_t> sent_indices_;
  ByteList sent_values_, values_before_, indices_before_;
  std::size_t capacity_ = 0, own_capacity_ = 0;
  Fenced values_, indices_;
  std::size_t nnz_ = 4'711, nnz_before_ = 0;
  bool is_root_ = false;
  int root_ = 0;
  sparclResult_t expected_ = sparclSuccess;
};

}  // namespace

ArrayPlan draw_array(SeededRandom& random) {
  return {pick(kAllTypes, random), draw_count(random), static_cast<Style>(random.below(3)), random.below(4)};
}

HeldArray::HeldArray(const ArrayPlan& given, SeededRandom& random)
    : plan(given),
      held(given.count * width_of(given.datatype), given.offset * width_of(given.datatype)),
      agreed(make_values(given.datatype, given.count, given.style, random)),
      next(agreed) {}

void HeldArray::draw_next(double share, SeededRandom& random) {
  next = agreed;
  changed = change_values(next, plan.datatype, share, plan.style, random);
}

HeldModel::HeldModel(int count, SeededRandom& random) {
  (void)sparclStateCreate(&state);
  tensors.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    HeldArray& tensor = tensors.emplace_back(draw_array(random), random);
    const std::uint64_t shape[] = {tensor.plan.count};
    (void)sparclStateAdd(state, fmt::format("tensor.{}", i).c_str(), tensor.held.data(), tensor.plan.datatype, 1, shape);
  }
}

HeldModel::~HeldModel() { (void)sparclStateDestroy(state); }

std::unique_ptr<RandomFlight> random_delta(const Scene& scene, HeldArray& array, SeededRandom& random) {
  return std::make_unique<DeltaFlight>(scene, array, random);
}
std::unique_ptr<RandomFlight> random_update(const Scene& scene, HeldModel& model, SeededRandom& random) {
  return std::make_unique<UpdateFlight>(scene, model, random);
}
std::unique_ptr<RandomFlight> random_sparse(const Scene& scene, SeededRandom& random) {
  return std::make_unique<SparseFlight>(scene, random);
}

}  // namespace sparcl::test
