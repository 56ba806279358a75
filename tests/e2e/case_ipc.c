/* case_ipc.c -- memory of one process used by another: who exports, and who opens.
 * SPDX-License-Identifier: Apache-2.0
 *
 * case_ipc export        prints the handles of two allocations, and frees both while they are open
 * case_ipc open H1 H2    opens both, the first one twice
 */
#include "case.h"
#include "steps.h"

static void look(const char *name)
{
    CUevent event;
    let_a_sample_come_due();
    NEED(cuEventCreate(&event, 0) == CUDA_SUCCESS);
    NEED(cuEventDestroy(event) == CUDA_SUCCESS);
    step(name);
}

static void print_handle(CUdeviceptr address)
{
    CUipcMemHandle handle;
    NEED(cuIpcGetMemHandle(&handle, address) == CUDA_SUCCESS);
    printf("handle ");
    for (size_t i = 0; i < sizeof handle; i++)
        printf("%02x", ((const unsigned char *)&handle)[i]);
    printf("\n");
}

static CUipcMemHandle read_handle(const char *hex)
{
    CUipcMemHandle handle;
    unsigned byte;
    for (size_t i = 0; i < sizeof handle; i++) {
        NEED(sscanf(hex + 2 * i, "%2x", &byte) == 1);
        ((unsigned char *)&handle)[i] = (unsigned char)byte;
    }
    return handle;
}

static CUdeviceptr open_handle(const char *hex)
{
    CUdeviceptr address;
    NEED(cuIpcOpenMemHandle(&address, read_handle(hex), CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) ==
         CUDA_SUCCESS);
    return address;
}

static int run_export(int argc, char **argv)
{
    (void)argc, (void)argv;
    use_device();
    CUdeviceptr first = take(6 * MIB + 512), second = take(10 * MIB);
    print_handle(first);
    print_handle(second);
    look("exported");
    give(second);
    look("freed-one");
    give(first);
    look("freed-both");
    return 0;
}

static int run_open(int argc, char **argv)
{
    NEED(argc == 4);
    use_device();
    CUdeviceptr own = take(2 * MIB);
    CUdeviceptr first = open_handle(argv[2]), second = open_handle(argv[3]);
    look("opened");
    CUdeviceptr again = open_handle(argv[2]);
    printf("same %d\n", again == first);
    look("opened-again");
    NEED(cuIpcCloseMemHandle(first) == CUDA_SUCCESS);
    look("closed-once");
    NEED(cuIpcCloseMemHandle(again) == CUDA_SUCCESS);
    NEED(cuIpcCloseMemHandle(second) == CUDA_SUCCESS);
    look("closed");
    give(own);
    return 0;
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {{"export", run_export}, {"open", run_open}};
    return run_scenario(all, sizeof all / sizeof *all, argc, argv);
}
