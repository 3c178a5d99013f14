// SPDX-License-Identifier: Apache-2.0
// Writes the batches that the programs of `thunderc bisect` train on: write_feed FILE.
#include "drawn_feed.h"
#include "support/error.h"

int main(int argc, char** argv) try {
    if (argc != 2) return 2;
    thunder::write_feed(argv[1]);
    return 0;
} catch (...) {
    return thunder::report_error();
}
