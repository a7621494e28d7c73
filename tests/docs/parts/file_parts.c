#include <sparcl/file.h>
#include <stdio.h>

void make_and_apply(void);

void make_and_apply(void) {
  HERE
}
