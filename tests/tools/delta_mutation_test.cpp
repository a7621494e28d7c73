// Every way to damage a delta: refused with exit code 3, the base untouched, and no output left.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/base/bytes.hpp"
#include "src/codec/wire.hpp"
#include "src/model/files/converter.hpp"
#include "src/model/files/delta_applier.hpp"
#include "src/model/files/delta_maker.hpp"
#include "tests/support/tier.hpp"
#include "tests/tools/tools_support.hpp"
#include "tools/sparcl/console.hpp"

namespace sparcl::tool {
namespace {

namespace fs = std::filesystem;
using Bytes = std::string;

// Where the fields of prefix and header lie (docs/reference/wire-format.md).
constexpr std::array kFields{
    std::pair(0, 4),  std::pair(4, 1),  std::pair(5, 1),   std::pair(6, 2),
    std::pair(8, 1),  std::pair(9, 1),  // magic, version, kind, zero, tag, length
    std::pair(10, 8), std::pair(18, 8), std::pair(26, 16), std::pair(42, 8),
    std::pair(50, 8), std::pair(58, 4), std::pair(62, 4),  std::pair(66, 4)};
constexpr std::size_t kHeaderAt = codec::kPrefixBytes + 2;
static_assert(kFields.back().first + kFields.back().second ==
              kHeaderAt + codec::kUpdateHeaderBytes);

Bytes mutate(const Bytes& good, const Bytes& other, std::mt19937_64& random) {
  const auto below = [&](std::size_t limit) {
    return static_cast<std::size_t>(random() % std::max<std::size_t>(limit, 1));
  };
  Bytes bytes = good;
  const std::size_t at = below(bytes.size());
  switch (below(10)) {
    case 0:
      bytes[at] ^= static_cast<char>(1u << below(8));
      break;  // one bit
    case 1:
      bytes[at] = static_cast<char>(random());
      break;  // one byte
    case 2:   // a burst
      for (std::size_t i = at; i < std::min(at + 1 + below(40), bytes.size()); ++i)
        bytes[i] = static_cast<char>(random());
      break;
    case 3:
      bytes.resize(at);
      break;  // cut
    case 4:
      bytes.append(1 + below(100), static_cast<char>(random()));
      break;  // appended
    case 5:
      bytes.erase(at, 1 + below(100));
      break;  // a hole
    case 6:
      bytes.insert(at, bytes.substr(below(bytes.size()), 1 + below(100)));
      break;   // a piece twice
    case 7: {  // a header field
      const auto [first, length] = kFields[below(kFields.size())];
      for (int i = 0; i < length; ++i)
        bytes[static_cast<std::size_t>(first + i)] =
            static_cast<char>(below(2) == 0 ? random() : random() % 3);
      break;
    }
    case 8:
      bytes = good.substr(0, at) + other.substr(std::min(at, other.size()));
      break;  // two deltas, spliced
    default:
      bytes.append(below(2) == 0 ? good : other);  // another delta after the end
  }
  return bytes;
}

class DeltaMutation : public ::testing::Test {
 protected:
  void SetUp() override {
    const test::Tensors base = test::small_model();
    test::Tensors target = base;
    test::change(target, 0.01, 3);
    test::Tensors grown = target;
    test::add_tensor(grown, "new", DataType::kBfloat16, {3000}, 9);
    test::Tensors strange = base;
    test::change(strange, 0.001, 11);
    test::write_model(at("base"), base, {{"step", "1"}});
    test::write_model(at("target"), target, {{"step", "2"}});
    test::write_model(at("grown"), grown);
    test::write_model(at("strange"), strange, {{"step", "1"}});
    deltas_ = {make("base", "target"), make("base", "grown")};
    foreign_ = {make("target", "base"), make("strange", "target"), make("grown", "target"),
                make("target", "grown"), make("grown", "base")};
    base_text_ = test::read_text(at("base"));
    entries_ = folder_.count();
  }

  std::string at(std::string_view name) const { return folder_ / name; }

  Bytes make(std::string_view base, std::string_view target) const {
    const Result<model::DiffReport> report = model::make_delta(at(base), at(target), at("delta"));
    EXPECT_TRUE(report.ok()) << report.status().message();
    Bytes bytes = test::read_text(at("delta"));
    fs::remove(at("delta"));
    return bytes;
  }

