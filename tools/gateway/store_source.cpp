#include <fmt/format.h>

#include <algorithm>

#include "src/store/address/open_store.hpp"
#include "src/store/chain_reader.hpp"
#include "src/store/reader_lease.hpp"
#include "src/store/stored_object.hpp"
#include "tools/gateway/gateway_source.hpp"
#include "tools/sparcl/console.hpp"
#include "tools/sparcl/signals.hpp"
#include "tools/sparcl/trouble_teller.hpp"

namespace sparcl::gateway {
namespace {

constexpr std::uint64_t kMaxSchemaBytes = std::uint64_t{8} << 20;  // as a publisher's

class StoreSource final : public GatewaySource {
 public:
  StoreSource(const StorePlace& place, std::unique_ptr<store::ObjectStore> objects)
      : place_(place), objects_(std::move(objects)), chain_(*objects_), lease_(*objects_) {}
  ~StoreSource() override { lease_.release(); }

  // False: the store is empty.
  Result<bool> begin() {
    SPARCL_ASSIGN_OR_RETURN(const std::optional<store::VersionRecord> newest, chain_.newest());
    if (!newest) return false;
    SPARCL_ASSIGN_OR_RETURN(const Staging bytes,
                            store::get_object(*objects_, newest->schema, kMaxSchemaBytes));
    std::vector<std::byte> schema(newest->schema.bytes);
    bytes.copy(0, schema.size(), schema.data());
    SPARCL_ASSIGN_OR_RETURN(const model::Schema tensors, model::parse_schema(schema));
    SPARCL_ASSIGN_OR_RETURN(memory_, tool::ModelMemory::create(tensors));
    return true;
  }

  const tool::ModelMemory& memory() const override { return *memory_; }
  const std::string& model_id() const override { return place_.model_id; }

  Result<std::optional<model::HeldVersion>> next(double seconds) override {
    const double left = looked_at_ + place_.poll_s - net::monotonic_seconds();
    if (left > 0 && tool::wait_for_stop(std::min(left, seconds))) return nothing();
    if (left > seconds) return nothing();
    looked_at_ = net::monotonic_seconds();
    SPARCL_ASSIGN_OR_RETURN(const std::optional<store::VersionRecord> newest, chain_.newest());
    if (!newest) return nothing();
    if (held_ && newest->target() == *held_) return nothing();
    const Status brought = bring_to(*newest);
    if (!brought.ok()) chain_.forget();  // its objects may have been pruned meanwhile
    SPARCL_RETURN_IF_ERROR(brought);
    held_ = newest->target();
    return held_;
  }
  // Other tensors are another model: a gateway that is started anew takes them.
  bool is_lasting(Code code) const override { return code == Code::kMismatch; }

 private:
  static Result<std::optional<model::HeldVersion>> nothing() {
    return std::optional<model::HeldVersion>();
  }

  store::ChainState state() const {
    const replication::ReplicatedState& view = memory_->view();
    return {view.map,    view.schema,  view.schema_hash, view.arrays,
            view.source, view.kernels, view.workers};
  }

  Status bring_to(const store::VersionRecord& target) {
    const auto take = [&](std::span<const store::ChainStep> steps) -> Status {
      const std::uint64_t first = steps.empty() ? target.number : steps.front().first_needed();
      SPARCL_ASSIGN_OR_RETURN(const bool is_new, lease_.hold(first));
      if (is_new) {
        SPARCL_ASSIGN_OR_RETURN(const std::uint64_t oldest, chain_.oldest());
        if (oldest > first)
          return Status(Code::kCorrupt, fmt::format("record {} was removed meanwhile", first));
      }
      return store::restore(chain_, target, steps, held_, state());
    };
    return store::by_any_path(chain_, target, {.held = held_}, take);
  }

  StorePlace place_;
  std::unique_ptr<store::ObjectStore> objects_;
  store::Chain chain_;
  store::Lease lease_;
  std::unique_ptr<tool::ModelMemory> memory_;
  std::optional<model::HeldVersion> held_;
  double looked_at_ = -1e9;
};

}  // namespace

Result<GatewaySourceRef> open_store_source(const StorePlace& place) {
  SPARCL_ASSIGN_OR_RETURN(std::unique_ptr<store::ObjectStore> objects,
                          store::open_store(place.url, store::Missing::kIsAnError));
  auto source = std::make_unique<StoreSource>(place, std::move(objects));
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
