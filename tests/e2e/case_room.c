/* case_room.c -- a program that makes its record grow and runs out of memory at the end.
 * SPDX-License-Identifier: Apache-2.0
 *
 * In between it does something to its descriptors.
 *
 *   case_room <what> <blocks>     what: nothing, close-all, close-stderr, swap-stderr, limit;
 *                                 blocks of 4 KiB come after it
 */
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "case.h"

enum { NUMBERS = 1024 };
static const char text[] = "the program's own bytes\n";

/* Everything that libvramguard has open is closed, and every number is a file of the program's. */
static void close_all(void)
{
    for (int fd = 3; fd < NUMBERS; fd++)
        close(fd);
    int own = open("own", O_RDWR | O_CREAT | O_EXCL, 0600);
    NEED(own == 3 && write(own, text, sizeof text - 1) == sizeof text - 1);
    for (int fd = 4; fd < NUMBERS; fd++)
        NEED(dup2(own, fd) == fd);
}

static void check_own(void)
{
    char bytes[sizeof text] = "";
    struct stat st;
    for (int fd = 3; fd < NUMBERS; fd++)
        NEED(fstat(fd, &st) == 0 && st.st_size == sizeof text - 1);
    NEED(pread(3, bytes, sizeof text, 0) == sizeof text - 1 && strcmp(bytes, text) == 0);
}

static void swap_stderr(void)
{
    int fd = open("stderr-of-its-own", O_RDWR | O_CREAT | O_EXCL, 0600);
    NEED(fd >= 0 && dup2(fd, 2) == 2);
}

int main(int argc, char **argv)
{
    NEED(argc == 3);
    long blocks = atol(argv[2]);
    const char *what = argv[1];
    use_device();
    take(MIB);
    if (strcmp(what, "close-all") == 0)
        close_all();
    else if (strcmp(what, "close-stderr") == 0)
        close(2);
    else if (strcmp(what, "swap-stderr") == 0)
        swap_stderr();
    else if (strcmp(what, "limit") == 0)
        NEED(setrlimit(RLIMIT_FSIZE, &(struct rlimit){MIB, MIB}) == 0);
    for (long i = 0; i < blocks; i++)
        take(4096);
    CUdeviceptr last;
    int status = cuMemAlloc(&last, (size_t)1 << 40);
    if (strcmp(what, "close-all") == 0)
        check_own();
    printf("%zu %d\n", MIB + (size_t)blocks * 4096, status);
    return 3;
}
