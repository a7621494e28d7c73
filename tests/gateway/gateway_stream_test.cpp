// The gateway's port, and clients of gRPC.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sparcl_gateway.grpc.pb.h>

#include <mutex>

#include "src/replication/publisher.hpp"
#include "src/store/address/open_store.hpp"
#include "src/store/chain_writer.hpp"
#include "tests/gateway/gateway_support.hpp"
#include "tests/support/test_authority.hpp"
#include "tests/tools/background_program.hpp"
#include "tools/gateway/gateway_server.hpp"
#include "tools/gateway/gateway_source.hpp"
#include "tools/sparcl/open_chain.hpp"

namespace sparcl::gateway {
namespace {

using test::soon;

constexpr std::chrono::seconds kPatience{60};  // a test that hangs fails

std::shared_ptr<grpc::ChannelCredentials> client_credentials(const std::string& folder) {
  if (folder.empty()) return grpc::InsecureChannelCredentials();
  return grpc::SslCredentials({test::read_text(folder + "/ca.crt"),
                               test::read_text(folder + "/tls.key"),
                               test::read_text(folder + "/tls.crt")});
}

class Client {
 public:
  explicit Client(const std::string& address, const std::string& certificates = "")
      : stub_(v1::WeightGateway::NewStub(
            grpc::CreateChannel(address, client_credentials(certificates)))) {
    context_.set_deadline(std::chrono::system_clock::now() + kPatience);
    stream_ = stub_->Follow(&context_);
  }
  ~Client() {
    if (!is_finished_) (void)cancel();
  }

  void say(const v1::ClientMessage& message) { stream_->Write(message); }
  // nullopt: the stream has ended.
  std::optional<v1::ServerMessage> hear() {
    v1::ServerMessage message;
    if (!stream_->Read(&message)) return std::nullopt;
    return message;
  }
  // Follows up to this version.
  void follow(ClientCopy& copy, std::uint64_t version) {
    while (copy.held().number() < version) {
      const std::optional<v1::ServerMessage> message = hear();
      ASSERT_TRUE(message) << finish().error_message();
      if (message->has_offer()) {
        offer_ = message->offer();
        say(request(offer_.number()));
      }
      if (message->has_chunk()) copy.take(message->chunk());
      if (!message->has_commit()) continue;
      copy.commit(offer_, message->commit());
      say(ack(offer_.number()));
    }
  }
  grpc::Status finish() {
    is_finished_ = true;
    while (hear()) continue;
    return stream_->Finish();
  }
  grpc::Status cancel() {
    context_.TryCancel();
    return finish();
  }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<v1::WeightGateway::Stub> stub_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::ClientMessage, v1::ServerMessage>> stream_;
  v1::Offer offer_;
  bool is_finished_ = false;
};

// A port, and a model behind it.
class GatewayPort : public testing::Test {
 protected:
  void start(const model::Schema& schema = kTensors) {
    model.emplace(schema);
    shelf.emplace(model->memory(), limits);
    model->show(*shelf, 1);
    auto started = GatewayServer::start(options, *shelf, [this](const std::string& text) {
      const std::lock_guard lock(mutex);
      told += text + "\n";
    });
    ASSERT_TRUE(started.ok()) << started.status().message();
    server = std::move(*started);
  }
  bool says(const std::string& text) {
    return soon([&] {
      const std::lock_guard lock(mutex);
      return told.find(text) != std::string::npos;
    });
  }
  bool is_empty() {
    return soon([&] { return server->counts().sessions == 0; });
  }

