#include "src/net/http/curl_library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <mutex>
#include <string>

#include "src/base/settings.hpp"

namespace sparcl::net {
namespace {

template <class Function>
bool find_function(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

bool find_all(void* library, CurlLibrary& curl) {
  return find_function(library, "curl_global_init", curl.global_init) &&
         find_function(library, "curl_easy_init", curl.easy_init) &&
         find_function(library, "curl_easy_setopt", curl.easy_setopt) &&
         find_function(library, "curl_easy_perform", curl.easy_perform) &&
         find_function(library, "curl_easy_getinfo", curl.easy_getinfo) &&
         find_function(library, "curl_easy_reset", curl.easy_reset) &&
         find_function(library, "curl_easy_cleanup", curl.easy_cleanup) &&
         find_function(library, "curl_easy_strerror", curl.easy_strerror) &&
         find_function(library, "curl_slist_append", curl.slist_append) &&
         find_function(library, "curl_slist_free_all", curl.slist_free_all);
}

}  // namespace

Result<const CurlLibrary*> load_curl() {
  static std::mutex loading;
  static CurlLibrary curl;
  static bool is_loaded = false;
  const std::lock_guard lock(loading);
  if (is_loaded) return &curl;
  const std::string name = setting("CURL_LIBRARY").text;
  void* const library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr || !find_all(library, curl)) {
    const char* const why = ::dlerror();
    return Status(Code::kUnsupported,
                  fmt::format("libcurl cannot be loaded: {}: install the package libcurl4, or name "
                              "the library in SPARCL_CURL_LIBRARY",
                              why == nullptr ? name : why));
  }
  if (curl.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
    return Status(Code::kSystemError, name + ": curl_global_init() fails");
  is_loaded = true;
  return &curl;
}

}  // namespace sparcl::net