  Status apply(const Bytes& bytes, std::string_view base = "base") const {
    model::Delta delta;
    delta.path = "DELTA";
    delta.bytes = bytes.size();
    delta.staging.write(0, std::as_bytes(std::span(bytes)));
    return model::apply_delta(at(base), delta, at("out")).status();
  }

  void expect_refused(const Bytes& bytes, const std::string& what,
                      std::string_view base = "base") const {
    const Status status = apply(bytes, base);
    ASSERT_EQ(exit_code(status.code()), kExitRefused)
        << what << ": " << code_name(status.code()) << " " << status.message();
    ASSERT_FALSE(status.message().empty()) << what;
    ASSERT_EQ(folder_.count(), entries_)
        << what;  // no output, and nothing half-written under another name
    ASSERT_EQ(test::read_text(at("base")), base_text_) << what;
  }

  test::TempFolder folder_;
  std::vector<Bytes> deltas_;   // of "base"
  std::vector<Bytes> foreign_;  // of others
  std::string base_text_;
  std::size_t entries_ = 0;
};

TEST_F(DeltaMutation, TheUndamagedOnesAreAccepted) {
  for (const Bytes& bytes : deltas_) {
    const Status status = apply(bytes);
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_TRUE(fs::remove(at("out")));
  }
}

TEST_F(DeltaMutation, EachHeaderFieldIsGuarded) {
  for (const auto& [first, length] : kFields) {
    for (int i = 0; i < length; ++i) {
      for (const int flip : {0x01, 0x80, 0xff}) {
        Bytes bytes = deltas_[0];
        bytes[static_cast<std::size_t>(first + i)] ^= static_cast<char>(flip);
        expect_refused(bytes, fmt::format("field at {}, byte {}, flip {}", first, i, flip));
      }
    }
  }
}

// Of a long file that is no delta, or no layout of another program, the first bytes are read.
TEST_F(DeltaMutation, AWrongFileIsRefusedByItsFirstBytes) {
  const std::string large = at("large.safetensors");
  test::write_text(large, std::string(100, 'x'));
  std::filesystem::resize_file(large, std::uintmax_t{64} << 30);  // it takes no disk
  int pieces = 0;
  model::FileWatch watch;
  watch.on_progress = [&](std::uint64_t, std::uint64_t) {
    ++pieces;
    return Status(Code::kInternalError, "it is read");
  };
  const Status refused = model::read_delta(large, watch).status();
  EXPECT_EQ(refused.code(), Code::kCorrupt) << refused.message();
  EXPECT_EQ(
      refused.message(),
      large + ": byte 0 of the stream: this is no sparcl stream (it does not begin with SPRC)");
  EXPECT_EQ(pieces, 0);
  model::ConvertOptions options;
  options.input = large;
  options.output = at("converted");
  EXPECT_EQ(model::convert_change(options).status().code(), Code::kCorrupt);
}

TEST_F(DeltaMutation, EveryCutIsRefused) {
  const Bytes& bytes = deltas_[1];
  for (std::size_t length = 0; length < bytes.size(); length += length < 300 ? 1 : 211) {
    expect_refused(bytes.substr(0, length), fmt::format("cut to {}", length));
  }
  for (std::size_t cut = 1; cut < 100; ++cut)
    expect_refused(bytes.substr(0, bytes.size() - cut), fmt::format("{} bytes cut off", cut));
}

TEST_F(DeltaMutation, DeltasOfOtherBasesAreRefused) {
  for (std::size_t i = 0; i < foreign_.size(); ++i) {
    expect_refused(foreign_[i], fmt::format("foreign delta {}", i));
    EXPECT_EQ(apply(foreign_[i]).code(), Code::kWrongBase) << i;
  }
  for (const Bytes& bytes : deltas_) {
    for (const char* base : {"strange", "target", "grown"}) {
      expect_refused(bytes, base, base);
      EXPECT_EQ(apply(bytes, base).code(), Code::kWrongBase) << base;
    }
  }
}

TEST_F(DeltaMutation, TenThousandMutationsAreRefused) {
  const int count = test::by_tier(10'000, 300'000);
  int done = 0;
  for (std::uint64_t seed = 0; done < count; ++seed) {
    std::mt19937_64 random(seed);
    const std::size_t which = random() % deltas_.size();
    const bool own = random() % 2 == 0;
    const Bytes& other = own ? deltas_[1 - which] : foreign_[random() % foreign_.size()];
    const Bytes bytes = mutate(deltas_[which], other, random);
    if (bytes == deltas_[0] || bytes == deltas_[1])
      continue;  // a mutation that changed nothing, or a splice at the very front
    expect_refused(bytes, fmt::format("seed {}", seed));
    ASSERT_FALSE(HasFatalFailure()) << "seed " << seed;
    ++done;
  }
  EXPECT_EQ(done, count);
}

// Sets the CRCs of a stream right again, as an attacker would: what lies behind them must hold,
// too.
void forge_checksums(Bytes& bytes) {
  std::span<std::byte> stream = std::as_writable_bytes(std::span(bytes));
  std::uint32_t crc = 0;  // each covers all of the stream before it
  std::size_t from = 0;
  for (std::size_t at = codec::kPrefixBytes; at < stream.size();) {
    const auto tag = std::to_integer<std::uint8_t>(stream[at]);
    ByteReader reader(stream.subspan(at + 1));
    std::uint64_t length = 0;
    if (!reader.read_varint(length) || length > reader.remaining()) return;
    at += 1 + reader.position() + length;
    if (tag != codec::kTagUpdateHeader && tag != codec::kTagChunkEnd && tag != codec::kTagEnd)
      continue;
    if (length < codec::kCrcBytes) return;
    crc = crc32c(stream.subspan(from, at - codec::kCrcBytes - from), crc);
    store_le(stream.data() + at - codec::kCrcBytes, crc);
    from = at;  // the field itself stays out of those that follow
  }
}

TEST_F(DeltaMutation, ForgedDeltasAreRefusedOrLeadToTheirTarget) {
  const int count = test::by_tier(4'000, 200'000);
  const std::array<std::string, 2> targets{test::read_text(at("target")),
                                           test::read_text(at("grown"))};
  int refused = 0;
  for (int seed = 0; seed < count; ++seed) {
    std::mt19937_64 random(static_cast<std::uint64_t>(seed) + 5'000'000);
    const std::size_t which = random() % deltas_.size();
    Bytes bytes = deltas_[which];
    const std::size_t area =
        random() % 2 == 0 ? 400 : bytes.size();  // headers and attachments as often as blocks
    for (std::uint64_t i = 0; i <= random() % 3; ++i)
      bytes[random() % std::min(area, bytes.size())] = static_cast<char>(random());
    forge_checksums(bytes);
    const Status status = apply(bytes);
    if (!status.ok()) {
      ++refused;
      ASSERT_EQ(exit_code(status.code()), kExitRefused)
          << "seed " << seed << ": " << status.message();
      ASSERT_EQ(folder_.count(), entries_) << "seed " << seed;
    } else {
      const Result<model::Checkpoint> out = model::Checkpoint::open(at("out"));
      ASSERT_TRUE(out.ok()) << "seed " << seed << ": " << out.status().message();
      const Result<model::Checkpoint> wanted =
          model::Checkpoint::open(at(which == 0 ? "target" : "grown"));
      ASSERT_EQ(out->schema().size(), wanted->schema().size()) << "seed " << seed;
      for (std::size_t i = 0; i < out->schema().size(); ++i)
        ASSERT_TRUE(std::ranges::equal(out->bytes(i), wanted->bytes(i))) << "seed " << seed;
      ASSERT_TRUE(fs::remove(at("out")));
    }
    ASSERT_EQ(test::read_text(at("base")), base_text_) << "seed " << seed;
  }
  EXPECT_GT(refused, count / 2);
}

TEST_F(DeltaMutation, TheProgramRefusesThem) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    std::mt19937_64 random(seed);
    const Bytes bytes = mutate(deltas_[seed % 2], foreign_[seed % foreign_.size()], random);
    if (bytes == deltas_[seed % 2]) continue;
    test::write_text(at("delta"), bytes);
    const test::ProgramRun run =
        test::run_program({"apply", at("base"), at("delta"), "-o", at("out")});
    EXPECT_EQ(run.exit_code, kExitRefused) << "seed " << seed << run.err;
    EXPECT_THAT(run.err, ::testing::StartsWith("sparcl: error: ")) << "seed " << seed;
    fs::remove(at("delta"));
    EXPECT_EQ(folder_.count(), entries_) << "seed " << seed;
    EXPECT_EQ(test::read_text(at("base")), base_text_) << "seed " << seed;
  }
}

}  // namespace
}  // namespace sparcl::tool
