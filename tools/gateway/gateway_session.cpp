#include "tools/gateway/gateway_session.hpp"

#include <fmt/format.h>

#include <cstring>
#include <limits>

#include "src/base/log.hpp"
#include "src/base/shown_text.hpp"

namespace sparcl::gateway {
namespace {

constexpr std::size_t kMaxName = 128, kMaxReason = 1024;  // bytes
constexpr int kMaxNacks = 3;  // one after the other: a client that can use nothing is given up
constexpr double kNever = std::numeric_limits<double>::infinity();

void write_version(const model::HeldVersion& version, v1::Version& out) {
  const auto hash = to_bytes(version.hash);
  out.set_number(version.version);
  out.set_hash(hash.data(), hash.size());
}

Result<model::HeldVersion> read_version(const v1::Version& version) {
  model::HeldVersion read{version.number(), {}};
  if (version.hash().size() != 16)
    return Status(Code::kInvalidArgument,
                  fmt::format("HELLO: held.hash has {} bytes, 16 are expected: give back the hash "
                              "of an OFFER",
                              version.hash().size()));
  std::memcpy(&read.hash.low, version.hash().data(), 8);
  std::memcpy(&read.hash.high, version.hash().data() + 8, 8);
  return read;
}

Status check_hello(const v1::Hello& hello, const std::string& model_id) {
  if (hello.name().size() > kMaxName)
    return Status(
        Code::kInvalidArgument,
        fmt::format("HELLO: the name has {} bytes, {} are allowed", hello.name().size(), kMaxName));
  if (!hello.model_id().empty() && hello.model_id() != model_id)
    return Status(Code::kMismatch, fmt::format("HELLO asks for the model '{}', this gateway has "
                                               "'{}': connect to another gateway",
                                               shown(hello.model_id()), shown(model_id)));
  if (hello.form() != v1::PLAIN && hello.form() != v1::CODED)
    return Status(Code::kInvalidArgument,
                  fmt::format("HELLO: there is no form {}: give PLAIN or CODED",
                              static_cast<int>(hello.form())));
  if (hello.form() == v1::CODED && hello.tensors_size() > 0)
    return Status(Code::kInvalidArgument,
                  "HELLO: CODED updates cover all tensors: leave out `tensors`, or ask for PLAIN");
  return {};
}

void write_tensor(const model::TensorSchema& schema, std::uint32_t index, std::uint64_t elements,
                  v1::Tensor& out) {
  out.set_index(index);
  out.set_name(schema.name);
  out.set_dtype(std::string(model::file_type(schema)));
  for (const std::uint64_t extent : schema.held_shape()) out.add_shape(extent);
  out.set_elements(elements);
  out.set_element_bytes(static_cast<std::uint32_t>(element_bytes(schema.datatype)));
}

}  // namespace

void GatewaySession::end(EndCode code, std::string text) {
  if (ending_) return;
  ending_ = Ending{code, std::move(text)};
  phase_ = Waiting();  // gives a shipment back
  deadline_ = kNever;
}

void GatewaySession::on_time(double now) {
  if (end_if_revoked() || now < deadline_) return;
  const char* missing = std::holds_alternative<Greeting>(phase_)  ? "HELLO"
                        : std::holds_alternative<Offered>(phase_) ? "REQUEST or NACK after an OFFER"
                                                                  : "ACK or NACK after a COMMIT";
  end(EndCode::kDeadlineExceeded,
      fmt::format("no {} within {:g} s: connect again", missing,
                  std::holds_alternative<Greeting>(phase_) ? limits_.hello_s : limits_.answer_s));
}

bool GatewaySession::end_if_revoked() {
  const auto* const sending = std::get_if<Sending>(&phase_);
  const auto* const offered = std::get_if<Offered>(&phase_);
  const Shipment* const offer = sending != nullptr   ? sending->offer.get()
                                : offered != nullptr ? offered->offer.get()
                                                     : nullptr;
  if (offer == nullptr || !offer->is_revoked()) return false;
  end(EndCode::kAborted,
      fmt::format("too slow: {} version {} was not read within {:g} s after its memory was wanted "
                  "for newer versions. Read faster, or start the gateway with a larger --patience",
                  offer->base() ? "the change to" : "the anchor of", offer->target().version,
                  shelf_.limits().patience_s));
  return true;
}

void GatewaySession::on_message(const v1::ClientMessage& message) {
  if (ending_) return;
  switch (message.content_case()) {
    case v1::ClientMessage::kHello:
      return take(message.hello());
    case v1::ClientMessage::kRequest:
      return take(message.request());
    case v1::ClientMessage::kAck:
      return take(message.ack());
    case v1::ClientMessage::kNack:
      return take(message.nack());
    case v1::ClientMessage::CONTENT_NOT_SET:
      break;
  }
  end(EndCode::kInvalidArgument,
      "a message without content, or of a later version of the protocol");
}

void GatewaySession::take(const v1::Hello& hello) {
  if (!std::holds_alternative<Greeting>(phase_))
    return end(EndCode::kFailedPrecondition, "a second HELLO: open another stream for it");
  if (const Status status = check_hello(hello, model_id_); !status.ok())
    return end(
        status.code() == Code::kMismatch ? EndCode::kFailedPrecondition : EndCode::kInvalidArgument,
        status.message());
  name_ = shown(hello.name());
  wish_.form = hello.form();
  if (hello.has_held()) {
    const Result<model::HeldVersion> held = read_version(hello.held());
    if (!held.ok()) return end(EndCode::kInvalidArgument, held.status().message());
    wish_.held = *held;
  }
  Result<TensorFilter> filter =
      filter_of(shelf_.memory().schema(), {hello.tensors().begin(), hello.tensors().end()});
  if (!filter.ok()) return end(EndCode::kInvalidArgument, filter.status().message());
  wish_.filter = std::move(*filter);
  phase_ = Welcoming();
  deadline_ = kNever;
}

bool GatewaySession::is_current(std::uint64_t offer, const char* message) {
  if (offer == offers_) return true;
  end(EndCode::kFailedPrecondition,
      fmt::format("{} names offer {}, the present one is {}", message, offer, offers_));
  return false;
}

void GatewaySession::take(const v1::Request& request) {
  auto* const offered = std::get_if<Offered>(&phase_);
  if (offered == nullptr)
    return end(EndCode::kFailedPrecondition, "REQUEST, but no OFFER waits for it");
  if (!is_current(request.offer(), "REQUEST")) return;
  if (request.first_chunk() > offered->offer->chunk_count())
    return end(EndCode::kInvalidArgument,
               fmt::format("REQUEST begins with chunk {}, the offer has {}: begin with 0",
                           request.first_chunk(), offered->offer->chunk_count()));
  Sending sending{std::move(offered->offer), request.first_chunk(),
                  std::make_unique<trust::Sha256>()};
  phase_ = std::move(sending);
  deadline_ = kNever;
}

void GatewaySession::take(const v1::Ack& ack) {
  const auto* const judged = std::get_if<Judged>(&phase_);
  if (judged == nullptr)
    return end(EndCode::kFailedPrecondition, "ACK, but no COMMIT waits for it");
  if (!is_current(ack.offer(), "ACK")) return;
  ++(judged->is_anchor ? counts_.anchors : counts_.steps);
  wish_.held = judged->target;
  wish_.wants_anchor = false;
  nacks_ = 0;
  phase_ = Waiting();
  deadline_ = kNever;
}

void GatewaySession::take(const v1::Nack& nack) {
  const bool is_open = std::holds_alternative<Offered>(phase_) ||
                       std::holds_alternative<Sending>(phase_) ||
                       std::holds_alternative<Judged>(phase_);
  if (!is_open) return end(EndCode::kFailedPrecondition, "NACK, but no OFFER waits for it");
  if (!is_current(nack.offer(), "NACK")) return;
  ++counts_.nacks;
  log_info("client {} could not use offer {}: {}", name_, nack.offer(),
           shown(std::string_view(nack.reason()).substr(0, kMaxReason)));
  if (++nacks_ > kMaxNacks)
    return end(EndCode::kFailedPrecondition,
               fmt::format("{} offers one after the other were of no use to this client", nacks_));
  wish_.wants_anchor = true;
  phase_ = Waiting();
  deadline_ = kNever;
}

std::optional<v1::ServerMessage> GatewaySession::next_message(double now) {
  if (ending_ || end_if_revoked()) return std::nullopt;
  if (std::holds_alternative<Welcoming>(phase_)) {
    phase_ = Waiting();
    return model_message();
  }
  if (std::holds_alternative<Waiting>(phase_)) return offer_message(now);
  if (std::holds_alternative<Sending>(phase_)) return chunk_message(now);
  return std::nullopt;
}

v1::ServerMessage GatewaySession::model_message() {
  v1::ServerMessage message;
  v1::Model& model = *message.mutable_model();
  const tool::ModelMemory& memory = shelf_.memory();
  model.set_model_id(model_id_);
  model.set_chunk_bytes(shelf_.limits().chunk_bytes);
  for (std::uint32_t i = 0; i < memory.schema().size(); ++i) {
    if (!is_sent(wish_.filter, i)) continue;
    write_tensor(memory.schema()[i], i, memory.view().map->arrays()[i].count, *model.add_tensors());
  }
  return message;
}

std::optional<v1::ServerMessage> GatewaySession::offer_message(double now) {
  ShipmentRef shipment = shelf_.next_for(wish_);
  if (shipment == nullptr) return std::nullopt;
  v1::ServerMessage message;
  v1::Offer& offer = *message.mutable_offer();
  offer.set_number(++offers_);
  write_version(shipment->target(), *offer.mutable_version());
  if (shipment->base()) write_version(*shipment->base(), *offer.mutable_base());
  offer.set_form(shipment->form());
  offer.set_chunks(shipment->chunk_count());
  offer.set_bytes(shipment->byte_count());
  phase_ = Offered{std::move(shipment)};
  deadline_ = now + limits_.answer_s;
  return message;
}

std::optional<v1::ServerMessage> GatewaySession::chunk_message(double now) {
  Sending& sending = std::get<Sending>(phase_);
  if (sending.next == sending.offer->chunk_count()) return commit_message(now);
  Result<v1::Chunk> chunk = sending.offer->chunk(sending.next);
  if (!chunk.ok()) {
    end(EndCode::kInternal, chunk.status().message());
    return std::nullopt;
  }
  chunk->set_index(sending.next++);
  sending.digests->update(std::as_bytes(std::span(chunk->digest())));
  counts_.bytes += chunk->positions().size() + chunk->values().size();
  v1::ServerMessage message;
  *message.mutable_chunk() = std::move(*chunk);
  return message;
}

std::optional<v1::ServerMessage> GatewaySession::commit_message(double now) {
  Sending& sending = std::get<Sending>(phase_);
  const Result<trust::Sha256::Digest> digest = sending.digests->finish();
  if (!digest.ok()) {
    end(EndCode::kInternal, digest.status().message());
    return std::nullopt;
  }
  v1::ServerMessage message;
  write_version(sending.offer->target(), *message.mutable_commit()->mutable_version());
  message.mutable_commit()->set_digest(digest->data(), digest->size());
  phase_ = Judged{sending.offer->target(), !sending.offer->base()};
  deadline_ = now + limits_.answer_s;
  return message;
}

}  // namespace sparcl::gateway
