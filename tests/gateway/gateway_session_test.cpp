// Sessions without sockets: what they offer, what they refuse, and when they end.
#include "tools/gateway/gateway_session.hpp"

#include <gtest/gtest.h>

#include "tests/gateway/gateway_support.hpp"

namespace sparcl::gateway {
namespace {

constexpr double kNow = 1000;

// A session, and its client.
class SessionParty : public testing::Test {
 protected:
  explicit SessionParty(ShelfLimits limits = {64, 1 << 30, 4096, 300})
      : shelf(model.memory(), limits) {
    model.show(shelf, 1);
  }
  void begin(v1::ClientMessage first = hello()) {
    session = std::make_unique<GatewaySession>(shelf, "m", SessionLimits{10, 20}, kNow);
    copy.forget();
    session->on_message(first);
    if (session->ending()) return;
    const std::optional<v1::ServerMessage> welcome = session->next_message(kNow);
    ASSERT_TRUE(welcome && welcome->has_model());
    description = welcome->model();
  }
  // nullopt: nothing is offered.
  std::optional<v1::Offer> offer() {
    const std::optional<v1::ServerMessage> next = session->next_message(kNow);
    if (!next) return std::nullopt;
    EXPECT_TRUE(next->has_offer());
    return next->offer();
  }
  // All that comes up to the COMMIT.
  void read(const v1::Offer& offered, std::size_t first = 0) {
    session->on_message(request(offered.number(), first));
    for (;;) {
      const std::optional<v1::ServerMessage> next = session->next_message(kNow);
      ASSERT_TRUE(next) << (session->ending() ? session->ending()->text : "nothing comes");
      if (next->has_commit()) return copy.commit(offered, next->commit(), first);
      copy.take(next->chunk());
    }
  }
  // Until nothing more is offered.
  void follow() {
    while (const std::optional<v1::Offer> offered = offer()) {
      ASSERT_NO_FATAL_FAILURE(read(*offered));
      session->on_message(ack(offered->number()));
    }
  }
  v1::ClientMessage hello_again(v1::Form form = v1::PLAIN) const {
    v1::ClientMessage message = hello();
    message.mutable_hello()->set_form(form);
    *message.mutable_hello()->mutable_held() = copy.held();
    return message;
  }

