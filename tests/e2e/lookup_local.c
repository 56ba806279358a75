/* lookup_local.c -- a library that finds its own symbols through RTLD_DEFAULT.
 * SPDX-License-Identifier: Apache-2.0
 *
 * It has names that begin like the driver's.
 */
#include <dlfcn.h>

#define NAME(name)                                                                                 \
    int name(void);                                                                                \
    int name(void)                                                                                 \
    {                                                                                              \
        return 0;                                                                                  \
    }
NAME(only_in_here)
NAME(cudnnCreate)
NAME(cublasCreate_v2)
NAME(cuMemOfMyOwn)
NAME(curl_easy_init)

void *ask_default(const char *name);
void *ask_default(const char *name)
{
    void *volatile found = dlsym(RTLD_DEFAULT, name); /* no tail call: the return address is ours */
    return found;
}
