#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "src/net/socket.hpp"
#include "src/store/version_reader.hpp"
#include "tools/gateway/gateway_source.hpp"
#include "tools/sparcl/console.hpp"
#include "tools/sparcl/open_chain.hpp"
#include "tools/sparcl/signals.hpp"
#include "tools/sparcl/trouble_teller.hpp"

namespace sparcl::gateway {
namespace {

class StoreSource final : public GatewaySource {
 public:
  StoreSource(const StorePlace& place, std::unique_ptr<tool::OpenChain> chain)
      : place_(place),
        chain_(std::move(chain)),
        lease_(*chain_->objects),
        reader_(chain_->chain, lease_) {}
  ~StoreSource() override { lease_.release(); }

  // False: the store is empty.
  Result<bool> begin() {
    SPARCL_ASSIGN_OR_RETURN(const std::optional<store::VersionRecord> newest,
                            chain_->chain.newest());
    if (!newest) return false;
    SPARCL_ASSIGN_OR_RETURN(const tool::StoredModel stored,
                            tool::read_stored_model(chain_->chain, *newest));
    SPARCL_ASSIGN_OR_RETURN(memory_, tool::ModelMemory::create(stored.model.schema));
    model_id_ = stored.model.model_id;
    return true;
  }

  const tool::ModelMemory& memory() const override { return *memory_; }
  const std::string& model_id() const override { return model_id_; }

  Result<std::optional<model::HeldVersion>> next(double seconds) override {
    const double left = looked_at_ + place_.poll_s - net::monotonic_seconds();
    if (left > 0 && tool::wait_for_stop(std::min(left, seconds))) return nothing();
    if (left > seconds) return nothing();
    looked_at_ = net::monotonic_seconds();
    SPARCL_ASSIGN_OR_RETURN(const std::optional<store::VersionRecord> newest,
                            chain_->chain.newest());
    if (!newest || (held_ && newest->target() == *held_)) return nothing();
    store::ChainState state = tool::chain_state(*memory_);
    state.may_tear = !held_;
    SPARCL_ASSIGN_OR_RETURN(const store::RestoredVersion restored,
                            reader_.restore(0, held_, state, held_ ? held_->version : 0));
    held_ = restored.record.target();
    return held_;
  }
  // Other tensors are another model: a gateway that is started anew takes them.
  bool is_lasting(Code code) const override { return code == Code::kMismatch; }

 private:
  static Result<std::optional<model::HeldVersion>> nothing() {
    return std::optional<model::HeldVersion>();
  }

  StorePlace place_;
  std::unique_ptr<tool::OpenChain> chain_;
  store::Lease lease_;
  store::VersionReader reader_;
  std::unique_ptr<tool::ModelMemory> memory_;
  std::string model_id_;
  std::optional<model::HeldVersion> held_;
  double looked_at_ = -1e9;
};

}  // namespace

Result<GatewaySourceRef> open_store_source(const StorePlace& place) {
  SPARCL_ASSIGN_OR_RETURN(store::ChainTrustRef trust,
                          store::ChainTrust::load({.model_id = place.model_id,
                                                   .trust_path = place.trust_path,
                                                   .trust_threshold = place.trust_threshold}));
  SPARCL_ASSIGN_OR_RETURN(
      auto chain, tool::open_chain(place.url, store::Missing::kIsAnError, std::move(trust)));
  auto source = std::make_unique<StoreSource>(place, std::move(chain));
  tool::TroubleTeller teller;
  bool is_told = false;
  for (;;) {
    const Result<bool> begun = source->begin();
    if (begun.ok() && *begun) return GatewaySourceRef(std::move(source));
    if (!begun.ok() && begun.status().code() != Code::kSystemError) return begun.status();
    teller.note(begun.status(), net::monotonic_seconds());
    if (begun.ok() && !std::exchange(is_told, true))
      tool::print_note(
          fmt::format("{}: the store is empty: waiting for a first version", place.url));
    if (tool::wait_for_stop(place.poll_s)) return GatewaySourceRef();
  }
}

}  // namespace sparcl::gateway
