#pragma once
// Ranks that broadcast updates of a state, with its tensors where the test wants them.

#include <memory>
#include <optional>
#include <string>

#include "tests/fakes/nccl/broadcast_calls.hpp"
#include "tests/fakes/nccl/device_model.hpp"

namespace sparcl::test {

// Of the ranks in turn: tensors here and there, all on the device, the other way round, all on the
// host.
inline unsigned places_of(int rank) {
  constexpr unsigned kPlaces[] = {DeviceModel::kMixed, DeviceModel::kAllOnDevice,
                                  ~DeviceModel::kMixed, DeviceModel::kAllOnHost};
  return kPlaces[rank % 4];
}

class UpdateRanks {
 public:
  using Places = unsigned (*)(int rank);

  UpdateRanks(int ranks, Places places) : places_(places) {
    party_.emplace(ranks);
    for (int rank = 0; rank < ranks; ++rank)
      models.push_back(std::make_unique<DeviceModel>(places(rank), 0, false));
  }
  UpdateRanks(const UpdateRanks&) = delete;
  UpdateRanks& operator=(const UpdateRanks&) = delete;
  static UpdateRanks mixed(int ranks) { return {ranks, places_of}; }
  static UpdateRanks on_device(int ranks) {
    return {ranks, [](int) { return DeviceModel::kAllOnDevice; }};
  }
  static UpdateRanks on_host(int ranks) {
    return {ranks, [](int) { return DeviceModel::kAllOnHost; }};
  }

  ThreadRanks& party() { return *party_; }
  // The same ranks with another communicator.
  void meet_again() {
    const int ranks = party_->size();
    party_.reset();
    party_.emplace(ranks);
  }
  sparclState_t state(int rank) const { return models[static_cast<std::size_t>(rank)]->state(); }
  sparclStream_t stream(int rank) const {
    return places_(rank) != DeviceModel::kAllOnHost ? stream_of(rank) : nullptr;
  }
  // Of all ranks.
  std::vector<Bytes> read() const {
    std::vector<Bytes> all;
    for (const auto& each : models) all.push_back(each->read());
    return all;
  }
  std::vector<sparclResult_t> update(std::uint64_t version, int root,
                                     const sparclUpdateOptions_t* options = nullptr) {
    return party_->run([&](int rank, sparclComm_t comm) {
      return sparclBroadcastUpdate(state(rank), version, root, options, comm, stream(rank));
    });
  }
  std::string error(int rank) const { return sparclGetLastError(party_->comm(rank)); }

 private:
  Places places_;
  std::optional<ThreadRanks> party_;

 public:
  std::vector<std::unique_ptr<DeviceModel>> models;
};

inline sparclUpdateOptions_t with(sparclSelect_t select, sparclValues_t values = sparclValuesExact,
                                  sparclToggle_t adopt = sparclOff) {
  sparclUpdateOptions_t options = SPARCL_UPDATE_OPTIONS_INITIALIZER;
  options.select = select;
  options.values = values;
  options.adopt = adopt;
  options.threshold = 0.001;
  options.count = 500;
  options.bytes = 20'000;
  options.seed = 5;
  options.rounding = values == sparclValuesFloat8 ? sparclRoundStochastic : sparclRoundNearest;
  return options;
}

}  // namespace sparcl::test
