// Libraries that are no good: one that is too old, one of a good version that lacks functions, one
// that is not NCCL at all.

#ifdef OTHER_VERSION
extern "C" __attribute__((visibility("default"))) int ncclGetVersion(int* version) {
  *version = OTHER_VERSION;
  return 0;
}
#else
extern "C" __attribute__((visibility("default"))) int no_nccl() { return 0; }
#endif
