#include "src/base/stage_range.hpp"

#if SPARCL_WITH_NVTX
#include <nvtx3/nvToolsExt.h>
#endif

namespace sparcl {

#if SPARCL_WITH_NVTX

namespace {
// Never freed: ranges may end while the process does.
nvtxDomainHandle_t domain() {
  static const nvtxDomainHandle_t made = nvtxDomainCreateA("sparcl");
  return made;
}
}  // namespace

StageRange::StageRange(const char* name) noexcept {
  nvtxEventAttributes_t attributes = {};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = name;
  id_ = nvtxDomainRangeStartEx(domain(), &attributes);
}

StageRange::~StageRange() { nvtxDomainRangeEnd(domain(), id_); }

#else

StageRange::StageRange(const char*) noexcept : id_(0) {}
StageRange::~StageRange() = default;

#endif

}  // namespace sparcl
