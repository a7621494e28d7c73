#pragma once
// Where a gateway's versions come from: a publisher, or a store.

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "src/replication/subscriber.hpp"
#include "tools/sparcl/model_memory.hpp"

namespace sparcl::gateway {

class GatewaySource {
 public:
  virtual ~GatewaySource() = default;

  // The memory that next() writes to.
  virtual const tool::ModelMemory& memory() const = 0;
  virtual const std::string& model_id() const = 0;
  // Waits for so long. nullopt: the memory holds the same version as before, or none yet. After an
  // error it holds that, too.
  virtual Result<std::optional<model::HeldVersion>> next(double seconds) = 0;
  // An error of next() after which nothing will come. What a publisher answers may be an
  // attacker's.
  virtual bool is_lasting(Code) const { return false; }
};
using GatewaySourceRef = std::unique_ptr<GatewaySource>;

struct PublisherPlace {
  std::string address;
  std::optional<std::string> model_id;
  replication::SubscriberOptions subscriber;
};
// Waits for the publisher. nullptr: a stop was asked for (tool::stop_is_asked()).
Result<GatewaySourceRef> open_publisher(PublisherPlace place);

struct StorePlace {
  std::string url;
  std::string model_id{};    // that its records must name; "": any
  std::string trust_path{};  // of public keys, one of which must have signed; "": no signature
  std::size_t trust_threshold = 1;
  double poll_s = 1;  // between two looks
};
// Waits for the first version. nullptr: a stop was asked for.
Result<GatewaySourceRef> open_store_source(const StorePlace& place);

}  // namespace sparcl::gateway
