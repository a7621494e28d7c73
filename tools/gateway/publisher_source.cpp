#include <fmt/format.h>

#include "src/base/settings.hpp"
#include "tools/gateway/gateway_source.hpp"
#include "tools/sparcl/kept_record.hpp"
#include "tools/sparcl/model_wait.hpp"

namespace sparcl::gateway {
namespace {

class PublisherSource final : public GatewaySource {
 public:
  PublisherSource(std::string model_id, std::unique_ptr<tool::ModelMemory> memory,
                  std::unique_ptr<replication::Subscriber> subscriber)
      : model_id_(std::move(model_id)),
        memory_(std::move(memory)),
        subscriber_(std::move(subscriber)) {}

  const tool::ModelMemory& memory() const override { return *memory_; }
  const std::string& model_id() const override { return model_id_; }

  Result<std::optional<model::HeldVersion>> next(double seconds) override {
    const Result<replication::Subscriber::Swap> swap = subscriber_->next(seconds);
    if (swap.ok()) return std::optional(model::HeldVersion{swap->version, swap->hash});
    if (swap.status().code() != Code::kTimeout) return swap.status();
    SPARCL_RETURN_IF_ERROR(subscriber_->trouble());
    return std::optional<model::HeldVersion>();
  }

 private:
  std::string model_id_;
  std::unique_ptr<tool::ModelMemory> memory_;
  std::unique_ptr<replication::Subscriber> subscriber_;  // writes to the memory: it ends first
};

Result<std::optional<tool::PublishedModel>> ask(const PublisherPlace& place,
                                                replication::ReplicaCredentials& credentials) {
  tool::KeptRecord record;  // there is no file to come back to: any signed version may be the first
  record.trusted = credentials.trusted();
  tool::RenewedQuestion renewed({"", place.model_id, true}, credentials, record);
  tool::ModelQuestion question;
  question.address = place.address;
  question.model_id = place.model_id;
  question.timeout_s = kMaxSeconds;
  renewed.fill(question);
  question.renew = renewed;
  return tool::wait_for_model(std::move(question));
}

}  // namespace

Result<GatewaySourceRef> open_publisher(PublisherPlace place) {
  replication::SubscriberOptions& options = place.subscriber;
  SPARCL_RETURN_IF_ERROR(options.take_settings());
  options.keeps_rollback = false;  // a gateway never goes back
  SPARCL_ASSIGN_OR_RETURN(options.credentials, replication::ReplicaCredentials::load(
                                                   {options.secret_path, options.certificates_path,
                                                    options.trust_path, options.trust_threshold}));
  SPARCL_ASSIGN_OR_RETURN(const std::optional<tool::PublishedModel> model,
                          ask(place, *options.credentials));
  if (!model) return GatewaySourceRef();
  options.model_id = model->model_id;
  SPARCL_ASSIGN_OR_RETURN(std::unique_ptr<tool::ModelMemory> memory,
                          tool::ModelMemory::create(model->schema));
  SPARCL_ASSIGN_OR_RETURN(std::unique_ptr<replication::Subscriber> subscriber,
                          replication::Subscriber::create(memory->view(), place.address, options));
  return GatewaySourceRef(
      std::make_unique<PublisherSource>(model->model_id, std::move(memory), std::move(subscriber)));
}

}  // namespace sparcl::gateway