  ServerOptions options;
  ShelfLimits limits{64, 1 << 30, 16384, 300};
  std::optional<ChangingModel> model;
  std::optional<VersionShelf> shelf;
  std::mutex mutex;
  std::string told;
  std::unique_ptr<GatewayServer> server;  // the last: it reads the others
};

TEST_F(GatewayPort, ClientsThatWaitGetEachNewVersion) {
  start();
  Client plain(server->address()), coded(server->address());
  ClientCopy first, second;
  plain.say(hello());
  v1::ClientMessage message = hello();
  message.mutable_hello()->set_form(v1::CODED);
  coded.say(message);
  for (std::uint64_t version = 1; version < 5; ++version) {
    if (version > 1) {
      model->change(version, 100);
      model->show(*shelf, version);
    }
    ASSERT_NO_FATAL_FAILURE(plain.follow(first, version));
    ASSERT_NO_FATAL_FAILURE(coded.follow(second, version));
    EXPECT_TRUE(first.is_same_as(*model) && second.is_same_as(*model)) << version;
  }
  EXPECT_TRUE(soon([&] { return server->counts().steps == 6; }));
  server.reset();
  EXPECT_EQ(plain.finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(GatewayPort, AClientThatTakesNothingIsDroppedByName) {
  options.send_s = 0.2;
  limits.chunk_bytes = 1 << 20;
  start({{"large", DataType::kFloat32, {5 << 20}}});  // more than the buffers on the way hold
  Client slow(server->address());
  slow.say(hello("actor 7"));
  ASSERT_TRUE(slow.hear()->has_model());
  slow.say(request(slow.hear()->offer().number()));
  EXPECT_TRUE(says("client actor 7, ipv4:127.0.0.1:"));
  EXPECT_TRUE(says("is dropped: too slow"));
  EXPECT_TRUE(is_empty());
  EXPECT_FALSE(slow.finish().ok());
  model->change(2, 100);
  model->show(*shelf, 2);  // nothing reads the anchor
}

TEST_F(GatewayPort, AClientThatIsGoneInTheMiddleOfAnAnchorDelaysNothing) {
  start();
  {
    Client gone(server->address());
    gone.say(hello());
    ASSERT_TRUE(gone.hear()->has_model());
    gone.say(request(gone.hear()->offer().number()));
    ASSERT_TRUE(gone.hear()->has_chunk());
    EXPECT_EQ(gone.cancel().error_code(), grpc::StatusCode::CANCELLED);
  }
  EXPECT_TRUE(is_empty());
  model->change(2, 100);
  model->show(*shelf, 2);
  ClientCopy copy;
  Client next(server->address());
  next.say(hello());
  ASSERT_NO_FATAL_FAILURE(next.follow(copy, 2));
  EXPECT_TRUE(copy.is_same_as(*model));
}

TEST_F(GatewayPort, HostileClientsGetTheReason) {
  options.session.hello_s = 0.2;
  start();
  Client second(server->address());
  second.say(request(1));
  const grpc::Status early = second.finish();
  EXPECT_EQ(early.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(early.error_message(), "REQUEST, but no OFFER waits for it");
  Client large(server->address());
  large.say(hello(std::string(100'000, 'x')));
  EXPECT_EQ(large.finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  Client silent(server->address());
  EXPECT_EQ(silent.finish().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_TRUE(is_empty());
}

TEST_F(GatewayPort, OneMoreStreamThanAllowedIsRefused) {
  options.max_sessions = 1;
  start();
  Client first(server->address());
  first.say(hello());
  ASSERT_TRUE(first.hear()->has_model());
  Client second(server->address());
  const grpc::Status refused = second.finish();
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_NE(refused.error_message().find("--max-sessions"), std::string::npos);
  EXPECT_EQ(server->counts().refused, 1U);
}

TEST_F(GatewayPort, APortThatIsInUseIsAnError) {
  start();
  ServerOptions same = options;
  same.listen = server->address();
  const auto other = GatewayServer::start(same, *shelf, {});
  ASSERT_FALSE(other.ok());
  EXPECT_NE(other.status().message().find("is it in use"), std::string::npos);
}

TEST_F(GatewayPort, CertificatesDecideWhoMayRead) {
  const test::TempFolder folder;
  const test::TestAuthority own, foreign("another authority");
  options.certificates_path = own.write(folder / "gateway", "replicate");
  start();
  ClientCopy copy;
  Client allowed(server->address(), own.write(folder / "worker", "replicate"));
  allowed.say(hello());
  ASSERT_NO_FATAL_FAILURE(allowed.follow(copy, 1));
  EXPECT_TRUE(copy.is_same_as(*model));

  Client observer(server->address(), own.write(folder / "observer", "observe"));
  const grpc::Status refused = observer.finish();
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_NE(refused.error_message().find("sparcl:replicate"), std::string::npos);

  // Knows the gateway's authority, and has a certificate of another one.
  const std::string wrong = foreign.write(folder / "wrong", "replicate");
  test::TestAuthority::replace(wrong + "/ca.crt", own.text(), 0644);
  Client stranger(server->address(), wrong);
  EXPECT_EQ(stranger.finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  Client in_the_clear(server->address());
  EXPECT_EQ(in_the_clear.finish().error_code(), grpc::StatusCode::UNAVAILABLE);

  ServerOptions without_role = options;
  without_role.certificates_path = own.write(folder / "plain", "");
  const auto none = GatewayServer::start(without_role, *shelf, {});
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.status().code(), Code::kUnauthorized);
}

// What the source has told of, bit for bit.
void expect_next(GatewaySource& source, const ChangingModel& model, std::uint64_t version) {
  std::optional<model::HeldVersion> got;
  ASSERT_TRUE(soon([&] {
    const auto next = source.next(0.05);
    if (next.ok() && *next) got = **next;
    return got && got->version == version;
  }));
  EXPECT_EQ(*got, model.version(version));
  EXPECT_EQ(source.memory().view().hash(), got->hash);
}

TEST(GatewaySource, AStoreGivesTheVersionsThatComeIntoIt) {
  const test::TempFolder folder;
  const std::string url = "file:" + (folder / "store");
  const auto objects = std::move(*store::open_store(url, store::Missing::kIsMade));
  ChangingModel model;
  store::WriterOptions options;
  options.trust =
      std::make_shared<const store::ChainTrust>(store::ChainTrust{.model_id = "policy"});
  const auto writer =
      std::move(*store::ChainWriter::open(*objects, tool::chain_state(model.memory()), options));
  ASSERT_TRUE(writer->publish(1).ok());
  StorePlace place{.url = url, .model_id = "policy", .poll_s = 0.01};
  const Result<GatewaySourceRef> source = open_store_source(place);
  ASSERT_TRUE(source.ok()) << source.status().message();
  EXPECT_EQ((*source)->model_id(), "policy");
  for (std::uint64_t version = 1; version < 8; version += 3) {
    expect_next(**source, model, version);
    for (std::uint64_t i = 1; i <= 3; ++i) {
      model.change(version + i, 100);
      ASSERT_TRUE(writer->publish(version + i).ok());
    }
  }
  place.model_id = "another";
  EXPECT_EQ(open_store_source(place).status().code(), Code::kMismatch);
  place.url = "file:" + (folder / "none");
  EXPECT_FALSE(open_store_source(place).ok());
}

TEST(GatewaySource, APublisherGivesItsVersions) {
  ChangingModel model;
  replication::PublisherOptions options;
  options.listen = "127.0.0.1:0";
  options.model_id = "policy";
  auto publisher = replication::Publisher::create(model.memory().view(), options);
  ASSERT_TRUE(publisher.ok()) << publisher.status().message();
  ASSERT_TRUE((*publisher)->publish(1).ok());
  PublisherPlace place;
  place.address = (*publisher)->address();
  const Result<GatewaySourceRef> source = open_publisher(place);
  ASSERT_TRUE(source.ok()) << source.status().message();
  EXPECT_EQ((*source)->model_id(), "policy");
  expect_next(**source, model, 1);
  model.change(2, 100);
  ASSERT_TRUE((*publisher)->publish(2).ok());
  expect_next(**source, model, 2);
}

TEST(GatewayProgram, ServesWhatIsPublishedAndEndsAtASignal) {
  const test::TempFolder folder;
  test::Tensors tensors = test::small_model();
  test::write_model(folder / "1.safetensors", tensors);
  test::BackgroundProgram publisher({"publish", folder / "1.safetensors"});
  test::BackgroundProgram gateway({"gateway", "--publisher", publisher.address()});
  const std::string address = gateway.address();
  ASSERT_NE(address, "none") << gateway.err();
  const auto line = gateway.version(1);
  ASSERT_TRUE(line.is_object()) << gateway.err();
  EXPECT_TRUE(line["by_anchor"].get<bool>());
  Client client(address);
  ClientCopy copy(tensors.schema);
  client.say(hello());
  ASSERT_NO_FATAL_FAILURE(client.follow(copy, 1));
  EXPECT_EQ(to_hex(hash_of(copy.held())), line["hash"].get<std::string>());
  EXPECT_EQ(gateway.end_by(SIGTERM), 0) << gateway.err();
  EXPECT_EQ(client.finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST(GatewayProgram, RefusesWrongOptions) {
  const auto refused = [](std::vector<std::string> arguments, const std::string& text) {
    arguments.insert(arguments.begin(), {"gateway", "--json"});
    const test::ProgramRun run = test::run_program(arguments);
    EXPECT_EQ(run.exit_code, 2) << run.err;
    EXPECT_NE(run.err.find(text), std::string::npos) << run.err;
    EXPECT_EQ(run.json()["error"], "usage");
  };
  refused({}, "--publisher HOST:PORT or --store URL");
  refused({"--store", "file:x", "--publisher", "h:1"}, "excludes");
  refused({"--store", "file:x", "--listen", "0.0.0.0:0"}, "--certificates FOLDER");
  refused({"--publisher", "h:1", "--trust", "keys"}, "--model-id");
  refused({"--store", "file:x", "--no-such"}, "--no-such");
}

}  // namespace
}  // namespace sparcl::gateway