  ChangingModel model;
  VersionShelf shelf;
  ClientCopy copy;
  v1::Model description;
  std::unique_ptr<GatewaySession> session;
};

class EachForm : public SessionParty, public testing::WithParamInterface<v1::Form> {};

TEST_P(EachForm, HasTheVersionsBitForBit) {
  v1::ClientMessage first = hello();
  first.mutable_hello()->set_form(GetParam());
  begin(first);
  ASSERT_EQ(description.tensors_size(), 4);
  EXPECT_EQ(description.tensors(0).name(), "layers.0.weight");
  EXPECT_EQ(description.tensors(0).dtype(), "BF16");
  EXPECT_EQ(description.tensors(3).element_bytes(), 8U);
  follow();
  EXPECT_TRUE(copy.is_same_as(model));
  for (std::uint64_t version = 2; version < 6; ++version) {
    model.change(version, 50);
    const auto shown = model.show(shelf, version);
    ASSERT_TRUE(shown && shown->has_step);
    follow();
    EXPECT_TRUE(copy.is_same_as(model)) << version;
    EXPECT_EQ(copy.held().number(), version);
  }
  EXPECT_EQ(session->counts().anchors, 1U);
  EXPECT_EQ(session->counts().steps, 4U);
}
INSTANTIATE_TEST_SUITE_P(Forms, EachForm, testing::Values(v1::PLAIN, v1::CODED));

TEST_F(SessionParty, AClientThatComesBackGetsTheStepsThatItLacks) {
  begin();
  follow();
  for (std::uint64_t version = 2; version < 5; ++version) {
    model.change(version, 500);
    model.show(shelf, version);
  }
  begin(hello_again(v1::CODED));
  follow();
  EXPECT_TRUE(copy.is_same_as(model));
  EXPECT_EQ(session->counts().steps, 3U);
  EXPECT_EQ(session->counts().anchors, 0U);
}

TEST_F(SessionParty, StepsThatAreLongerThanAnAnchorAreReplacedByIt) {
  begin();
  follow();
  for (std::uint64_t version = 2; version < 8; ++version) {
    model.change(version, 6);  // a quarter of the values, of three times the bytes
    model.show(shelf, version);
  }
  begin(hello_again());
  follow();
  EXPECT_TRUE(copy.is_same_as(model));
  EXPECT_EQ(session->counts().steps, 0U);
  EXPECT_EQ(session->counts().anchors, 1U);
}

TEST_F(SessionParty, AChangeOfAllValuesComesAsAnAnchor) {
  begin();
  follow();
  model.change(2, 1);
  const auto shown = model.show(shelf, 2);
  ASSERT_TRUE(shown);
  EXPECT_FALSE(shown->has_step);
  follow();
  EXPECT_TRUE(copy.is_same_as(model));
  EXPECT_EQ(session->counts().anchors, 2U);
}

TEST_F(SessionParty, TheSameBytesGetANewNumberWithoutChunks) {
  begin();
  follow();
  model.show(shelf, 9);
  const std::optional<v1::Offer> offered = offer();
  ASSERT_TRUE(offered);
  EXPECT_EQ(offered->chunks(), 0U);
  EXPECT_EQ(offered->version().number(), 9U);
  read(*offered);
  session->on_message(ack(offered->number()));
  EXPECT_FALSE(offer());
  EXPECT_TRUE(copy.is_same_as(model));
}

TEST_F(SessionParty, NackLeadsToAnAnchorAndManyEndTheSession) {
  begin();
  follow();
  model.change(2, 50);
  model.show(shelf, 2);
  std::optional<v1::Offer> offered = offer();
  ASSERT_TRUE(offered && offered->has_base());
  session->on_message(request(offered->number()));
  ASSERT_TRUE(session->next_message(kNow)->has_chunk());
  session->on_message(nack(offered->number()));
  offered = offer();
  ASSERT_TRUE(offered);
  EXPECT_FALSE(offered->has_base());
  read(*offered);
  session->on_message(ack(offered->number()));
  EXPECT_TRUE(copy.is_same_as(model));

  model.change(3, 50);
  model.show(shelf, 3);
  for (int i = 0; i < 4; ++i) {
    offered = offer();
    ASSERT_TRUE(offered) << i;
    EXPECT_EQ(offered->has_base(), i == 0);
    session->on_message(nack(offered->number()));
  }
  ASSERT_TRUE(session->ending());
  EXPECT_EQ(session->ending()->code, EndCode::kFailedPrecondition);
}

TEST_F(SessionParty, AnAnchorGoesOnInAnotherStreamWhereTheFirstWasCut) {
  begin();
  const std::optional<v1::Offer> before = offer();
  session->on_message(request(before->number()));
  for (int i = 0; i < 5; ++i) copy.take(session->next_message(kNow)->chunk());
  session = std::make_unique<GatewaySession>(shelf, "m", SessionLimits{}, kNow);
  session->on_message(hello());
  ASSERT_TRUE(session->next_message(kNow)->has_model());
  const std::optional<v1::Offer> again = offer();
  ASSERT_TRUE(again);
  EXPECT_EQ(again->version().SerializeAsString(), before->version().SerializeAsString());
  EXPECT_EQ(again->chunks(), before->chunks());
  read(*again, 5);
  EXPECT_TRUE(copy.is_same_as(model));
}

TEST_F(SessionParty, OnlyTheTensorsThatWereAskedForAreSent) {
  v1::ClientMessage first = hello();
  first.mutable_hello()->add_tensors("bias$");
  first.mutable_hello()->add_tensors("^ids");
  begin(first);
  ASSERT_EQ(description.tensors_size(), 2);
  EXPECT_EQ(description.tensors(0).index(), 1U);
  follow();
  model.change(2, 20);
  model.show(shelf, 2);
  follow();
  EXPECT_EQ(session->counts().steps, 1U);
  EXPECT_TRUE(copy.is_same_tensor(model, 1) && copy.is_same_tensor(model, 3));
  EXPECT_FALSE(copy.is_same_tensor(model, 0));
}

TEST_F(SessionParty, ClientsThatDoNotAnswerAreDropped) {
  session = std::make_unique<GatewaySession>(shelf, "m", SessionLimits{10, 20}, kNow);
  session->on_time(kNow + 9);
  EXPECT_FALSE(session->ending());
  session->on_time(kNow + 10);
  ASSERT_TRUE(session->ending());
  EXPECT_EQ(session->ending()->code, EndCode::kDeadlineExceeded);
  EXPECT_NE(session->ending()->text.find("HELLO"), std::string::npos);

  begin();
  session->on_time(kNow + 1e6);  // nothing is asked of it
  EXPECT_FALSE(session->ending());
  ASSERT_TRUE(offer());
  session->on_time(kNow + 20);
  ASSERT_TRUE(session->ending());
  EXPECT_NE(session->ending()->text.find("REQUEST"), std::string::npos);

  begin();
  read(*offer());
  session->on_time(kNow + 20);
  ASSERT_TRUE(session->ending());
  EXPECT_NE(session->ending()->text.find("ACK"), std::string::npos);
}

// A message, and what the refusal says of it.
struct Hostile {
  v1::ClientMessage message;
  EndCode code;
  std::string text;
};

TEST_F(SessionParty, HostileFirstMessagesAreRefused) {
  const auto changed = [](const std::function<void(v1::Hello&)>& change) {
    v1::ClientMessage message = hello();
    change(*message.mutable_hello());
    return message;
  };
  constexpr EndCode kBad = EndCode::kInvalidArgument, kEarly = EndCode::kFailedPrecondition;
  const std::vector<Hostile> all{
      {{}, kBad, "without content"},
      {request(0), kEarly, "no OFFER waits"},
      {ack(0), kEarly, "no COMMIT waits"},
      {nack(0), kEarly, "no OFFER waits"},
      {changed([](v1::Hello& h) { h.set_name(std::string(129, 'x')); }), kBad, "name has 129"},
      {changed([](v1::Hello& h) { h.set_model_id("other"); }), kEarly, "asks for the model"},
      {changed([](v1::Hello& h) { h.set_form(static_cast<v1::Form>(7)); }), kBad, "no form 7"},
      {changed([](v1::Hello& h) { h.mutable_held()->set_hash("short"); }), kBad, "has 5 bytes"},
      {changed([](v1::Hello& h) { h.add_tensors("("); }), kBad, "no regular expression"},
      {changed([](v1::Hello& h) { h.add_tensors("nothing"); }), kBad, "matches no name"},
      {changed([](v1::Hello& h) { h.add_tensors(std::string(1025, 'a')); }), kBad, "1025 bytes"},
      {changed([](v1::Hello& h) { h.add_tensors("((a{1,99}){1,99}){1,99}"); }), kBad, "'((a{"},
      {changed([](v1::Hello& h) {
         for (int i = 0; i < 17; ++i) h.add_tensors("a");
       }),
       kBad, "17 patterns"},
      {changed([](v1::Hello& h) {
         h.set_form(v1::CODED);
         h.add_tensors("a");
       }),
       kBad, "CODED"}};
  for (const Hostile& each : all) {
    begin(each.message);
    ASSERT_TRUE(session->ending()) << each.text;
    EXPECT_EQ(session->ending()->code, each.code) << each.text;
    EXPECT_NE(session->ending()->text.find(each.text), std::string::npos)
        << session->ending()->text;
    EXPECT_FALSE(session->next_message(kNow));
  }
}

TEST_F(SessionParty, HostileLaterMessagesAreRefused) {
  const std::vector<Hostile> all{
      {hello(), EndCode::kFailedPrecondition, "second HELLO"},
      {request(2), EndCode::kFailedPrecondition, "names offer 2"},
      {request(1, UINT64_MAX), EndCode::kInvalidArgument, "begins with chunk"},
      {nack(2), EndCode::kFailedPrecondition, "names offer 2"},
      {ack(1), EndCode::kFailedPrecondition, "no COMMIT waits"}};
  for (const Hostile& each : all) {
    begin();
    ASSERT_TRUE(offer());
    session->on_message(each.message);
    ASSERT_TRUE(session->ending()) << each.text;
    EXPECT_EQ(session->ending()->code, each.code);
    EXPECT_NE(session->ending()->text.find(each.text), std::string::npos)
        << session->ending()->text;
  }
  begin();  // a hash that no version has
  v1::ClientMessage message = hello();
  message.mutable_hello()->mutable_held()->set_number(UINT64_MAX);
  message.mutable_hello()->mutable_held()->set_hash(std::string(16, '\xff'));
  begin(message);
  const std::optional<v1::Offer> offered = offer();
  ASSERT_TRUE(offered);
  EXPECT_FALSE(offered->has_base());
}

class ImpatientShelf : public SessionParty {
 protected:
  ImpatientShelf() : SessionParty({1, 1 << 30, 4096, 0}) {}
};

TEST_F(ImpatientShelf, WhoReadsAnAnchorForTooLongIsDropped) {
  begin();
  session->on_message(request(offer()->number()));
  ASSERT_TRUE(session->next_message(kNow)->has_chunk());
  model.change(2, 50);
  shelf.on_news([&] { session->on_time(kNow); });
  model.show(shelf, 2);  // returns once nothing reads the anchor
  ASSERT_TRUE(session->ending());
  EXPECT_EQ(session->ending()->code, EndCode::kAborted);
  EXPECT_NE(session->ending()->text.find("too slow"), std::string::npos);
  shelf.on_news({});
  begin();
  follow();
  EXPECT_TRUE(copy.is_same_as(model));
}

TEST_F(ImpatientShelf, WhoReadsAStepThatIsNoLongerKeptIsDropped) {
  begin();
  follow();
  model.change(2, 50);
  model.show(shelf, 2);
  session->on_message(request(offer()->number()));
  ASSERT_TRUE(session->next_message(kNow)->has_chunk());
  model.change(3, 50);
  model.show(shelf, 3);  // one step is kept
  EXPECT_FALSE(session->next_message(kNow));
  ASSERT_TRUE(session->ending());
  EXPECT_NE(session->ending()->text.find("the change to version 2"), std::string::npos);
}

TEST(VersionShelf, PositionsOfLargeTensorsHaveEightBytes) {
  EXPECT_EQ(position_bytes(std::uint64_t{1} << 32), 4U);
  EXPECT_EQ(position_bytes((std::uint64_t{1} << 32) + 1), 8U);
}

}  // namespace
}  // namespace sparcl::gateway
