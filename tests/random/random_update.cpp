#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/random/flight_roles.hpp"

namespace sparcl::test {
namespace {

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
    for (HeldArray& tensor : model_.tensors)
      tensor.draw_next(random.chance(0.2) ? 0 : share, random);
    choose(random);
    settle_slip(share);
    const bool is_odd = scene.rank == roles_.odd;
    for (HeldArray& tensor : model_.tensors)
      tensor.held.set(is_root_ ? tensor.next : tensor.agreed);
    if (roles_.slip == Slip::kBase && is_odd) spoil(*spoilt_);
    for (HeldArray& tensor : model_.tensors)
      before_.emplace_back(tensor.held.bytes().begin(), tensor.held.bytes().end());
    root_ = roles_.slip == Slip::kRoot && is_odd ? roles_.another_root(scene) : roles_.root;
    const bool any_version = random.next() >> scene.rank & 1;
    const bool is_root_to_itself =
        root_ == scene.rank;  // a root names a version, also one by mistake
    version_ = !is_root_ && !is_root_to_itself && any_version ? 0 : model.version + 1;
    if (roles_.slip == Slip::kVersion && is_odd) version_ = model.version + 5;
    if (is_root_ && choice_ == Choice::kMarked) mark();
  }

  sparclResult_t start(sparclComm_t comm, sparclRequest_t* request) override {
    if (options_.select == sparclSelectAll && !takes_options_) {
      return request != nullptr
                 ? sparclIBroadcastUpdate(model_.state, version_, root_, nullptr, comm, nullptr,
                                          request)
                 : sparclBroadcastUpdate(model_.state, version_, root_, nullptr, comm, nullptr);
    }
    return request != nullptr
               ? sparclIBroadcastUpdate(model_.state, version_, root_, &options_, comm, nullptr,
                                        request)
               : sparclBroadcastUpdate(model_.state, version_, root_, &options_, comm, nullptr);
  }

  std::string judge(sparclResult_t result, const sparclReport_t& report) override {
    std::string wrong = wrong_result(result, expected_, report);
    for (std::size_t i = 0; i < model_.tensors.size(); ++i) {
      HeldArray& tensor = model_.tensors[i];
      const bool keeps_own = is_root_ && options_.adopt != sparclOn;
      const ByteList& right = result != sparclSuccess ? before_[i]
                              : keeps_own             ? tensor.next
                                                      : sent_[i];
      if (!tensor.held.holds(right)) wrong += fmt::format("tensor {} holds something else; ", i);
      if (expected_ == sparclSuccess) tensor.agreed = sent_[i];
      tensor.held.set(tensor.agreed);
    }
    if (expected_ == sparclSuccess) {
      ++model_.version;
      model_.confirmed_root = roles_.root;
      std::uint64_t version = 0;
      (void)sparclStateVersion(model_.state, &version);
      if (version != model_.version)
        wrong += fmt::format("its version is {}, not {}; ", version, model_.version);
    }
    return wrong;
  }

  std::string describe() const override {
    constexpr std::array kChoices{"", ", marked", ", above a threshold", ", the largest"};
    return fmt::format("BroadcastUpdate, {} tensors, version {}, root {}{}{}{}{}",
                       model_.tensors.size(), model_.version + 1, roles_.root,
                       has_base_ ? "" : ", whole", kChoices[static_cast<std::size_t>(choice_)],
                       options_.adopt == sparclOn ? ", adopted" : "", name_of(roles_.slip)) +
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
        const double size =
            std::fabs(number_at(tensor.plan.datatype, tensor.next.data() + i * width) -
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
    choice_ = kind < 0.6    ? Choice::kAll
              : kind < 0.75 ? Choice::kMarked
              : kind < 0.88 ? Choice::kThreshold
                            : Choice::kTopK;
    std::vector<Change> all = changes();
    const std::size_t middle = all.empty() ? 0 : random.below(all.size());
    if (choice_ == Choice::kMarked || choice_ == Choice::kAll || !has_base_) {
      for (const HeldArray& tensor : model_.tensors) sent_.push_back(tensor.next);
      if (choice_ > Choice::kMarked) choice_ = Choice::kAll;
      return;
    }
    options_.adopt = random.chance(0.5) ? sparclOn : sparclOff;
    if (choice_ == Choice::kThreshold) {
      options_.select = sparclSelectThreshold;
      options_.threshold = all.empty() || !std::isfinite(all[middle].size) ? 0 : all[middle].size;
      std::erase_if(all, [&](const Change& change) { return change.size <= options_.threshold; });
    } else {
      options_.select = sparclSelectTopK;
      options_.count = middle;
      const auto key = [](const Change& change) {
        return std::isnan(change.size) ? 2 : std::isinf(change.size) ? 1 : 0;
      };
      std::stable_sort(all.begin(), all.end(), [&](const Change& a, const Change& b) {
        const double least =
            std::numeric_limits<double>::denorm_min();  // no change is smaller, one from +0 to -0
                                                        // neither
        return key(a) != key(b) ? key(a) > key(b)
                                : key(a) == 0 && std::max(a.size, least) > std::max(b.size, least);
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
    const bool can_spoil = has_base_ && scene_.checks_base && roles_.odd != roles_.root &&
                           spoilt_ != nullptr && share < kCheckedShare && choice_ == Choice::kAll;
    if (roles_.slip == Slip::kBase && !can_spoil) roles_.slip = Slip::kNone;
    if (roles_.slip == Slip::kVersion && roles_.odd == roles_.root) roles_.slip = Slip::kNone;
    if (choice_ == Choice::kMarked) roles_.slip = Slip::kNone;  // marks outlive a call that fails
    expected_ = roles_.slip == Slip::kNone   ? sparclSuccess
                : roles_.slip == Slip::kBase ? sparclWrongBase
                                             : sparclMismatch;
  }

  // All that changed, and some more.
  void mark() {
    for (std::size_t t = 0; t < model_.tensors.size(); ++t) {
      const HeldArray& tensor = model_.tensors[t];
      std::vector<std::uint64_t> indices = tensor.changed;
      if (tensor.plan.count > 0 && (indices.empty() || indices.back() + 1 < tensor.plan.count))
        indices.push_back(tensor.plan.count - 1);
      (void)sparclStateMarkIndices(model_.state, fmt::format("tensor.{}", t).c_str(),
                                   indices.data(), indices.size());
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

}  // namespace

std::unique_ptr<RandomFlight> random_update(const Scene& scene, HeldModel& model,
                                            SeededRandom& random) {
  return std::make_unique<UpdateFlight>(scene, model, random);
}

}  // namespace sparcl::test
