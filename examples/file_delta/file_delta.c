/* Two checkpoints of a small model, the delta between them, and the second one again from the first
 * and the delta. file_delta [FOLDER] writes its files into FOLDER, else here. */
#include <sparcl/file.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kCount = 100000, kPathBytes = 4096 };

#define CHECK(call)                                    \
  if ((call) != sparclSuccess) {                       \
    fprintf(stderr, "%s\n", sparclGetLastError(NULL)); \
    exit(1);                                           \
  }

/* The safetensors format: the header's length in 8 bytes (little endian), the header, the data. */
static void write_checkpoint(const char* path, const float* weights) {
  char header[128];
  unsigned char length[8] = {0};
  FILE* file = fopen(path, "wb");
  size_t written = 0;
  memset(header, ' ', sizeof header);
  length[0] = sizeof header;
  sprintf(header, "{\"weights\":{\"dtype\":\"F32\",\"shape\":[%d],\"data_offsets\":[0,%d]}}",
          kCount, kCount * (int)sizeof *weights);
  header[strlen(header)] = ' '; /* the header is padded with spaces */
  if (file != NULL) {
    written = fwrite(length, sizeof length, 1, file) + fwrite(header, sizeof header, 1, file) +
              fwrite(weights, sizeof *weights * kCount, 1, file);
  }
  if (file == NULL || fclose(file) != 0 || written != 3) {
    perror(path);
    exit(1);
  }
}

static sparclResult_t show_progress(uint64_t done_bytes, uint64_t total_bytes, void* arg) {
  if (done_bytes == total_bytes) *(uint64_t*)arg += total_bytes;
  return sparclSuccess; /* any other result cancels the call */
}

int main(int argc, char** argv) {
  const char* folder = argc > 1 ? argv[1] : ".";
  static float weights[kCount];
  char old_path[kPathBytes], new_path[kPathBytes], delta[kPathBytes], restored[kPathBytes];
  uint64_t processed_bytes = 0;
  sparclFileOptions_t options = SPARCL_FILE_OPTIONS_INITIALIZER;
  sparclFileReport_t report = SPARCL_FILE_REPORT_INITIALIZER;
  int i;
  if (strlen(folder) > kPathBytes - 32) return 2;
  sprintf(old_path, "%s/step_1.safetensors", folder);
  sprintf(new_path, "%s/step_2.safetensors", folder);
  sprintf(delta, "%s/step_2.delta", folder);
  sprintf(restored, "%s/restored.safetensors", folder);

  for (i = 0; i < kCount; i++) weights[i] = (float)i;
  write_checkpoint(old_path, weights);
  for (i = 0; i < kCount; i += 100) weights[i] += 1.0f; /* one element in a hundred changes */
  write_checkpoint(new_path, weights);

  CHECK(sparclFileDiff(old_path, new_path, delta, NULL, &report));
  printf("%d of %d elements changed: %d bytes instead of %d\n", (int)report.changed,
         (int)report.elements, (int)report.bytes, (int)report.dense_bytes);

  CHECK(sparclFileVerify(delta, NULL, &report));
  printf("the delta leads from state %s to %s\n", report.base_hash, report.target_hash);

  options.on_progress = show_progress;
  options.arg = &processed_bytes;
  CHECK(sparclFileApply(old_path, delta, restored, &options, &report));
  printf("restored: %s, %d bytes read, written and checked\n",
         report.same_header ? "the same file" : "the same tensors", (int)processed_bytes);
  return 0;
}
