#include "bench/store/bare_apply.hpp"

#include <array>
#include <chrono>
#include <stdexcept>

#include "src/codec/update.hpp"
#include "src/model/model_hash.hpp"
#include "src/model/schema.hpp"
#include "src/store/address/open_store.hpp"
#include "src/store/stored_object.hpp"
#include "src/store/version_chain.hpp"

namespace bench {
namespace {

using sparcl::Status;

void check(const Status& status) {
  if (!status.ok()) throw std::runtime_error(std::string(status.message()));
}

template <class T>
T value_of(sparcl::Result<T> result) {
  check(result.status());
  return std::move(*result);
}

}  // namespace

double bare_apply_s(const std::string& url, std::uint64_t number,
                    std::vector<std::uint16_t>& held) {
  const auto objects = value_of(sparcl::store::open_store(url, sparcl::store::Missing::kIsAnError));
  sparcl::store::Chain chain(*objects);
  const sparcl::store::VersionRecord record = value_of(chain.record(number));
  const sparcl::Staging bytes =
      value_of(sparcl::store::get_object(*objects, *record.delta, record.delta->bytes));
  const sparcl::model::Schema schema{{"weights", sparcl::DataType::kBfloat16, {held.size()}}};
  const sparcl::codec::BlockMap map = sparcl::model::make_block_map(schema);
  const std::array arrays{reinterpret_cast<std::byte*>(held.data())};

  const auto begin = std::chrono::steady_clock::now();
  sparcl::codec::UpdateDecoder decoder(map, arrays, sparcl::codec::Verify::kTouched,
                                       sparcl::model::schema_hash(schema),
                                       sparcl::kernels::cpu_kernels());
  decoder.track(record.base_hash);
  for (bool more = true; more;)
    check(decoder.advance(bytes, record.delta->bytes, UINT64_MAX, more));
  check(decoder.finish(record.delta->bytes));
  check(decoder.apply(bytes));
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace bench
