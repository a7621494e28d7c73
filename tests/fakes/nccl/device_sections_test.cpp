// What a root on the device makes of its arrays: sections so small that there are many, and whole
// streams.

#include "src/device/device_array_reader.hpp"
#include "src/device/device_block_encoder.hpp"
#include "tests/fakes/nccl/device_codec.hpp"

namespace sparcl::test {
namespace {

using device::CodedSection;
using device::DeviceBlockEncoder;

using DeviceSections = DeviceCodec;

// The content of a block in the mode with the fewest bytes of those that the device writes, as the
// codec has it.
std::pair<std::uint32_t, std::vector<std::byte>> coded_by_host(const State& base,
                                                               const State& target,
                                                               std::uint64_t block) {
  std::pair<std::uint32_t, std::vector<std::byte>> best{kernels::kNoBlock, {}};
  const std::size_t width = element_bytes(base.specs[0].datatype), first = block * kBlockElements;
  const auto elements = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(kBlockElements, base.specs[0].count - first));
  const codec::Piece piece{0, first, elements, 0};
  const std::byte* const old_data = base.arrays[0].data();
  const std::byte* const new_data = target.arrays[0].data();
  codec::BlockChanges changes;
  changes.kernels = &kernels::cpu_kernels();
  changes.target = {{base.specs[0].datatype, elements}, {&piece, 1}, {&new_data, 1}};
  changes.has_steps = true;
  changes.make_room();
  changes.set_changes(kernels::cpu_kernels()
                          .of(base.specs[0].datatype)
                          .diff_values(old_data + first * width, new_data + first * width, elements,
                                       0, changes.positions.data(), changes.old_values.data(),
                                       changes.new_values.data()));
  if (changes.count == 0) return best;
  changes.for_devices = true;
  const codec::ModeChoice choice = codec::choose_mode(changes);
  best.first = choice.mode->id;
  best.second.resize(choice.bytes);
  choice.mode->encode(changes, best.second.data());
  return best;
}

Status wait_until_idle(void* stream) {
  const Result<void*> context = gpu::current_context();
  const gpu::DeviceScope inside(*context);
  return inside.status().ok() ? gpu::wait_for(stream) : inside.status();
}

void check_sections(device::DeviceScratch& scratch, const State& base, const State& target) {
  const OnDevice<std::byte> old_array(base.arrays[0]), new_array(target.arrays[0]);
  const auto* const stream = stream_of(0);
  for (const device::SectionLimits limits : {device::SectionLimits{},
                                             {1, kBlockElements},
                                             {4, kBlockElements + 900},
                                             {256, kBlockElements}}) {
    SCOPED_TRACE(testing::Message()
                 << limits.blocks << " blocks, " << limits.changes << " changes");
    const std::byte *const olds = old_array.get(), *const news = new_array.get();
    const codec::BlockMap map = base.map();
    DeviceBlockEncoder encoder(scratch, {&map, std::span(&olds, 1), std::span(&news, 1)},
                               const_cast<sparclStream_t>(stream), false, limits);
    ASSERT_TRUE(encoder.begin(true).ok());
    std::uint64_t next = 0;
    while (encoder.has_more()) {
      EXPECT_TRUE(wait_until_idle(stream_of(0))
                      .ok());  // then what comes behind a section has been written, too
      const Result<std::optional<CodedSection>> coded = encoder.next();
      ASSERT_TRUE(coded.ok()) << coded.status().message();
      if (!*coded) continue;
      const CodedSection& section = **coded;
      EXPECT_EQ(section.first_block, next);
      for (std::uint64_t b = 0; b < section.block_count; ++b) {
        const auto [mode, bytes] = coded_by_host(base, target, next + b);
        const kernels::BlockContent& content = section.blocks[b];
        ASSERT_EQ(content.mode, mode) << "block " << next + b;
        ASSERT_EQ(content.bytes, bytes.size()) << "block " << next + b;
        EXPECT_TRUE(
            std::ranges::equal(std::span(section.contents + content.offset, content.bytes), bytes))
            << "block " << next + b;
      }
      next += section.block_count;
    }
    EXPECT_EQ(next, map.block_count());
    EXPECT_EQ(encoder.base_sum(), codec::state_hash(map, base.read(), {}));
  }
}

// Every block comes once, in order, as the host codes it, however many sections there are.
TEST_F(DeviceSections, SectionsAreTheHostsBlocks) {
  const std::vector<double> densities = {0.01, 0, 1, 0.9, 0.001, 0};
  const State base = codec::random_state({{DataType::kBfloat16, 5 * kBlockElements + 77}}, 1);
  for (const State& target :
       {with_densities(base, densities, 2), with_clusters(base, rows(200, 30), 3)})
    check_sections(scratch, base, target);
}

TEST_F(DeviceSections, ArraysAreReadInPieces) {
  for (const std::uint64_t count :
       {std::uint64_t{1}, std::uint64_t{1} << 20, (std::uint64_t{5} << 20) + 11}) {
    const State state = codec::random_state({{DataType::kBfloat16, count}}, count);
    const OnDevice<std::byte> array(state.arrays[0]);
    const std::byte* const pointer = array.get();
    const codec::BlockMap map = state.map();
    device::DeviceArrayReader reader(scratch, map, std::span(&pointer, 1), stream_of(0));
    ASSERT_TRUE(reader.begin(true).ok());
    std::vector<std::byte> all;
    while (reader.has_more()) {
      const Result<device::ArrayPiece> piece = reader.next();
      ASSERT_TRUE(piece.ok());
      EXPECT_TRUE(wait_until_idle(stream_of(0)).ok());
      all.insert(all.end(), piece->bytes.begin(), piece->bytes.end());
    }
    EXPECT_TRUE(all == state.arrays[0]);
    EXPECT_EQ(reader.sum(), codec::state_hash(map, state.read(), {}));
  }
}

comm::CommContext verifying(codec::Verify verify) {
  comm::CommContext comm;
  comm.verify = verify;
  return comm;
}

// Of all of an array the bytes are those that a host sends.
TEST_F(DeviceSections, AWholeArrayTravelsAsTheHosts) {
  for (const DataType type : {DataType::kUint8, DataType::kBfloat16, DataType::kFloat64}) {
    for (const std::uint64_t count : {std::uint64_t{1}, std::uint64_t{kBlockElements},
                                      std::uint64_t{20 * kBlockElements + 3}}) {
      SCOPED_TRACE(testing::Message() << count << " elements of " << info(type).name);
      const State target = codec::random_state({{type, count}}, count);
      const codec::BlockMap map = target.map();
      const std::vector<const std::byte*> no_base(1, nullptr), arrays = target.read();
      for (const codec::Verify verify : {codec::Verify::kTouched, codec::Verify::kFull}) {
        codec::EncodeOptions options;
        options.with_state_hash = verify == codec::Verify::kFull;
        codec::UpdateEncoder encoder(map, no_base, arrays, options, kernels::cpu_kernels());
        codec::VectorSink sink;
        while (!encoder.finished()) ASSERT_TRUE(encoder.step(1 << 20, sink).ok());
        EXPECT_TRUE(sent(nullptr, target, {}, verifying(verify)) == sink.bytes());
      }
    }
  }
}

// What a host makes where it may use one mode alone: the bytes are the same where the device takes
// that one.
TEST_F(DeviceSections, ChangesTravelAsTheHosts) {
  const State base = codec::random_state({{DataType::kFloat32, 7 * kBlockElements + 3}}, 12);
  const State target = with_densities(base, {0.01, 0, 0.03, 0.002, 0, 0, 0.05, 1}, 13);
  for (const codec::Verify verify : {codec::Verify::kTouched, codec::Verify::kFull}) {
    codec::EncodeOptions options;
    options.mode = &codec::kFlatMode;
    options.with_state_hash = verify == codec::Verify::kFull;
    EXPECT_TRUE(sent(&base, target, {}, verifying(verify)) ==
                codec::encode(base, target, options).bytes);
  }
}

// And where it may use all modes that a device writes.
TEST_F(DeviceSections, ClustersTravelAsTheHosts) {
  for (const DataType type : {DataType::kBfloat16, DataType::kFloat32, DataType::kUint8}) {
    const State base = codec::random_state({{type, 6 * kBlockElements + 3'003}}, 14);
    for (const auto& [row_elements, every, permille] :
         {std::tuple{64, 50, 1000}, {300, 20, 500}, {5, 60, 1000}}) {
      SCOPED_TRACE(testing::Message() << "rows of " << row_elements << ", " << info(type).name);
      const State target = with_clusters(base, rows(row_elements, every, permille), 15);
      for (const codec::Verify verify : {codec::Verify::kTouched, codec::Verify::kFull}) {
        codec::EncodeOptions options, flat;
        options.for_devices = true;
        flat.mode = &codec::kFlatMode;
        options.with_state_hash = flat.with_state_hash = verify == codec::Verify::kFull;
        const std::vector<std::byte> found = sent(&base, target, {}, verifying(verify));
        EXPECT_TRUE(found == codec::encode(base, target, options).bytes);
        EXPECT_LT(found.size(), codec::encode(base, target, flat).bytes.size());
      }
    }
  }
}

}  // namespace
}  // namespace sparcl::test
